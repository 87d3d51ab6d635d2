package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"
)

// An object is one JSON object of a stream.
type object = map[string]any

// A stream writes lines to standard output. It stops writing when the turn is
// interrupted or a write fails, and tells why.
type stream struct {
	w    io.Writer
	pace time.Duration // before every line
	ctx  context.Context
	err  error // why nothing is written any more
	*ear       // nil unless the agent hears while it works
	distortion
}

// send writes one line of JSON.
func (s *stream) send(v any) {
	line, err := encode(v)
	if err != nil {
		s.err = err
		return
	}
	s.write(line)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// put writes one line of JSON at once, also for a turn that is interrupted.
func (s *stream) put(v any) {
	line, err := encode(v)
	if err == nil {
		err = s.emit(s.w, line)
	}
	if err != nil && s.err == nil {
		s.err = errClosed
	}
}

// write writes bytes as they are.
func (s *stream) write(line []byte) {
	s.pause(s.pace)
	if s.interrupted() != nil {
		return
	}
	if err := s.emit(s.w, line); err != nil {
		s.err = errClosed
	}
}

// pause waits, and not longer than until the turn is interrupted.
func (s *stream) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	over := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	s.attend(s.ctx, over)
}

// interrupted says why the turn cannot go on, or nil.
func (s *stream) interrupted() error {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	return s.err
}

// reopen lets an agent write its last words after an interrupt.
func (s *stream) reopen() {
	s.ctx, s.err, s.pace = context.Background(), nil, 0
	s.settle()
}
