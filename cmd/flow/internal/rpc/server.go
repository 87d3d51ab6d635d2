package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// maxCalls is how many requests of one client are worked on at once. When there are more,
// nothing further is read.
const maxCalls = 32

// maxBatch is how many messages a batch may have.
const maxBatch = 100

// A Server answers requests. It may be used concurrently.
type Server struct {
	methods map[string]Method
	explain func(error) *Error
}

// NewServer makes a server of methods, and of rpc/methods, which describes them. explain
// makes the answer of an error that is none of the protocol.
func NewServer(explain func(error) *Error, methods ...Method) *Server {
	s := &Server{methods: map[string]Method{}, explain: explain}
	for _, m := range methods {
		s.methods[m.Name] = m
	}
	m := NewMethod("rpc/methods", "Describes all methods and notifications: an OpenRPC document.",
		func(*Call, struct{}) (raw, error) { return s.Schema() })
	s.methods[m.Name] = m
	return s
}

// Methods are all methods by name, sorted.
func (s *Server) Methods() []Method {
	all := make([]Method, 0, len(s.methods))
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		all = append(all, s.methods[name])
	}
	return all
}

// A client is a session whose messages are being read.
type client struct {
	*Server
	session *Session
	slots   chan struct{}
	work    sync.WaitGroup
}

func (s *Server) client(session *Session) *client {
	return &client{Server: s, session: session, slots: make(chan struct{}, maxCalls)}
}

// take takes one message or batch. It returns when the next may be read.
func (c *client) take(ctx context.Context, text []byte) {
	if m, err := readMessage(text); err == nil && c.methods[m.Method].Inline {
		c.answer(ctx, text)
		return
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	text = slices.Clone(text)
	c.work.Go(func() {
		defer func() { <-c.slots }()
		c.answer(ctx, text)
	})
}

// answer sends the answer to a message or batch.
func (c *client) answer(ctx context.Context, text []byte) {
	reply, after := c.Handle(c.session, text)
	if reply != nil && c.session.write(ctx, reply, 0) != nil {
		return // nobody is there to hear of it
	}
	for _, fn := range after {
		fn()
	}
}

// Handle does what a message or a batch asks for. It returns the answer, nil if there is to
// be none, and what is to be called once that was sent.
func (s *Server) Handle(session *Session, text []byte) (reply []byte, after []func()) {
	if !isBatch(text) {
		return s.one(session, text)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return refusal(message{ID: raw(null)}, ParseError("the batch is not JSON", "")), nil
	}
	if len(all) == 0 || len(all) > maxBatch {
		return refusal(message{ID: raw(null)}, InvalidRequest(fmt.Sprintf("a batch has 1 to %d messages, not %d", maxBatch, len(all)))), nil
	}
	for _, one := range all {
		answer, then := s.one(session, one)
		after = append(after, then...)
		if answer == nil {
			continue
		}
		if reply = append(reply, ','); len(reply) == 1 {
			reply[0] = '['
		}
		reply = append(reply, answer...)
	}
	if reply == nil {
		return nil, after
	}
	return append(reply, ']'), after
}

// one does what a single message asks for.
func (s *Server) one(session *Session, text []byte) ([]byte, []func()) {
	m, bad := readMessage(text)
	if bad != nil {
		return refusal(m, bad), nil
	}
	if m.Method == "" {
		return nil, nil // an answer; nothing is asked of clients
	}
	call := &Call{Session: session}
	result, err := s.call(call, m)
	if len(m.ID) == 0 {
		if err != nil {
			return nil, nil
		}
		return nil, call.after
	}
	if err != nil {
		return refusal(m, s.explained(err)), nil
	}
	body, err := marshal(result)
	if err != nil {
		return refusal(m, s.explained(err)), nil
	}
	return appendMessage(nil, message{ID: m.ID, Result: body}), call.after
}

// call runs a method. A defect costs the client one answer, and not its server.
func (s *Server) call(c *Call, m message) (result any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = NewError(CodeInternal, "defect", fmt.Sprintf("a defect of flow: %v", r), "")
		}
	}()
	method, ok := s.methods[m.Method]
	if !ok {
		return nil, noMethod(m.Method, slices.Sorted(maps.Keys(s.methods)))
	}
	return method.call(c, m.Params)
}

// explained is an error in the protocol's terms.
func (s *Server) explained(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return s.explain(err)
}

func refusal(m message, e *Error) []byte { return appendMessage(nil, message{ID: m.ID, Error: e}) }
