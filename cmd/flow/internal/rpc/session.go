package rpc

import (
	"context"
	"encoding/json"
	"sync"
)

// A Session is one client. Its methods may be called concurrently.
type Session struct {
	ctx  context.Context // ends with the client
	send func(ctx context.Context, text []byte, cursor int64) error
	turn chan struct{} // holds a value while something is sent
	work sync.WaitGroup

	mu    sync.Mutex
	leave []func()
	gone  bool
	state any
}

// NewSession makes the session of a client. ctx is to end when the client is gone. send
// writes one message, and waits for as long as the client takes to read: what a client does
// not read is never kept in memory. cursor is where a client that connects again goes on
// from, 0 if that is where it was. nil: nothing can be sent but answers.
func NewSession(ctx context.Context, send func(ctx context.Context, text []byte, cursor int64) error) *Session {
	return &Session{ctx: ctx, send: send, turn: make(chan struct{}, 1)}
}

// Context ends when the client is gone.
func (s *Session) Context() context.Context { return s.ctx }

// Go runs fn beside the calls of the client. It is to end with the session's context, and is
// waited for. Only a call may use it.
func (s *Session) Go(fn func()) { s.work.Go(fn) }

// CanNotify reports whether the client hears notifications.
func (s *Session) CanNotify() bool { return s.send != nil }

// Notify sends a notification, and waits for the client to take it. The error says that the
// client is gone, or that ctx has ended.
func (s *Session) Notify(ctx context.Context, n Notification) error {
	params, err := marshal(n.Params)
	if err != nil {
		return err
	}
	return s.write(ctx, appendMessage(nil, message{Method: n.Method, Params: params}), n.Cursor)
}

// write sends one message after the other.
func (s *Session) write(ctx context.Context, text []byte, cursor int64) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	return s.send(ctx, text, cursor)
}

// OnLeave has fn called when the client has gone, at once if it has.
func (s *Session) OnLeave(fn func()) {
	s.mu.Lock()
	gone := s.gone
	if !gone {
		s.leave = append(s.leave, fn)
	}
	s.mu.Unlock()
	if gone {
		fn()
	}
}

// Leave says that the client has gone.
func (s *Session) Leave() {
	s.mu.Lock()
	leave := s.leave
	s.leave, s.gone = nil, true
	s.mu.Unlock()
	for _, fn := range leave {
		fn()
	}
}

// State returns what belongs to the client, made by makeIt when it is first asked for.
func State[T any](s *Session, makeIt func() *T) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		s.state = makeIt()
	}
	return s.state.(*T) // one server keeps one type
}

// A Notification is news that a server sends.
type Notification struct {
	Method string
	Params any
	Cursor int64 // the seq of the event that it was made of; 0 for what is no event
}

// raw is JSON that is there already.
type raw = json.RawMessage
