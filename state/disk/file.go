package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// A File is an open file. Its methods are those of [os.File] with the same names, and may be
// called concurrently like those.
type File struct {
	f       *os.File
	inode   uint64 // 0 unless somebody observes
	appends bool
}

// OpenFile opens a file as os.OpenFile does.
func OpenFile(path string, flag int, mode fs.FileMode) (*File, error) {
	return open(path, flag, func() (*os.File, error) { return os.OpenFile(path, flag, mode) })
}

// Open opens a file or directory for reading.
func Open(path string) (*File, error) { return OpenFile(path, os.O_RDONLY, 0) }

// CreateTemp makes a new file in dir, with mode 0600 and a name made of pattern, and opens it
// for reading and writing.
func CreateTemp(dir, pattern string) (*File, error) {
	return open(filepath.Join(dir, pattern), os.O_RDWR|os.O_CREATE|os.O_EXCL, func() (*os.File, error) {
		return os.CreateTemp(dir, pattern)
	})
}

// open opens by a function of package os. A file that O_CREATE finds counts as opened, and
// one that it makes as created.
func open(path string, flag int, by func() (*os.File, error)) (*File, error) {
	op := Op{Kind: Opening, Path: path, writing: flag&(os.O_WRONLY|os.O_RDWR) != 0}
	if flag&os.O_CREATE != 0 && (flag&os.O_EXCL != 0 || !there(path)) {
		op.Kind = Creating
	}
	var file *File
	err := do(op, func(op *Op) error {
		f, err := by()
		if err != nil {
			return err
		}
		file = &File{f: f, inode: inodeOf(f), appends: flag&os.O_APPEND != 0}
		op.Path, op.Inode = f.Name(), file.inode
		if flag&os.O_TRUNC != 0 && op.Kind == Opening {
			op.Kind = Cutting // to nothing: its Offset is 0
		}
		return nil
	})
	return file, err
}

// ReadFile returns what is in a file.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile makes a file, or replaces what is in it, not durably.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// OS returns the file for what this package does not do: to lock it, or to hand it to a
// child process.
func (f *File) OS() *os.File { return f.f }

// Name returns the name that the file was opened by.
func (f *File) Name() string { return f.f.Name() }

// Stat describes the file.
func (f *File) Stat() (info fs.FileInfo, err error) {
	err = do(f.op(Looking), func(*Op) error {
		info, err = f.f.Stat()
		return err
	})
	return info, err
}

// Read reads as [io.Reader] says.
func (f *File) Read(p []byte) (n int, err error) {
	err = do(f.op(Reading), func(*Op) error {
		n, err = f.f.Read(p)
		return err
	})
	return n, err
}

// ReadAt reads as [io.ReaderAt] says.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = do(f.op(Reading), func(*Op) error {
		n, err = f.f.ReadAt(p, off)
		return err
	})
	return n, err
}

// Readdirnames lists a directory that was opened, as [os.File.Readdirnames].
func (f *File) Readdirnames(n int) (names []string, err error) {
	err = do(f.op(Listing), func(*Op) error {
		names, err = f.f.Readdirnames(n)
		return err
	})
	return names, err
}

// Write writes as [io.Writer] says, at the end of the file if it was opened to append.
func (f *File) Write(p []byte) (int, error) {
	return f.write(p, f.offset, f.f.Write)
}

// WriteAt writes as [io.WriterAt] says.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	return f.write(p, func() int64 { return off }, func(p []byte) (int, error) { return f.f.WriteAt(p, off) })
}

// write writes half of p if the write is to fail.
func (f *File) write(p []byte, at func() int64, by func([]byte) (int, error)) (n int, err error) {
	failed := f.op(Writing).injected()
	if failed != nil {
		p = p[:len(p)/2]
	}
	err = observed(f.op(Writing), func(op *Op) error {
		if observing() {
			op.Offset = at()
		}
		n, err = by(p)
		op.Data = p[:n]
		return err
	})
	if failed != nil {
		return n, failed
	}
	return n, err
}

// offset is where the next byte goes.
func (f *File) offset() int64 {
	if f.appends {
		if info, err := f.f.Stat(); err == nil {
			return info.Size()
		}
	}
	at, _ := f.f.Seek(0, io.SeekCurrent)
	return at
}

// Truncate sets the size of the file.
func (f *File) Truncate(size int64) error {
	op := f.op(Cutting)
	op.Offset = size
	return do(op, func(*Op) error { return f.f.Truncate(size) })
}

// Chmod sets the mode of the file.
func (f *File) Chmod(mode fs.FileMode) error {
	return do(f.op(Chmoding), func(*Op) error { return f.f.Chmod(mode) })
}

// Sync makes the contents of the file durable, and what the file system knows of it.
func (f *File) Sync() error {
	return do(f.op(Syncing), func(*Op) error { return f.f.Sync() })
}

// Datasync is Sync without the times of the file: fdatasync(2).
func (f *File) Datasync() error {
	return do(f.op(Syncing), func(*Op) error {
		for {
			if err := unix.Fdatasync(int(f.f.Fd())); !errors.Is(err, syscall.EINTR) {
				return err
			}
		}
	})
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

func (f *File) op(kind Kind) Op { return Op{Kind: kind, Path: f.f.Name(), Inode: f.inode} }

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
