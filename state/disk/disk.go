// Package disk is how flow writes and reads its own files. Each operation passes failpoints
// (see [failpoint.Fail]), so that a test can make any of them fail, and is shown to an
// observer, from which a test can tell what a disk has after a power failure. Otherwise the
// operations are those of package os with the same names, and so are their errors.
//
// An operation passes the points of its [Kind], "disk-write" say, of its groups, and of all
// operations, in this order:
//
//	disk-grow     what needs space: create, write, mkdir, link, rename, sync
//	disk-change   what a read-only file system refuses: those, remove, truncate, chmod, open for writing
//	disk          every operation
//
// A write that is to fail writes half of its bytes first, as one to a full disk does.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/failpoint"
)

// Kind is what an operation does; it is the name of its failpoint, too.
type Kind string

// The kinds of operations.
const (
	Opening  Kind = "disk-open"
	Creating Kind = "disk-create"
	Reading  Kind = "disk-read"
	Writing  Kind = "disk-write"
	Syncing  Kind = "disk-sync"
	Cutting  Kind = "disk-truncate"
	Chmoding Kind = "disk-chmod"
	Renaming Kind = "disk-rename"
	Linking  Kind = "disk-link"
	Removing Kind = "disk-remove"
	Mkdiring Kind = "disk-mkdir"
	Looking  Kind = "disk-stat"
	Listing  Kind = "disk-readdir"
)

// The points that operations of several kinds pass.
const (
	pointAll    = "disk"
	pointChange = "disk-change"
	pointGrow   = "disk-grow"
)

func (k Kind) grows() bool {
	switch k {
	case Creating, Writing, Syncing, Renaming, Linking, Mkdiring:
		return true
	default:
		return false
	}
}

func (k Kind) changes() bool {
	switch k {
	case Cutting, Chmoding, Removing:
		return true
	default:
		return k.grows()
	}
}

// An Op is an operation that was done.
type Op struct {
	Kind    Kind   `json:"kind"`
	Path    string `json:"path"`             // as it was given; of a file that is open, the name it was opened by
	To      string `json:"to,omitempty"`     // of a rename or a link: the new name
	Inode   uint64 `json:"inode,omitempty"`  // of what was made, or of the open file
	Offset  int64  `json:"offset,omitempty"` // of a write: where; of a truncate: the new size
	Data    []byte `json:"data,omitempty"`   // of a write: what; valid during the call
	All     bool   `json:"all,omitempty"`    // of a sync: of all files of the file system that Path is on
	writing bool   // of an open
}

// do does an operation, unless a failpoint makes it fail. It may complete the description
// of what it did.
func do(op Op, really func(*Op) error) error {
	if err := op.injected(); err != nil {
		return err
	}
	return observed(op, really)
}

// injected is the error with which a failpoint wants the operation to fail.
func (op Op) injected() error {
	names := [...]struct {
		name   string
		passes bool
	}{
		{string(op.Kind), true},
		{pointGrow, op.Kind.grows()},
		{pointChange, op.writing || op.Kind.changes()},
		{pointAll, true},
	}
	for _, p := range names {
		if !p.passes {
			continue
		}
		if err := failpoint.Fail(p.name); err != nil {
			return &fs.PathError{Op: strings.TrimPrefix(string(op.Kind), "disk-"), Path: op.Path, Err: err}
		}
	}
	return nil
}

// Mkdir makes a directory.
func Mkdir(path string, mode fs.FileMode) error {
	return do(Op{Kind: Mkdiring, Path: path}, func(*Op) error { return os.Mkdir(path, mode) })
}

// MkdirAll makes a directory and those above it that are not there.
func MkdirAll(path string, mode fs.FileMode) error {
	return mkdirAll(path, mode, func(string) error { return nil })
}

// MkdirAllDurably is MkdirAll, and the names of the directories survive a power failure.
func MkdirAllDurably(path string, mode fs.FileMode) error { return mkdirAll(path, mode, SyncDir) }

// mkdirAll calls made with the directory above each that it makes.
func mkdirAll(path string, mode fs.FileMode, made func(above string) error) error {
	if isDir(path) {
		return nil
	}
	above := filepath.Dir(filepath.Clean(path))
	if above != path {
		if err := mkdirAll(above, mode, made); err != nil {
			return err
		}
	}
	if err := Mkdir(path, mode); err != nil && !isDir(path) { // another process may have been faster
		return err
	}
	return made(above)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// MkdirTemp makes a new directory in dir, with mode 0700 and a name made of pattern, and
// returns its path.
func MkdirTemp(dir, pattern string) (path string, err error) {
	err = do(Op{Kind: Mkdiring, Path: dir + "/" + pattern}, func(op *Op) error {
		path, err = os.MkdirTemp(dir, pattern)
		op.Path = path
		return err
	})
	return path, err
}

// Rename gives a file or directory another name.
func Rename(from, to string) error {
	return do(Op{Kind: Renaming, Path: from, To: to}, func(*Op) error { return os.Rename(from, to) })
}

// Link gives a file a second name; it replaces nothing.
func Link(from, to string) error {
	return do(Op{Kind: Linking, Path: from, To: to}, func(*Op) error { return os.Link(from, to) })
}

// Remove removes a file or an empty directory.
func Remove(path string) error {
	return do(Op{Kind: Removing, Path: path}, func(*Op) error { return os.Remove(path) })
}

// RemoveAll removes what is at path with all that is in it. That nothing is there is no
// error.
func RemoveAll(path string) error {
	return do(Op{Kind: Removing, Path: path}, func(*Op) error { return os.RemoveAll(path) })
}

// Chmod sets the mode of a file or directory.
func Chmod(path string, mode fs.FileMode) error {
	return do(Op{Kind: Chmoding, Path: path}, func(*Op) error { return os.Chmod(path, mode) })
}

// Chtimes sets the times of a file or directory; a zero time stays.
func Chtimes(path string, atime, mtime time.Time) error {
	return do(Op{Kind: Chmoding, Path: path}, func(*Op) error { return os.Chtimes(path, atime, mtime) })
}

// Stat describes what is at path, through links.
func Stat(path string) (info fs.FileInfo, err error) {
	err = do(Op{Kind: Looking, Path: path}, func(*Op) error {
		info, err = os.Stat(path)
		return err
	})
	return info, err
}

// Lstat describes what is at path itself.
func Lstat(path string) (info fs.FileInfo, err error) {
	err = do(Op{Kind: Looking, Path: path}, func(*Op) error {
		info, err = os.Lstat(path)
		return err
	})
	return info, err
}

// ReadDir lists a directory, sorted by names.
func ReadDir(path string) (entries []fs.DirEntry, err error) {
	err = do(Op{Kind: Listing, Path: path}, func(*Op) error {
		entries, err = os.ReadDir(path)
		return err
	})
	return entries, err
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error {
	return do(Op{Kind: Syncing, Path: path}, func(op *Op) error {
		d, err := os.Open(path)
		if err != nil {
			return err
		}
		op.Inode = inodeOf(d)
		err = d.Sync()
		if closeErr := d.Close(); err == nil {
			err = closeErr
		}
		return err
	})
}

// SyncAll makes durable all that was written to the file system which path is on, by whatever
// process. It may take seconds while others write much there.
func SyncAll(path string) error {
	return do(Op{Kind: Syncing, Path: path, All: true}, func(*Op) error {
		d, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.Syncfs(int(d.Fd()))
		if err != nil {
			err = &fs.PathError{Op: "syncfs", Path: path, Err: err}
		}
		return errors.Join(err, d.Close())
	})
}
