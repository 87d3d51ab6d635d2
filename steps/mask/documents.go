package mask

import (
	"bytes"
	"io"
)

// Documents masks the JSON documents of flow's own that are written through it, one after the
// other, as Record does it. It is for one goroutine.
type Documents struct {
	to     io.Writer
	masker *Masker
	own    Own
	path   pathOf
	held   []byte // a line that has not ended
}

// Documents returns a writer to w. Documents may be written in pieces of any size; a line is
// held back until it ends or Flush is called.
func (m *Masker) Documents(w io.Writer, own Own) *Documents {
	return &Documents{to: w, masker: m, own: own}
}

// Write writes the lines that end in p, masked. It returns len(p), or 0 with the error of the
// writer below.
func (d *Documents) Write(p []byte) (int, error) {
	d.held = append(d.held, p...)
	lines := bytes.LastIndexByte(d.held, '\n') + 1 // a text of JSON has no line break
	if err := d.write(d.held[:lines]); err != nil {
		return 0, err
	}
	d.held = append(d.held[:0], d.held[lines:]...)
	return len(p), nil
}

// Flush writes what was held back.
func (d *Documents) Flush() error {
	rest := d.held
	d.held = nil
	return d.write(rest)
}

func (d *Documents) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if a := d.masker.automaton(); a != nil {
		lines = Replace(lines, a.findForeign(lines, &d.path, d.own))
	}
	_, err := d.to.Write(lines)
	return err
}
