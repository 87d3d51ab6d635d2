package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// Serve speaks with the client at the other end of two streams, one message or batch a
// line, until it closes its own or ctx ends. Answers to what it has asked are sent, and
// ended, if not nil, is called, before the client counts as gone: it may still read. A
// message that is too long ends the conversation, with an error.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, ended func()) error {
	ctx, cancel := context.WithCancel(ctx)
	session := NewSession(ctx, func(_ context.Context, text []byte, _ int64) error {
		_, err := out.Write(append(text, '\n'))
		if err != nil {
			cancel()
		}
		return err
	})
	defer session.work.Wait()
	defer cancel()
	c := s.client(session)
	err := c.read(ctx, in)
	if errors.Is(err, bufio.ErrTooLong) {
		err = errors.Join(err, session.write(ctx, refusal(message{ID: raw(null)}, InvalidRequest("the message is too long")), 0))
	}
	c.work.Wait()
	session.Leave()
	if ended != nil && ctx.Err() == nil {
		ended()
	}
	return err
}

// read takes what the client sends, until the end of it or of ctx.
func (c *client) read(ctx context.Context, in io.Reader) error {
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() { failed <- readLines(ctx, in, lines) }() // a read cannot be taken back: it ends with the stream
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-lines:
			c.take(ctx, line)
		case err := <-failed:
			return err
		}
	}
}

// readLines hands over one line after the other, empty ones left out.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, MaxMessage)
	for scan.Scan() {
		line := bytes.Clone(bytes.TrimSpace(scan.Bytes()))
		if len(line) == 0 {
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
	return scan.Err()
}
