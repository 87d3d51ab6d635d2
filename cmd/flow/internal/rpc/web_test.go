package rpc_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"flow/cmd/flow/internal/rpc"
	"flow/cmd/flow/internal/rpcclient"
)

const token = "0123456789abcdef0123456789abcdef"

// newWeb serves the test's methods. A run has three events, and one that is called endless
// goes on.
func newWeb(t *testing.T, most int) *httptest.Server {
	t.Helper()
	w := &rpc.Web{Server: newServer(), Token: token, Hosts: []string{"flow.example"}, MaxStreams: most, Follow: follow}
	s := httptest.NewServer(w.Handler())
	t.Cleanup(func() {
		s.Close()
		w.Wait()
	})
	return s
}

func follow(s *rpc.Session, p rpc.EventsParams) (func() error, error) {
	ctx := s.Context()
	if p.Run == "none" {
		return nil, rpc.NewError(rpc.CodeNotFound, "no_run", "there is no such run", "")
	}
	return func() error {
		for seq := p.After + 1; seq <= 3; seq++ {
			if err := s.Notify(ctx, rpc.Notification{Method: rpc.RunEvent, Params: rpc.RunEventParams{Run: p.Run, Seq: seq, Event: []byte("{}")}, Cursor: seq}); err != nil {
				return err
			}
		}
		if p.Run == "endless" {
			<-ctx.Done()
		}
		return nil
	}, nil
}

const call = `{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":"a"}}`

// TestWeb: who may call, and with what.
func TestWeb(t *testing.T) {
	t.Parallel()
	s := newWeb(t, 10)
	for _, c := range []struct {
		name, method, path, host, body string
		header                         []string
		status                         int
		want                           string
	}{
		{name: "well", status: 200, want: `"result":{"text":"a"}`},
		{name: "a notification", body: `{"jsonrpc":"2.0","method":"a/echo","params":{"text":"a"}}`, status: 204},
		{name: "bad JSON", body: "x", status: 200, want: "-32700"},
		{name: "no token", header: []string{"Authorization", ""}, status: 401, want: "the token is missing or wrong"},
		{name: "another token", header: []string{"Authorization", "Bearer " + strings.Repeat("0", 32)}, status: 401},
		{name: "a part of it", header: []string{"Authorization", "Bearer " + token[:31]}, status: 401},
		{name: "an empty token", header: []string{"Authorization", "Bearer "}, status: 401},
		{name: "another scheme", header: []string{"Authorization", "Basic " + token}, status: 401},
		{name: "a token in the query", path: "/rpc?token=" + token, header: []string{"Authorization", ""}, status: 401},
		{name: "a token in the query of a stream", method: "GET", path: "/events?run=a&token=" + token, header: []string{"Authorization", ""}, status: 401},
		{name: "a bent name", host: "evil.example", status: 403, want: "this server is not"},
		{name: "a bent name with the port", host: "evil.example:80", status: 403},
		{name: "a bent name on the page", method: "GET", path: "/", host: "evil.example", status: 403},
		{name: "what no server is called", host: "[", status: 403},
		{name: "a name that is allowed", host: "FLOW.example:1234", status: 200},
		{name: "localhost", host: "localhost:1", status: 200},
		{name: "IPv6", host: "[::1]:7777", status: 200},
		{name: "another site", header: []string{"Origin", "http://evil.example"}, status: 403, want: "another site"},
		{name: "no site", header: []string{"Origin", "null"}, status: 403},
		{name: "another port", header: []string{"Origin", "http://127.0.0.1:1"}, status: 403},
		{name: "its own site", host: "localhost:7", header: []string{"Origin", "http://localhost:7"}, status: 200},
		{name: "a browser across sites", header: []string{"Sec-Fetch-Site", "cross-site"}, status: 403},
		{name: "a stream for another site", method: "GET", path: "/events?run=a", header: []string{"Origin", "http://evil.example"}, status: 403},
		{name: "a socket for another site", method: "GET", path: "/ws", header: []string{"Origin", "http://evil.example"}, status: 403},
		{name: "a form", header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415},
		{name: "text", header: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "a charset", header: []string{"Content-Type", "application/json; charset=utf-8"}, status: 200},
		{name: "a call by GET", method: "GET", status: 405},
		{name: "a socket by POST", path: "/ws", status: 405},
		{name: "a socket without an upgrade", method: "GET", path: "/ws", status: 426},
		{name: "no such page", method: "GET", path: "/x", status: 404},
		{name: "the page", method: "GET", path: "/", header: []string{"Authorization", ""}, status: 200, want: "There is no page."},
		{name: "too much", body: `"` + strings.Repeat("a", rpc.MaxMessage) + `"`, status: 413},
		{name: "events", method: "GET", path: "/events?run=a", status: 200, want: "id: 3\ndata: "},
		{name: "events of no run", method: "GET", path: "/events?run=none", status: 404, want: "there is no such run"},
		{name: "events of nothing", method: "GET", path: "/events", status: 400, want: "params.run: is missing"},
		{name: "events behind a word", method: "GET", path: "/events?run=a&after=x", status: 400, want: "params.after: is a string"},
		{name: "events, oddly", method: "GET", path: "/events?run=a&odd=1", status: 400, want: "params.odd: is unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRequest(t, s.URL, c.method, c.path, c.body)
			if c.host != "" {
				r.Host = c.host
			}
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("%d %s, %v; want %d, %s", resp.StatusCode, body, err, c.status, c.want)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers: %v", resp.Header)
			}
		})
	}
}

