package state

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// leftBehind says whether a file or directory of a run stays where it is when the run is
// copied: locks, caches, what is unfinished, and the isolated workspaces, which git knows by
// their place.
func leftBehind(rel string) bool {
	top, rest, _ := strings.Cut(rel, "/")
	switch top {
	case lockFile, "worktrees", "scratch", "cache":
		return true
	case blobsDir:
		return strings.HasPrefix(rest, blobTemp)
	default:
		return false
	}
}

// eachFile calls fn with the directories and regular files of a run that go along when it is
// copied, a directory before what is in it, by their paths in the run's directory, with
// slashes. Links, pipes and the like stay behind.
func eachFile(dir string, fn func(rel string, isDir bool) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case leftBehind(rel) && d.IsDir():
			return fs.SkipDir
		case leftBehind(rel), !d.IsDir() && !d.Type().IsRegular():
			return nil
		}
		return fn(rel, d.IsDir())
	})
}

// fillFile makes a new file of what src has.
func fillFile(name string, src io.Reader) error {
	f, err := createFile(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, src)
	return errors.Join(err, f.Close())
}

// syncTree makes a directory durable with all that is in it.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return disk.SyncDir(path) // of a file it is the same call
	})
}

// removeAll removes a directory, also when something in it forbids that: agents and build
// tools leave directories that cannot be written.
func removeAll(dir string) error {
	err := disk.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = disk.Chmod(path, dirMode)
		}
		return nil
	})
	return disk.RemoveAll(dir)
}
