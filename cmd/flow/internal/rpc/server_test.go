package rpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"flow/cmd/flow/internal/rpc"
)

type echoParams struct {
	Text  string            `json:"text" doc:"what is to be said"`
	Kind  string            `json:"kind,omitempty" enum:"loud,low"`
	Count int               `json:"count,omitempty"`
	Tags  []string          `json:"tags,omitempty"`
	More  map[string]string `json:"more,omitempty"`
	Any   json.RawMessage   `json:"any,omitempty"`
}

// echo answers what it is given, and fails on some words.
func echo(_ *rpc.Call, p echoParams) (echoParams, error) {
	switch p.Text {
	case "defect":
		panic("a test")
	case "fail":
		return p, errors.New("it failed")
	}
	return p, nil
}

func newServer() *rpc.Server {
	return rpc.NewServer(
		func(err error) *rpc.Error { return rpc.NewError(rpc.CodeFailed, "test", err.Error(), "") },
		rpc.NewMethod("a/echo", "Says it again.", echo),
	)
}

func TestHandle(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":0,"method":"a/echo","params":{"text":"<a>"}}`, `{"jsonrpc":"2.0","id":0,"result":{"text":"<a>"}}`},
		{`{"jsonrpc":"2.0","id":"","method":"a/echo","params":{"text":"a","any":{"x":[1]}}}`, `{"jsonrpc":"2.0","id":"","result":{"text":"a","any":{"x":[1]}}}`},
		{`{"jsonrpc":"2.0","method":"a/echo","params":{"text":"a"}}`, ``},
		{`{"jsonrpc":"2.0","method":"a/none"}`, ``},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, ``},
		{`{"jsonrpc":"2.0","id":1,"method":"a/none"}`, `"code":-32601`},
		{`{"jsonrpc":"2.0","id":1,"method":"echo"}`, `do you mean a/echo?`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo"}`, `"message":"params.text: is missing"`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":["a"]}`, `give the parameters by name`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":"a"}`, `params: is a string`},
		{
			`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":1,"kind":"high","tags":["a",2],"count":1.5,"more":{"a":true},"txt":""}}`,
			`params.txt: is unknown; params.text: is an integer; params.kind: \"high\" is unknown; params.count: is a number; params.tags[1]: is an integer; params.more.a: is a boolean`,
		},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":"a","count":1e300}}`, `"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":null}}`, `params.text: is null`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":"a","kind":null}}`, `"result"`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":"fail"}}`, `"code":-32000,"message":"it failed"`},
		{`{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":"defect"}}`, `"code":-32603,"message":"a defect of flow: a test"`},
		{`{"jsonrpc":"1.0","id":1,"method":"a/echo"}`, `"id":1,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1}`, `"id":1,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":{},"method":"a/echo"}`, `"id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, `"id":null,"error":{"code":-32600`},
		{`1`, `"code":-32600`},
		{`{"jsonrpc":`, `"id":null,"error":{"code":-32700`},
		{`[`, `"code":-32700`},
		{`[]`, `"code":-32600`},
		{`[` + strings.Repeat("1,", 100) + `1]`, `a batch has 1 to 100 messages, not 101`},
		{`[{"jsonrpc":"2.0","method":"a/echo","params":{"text":"a"}}]`, ``},
		{`[1,{"jsonrpc":"2.0","id":2,"method":"a/echo","params":{"text":"b"}},{"jsonrpc":"2.0","method":"x"}]`, `},{"jsonrpc":"2.0","id":2,"result":{"text":"b"}}]`},
	} {
		got, _ := newServer().Handle(rpc.NewSession(t.Context(), nil), []byte(c.in))
		if c.want == "" && got != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	in := "\n" + `{"jsonrpc":"2.0","id":1,"method":"a/echo","params":{"text":"a"}}` + "\r\n\n" + `{"jsonrpc":"2.0","id":2,"method":"a/echo","params":{"text":"b"}}`
	var out bytes.Buffer
	ended := false
	if err := newServer().Serve(t.Context(), strings.NewReader(in), &out, func() { ended = true }); err != nil || !ended {
		t.Errorf("%v, ended %v", err, ended)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines) // calls run beside each other
	want := []string{`{"jsonrpc":"2.0","id":1,"result":{"text":"a"}}`, `{"jsonrpc":"2.0","id":2,"result":{"text":"b"}}`}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
}

func TestServeTooLong(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader(`{"x":"`), io.LimitReader(zeros{}, rpc.MaxMessage))
	if err := newServer().Serve(t.Context(), in, &out, nil); err == nil || !strings.Contains(out.String(), "the message is too long") {
		t.Errorf("%v: %s", err, &out)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// TestServeClientGone: a client that reads no more ends the conversation.
func TestServeClientGone(t *testing.T) {
	t.Parallel()
	in, feed := io.Pipe()
	defer feed.Close()
	out, sink := io.Pipe()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- newServer().Serve(t.Context(), in, sink, nil) }()
	if _, err := io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"method":"rpc/methods"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzHandle(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"a/echo","params":{"text":"x","tags":["a"],"more":{"a":"b"}}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"rpc/methods"},1]`, `{"id":-1}`, `[[]]`, "null", "",
	} {
		f.Add([]byte(seed))
	}
	s := newServer()
	f.Fuzz(func(t *testing.T, text []byte) {
		reply, _ := s.Handle(rpc.NewSession(t.Context(), nil), text)
		if reply != nil && (!json.Valid(reply) || bytes.ContainsRune(reply, '\n')) {
			t.Errorf("%q is answered by %q", text, reply)
		}
	})
}
