package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// A Salvage is what is whole of a run that may be damaged. Its View has the records up to
// the damage, the first of them always, and reads the run's other files.
type Salvage struct {
	View
	journal []byte // all of it; the records end at View.end
	lost    []Finding
}

// ReadSalvage reads the run in dir, which no process may work on. It needs a run.json that
// can be read: without one nobody knows where the steps worked. Nothing is changed.
func ReadSalvage(dir string) (*Salvage, error) {
	h, err := readHeader(dir)
	if err != nil {
		return nil, err
	}
	if lockHeld(dir) {
		return nil, &LockedError{ID: h.ID}
	}
	name := filepath.Join(dir, journalFile)
	data, err := readFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, wrap(name, "cannot read", err)
	}
	s := &Salvage{View: View{dir: dir, header: h}, journal: data}
	return s, s.scan(name)
}

// scan takes the records up to the damage; what that is, is told by what it leaves. The
// first record says nothing that run.json does not, and is written anew if need be.
func (s *Salvage) scan(name string) error {
	s.records, s.end, _ = scanJournal(s.journal)
	if len(s.records) > 0 && s.begins(s.records[0]) {
		return nil
	}
	first, err := firstRecord(s.header)
	if err != nil {
		return err
	}
	if len(s.records) == 0 { // else it is whole, and with all behind it that of another run
		_, s.journal, _ = bytes.Cut(s.journal, []byte("\n"))
	}
	s.journal = append(first, s.journal...)
	s.records, s.end, _ = scanJournal(s.journal)
	s.lose(name, "the first record was written anew")
	return nil
}

func (s *Salvage) lose(path, what string) {
	s.lost = append(s.lost, Finding{Path: path, What: what, Hint: "it stays as it is in the damaged run"})
}

// first returns the length of the first n records in the journal.
func (s *Salvage) first(n int) int64 {
	if n >= len(s.records) {
		return s.end
	}
	size := 0
	for range n {
		size += bytes.IndexByte(s.journal[size:], '\n') + 1
	}
	return int64(size)
}

// split returns the lines of the first n records, and all that stands behind them.
func (s *Salvage) split(n int) (kept, rest []byte) {
	at := s.first(n)
	rest = s.journal[at:]
	if len(rest) > 0 {
		s.lose(filepath.Join(s.dir, journalFile), fmt.Sprintf("from byte %d on, behind record %d: %d bytes, %d whole lines",
			at, bytes.Count(s.journal[:at], []byte("\n")), len(rest), bytes.Count(rest, []byte("\n"))))
	}
	return s.journal[:at], rest
}
