package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"flow/state/disk"
)

const followPoll = 50 * time.Millisecond

// Follow calls fn with each line of the event log as Events does, then with those
// that are appended, until the run is finished and all was read, fn returns an
// error, or ctx ends (whose error it then returns). A run that was interrupted may
// be resumed: Follow waits for that.
func (v *View) Follow(ctx context.Context, fn func(line []byte) error) error {
	return v.FollowFrom(ctx, 0, fn)
}

// FollowFrom is Follow from a byte of the event log on, at which a line begins.
func (v *View) FollowFrom(ctx context.Context, offset int64, fn func(line []byte) error) error {
	events, err := v.openEvents()
	if err != nil {
		return err
	}
	defer events.Close()
	records, err := openFile(filepath.Join(v.dir, journalFile), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer records.Close()
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	for tail := (lineTail{f: events, off: offset}); ; {
		// The journal first: the events of a run are written before its end. One that
		// cannot be read is about to be repaired by a resume, or a matter for ReadRun.
		last, readErr := lastRecord(records)
		if err := tail.drain(fn); err != nil {
			return err
		}
		if readErr == nil && last.Type == typeFinished {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// lastRecord reads the last whole record of a journal.
func lastRecord(f *disk.File) (Record, error) {
	fi, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	line, err := newBackward(f, fi.Size()).next()
	if err != nil {
		return Record{}, corrupt(f.Name(), 0, "no record")
	}
	rec, err := decodeRecord(line)
	if err != nil {
		return rec, corrupt(f.Name(), fi.Size()-int64(len(line))-1, err.Error())
	}
	return rec, nil
}

// lineTail reads the whole lines of a file that grows.
type lineTail struct {
	f   *disk.File
	off int64 // of the first byte that was not delivered
	buf []byte
}

// tailBuffer is small, for a server may have thousands who follow.
const tailBuffer = 32 << 10

// drain delivers all lines that are whole now.
func (t *lineTail) drain(fn func([]byte) error) error {
	if len(t.buf) != tailBuffer { // the first time, or a long line has made it larger
		t.buf = make([]byte, tailBuffer)
	}
	for {
		n, err := t.f.ReadAt(t.buf, t.off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		atEnd := n < len(t.buf)
		used, err := deliver(t.buf[:n], fn)
		t.off += int64(used)
		if err != nil || atEnd {
			return err
		}
		if used == 0 { // one line fills the buffer
			t.buf = make([]byte, 2*len(t.buf))
		}
	}
}

// deliver calls fn with the whole lines in p and returns how many bytes they are.
func deliver(p []byte, fn func([]byte) error) (used int, err error) {
	for {
		line, _, whole := bytes.Cut(p[used:], []byte("\n"))
		if !whole {
			return used, nil
		}
		used += len(line) + 1
		if err := fn(line); err != nil {
			return used, err
		}
	}
}

// backward reads the whole lines of a file from its end to its beginning.
type backward struct {
	r    io.ReaderAt
	pos  int64  // of the first byte of buf
	buf  []byte // what was read and not yet returned; it ends with a newline
	torn bool   // an unfinished last line must still be skipped
}

func newBackward(r io.ReaderAt, size int64) *backward {
	return &backward{r: r, pos: size, torn: true}
}

// next returns the line before the one it returned last, or io.EOF. The line stays
// valid.
func (b *backward) next() ([]byte, error) {
	for {
		if line, ok := b.take(); ok {
			return line, nil
		}
		if b.pos == 0 {
			return b.first()
		}
		if err := b.fill(); err != nil {
			return nil, err
		}
	}
}

// take returns the last line in buf if its beginning is there too.
func (b *backward) take() ([]byte, bool) {
	if b.torn {
		i := bytes.LastIndexByte(b.buf, '\n')
		if i < 0 {
			return nil, false
		}
		b.buf, b.torn = b.buf[:i+1], false
	}
	if len(b.buf) == 0 {
		return nil, false
	}
	end := len(b.buf) - 1
	i := bytes.LastIndexByte(b.buf[:end], '\n')
	if i < 0 {
		return nil, false
	}
	line := b.buf[i+1 : end]
	b.buf = b.buf[:i+1]
	return line, true
}

// first returns the first line of the file.
func (b *backward) first() ([]byte, error) {
	if b.torn || len(b.buf) == 0 {
		return nil, io.EOF
	}
	line := b.buf[:len(b.buf)-1]
	b.buf = nil
	return line, nil
}

// fill reads a piece more, at least as long as what is there: reading a long line
// piece by piece must not take quadratic time.
func (b *backward) fill() error {
	n := min(b.pos, max(16<<10, int64(len(b.buf))))
	piece := make([]byte, n, n+int64(len(b.buf)))
	if got, err := b.r.ReadAt(piece, b.pos-n); int64(got) < n {
		return fmt.Errorf("the file shrank: %w", err)
	}
	b.buf = append(piece, b.buf...)
	b.pos -= n
	return nil
}
