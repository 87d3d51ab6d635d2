package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	// Subprotocol is that of the WebSocket.
	Subprotocol = "flow.v1"
	// TokenSubprotocol with the token behind it is what a client offers besides that cannot set
	// headers.
	TokenSubprotocol = "flow.token."
)

const (
	writeWait    = 30 * time.Second // for a client to take a message
	pingInterval = 20 * time.Second
	beatInterval = 15 * time.Second // of comments in a stream of events
	retryMillis  = 1000             // after which a stream of events is to be asked for again
)

// A Web serves the methods over HTTP. It may be used concurrently.
type Web struct {
	Server *Server
	Token  string   // what clients have to know
	Hosts  []string // names, besides those of this machine, that the server may be called by
	// Follow returns what sends the notifications that are wanted to a session that hears
	// nothing else, until the run has ended or the client has gone.
	Follow func(s *Session, p EventsParams) (tell func() error, err error)
	// MaxStreams is how many WebSockets and streams of events there may be at once.
	MaxStreams int

	mu      sync.Mutex
	streams int
	open    sync.WaitGroup // the same ones
}

// Wait waits until all who stayed have gone. No others may stay from then on.
func (w *Web) Wait() {
	w.mu.Lock()
	w.MaxStreams = 0
	w.mu.Unlock()
	w.open.Wait()
}

// enter counts one who stays, unless there are too many.
func (w *Web) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams >= w.MaxStreams {
		return false
	}
	w.streams++
	w.open.Add(1)
	return true
}

func (w *Web) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams--
	w.open.Done()
}

// Handler answers all requests.
func (w *Web) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(rw, "flow serve: POST /rpc, WebSocket /ws, GET /events?run=RUN. There is no page.\n") // its reader may be gone
	})
	mux.Handle("POST /rpc", w.authorized(w.post))
	mux.Handle("GET /ws", w.authorized(w.stream(w.socket)))
	mux.Handle("GET /events", w.authorized(w.stream(w.events)))
	return w.guarded(mux)
}

// guarded refuses what a page of another site, or one that has bent a name to this machine,
// could make a browser send.
func (w *Web) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		secure(rw.Header())
		switch {
		case !w.knownHost(r.Host):
			refuse(rw, http.StatusForbidden, fmt.Sprintf("this server is not %q", r.Host), "call it by its address, or start it with --allow-host")
		case !sameOrigin(r):
			refuse(rw, http.StatusForbidden, "the request comes from another site", "")
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// secure sets the headers of every answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// knownHost reports whether a Host header names this server, with any port: it may have
// been forwarded.
func (w *Web) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, name) || slices.Contains(w.Hosts, name)
}

// sameOrigin reports whether a request was not made by a page of another site. Programs send
// no Origin.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// authorized lets those in who know the token.
func (w *Web) authorized(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.knows(tokenOf(r)) {
			rw.Header().Set("WWW-Authenticate", "Bearer")
			refuse(rw, http.StatusUnauthorized, "the token is missing or wrong", "Authorization: Bearer TOKEN; flow serve prints the token, and where it is kept")
			return
		}
		next(rw, r)
	})
}

// knows compares a token in a time that does not depend on it.
func (w *Web) knows(token string) bool {
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(w.Token))
	return w.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// tokenOf is the token of a request. It is never taken from the URL, which is logged and
// remembered.
func tokenOf(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	for _, offered := range protocolsOf(r) {
		if token, ok := strings.CutPrefix(offered, TokenSubprotocol); ok {
			return token
		}
	}
	return ""
}

// protocolsOf are the subprotocols that a WebSocket client offers.
func protocolsOf(r *http.Request) []string {
	var all []string
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
		all = append(all, strings.TrimSpace(part))
	}
	return all
}

// stream counts those who stay.
func (w *Web) stream(next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if !w.enter() {
			rw.Header().Set("Retry-After", "5")
			refuse(rw, http.StatusServiceUnavailable, "too many clients are connected", "")
			return
		}
		defer w.leave()
		next(rw, r)
	}
}

// refuse answers a request that does not reach the protocol.
func refuse(rw http.ResponseWriter, status int, msg, hint string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(append(refusal(message{ID: raw(null)}, NewError(CodeInvalidRequest, "http", msg, hint)), '\n')) // its reader may be gone
}

// post answers one message, or batch, of a client that does not stay.
func (w *Web) post(rw http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(rw, http.StatusUnsupportedMediaType, "the body is not application/json", "Content-Type: application/json")
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, MaxMessage))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		refuse(rw, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d MiB", MaxMessage>>20), "")
		return
	}
	if err != nil {
		refuse(rw, http.StatusBadRequest, "the body cannot be read: "+err.Error(), "")
		return
	}
	session := NewSession(r.Context(), nil)
	defer session.Leave()
	reply, after := w.Server.Handle(session, text)
	for _, fn := range after {
		fn()
	}
	if reply == nil {
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(append(reply, '\n')) // its reader may be gone
}

