package simulate

import (
	"bytes"
	"io"
)

// A distortion is what becomes of lines on their way to standard output.
type distortion struct {
	holding bool     // lines are held until they are released
	held    [][]byte // those
	spoil   string   // stands in the output for the character spoilt; "" is nothing
	last    []byte   // the newest line that was not held
	cut     bool     // the newest line waits for the next, since it may be the one to be cut
	torn    bool     // the output has ended
}

// spoilt is a character that no text uses.
const spoilt = "\uE000"

// emit writes a line to w, or does to it what the distortion wants.
func (d *distortion) emit(w io.Writer, line []byte) error {
	if d.spoil != "" {
		line = bytes.ReplaceAll(line, []byte(spoilt), []byte(d.spoil))
	}
	if d.torn {
		return nil
	}
	if d.holding {
		d.held = append(d.held, line)
		return nil
	}
	line, d.last = d.due(line), line
	_, err := w.Write(line)
	return err
}

// due is what is to be written when line has come.
func (d *distortion) due(line []byte) []byte {
	if d.cut {
		return d.last
	}
	return line
}

// release writes the lines that were held.
func (s *stream) release() {
	held := s.held
	s.held = nil
	for _, line := range held {
		s.write(line)
	}
}

// settle writes the line that waits to be cut, whole.
func (s *stream) settle() {
	if s.cut {
		s.cut = false
		s.write(s.last)
	}
}

// tear ends the output in the middle of the last line.
func (s *stream) tear() {
	s.last = s.last[:len(s.last)/2]
	s.settle()
	s.torn = true
}
