package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
	// Never follow a link out of a run, and never hang on a FIFO: runs are copied
	// and handed around.
	safeOpen = unix.O_NOFOLLOW | unix.O_NONBLOCK
)

// mkdir makes one directory that only its owner can enter, whatever the umask.
// One that exists already is left as it is.
func mkdir(path string) error {
	err := os.Mkdir(path, dirMode)
	if err == nil {
		return os.Chmod(path, dirMode)
	}
	if fi, statErr := os.Lstat(path); statErr == nil && fi.IsDir() {
		return nil
	}
	return err
}

// createFile makes a new file that only its owner can read, whatever the umask.
func createFile(path string) (*os.File, error) {
	return openFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

// openFile opens a regular file of a run.
func openFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|safeOpen, fileMode)
	if err != nil {
		return nil, err
	}
	if err := checkOpened(f, flag&os.O_CREATE != 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkOpened(f *os.File, mayBeNew bool) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", f.Name())
	}
	if mayBeNew && fi.Mode().Perm() != fileMode {
		return f.Chmod(fileMode)
	}
	return nil
}

// readFile returns what is in a regular file.
func readFile(path string) ([]byte, error) {
	f, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpened(f)
}

// readOpened returns what is in f from its beginning. What another process
// appends meanwhile may be missing.
func readOpened(f *os.File) ([]byte, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, fi.Size())
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// writeFile makes a new file with the given contents, on the disk when it returns.
func writeFile(path string, data []byte) error {
	f, err := createFile(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncAll makes the names in several directories durable.
func syncAll(paths ...string) error {
	for _, p := range paths {
		if err := syncDir(p); err != nil {
			return err
		}
	}
	return nil
}

// fdatasync makes the contents of f durable, with its size but not its times.
func fdatasync(f *os.File) error {
	return retryIntr(func() error { return unix.Fdatasync(int(f.Fd())) })
}

func retryIntr(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// ownedByUs says whether the file belongs to the user that flow runs as.
func ownedByUs(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// withPrefix returns the paths of what is in dir under a name with that prefix. A
// directory that cannot be read counts as empty: this only serves to clean up.
func withPrefix(dir, prefix string) []string {
	entries, _ := os.ReadDir(dir)
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
