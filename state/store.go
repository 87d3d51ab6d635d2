// Package state keeps runs on disk. A run is a directory: what was known when it
// began, an append-only journal of records, an event log, and blobs by content. It
// can be copied, read while it goes on, and continued after any crash. What the
// records mean is the caller's business; they are JSON to this package.
//
// docs/state.md specifies the files. The package needs Linux: flock(2) locks that
// children inherit, and /proc to tell whether their first owner lives.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"flow/state/disk"
)

// Format is the version of the files that this package writes.
const Format = 1

const (
	runsDir   = "runs"
	tempDir   = "tmp"
	indexFile = "index.jsonl"
)

// DefaultDir returns where runs are kept: $FLOW_STATE_DIR, else $XDG_STATE_HOME/flow,
// else ~/.local/state/flow.
func DefaultDir(env func(string) string) (string, error) {
	if dir := env("FLOW_STATE_DIR"); dir != "" {
		return dir, nil
	}
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) { // the XDG specification: ignore others
		return filepath.Join(dir, "flow"), nil
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "flow"), nil
	}
	return "", errors.New("no place for the state: set FLOW_STATE_DIR or HOME to an absolute path")
}

// A Store is a directory of runs. Its methods may be called concurrently, and by
// several processes.
type Store struct{ dir string }

// Open opens the state directory, and makes it if it is not there. It refuses one
// that others could have put there or could write to. One that cannot be written,
// on a disk that became read-only say, can still be read: Create and OpenRun fail.
// Its errors are *Error.
func Open(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &Error{Path: dir, Msg: "not a usable path", Err: err}
	}
	s := &Store{dir: abs}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.sweep()
	return s, nil
}

// Dir returns the absolute path of the state directory.
func (s *Store) Dir() string { return s.dir }

// RunDir returns the directory of a run, whether or not it can be read.
func (s *Store) RunDir(id string) string { return s.path(runsDir, id) }

func (s *Store) prepare() error {
	err := disk.MkdirAllDurably(filepath.Dir(s.dir), dirMode)
	if err == nil {
		err = checkDir(s.dir)
	}
	for _, dir := range []string{s.dir, s.path(runsDir), s.path(tempDir)} {
		if err == nil {
			err = mkdirDurably(dir)
		}
	}
	return wrap(s.dir, "cannot make the state directory", err)
}

// checkDir refuses a state directory that others control.
func checkDir(dir string) error {
	fi, err := disk.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode()&fs.ModeSymlink != 0:
		return &Error{Path: dir, Msg: "the state directory is a symbolic link", Hint: "name the directory it points to"}
	case !fi.IsDir():
		return &Error{Path: dir, Msg: "the state directory is a file", Hint: "choose another with FLOW_STATE_DIR"}
	case !ownedByUs(fi):
		return &Error{Path: dir, Msg: "the state directory belongs to another user", Hint: "choose another with FLOW_STATE_DIR"}
	case fi.Mode().Perm()&0o022 != 0:
		return &Error{
			Path: dir, Msg: fmt.Sprintf("other users can write the state directory (mode %04o)", fi.Mode().Perm()),
			Hint: "chmod 700 " + dir,
		}
	}
	return nil
}

// sweep removes what a crash left in the directory for temporary files. It is not
// urgent: while another process works there, or on any error, it is left for later.
func (s *Store) sweep() {
	if len(withPrefix(s.path(tempDir), "")) == 0 {
		return
	}
	unlock, err := s.lock(unix.LOCK_EX | unix.LOCK_NB)
	if err != nil {
		return
	}
	defer unlock()
	for _, name := range withPrefix(s.path(tempDir), "") {
		if !lockHeld(name) {
			_ = disk.RemoveAll(name)
		}
	}
}

// lock takes the lock of the state directory, which guards the index, the names of
// runs, and the directory for temporary files. It is held for moments only.
func (s *Store) lock(how int) (unlock func(), err error) {
	d, err := disk.Open(s.dir)
	if err != nil {
		return nil, err
	}
	if err := flock(d, how); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil // nothing was written through it
}

// path joins a path below the state directory.
func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// Read reads a run. It takes no lock: the run may be under way.
func (s *Store) Read(id string) (*View, error) {
	if err := s.checkRun(id); err != nil {
		return nil, err
	}
	v, err := ReadRun(s.path(runsDir, id))
	if err != nil {
		return nil, err
	}
	return v, checkPlace(v, id)
}

// checkRun fails if there is no run of that id.
func (s *Store) checkRun(id string) error {
	if err := CheckID(id); err != nil {
		return &Error{Path: s.dir, Msg: err.Error(), Hint: "see `flow runs`", Err: ErrNotFound}
	}
	if !exists(s.path(runsDir, id)) {
		return s.notFound(id)
	}
	return nil
}

func (s *Store) notFound(id string) error {
	return &Error{Path: s.dir, Msg: id, Hint: "see `flow runs`", Err: ErrNotFound}
}

// checkPlace fails if the directory of a run was given another name.
func checkPlace(v *View, id string) error {
	if v.header.ID == id {
		return nil
	}
	return &Error{
		Path: v.dir, Msg: fmt.Sprintf("this is run %s in a directory of another name", v.header.ID),
		Hint: "rename the directory to " + v.header.ID, Err: syscall.EINVAL,
	}
}
