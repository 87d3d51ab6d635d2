package simulate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
)

// errStopped is the cause of a turn that the client interrupted in the words of the
// protocol.
var errStopped = errors.New("the client interrupts the turn")

// An ear is how a two-way agent hears while it works. What arrives is taken wherever the
// turn waits, so that one goroutine owns everything that an agent knows.
type ear struct {
	lines <-chan []byte     // nil once the input has ended
	hear  func(line []byte) // nil is the end of the input
}

// listen returns an ear for r, whose owner sets hear. Its goroutine ends with r or, once
// ctx is done, with the next line.
func listen(ctx context.Context, r io.Reader) *ear {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadBytes('\n')
			if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return &ear{lines: lines}
}

// arriving is where lines come from: never any to a one-way agent, whose ear is nil.
func (e *ear) arriving() <-chan []byte {
	if e == nil {
		return nil
	}
	return e.lines
}

// take takes what arrived.
func (e *ear) take(line []byte, open bool) {
	if !open {
		e.lines, line = nil, nil
	}
	e.hear(line)
}

// closed reports whether the input has ended.
func (e *ear) closed() bool { return e.lines == nil }

// attend waits until done is closed or ctx ends, and hears meanwhile.
func (e *ear) attend(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case line, open := <-e.arriving():
			e.take(line, open)
		}
	}
}

// idle waits for one line, the end of the input or of ctx.
func (e *ear) idle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case line, open := <-e.arriving():
		e.take(line, open)
	}
}

// signalOf is the signal that ended ctx, or 0.
func signalOf(ctx context.Context) syscall.Signal {
	s, _ := errors.AsType[signalled](context.Cause(ctx))
	return s.signal
}
