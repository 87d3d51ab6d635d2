package mask

import (
	"io"
	"unicode/utf8"
)

// A Stream masks a text that comes in pieces: a secret may begin in one and end in another.
// Of each piece it keeps back what may be the beginning of one.
type Stream struct {
	find  *finder
	held  []byte // the text from base on
	base  int64
	spans []Span // in held, and not yet given out
	shown bool   // the Mask of the first span was given out
}

// Stream returns a stream of its own, nil when there is nothing to mask.
func (m *Masker) Stream() *Stream {
	a := m.automaton()
	if a == nil {
		return nil
	}
	return &Stream{find: newFinder(a)}
}

// Feed takes in a piece and returns what of the text can be told now.
func (s *Stream) Feed(piece string) string {
	s.held = append(s.held, piece...)
	s.find.feed([]byte(piece))
	limit := s.find.open()
	for limit > s.base && limit < s.base+int64(len(s.held)) && !utf8.RuneStart(s.held[limit-s.base]) {
		limit--
	}
	return s.settle(limit)
}

// Flush returns what was kept back: the text has ended here. The next piece begins another.
func (s *Stream) Flush() string {
	s.find.end()
	out := s.settle(s.base + int64(len(s.held)))
	s.find.reset()
	*s = Stream{find: s.find, held: s.held[:0]}
	return out
}

// Holding reports whether something is kept back.
func (s *Stream) Holding() bool { return len(s.held) > 0 }

// settle returns the text up to limit, masked. More may be found behind that.
func (s *Stream) settle(limit int64) string {
	known := s.spans
	s.spans = union(append(known, s.find.take()...))
	var out []byte
	at := s.base
	for len(s.spans) > 0 && s.spans[0].Start < limit {
		span := s.spans[0]
		if !s.shown {
			out = append(append(out, s.held[at-s.base:span.Start-s.base]...), Mask...)
		}
		at = min(span.End, limit)
		if span.End > limit { // the rest of it is not shown either
			s.shown, s.spans[0].Start = true, limit
			break
		}
		s.shown, s.spans = false, s.spans[1:]
	}
	out = append(out, s.held[at-s.base:limit-s.base]...)
	s.held = append(s.held[:0], s.held[limit-s.base:]...)
	s.base = limit
	return string(out)
}

// A Writer masks what is written through it. It is for one goroutine.
type Writer struct {
	to     io.Writer
	masker *Masker
	stream *Stream
}

// Writer returns a writer to w. A text that is written in several pieces is held back while a
// secret may have begun, until a line ends or Flush is called.
func (m *Masker) Writer(w io.Writer) *Writer { return &Writer{to: w, masker: m} }

// Write writes p, masked, or keeps the end of it back. It returns len(p), or less with the
// error of the writer below.
func (w *Writer) Write(p []byte) (int, error) {
	if w.stream == nil || !w.stream.Holding() && w.stream.find.a != w.masker.automaton() { // a secret was added
		if w.stream = w.masker.Stream(); w.stream == nil {
			return w.to.Write(p)
		}
	}
	out := w.stream.Feed(string(p))
	if len(p) > 0 && p[len(p)-1] == '\n' {
		out += w.stream.Flush()
	}
	if _, err := io.WriteString(w.to, out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap returns the writer below.
func (w *Writer) Unwrap() io.Writer { return w.to }

// Flush writes what was kept back.
func (w *Writer) Flush() error {
	if w.stream == nil || !w.stream.Holding() {
		return nil
	}
	_, err := io.WriteString(w.to, w.stream.Flush())
	return err
}