// socket speaks with a client over a WebSocket until one of both leaves.
func (w *Web) socket(rw http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}})
	if err != nil {
		return // it has answered
	}
	conn.SetReadLimit(MaxMessage)
	ctx, cancel := context.WithCancel(r.Context())
	session := NewSession(ctx, func(ctx context.Context, text []byte, _ int64) error {
		ctx, done := context.WithTimeout(ctx, writeWait)
		defer done()
		err := conn.Write(ctx, websocket.MessageText, text)
		if err != nil {
			cancel()
		}
		return err
	})
	defer session.work.Wait()
	defer cancel()
	session.Go(func() { beat(ctx, conn, cancel) })
	c := w.Server.client(session)
	status, reason := c.hear(ctx, conn)
	session.Leave()
	cancel()
	c.work.Wait()
	_ = conn.Close(status, reason) // the client may have gone
}

// hear takes what a client sends. It returns with what to tell it at parting.
func (c *client) hear(ctx context.Context, conn *websocket.Conn) (websocket.StatusCode, string) {
	for {
		kind, text, err := conn.Read(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return websocket.StatusGoingAway, "the server ends"
		case err != nil:
			return websocket.StatusNormalClosure, ""
		case kind != websocket.MessageText:
			return websocket.StatusUnsupportedData, "messages are text"
		}
		c.take(ctx, text)
	}
}

// beat notices a client that is gone without a word.
func beat(ctx context.Context, conn *websocket.Conn, gone func()) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		pong, done := context.WithTimeout(ctx, writeWait)
		err := conn.Ping(pong)
		done()
		if err != nil {
			gone()
			return
		}
	}
}

// events sends the notifications of a run as a stream of server-sent events, whose ids are
// cursors. It ends with the run.
func (w *Web) events(rw http.ResponseWriter, r *http.Request) {
	p, bad := eventsOf(r)
	if bad != nil {
		refuse(rw, http.StatusBadRequest, bad.Message, bad.Data.Hint)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := http.NewResponseController(rw)
	send := func(text string) error {
		if err := out.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
			return err
		}
		_, err := io.WriteString(rw, text)
		return errors.Join(err, out.Flush())
	}
	session := NewSession(ctx, func(_ context.Context, text []byte, cursor int64) error {
		id := ""
		if cursor > 0 {
			id = fmt.Sprintf("id: %d\n", cursor)
		}
		return send(id + "data: " + string(text) + "\n\n")
	})
	defer session.work.Wait()
	defer cancel()
	tell, err := w.Follow(session, p)
	if err != nil {
		e := w.Server.explained(err)
		refuse(rw, statusOfError(e.Code), e.Message, e.Data.Hint)
		return
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	session.Go(func() { session.comment(ctx, send, cancel) })
	if err := tell(); err != nil && ctx.Err() == nil {
		_ = session.write(ctx, refusal(message{ID: raw(null)}, w.Server.explained(err)), 0) // the client may have gone
	}
}

// statusOfError is the HTTP status for an error of the protocol.
func statusOfError(code int) int {
	switch code {
	case CodeNotFound:
		return http.StatusNotFound
	case CodeInvalidParams:
		return http.StatusBadRequest
	default:
		return http.StatusInternalServerError
	}
}

// comment keeps a stream of events alive, and notices when nobody reads it any more.
func (s *Session) comment(ctx context.Context, send func(string) error, gone func()) {
	tick := time.NewTicker(beatInterval)
	defer tick.Stop()
	text := fmt.Sprintf("retry: %d\n\n", retryMillis)
	for {
		select {
		case s.turn <- struct{}{}:
			err := send(text)
			<-s.turn
			if err != nil {
				gone()
				return
			}
		case <-ctx.Done():
			return
		}
		text = ": \n\n"
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// eventsOf reads what a stream of events is to be of. A client that connects again says in a
// header where it was.
func eventsOf(r *http.Request) (EventsParams, *Error) {
	q := r.URL.Query()
	given := map[string]any{}
	for name, values := range q {
		switch value := values[len(values)-1]; name {
		case "after":
			given[name] = number(value)
		case "run_events":
			given[name] = value == "1" || value == "true"
		default:
			given[name] = value
		}
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		given["after"] = number(last)
	}
	text, err := json.Marshal(given)
	if err != nil {
		return EventsParams{}, InvalidParam("query", err.Error(), "")
	}
	var p EventsParams
	if err := decode(text, &p); err != nil {
		return p, err
	}
	p.Subscribe = true
	return p, nil
}

// number is a number, or the text that is none.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n
	}
	return text
}
