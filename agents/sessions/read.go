package sessions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"flow/agents"
)

const (
	maxLine   = 32 << 20 // of a longer line only the beginning is read
	maxMarker = 64 << 10
	// maxWhole is the size up to which a file is read whole to sum it up. Of a larger one
	// the ends are read, edge bytes each: the one says where it began, the other how it stands.
	maxWhole = 1 << 20
	edge     = 256 << 10
)

// Read reads the whole session, calls emit for every event, and returns what is known of
// it.
func (f File) Read(emit func(agents.Event)) (agents.SessionSummary, error) {
	in, err := f.open()
	if err != nil {
		return agents.SessionSummary{}, err
	}
	defer in.Close()
	r := agents.NewHistoryReader(f.Keeper.History(), f.Agent, emit)
	each := eachLine
	if !f.ofLines() {
		each = asLine
	}
	if err := each(in, r.Line, r.Oversized); err != nil {
		return agents.SessionSummary{}, fmt.Errorf("%s: %w", f.Path(), err)
	}
	return f.complete(r.End()), nil
}

// Summary returns what is known of the session, from its ends alone when it is large:
// then the number of its messages stays 0.
func (f File) Summary() (agents.SessionSummary, error) {
	if f.Size <= maxWhole || !f.ofLines() {
		return f.Read(func(agents.Event) {})
	}
	in, err := f.open()
	if err != nil {
		return agents.SessionSummary{}, err
	}
	defer in.Close()
	h := f.Keeper.History()
	line := func(line []byte, _ agents.Native) { h.Line(line) }
	head := io.NewSectionReader(in, 0, edge)
	tail := bufio.NewReader(io.NewSectionReader(in, f.Size-edge, edge))
	err = eachLine(head, line, line)
	h.Skip()
	if _, cut := tail.ReadSlice('\n'); err == nil && cut == nil { // else the edge holds no whole line
		err = eachLine(tail, line, line)
	}
	if err != nil {
		return agents.SessionSummary{}, fmt.Errorf("%s: %w", f.Path(), err)
	}
	h.End()
	return f.complete(h.Summary()), nil
}

// ofLines reports whether the file is one of JSON Lines, and not one JSON object.
func (f File) ofLines() bool { return path.Ext(f.Name) == ".jsonl" }

// Path is the file's absolute path.
func (f File) Path() string { return path.Join(f.Dir, f.Name) }

// complete adds what the session's own lines do not say.
func (f File) complete(s agents.SessionSummary) agents.SessionSummary {
	if agents.IsUUID(f.ID) {
		s.ID = f.ID // lines that were copied from another session have that one's
	}
	if marker := f.Keeper.Sessions().Marker; s.Dir == "" && marker != nil {
		s.Dir = f.marked(marker(f.Name))
	}
	if s.Updated.IsZero() {
		s.Updated = f.Modified.UTC()
	}
	if s.Status == "" {
		s.Status = agents.SessionUnfinished
	}
	return s
}

// marked reads the working directory in the marker file name, "" when there is none.
func (f File) marked(name string) string {
	in, err := f.openName(name)
	if err != nil {
		return ""
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxMarker))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (f File) open() (*os.File, error) { return f.openName(f.Name) }

// openName opens a regular file of the store. A pipe in its place does not block.
func (f File) openName(name string) (*os.File, error) {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path.Join(f.Dir, name))
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// asLine calls line with all of r, or oversized with its beginning.
func asLine(r io.Reader, line, oversized func([]byte, agents.Native)) error {
	all, err := io.ReadAll(io.LimitReader(r, maxLine+1))
	if err != nil {
		return err
	}
	at := agents.Native{Length: int64(len(all))}
	if len(all) > maxLine {
		oversized(all, at)
	} else {
		line(all, at)
	}
	return nil
}

// eachLine calls line for every line of r, newline excluded, and oversized with the
// beginning of one that is longer than maxLine. A last line without a newline counts: it
// may be under way, and is then told as malformed.
func eachLine(r io.Reader, line, oversized func([]byte, agents.Native)) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var kept []byte
	var at agents.Native
	for {
		part, err := in.ReadSlice('\n')
		at.Length += int64(len(part))
		kept = append(kept, part[:min(len(part), maxLine-len(kept))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		next := at.Offset + at.Length
		if err == nil {
			at.Length--
		}
		switch {
		case at.Length > maxLine:
			oversized(kept, at)
		case at.Length > 0:
			line(kept[:at.Length], at)
		}
		if err != nil {
			return nil
		}
		kept, at = kept[:0], agents.Native{Offset: next}
	}
}