func newRequest(t *testing.T, base, method, path, body string) *http.Request {
	t.Helper()
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/rpc"
	}
	if body == "" {
		body = call
	}
	r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// TestEventStream: a reader that comes again goes on where it was.
func TestEventStream(t *testing.T) {
	t.Parallel()
	s := newWeb(t, 10)
	r := newRequest(t, s.URL, http.MethodGet, "/events?run=endless&after=0", "")
	r.Header.Set("Last-Event-ID", "2")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			if id != "3" {
				t.Errorf("the first id is %s", id)
			}
			return
		}
	}
	t.Error("no event came")
}

func TestStreamLimit(t *testing.T) {
	t.Parallel()
	s := newWeb(t, 1)
	first, err := http.DefaultClient.Do(newRequest(t, s.URL, http.MethodGet, "/events?run=endless", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	second, err := http.DefaultClient.Do(newRequest(t, s.URL, http.MethodGet, "/events?run=endless", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Body.Close()
	if first.StatusCode != 200 || second.StatusCode != 503 {
		t.Errorf("%d, %d", first.StatusCode, second.StatusCode)
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	s := newWeb(t, 10)
	if _, err := rpcclient.Dial(t.Context(), s.URL, "wrong", nil); err == nil {
		t.Error("a wrong token is let in")
	}
	c, err := rpcclient.Dial(t.Context(), s.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got echoParams
	if err := c.Call(t.Context(), "a/echo", echoParams{Text: "a"}, &got); err != nil || got.Text != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.Call(t.Context(), "a/none", nil, nil); err == nil || !strings.Contains(err.Error(), "no method") {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-c.Ended()
}

// TestSocketProtocol: the token is never told to others, and messages are text.
func TestSocketProtocol(t *testing.T) {
	t.Parallel()
	s := newWeb(t, 10)
	protocols := &websocket.DialOptions{Subprotocols: []string{rpc.TokenSubprotocol + token, rpc.Subprotocol}}
	ws, resp, err := websocket.Dial(t.Context(), s.URL+"/ws", protocols) //nolint:bodyclose // it has none
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Sec-WebSocket-Protocol"); got != rpc.Subprotocol {
		t.Errorf("the protocol is %q", got)
	}
	if err := ws.Write(t.Context(), websocket.MessageBinary, []byte(call)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
		t.Error(err)
	}
}
