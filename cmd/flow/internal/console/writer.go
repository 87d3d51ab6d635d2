package console

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
)

// A Kind says what is written, and so what may be done to it.
type Kind int

const (
	// Text is for people, on a terminal or in a log: it is cleaned as [Clean] does it, and
	// what build systems obey in a log loses its force by a space:
	//
	//	::error::x               GitHub Actions, at the beginning of a line, after any spaces
	//	##[error]x               the same, anywhere in a line
	//	##vso[task.setvariable]  Azure Pipelines, anywhere
	//	##teamcity[setParameter] TeamCity, anywhere
	//
	// GitHub's ::stop-commands::TOKEN is no way out: the two streams of a process have no
	// order in its log, flow may be killed before it lets commands in again, and the others
	// have nothing like it. GitLab's sections need a control sequence; Buildkite's groups
	// (---, +++) only fold lines.
	Text Kind = iota
	// JSON is for programs, and may end on a terminal or in a log: the same characters are
	// escaped, and every value stays as it is.
	JSON
	// Exact is left as it is: a protocol, an archive, the data that somebody asked for.
	Exact
)

// A Writer writes to one of the standard streams of the process. It may be used concurrently.
type Writer struct {
	to   *stream
	kind Kind

	mu    sync.Mutex
	clean cleaner
	held  []byte // the end of what was written, which more may belong to
}

// A stream is where writers of several kinds write to.
type stream struct {
	to    io.Writer
	file  *os.File // that to leads to; may be nil
	queue *Queue   // before file; may be nil

	mu      sync.Mutex
	json    io.Writer // in place of to, for writers of JSON; nil: there are no filters
	filters []Filter  // in to and in json
	err     error     // the first
}

// Standard returns writers of text for the standard streams. Nobody waits for the reader of
// stderr (see [Queue]); what was written there before something is written to stdout comes
// before it, where both lead to one terminal.
func Standard(stdout, stderr *os.File) (out, err *Writer) {
	q := NewQueue(stderr)
	return &Writer{to: &stream{to: &following{to: stdout, first: q}, file: stdout}}, &Writer{to: &stream{to: q, file: stderr, queue: q}}
}

// following writes after what waits in a queue.
type following struct {
	to    io.Writer
	first *Queue
}

func (f *following) Write(p []byte) (int, error) {
	f.first.Drain()
	return f.to.Write(p)
}

// As returns a writer of another kind for where w leads.
func As(w io.Writer, kind Kind) io.Writer {
	to := &stream{to: w}
	if known, ok := w.(*Writer); ok {
		if known.kind == kind {
			return w
		}
		to = known.to
	}
	return &Writer{to: to, kind: kind, clean: cleaner{json: kind == JSON}}
}

// File is the file that w leads to, or nil.
func File(w any) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case *Writer:
		return w.to.file
	default:
		return nil
	}
}

// Write writes p. Its errors are [Error]s.
func (w *Writer) Write(p []byte) (int, error) {
	if w.kind == Exact {
		return w.to.write(w.kind, p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	in := p
	if len(w.held) > 0 {
		in = append(w.held, p...)
	}
	out, rest := w.clean.clean(make([]byte, 0, len(in)), in, false)
	w.held = append([]byte(nil), rest...)
	if _, err := w.to.write(w.kind, out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Control writes a control sequence of flow's own, as it is.
func Control(w io.Writer, sequence string) { _, _ = io.WriteString(As(w, Exact), sequence) }

// Flush writes what a [Writer] holds back, and waits for a queue to be written. It returns
// the first error of all that was written to where w leads.
func Flush(w io.Writer) error {
	known, ok := w.(*Writer)
	if !ok {
		return nil
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	out, _ := known.clean.clean(nil, known.held, true)
	known.held = nil
	_, err := known.to.write(known.kind, out)
	err = errors.Join(err, known.to.flush())
	if known.to.queue != nil {
		known.to.queue.Drain()
	}
	return err
}

// A Filter changes what is written through it, and may hold back a part until it is flushed.
type Filter interface {
	io.Writer
	Flush() error
}

// Through has all that is written to where w leads go through a filter: what writers of JSON
// write through one, what those of other kinds write through another. A w that is no [Writer]
// is left as it is.
func Through(w io.Writer, others, json func(to io.Writer) Filter) {
	if known, ok := w.(*Writer); ok {
		s := known.to
		s.mu.Lock()
		defer s.mu.Unlock()
		text, doc := others(s.to), json(s.below(JSON))
		s.to, s.json, s.filters = text, doc, append(s.filters, text, doc)
	}
}

// below is what writers of a kind write to.
func (s *stream) below(kind Kind) io.Writer {
	if kind == JSON && s.json != nil {
		return s.json
	}
	return s.to
}

// flush writes what filters hold back.
func (s *stream) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range slices.Backward(s.filters) { // the last one writes to those before it
		if s.err != nil { // which was told
			return nil
		}
		if err := f.Flush(); err != nil {
			s.err = &Error{Err: err}
			return s.err
		}
	}
	return nil
}

// write writes p, unless that failed before: a reader that has gone does not come back, and
// output with a hole is worse than none.
func (s *stream) write(kind Kind, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	n, err := s.below(kind).Write(p)
	if err != nil {
		s.err = &Error{Err: err}
	}
	return n, s.err
}

// An Error is that of a standard stream, and not of what flow does.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error of the file.
func (e *Error) Unwrap() error { return e.Err }

// ReaderGone reports whether err is that of a stream that nobody reads any more, as head
// does when it has seen enough.
func ReaderGone(err error) bool {
	var e *Error
	return errors.As(err, &e) && errors.Is(err, syscall.EPIPE)
}
