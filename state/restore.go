package state

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// lostDir is where a repaired run has what it does not go by. A run that has it was repaired.
const lostDir = "lost"

// A Selection says what a repaired run goes by.
type Selection struct {
	Records int                    // how many of the whole records, at least 1
	Event   func(line []byte) bool // false: the event is put aside
	Attempt func(name string) bool // the same of a file or directory in attempts/
}

// Restore makes a new run of what is whole of a damaged one, which is left as it is, and
// returns what is lost. What is whole, but not selected, is in the directory lost/ of the
// new run. A run of that id makes it fail with ErrExists.
func (s *Store) Restore(from *Salvage, keep Selection) ([]Finding, error) {
	r := restorer{Salvage: from, keep: keep}
	err := s.adopt(from.header.ID, func(dir string) error {
		r.to = dir
		return r.fill()
	})
	return from.lost, err
}

// A restorer writes one repaired run.
type restorer struct {
	*Salvage
	keep Selection
	to   string
}

func (r *restorer) fill() error {
	for _, dir := range []string{lostDir, filepath.Join(lostDir, attemptsDir), attemptsDir, blobsDir} {
		if err := mkdir(filepath.Join(r.to, dir)); err != nil {
			return err
		}
	}
	kept, rest := r.split(r.keep.Records)
	if err := writeFile(filepath.Join(r.to, journalFile), kept); err != nil {
		return err
	}
	if err := r.aside(journalFile, rest); err != nil {
		return err
	}
	if err := r.lines(eventsFile, r.keep.Event); err != nil {
		return err
	}
	if err := r.lines(auditFile, func([]byte) bool { return true }); err != nil {
		return err
	}
	return eachFile(r.dir, r.file)
}

// aside keeps what the run does not go by.
func (r *restorer) aside(name string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return writeFile(filepath.Join(r.to, lostDir, name), data)
}

// lines copies the lines of a file that are JSON objects and that are to be kept.
func (r *restorer) lines(name string, keep func(line []byte) bool) error {
	from := filepath.Join(r.dir, name)
	src, err := openFile(from, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return r.without(name)
	}
	if err != nil {
		r.lose(from, err.Error())
		return r.without(name)
	}
	defer src.Close()
	dst, err := createFile(filepath.Join(r.to, name))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(dst)
	var other []byte
	bad, aside := 0, 0
	end, readErr := eachWhole(src, func(line []byte, _ int64) {
		whole := isObject(line)
		if whole && keep(line) {
			_, _ = out.Write(line) // Flush has the error
			_ = out.WriteByte('\n')
			return
		}
		if aside++; !whole {
			bad++
		}
		other = append(append(other, line...), '\n')
	})
	if aside > bad {
		r.lose(from, fmt.Sprintf("%d lines that belong to nothing that is left; they are in %s/%s", aside-bad, lostDir, name))
	}
	r.loseLines(src, end, bad, readErr)
	return errors.Join(out.Flush(), dst.Close(), r.aside(name, other))
}

// loseLines tells of lines that were not whole, and of what stands behind the last one.
func (r *restorer) loseLines(src *disk.File, end int64, bad int, readErr error) {
	if bad > 0 {
		r.lose(src.Name(), fmt.Sprintf("%d lines that are no JSON objects", bad))
	}
	switch fi, err := src.Stat(); {
	case readErr != nil:
		r.lose(src.Name(), fmt.Sprintf("all from byte %d on: %v", end, readErr))
	case err == nil && fi.Size() > end:
		r.lose(src.Name(), fmt.Sprintf("%d bytes from byte %d on: the line was not finished", fi.Size()-end, end))
	}
}

// without makes the file that every run has, where the damaged one lacks it.
func (r *restorer) without(name string) error {
	if name != eventsFile {
		return nil
	}
	r.lose(filepath.Join(r.dir, name), "it is missing")
	return writeFile(filepath.Join(r.to, name), nil)
}

// file copies one file or directory that is not copied line by line.
func (r *restorer) file(rel string, isDir bool) error {
	switch rel {
	case journalFile, eventsFile, auditFile:
		return nil
	}
	to, from := filepath.Join(r.to, r.place(rel)), filepath.Join(r.dir, rel)
	if isDir {
		return mkdir(to)
	}
	if ref := refOf(rel); ref != "" {
		return r.blob(to, ref)
	}
	src, err := openFile(from, os.O_RDONLY)
	if err != nil {
		r.lose(from, err.Error())
		return nil
	}
	defer src.Close()
	return fillFile(to, src)
}

// place is where a file goes: what an earlier repair put aside goes further down.
func (r *restorer) place(rel string) string {
	top, rest, below := strings.Cut(rel, "/")
	name, _, _ := strings.Cut(rest, "/")
	if top == lostDir || top == attemptsDir && below && !r.keep.Attempt(name) {
		return path.Join(lostDir, rel)
	}
	return rel
}

// refOf is the reference of the blob at a path in the run's directory, "" if there is none.
func refOf(rel string) string {
	sum, _ := strings.CutPrefix(rel, blobsDir+"/sha256/")
	ref := blobScheme + strings.ReplaceAll(sum, "/", "")
	if place, err := blobPath("", ref); err != nil || place != filepath.FromSlash(rel) {
		return ""
	}
	return ref
}

// blob copies a blob that is what its name says.
func (r *restorer) blob(to, ref string) error {
	f, err := createFile(to)
	if err != nil {
		return err
	}
	bad := r.CopyBlob(f, ref)
	if err := f.Close(); err != nil || bad == nil {
		return err
	}
	known, ok := errors.AsType[*Error](bad)
	if !ok {
		return bad
	}
	r.lose(known.Path, "the contents do not match the name")
	return disk.Remove(to)
}
