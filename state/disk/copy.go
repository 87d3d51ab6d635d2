package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// CopyFS copies what is in a file system into dir, which is made if it is not there: files,
// which must be new, directories, and symbolic links as they are. Nobody but the owner can
// read the copies. Sockets and the like are left out.
func CopyFS(dir string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		switch {
		case d.IsDir():
			return MkdirAll(to, 0o700)
		case d.Type()&fs.ModeSymlink != 0:
			return copyLink(to, from, name)
		case d.Type().IsRegular():
			return copyFile(to, from, name)
		default:
			return nil
		}
	})
}

func copyLink(to string, from fs.FS, name string) error {
	target, err := fs.ReadLink(from, name)
	if err != nil {
		return err
	}
	return do(Op{Kind: Linking, Path: target, To: to}, func(*Op) error { return os.Symlink(target, to) })
}

func copyFile(to string, from fs.FS, name string) error {
	src, err := from.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()&0o700|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
