package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// CheckRun looks for all that is wrong with the files of a run, and changes nothing. What
// the records and events mean is for the caller to check: the View has them, and is nil
// when the run cannot be read. A run that is under way may be checked.
func (s *Store) CheckRun(id string) (*View, []Finding) {
	dir := s.path(runsDir, id)
	c := &checker{dir: dir, repair: "flow state repair " + id + " --to DIR keeps all that is whole before it", live: lockHeld(dir)}
	if c.files(); c.linked {
		return nil, c.found
	}
	v, err := s.Read(id)
	if err != nil {
		c.add(finding(dir, err, c.repair))
		v = nil
	} else {
		c.tornTail(filepath.Join(dir, journalFile), v.end)
	}
	c.lines(eventsFile, true)
	c.lines(auditFile, false)
	c.blobs()
	return v, c.found
}

// A checker gathers what is wrong with one run.
type checker struct {
	dir    string
	repair string // the hint for what is damaged
	live   bool   // a process works on the run
	linked bool   // the run's directory is none
	found  []Finding
}

func (c *checker) add(f Finding) { c.found = append(c.found, f) }

// damage is about a file whose contents cannot be trusted from a byte on.
func (c *checker) damage(path string, offset int64, reason string) {
	bad := CorruptError{Offset: offset, Reason: reason}
	c.add(Finding{Path: path, What: bad.Error(), Hint: c.repair})
}

// tornTail notes what stands behind the last whole line of a file. While a process works on
// the run that is a line in the making.
func (c *checker) tornTail(path string, end int64) {
	fi, err := disk.Lstat(path)
	if err != nil || c.live || fi.Size() <= end {
		return
	}
	c.add(Finding{
		Path: path, What: fmt.Sprintf("a write was interrupted: %d bytes after byte %d are no whole line", fi.Size()-end, end),
		Hint: "the next resume cuts them off", Harmless: true,
	})
}

// lines checks a file of JSON objects, one a line.
func (c *checker) lines(name string, needed bool) {
	path := filepath.Join(c.dir, name)
	f, err := openFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) && !needed {
		return
	}
	if err != nil {
		c.add(finding(path, err, c.repair))
		return
	}
	defer f.Close()
	bad, first := 0, int64(0)
	end, err := eachWhole(f, func(line []byte, offset int64) {
		if isObject(line) {
			return
		}
		if bad == 0 {
			first = offset
		}
		bad++
	})
	if err != nil {
		c.add(finding(path, err, c.repair))
	}
	if bad > 0 {
		c.damage(path, first, fmt.Sprintf("%d lines are no JSON objects", bad))
	}
	c.tornTail(path, end)
}

// eachWhole calls fn with every whole line of f and where it begins, and returns where the
// last one ends.
func eachWhole(f *disk.File, fn func(line []byte, offset int64)) (end int64, err error) {
	t := lineTail{f: f}
	err = t.drain(func(line []byte) error {
		fn(line, end)
		end += int64(len(line)) + 1
		return nil
	})
	return end, err
}

func isObject(line []byte) bool { return bytes.HasPrefix(line, []byte("{")) && json.Valid(line) }

// blobs compares every blob with its name.
func (c *checker) blobs() {
	top := filepath.Join(c.dir, blobsDir, "sha256")
	v := View{dir: c.dir}
	c.walk(top, func(path string, d fs.DirEntry) error {
		if !d.Type().IsRegular() {
			return nil // files has judged it
		}
		ref := blobScheme + filepath.Base(filepath.Dir(path)) + d.Name()
		if place, err := blobPath(c.dir, ref); err != nil || place != path {
			c.add(Finding{Path: path, What: "this is no name of a blob", Hint: "remove the file: nothing refers to it"})
			return nil
		}
		if err := v.CopyBlob(io.Discard, ref); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.add(finding(path, err, c.repair))
		}
		return nil
	})
}

// walk calls fn for all that is in dir, which need not exist. What vanishes meanwhile is
// left out.
func (c *checker) walk(dir string, fn func(path string, d fs.DirEntry) error) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				c.add(Finding{Path: path, What: err.Error(), Hint: "check the owner and the mode of the directory"})
			}
			return nil
		}
		return fn(path, d)
	})
}

// files checks the kinds, owners and modes of the files that are flow's own.
func (c *checker) files() {
	c.walk(c.dir, func(path string, d fs.DirEntry) error {
		fi, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		if f, ok := judgeFile(path, fi); !ok {
			c.add(f)
			c.linked = c.linked || path == c.dir && !fi.IsDir()
		}
		rel, err := filepath.Rel(c.dir, path)
		if err != nil {
			return err
		}
		if fi.IsDir() && foreign(filepath.ToSlash(rel)) {
			return fs.SkipDir
		}
		return nil
	})
}

// foreign says whether others than flow write into a directory of a run: agents, git and
// the processes of steps, with whatever links and modes they like.
func foreign(rel string) bool {
	switch top, rest, _ := strings.Cut(rel, "/"); top {
	case "worktrees", "agents", "simulated", "scratch", "cache", lostDir:
		return true
	case attemptsDir, "workspaces":
		return rest != ""
	default:
		return false
	}
}

// judgeFile says what is wrong with a file or directory of flow's own.
func judgeFile(path string, fi fs.FileInfo) (f Finding, ok bool) {
	f.Path = path
	want := fileMode
	if fi.IsDir() {
		want = dirMode
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		f.What, f.Hint = "a symbolic link, which flow does not follow", "put what it points to in its place"
	case !fi.IsDir() && !fi.Mode().IsRegular():
		f.What, f.Hint = "neither a file nor a directory", "remove it"
	case !ownedByUs(fi):
		f.What, f.Hint = "it belongs to another user", "find out who put it there; chown it only if you trust what it says"
	case fi.Mode().Perm()&0o077 != 0:
		f.What, f.Hint = fmt.Sprintf("others have access to it (mode %04o)", fi.Mode().Perm()), fmt.Sprintf("chmod %o %s", want, path)
	default:
		return f, true
	}
	return f, false
}
