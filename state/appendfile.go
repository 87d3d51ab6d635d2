package state

import (
	"bytes"
	"errors"
	"io"

	"flow/state/disk"
)

// appendFile is a file that only grows by whole lines, one write(2) each. After an
// error it is poisoned: what is in it stays good, and every later write fails with
// the same error. Callers must serialise.
type appendFile struct {
	f    *disk.File
	size int64  // where the good lines end
	err  *Error // why nothing can be written any more
}

func (a *appendFile) write(p []byte) error {
	if a.err != nil {
		return a.err
	}
	if _, err := a.f.Write(p); err != nil {
		return a.poison(a.size, "cannot append", err)
	}
	a.size += int64(len(p))
	return nil
}

// poison keeps the first keep bytes, if it can, and refuses all further writes. If
// it cannot, the torn line is cut when the file is next opened.
func (a *appendFile) poison(keep int64, msg string, err error) error {
	if a.err != nil {
		return a.err
	}
	a.err = &Error{Path: a.f.Name(), Msg: msg, Hint: hintFor(err), Err: err}
	if truncErr := a.f.Truncate(keep); truncErr != nil {
		a.err.Err = errors.Join(err, truncErr)
	}
	a.size = keep
	return a.err
}

// cutTail removes an unfinished last line and returns the size that is left.
func cutTail(f *disk.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err := lastLineEnd(f, fi.Size())
	if err != nil || end == fi.Size() {
		return end, err
	}
	return end, f.Truncate(end)
}

// lastLineEnd returns the offset after the last newline before size, or 0.
func lastLineEnd(r io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 16<<10)
	for end := size; end > 0; {
		start := max(0, end-int64(len(buf)))
		n, err := r.ReadAt(buf[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
