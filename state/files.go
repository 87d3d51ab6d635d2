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

	"flow/state/disk"
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
	err := disk.Mkdir(path, dirMode)
	if err == nil {
		return disk.Chmod(path, dirMode)
	}
	if fi, statErr := disk.Lstat(path); statErr == nil && fi.IsDir() {
		return nil
	}
	return err
}

// mkdirDurably is mkdir, and the name of a new directory survives a power failure.
func mkdirDurably(path string) error {
	if exists(path) {
		return mkdir(path)
	}
	if err := mkdir(path); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// createFile makes a new file that only its owner can read, whatever the umask.
func createFile(path string) (*disk.File, error) {
	return openFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

// openFile opens a regular file of a run.
func openFile(path string, flag int) (*disk.File, error) {
	f, err := disk.OpenFile(path, flag|safeOpen, fileMode)
	if err != nil {
		return nil, err
	}
	if err := checkOpened(f, flag&os.O_CREATE != 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkOpened(f *disk.File, mayBeNew bool) error {
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
func readOpened(f *disk.File) ([]byte, error) {
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

// syncAll makes the names in several directories durable.
func syncAll(paths ...string) error {
	for _, p := range paths {
		if err := disk.SyncDir(p); err != nil {
			return err
		}
	}
	return nil
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
	_, err := disk.Lstat(path)
	return err == nil
}

// withPrefix returns the paths of what is in dir under a name with that prefix. A
// directory that cannot be read counts as empty: this only serves to clean up.
func withPrefix(dir, prefix string) []string {
	entries, _ := disk.ReadDir(dir)
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
