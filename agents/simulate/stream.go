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
}

// send writes one line of JSON.
func (s *stream) send(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		s.err = err
		return
	}
	s.write(b.Bytes())
}

// write writes bytes as they are.
func (s *stream) write(line []byte) {
	pause(s.ctx, s.pace)
	if s.interrupted() != nil {
		return
	}
	if _, err := s.w.Write(line); err != nil {
		s.err = errClosed
	}
}

// interrupted says why the turn cannot go on, or nil.
func (s *stream) interrupted() error {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	return s.err
}

// reopen lets an agent write its last words after an interrupt.
func (s *stream) reopen() { s.ctx, s.err, s.pace = context.Background(), nil, 0 }
