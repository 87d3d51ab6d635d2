// Package scriptmodel is a model for tests: one HTTP server that speaks the APIs
// which Claude Code, Codex and Gemini CLI call, and answers by a script. The real
// CLIs can so be driven from end to end without a network, a key or a cost.
//
// A script is a function from the conversation to what the model says next. It is
// never told how many requests came before: a CLI that retries, resumes or was
// killed sends the conversation again and gets the turn that belongs to it.
//
// It speaks the Anthropic Messages API (with its token count), the OpenAI
// Responses API and the Gemini API (generateContent, streamGenerateContent,
// countTokens), as far as Claude Code 2.1.329, Codex CLI 0.169.0 and Gemini CLI
// 0.61.0 need them.
package scriptmodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// API names a vendor's protocol.
type API string

// The APIs.
const (
	Anthropic API = "anthropic"
	OpenAI    API = "openai"
	Gemini    API = "gemini"
)

// Kind says what an Item is.
type Kind string

// The kinds.
const (
	Prompt Kind = "prompt" // what the user, or the CLI in its place, says
	Answer Kind = "answer" // what the model said
	Call   Kind = "call"   // a tool that the model called
	Result Kind = "result" // what the tool gave
)

// An Item is one piece of a conversation.
type Item struct {
	Kind Kind
	Tool string // of a call, and of a result where the API repeats it
	Text string // of a call its arguments, of a result what the model is told
}

// A Request is one call of a model, in words that are the same for all APIs.
type Request struct {
	API     API
	Model   string
	Session string   // the CLI's session, where the request names it (Anthropic, OpenAI)
	Items   []Item   // the conversation, oldest first
	Tools   []string // that the model may call
	// Side is a request that the CLI makes for itself (a title, a check): it has no
	// tools to offer and no part in the conversation.
	Side bool

	stream bool
}

// Contains reports whether any item holds text.
func (r Request) Contains(text string) bool {
	for _, i := range r.Items {
		if strings.Contains(i.Text, text) {
			return true
		}
	}
	return false
}

// A Turn is what the model says next: text, tools to call, or an error.
type Turn struct {
	Text  string
	Calls []ToolCall
	Usage Usage // the zero Usage is 100 tokens in and 10 out

	// Label names the turn for whoever looks at the exchanges; the CLI never sees it.
	Label string
	// Delay is the time before the first byte of the answer, Pause that before every
	// further piece of it.
	Delay, Pause time.Duration

	Status  int    // an HTTP status from 400 on makes the turn an error
	Message string // of the error
}

// A ToolCall asks the CLI to run a tool.
type ToolCall struct {
	Name  string
	Input any // the arguments; a string is free text, which only OpenAI's custom tools take
}

// Usage is what the model says it used.
type Usage struct{ Input, Cached, Output int64 }

// A Script says what the model answers. It may be called concurrently.
type Script func(Request) Turn

// Failing returns a script that answers the first n requests with failure, and the
// others as s does.
func Failing(n int, failure Turn, s Script) Script {
	var mu sync.Mutex
	return func(r Request) Turn {
		mu.Lock()
		defer mu.Unlock()
		if n > 0 {
			n--
			return failure
		}
		return s(r)
	}
}

// An Exchange is a request and what it got.
type Exchange struct {
	Request Request
	Turn    Turn
	Done    bool // the whole answer was written before the client went away
}

// A Server answers the CLIs by a script. It is an http.Handler.
type Server struct {
	script Script
	// answered, when not nil, is called when an answer has been written whole.
	answered func(Exchange)

	mu        sync.Mutex
	exchanges []*Exchange
}

// New returns a server. answered may be nil; it is called, perhaps concurrently,
// as soon as an answer of the script has been written whole.
func New(s Script, answered func(Exchange)) *Server {
	return &Server{script: s, answered: answered}
}

// Exchanges returns what was asked and answered so far, oldest first. Requests
// that are no model call (token counts, lists of models) are not among it.
func (s *Server) Exchanges() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Exchange, len(s.exchanges))
	for i, e := range s.exchanges {
		all[i] = *e
	}
	return all
}

// ServeHTTP serves one request of a CLI.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	base := path.Base(r.URL.Path)
	model, method, _ := strings.Cut(base, ":")
	switch {
	case r.URL.Path == "/": // Claude Code asks whether anyone is there
		writeJSON(w, http.StatusOK, object{})
	case base == "count_tokens":
		writeJSON(w, http.StatusOK, object{"input_tokens": len(body) / 4})
	case method == "countTokens":
		writeJSON(w, http.StatusOK, object{"totalTokens": len(body) / 4})
	case base == "models":
		writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{}})
	case base == "messages":
		s.serve(w, r, body, anthropic{})
	case base == "responses":
		s.serve(w, r, body, openAI{})
	case method == "generateContent", method == "streamGenerateContent":
		s.serve(w, r, body, gemini{model: model, stream: method == "streamGenerateContent"})
	default:
		writeJSON(w, http.StatusNotFound, object{"error": object{"message": "the scripted model has no " + r.URL.Path}})
	}
}

// A protocol is the wire format of one API.
type protocol interface {
	// request reads a call of the model.
	request(h http.Header, body []byte) (Request, error)
	// side is the answer to a request that is none of the conversation's.
	side() Turn
	// failure is the body of an error.
	failure(Turn) any
	// answer writes what the model says; id is unique among the server's answers.
	answer(w *stream, r Request, t Turn, id string)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, body []byte, p protocol) {
	req, err := p.request(r.Header, body)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, p.failure(Turn{Status: http.StatusBadRequest, Message: err.Error()}))
		return
	}
	turn := p.side()
	if !req.Side {
		turn = s.script(req)
	}
	if turn.Usage == (Usage{}) {
		turn.Usage = Usage{Input: 100, Output: 10}
	}
	e, id := s.begin(Exchange{Request: req, Turn: turn})
	out := &stream{w: w, done: r.Context().Done(), pause: turn.Pause}
	out.wait(turn.Delay)
	if turn.Status >= 400 {
		writeJSON(w, turn.Status, p.failure(turn))
	} else {
		p.answer(out, req, turn, id)
	}
	if out.err == nil {
		s.finish(e)
	}
}

// begin records an exchange under way and returns an id for it.
func (s *Server) begin(e Exchange) (*Exchange, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges = append(s.exchanges, &e)
	return &e, fmt.Sprintf("%06d", len(s.exchanges))
}

func (s *Server) finish(e *Exchange) {
	s.mu.Lock()
	e.Done = true
	done := *e
	s.mu.Unlock()
	if s.answered != nil {
		s.answered(done)
	}
}

// tool is how all APIs name a tool that the model may call.
type tool struct {
	Name string `json:"name"`
}

// object is a JSON object.
type object = map[string]any

// encode cannot fail: what is encoded here are texts, numbers, and objects of them.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v)) // a client that has gone needs no answer
}
