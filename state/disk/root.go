package disk

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Root is a directory that names cannot lead out of; see [os.Root]. It is for names that
// come from elsewhere: a template, an archive, an agent.
type Root struct{ root *os.Root }

// OpenRoot opens a directory.
func OpenRoot(dir string) (root *Root, err error) {
	err = do(Op{Kind: Opening, Path: dir}, func(*Op) error {
		r, err := os.OpenRoot(dir)
		root = &Root{root: r}
		return err
	})
	if err != nil {
		return nil, err
	}
	return root, nil
}

// OpenRoot opens a directory in it.
func (r *Root) OpenRoot(name string) (root *Root, err error) {
	err = do(Op{Kind: Opening, Path: r.path(name)}, func(*Op) error {
		in, err := r.root.OpenRoot(name)
		root = &Root{root: in}
		return err
	})
	if err != nil {
		return nil, err
	}
	return root, nil
}

// Close closes the directory.
func (r *Root) Close() error { return r.root.Close() }

// FS returns the files for reading only; their operations pass no failpoint.
func (r *Root) FS() fs.FS { return r.root.FS() }

func (r *Root) path(name string) string { return filepath.Join(r.root.Name(), name) }

// OpenFile opens a file.
func (r *Root) OpenFile(name string, flag int, mode fs.FileMode) (*File, error) {
	return open(r.path(name), flag, func() (*os.File, error) { return r.root.OpenFile(name, flag, mode) })
}

// Open opens a file or directory for reading.
func (r *Root) Open(name string) (*File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// ReadFile returns what is in a file.
func (r *Root) ReadFile(name string) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Mkdir makes a directory.
func (r *Root) Mkdir(name string, mode fs.FileMode) error {
	return do(Op{Kind: Mkdiring, Path: r.path(name)}, func(*Op) error { return r.root.Mkdir(name, mode) })
}

// MkdirAll makes a directory and those above it that are not there.
func (r *Root) MkdirAll(name string, mode fs.FileMode) error {
	return do(Op{Kind: Mkdiring, Path: r.path(name)}, func(*Op) error { return r.root.MkdirAll(name, mode) })
}

// Remove removes a file or an empty directory.
func (r *Root) Remove(name string) error {
	return do(Op{Kind: Removing, Path: r.path(name)}, func(*Op) error { return r.root.Remove(name) })
}

// Rename gives a file or directory another name.
func (r *Root) Rename(from, to string) error {
	return do(Op{Kind: Renaming, Path: r.path(from), To: r.path(to)}, func(*Op) error { return r.root.Rename(from, to) })
}

// Symlink makes a symbolic link at name, which says target.
func (r *Root) Symlink(target, name string) error {
	return do(Op{Kind: Linking, Path: target, To: r.path(name)}, func(*Op) error { return r.root.Symlink(target, name) })
}

// Readlink returns what a symbolic link says.
func (r *Root) Readlink(name string) (target string, err error) {
	err = do(Op{Kind: Looking, Path: r.path(name)}, func(*Op) error {
		target, err = r.root.Readlink(name)
		return err
	})
	return target, err
}

// Chmod sets the mode of a file or directory.
func (r *Root) Chmod(name string, mode fs.FileMode) error {
	return do(Op{Kind: Chmoding, Path: r.path(name)}, func(*Op) error { return r.root.Chmod(name, mode) })
}

// Chtimes sets the times of a file or directory; a zero time stays.
func (r *Root) Chtimes(name string, atime, mtime time.Time) error {
	return do(Op{Kind: Chmoding, Path: r.path(name)}, func(*Op) error { return r.root.Chtimes(name, atime, mtime) })
}

// Stat describes what is at name, through links.
func (r *Root) Stat(name string) (info fs.FileInfo, err error) {
	err = do(Op{Kind: Looking, Path: r.path(name)}, func(*Op) error {
		info, err = r.root.Stat(name)
		return err
	})
	return info, err
}

// Lstat describes what is at name itself.
func (r *Root) Lstat(name string) (info fs.FileInfo, err error) {
	err = do(Op{Kind: Looking, Path: r.path(name)}, func(*Op) error {
		info, err = r.root.Lstat(name)
		return err
	})
	return info, err
}
