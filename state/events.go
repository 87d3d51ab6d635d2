package state

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"

	"flow/state/disk"
)

// Events calls fn with each line of the event log, without its newline, until fn
// returns an error. An unfinished last line is left out. The line is only valid
// during the call.
func (v *View) Events(fn func(line []byte) error) error { return v.EventsFrom(0, fn) }

// EventsFrom is Events from a byte of the event log on, at which a line begins.
func (v *View) EventsFrom(offset int64, fn func(line []byte) error) error {
	f, err := v.openEvents()
	if err != nil {
		return err
	}
	defer f.Close()
	t := lineTail{f: f, off: offset}
	return t.drain(fn)
}

// EventOffset returns a byte of the event log to read from for whoever wants the events
// that have not passed: passed must be true of the first events up to some one, and of none
// behind that. A line begins there, and at most some that have passed are not before it.
// Only few lines are read, however many there are.
func (v *View) EventOffset(passed func(line []byte) bool) (int64, error) {
	f, err := v.openEvents()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, unread(f, err)
	}
	offset, err := firstLine(f, fi.Size(), passed)
	return offset, unread(f, err)
}

// LastEvent returns the last whole line of the event log, nil if there is none.
func (v *View) LastEvent() ([]byte, error) {
	f, err := v.openEvents()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, unread(f, err)
	}
	line, err := newBackward(f, fi.Size()).next()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return line, unread(f, err)
}

func unread(f *disk.File, err error) error { return wrap(f.Name(), "cannot be read", err) }

func (v *View) openEvents() (*disk.File, error) {
	path := filepath.Join(v.dir, eventsFile)
	f, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return nil, wrap(path, "cannot be opened", missing(v.dir, err))
	}
	return f, nil
}

// searchEnd is the size of a piece of a file in which no line is looked for any more.
const searchEnd = 256 << 10

// firstLine halves the file: all lines before the offset that it returns have passed, and
// about searchEnd bytes behind it one has not, or the file ends.
func firstLine(r io.ReaderAt, size int64, passed func(line []byte) bool) (int64, error) {
	low, high := int64(0), size // the lines before low have passed, one that begins behind high has not
	for high-low > searchEnd {
		middle := low + (high-low)/2
		line, end, err := lineBehind(r, middle, size)
		switch {
		case errors.Is(err, io.EOF):
			high = middle
		case err != nil:
			return 0, err
		case passed(line):
			low = end
		default:
			high = middle
		}
	}
	return low, nil
}

// lineBehind returns the first whole line that begins behind offset, and where the next
// one begins. It is io.EOF if there is none.
func lineBehind(r io.ReaderAt, offset, size int64) (line []byte, end int64, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(r, offset, size-offset), 16<<10)
	rest, err := in.ReadBytes('\n') // of the line that offset is in
	if err == nil {
		line, err = in.ReadBytes('\n')
	}
	if err != nil {
		return nil, 0, err
	}
	return line[:len(line)-1], offset + int64(len(rest)+len(line)), nil
}
