package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flow/state/disk"
)

// Snapshot returns the tree of what is there now: tracked files as they are, staged or
// not, and untracked ones that are not ignored. Conflicts of a merge under way are in
// it with their markers. Nested repositories are not. Neither index nor files are
// touched; the objects go into the repository, where git keeps what nothing refers to
// for two weeks.
func (r *Repo) Snapshot(ctx context.Context) (tree string, err error) {
	err = r.withIndex(func(index string) error {
		tree, err = r.writeTree(ctx, index)
		return err
	})
	return tree, err
}

// withIndex calls fn with the name of a copy of the index.
func (r *Repo) withIndex(fn func(index string) error) (err error) {
	dir, err := r.git.temp()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.RemoveAll(dir)) }()
	index := filepath.Join(dir, "index")
	// With the index come the times and sizes that spare git from reading every file.
	if err := copyIndex(filepath.Join(r.gitDir, "index"), index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fn(index)
}

// writeTree brings index to what the files are now and writes that as a tree.
func (r *Repo) writeTree(ctx context.Context, index string) (string, error) {
	env := []string{"GIT_INDEX_FILE=" + index}
	if _, err := r.do(ctx, call{args: []string{"add", "--update"}, env: env}); err != nil {
		return "", err
	}
	others, err := r.untracked(ctx, env)
	if err != nil {
		return "", err
	}
	// Not `git add --all`: it refuses a nested repository without commits, takes one
	// with commits for a submodule, and fails outside of a sparse checkout.
	if len(others) > 0 {
		args := []string{"update-index", "-z", "--add", "--remove", "--replace", "--stdin"}
		if _, err := r.do(ctx, call{args: args, env: env, stdin: others}); err != nil {
			return "", err
		}
	}
	tree, err := r.do(ctx, call{args: []string{"write-tree"}, env: env})
	return strings.TrimSpace(string(tree)), err
}

// untracked lists the files that the index does not know and snapshots have, each ended by NUL.
func (r *Repo) untracked(ctx context.Context, env []string) ([]byte, error) {
	others, err := r.do(ctx, call{args: []string{"ls-files", "-z", "--others", "--exclude-standard"}, env: env})
	return r.wanted(others), err
}

// wanted leaves out of a list of untracked files (each ended by NUL) what belongs to no
// snapshot. git ends the name of a nested repository with a slash.
func (r *Repo) wanted(others []byte) []byte {
	var list []byte
	for name := range bytes.SplitSeq(others, []byte{0}) {
		if len(name) > 0 && !bytes.HasSuffix(name, []byte("/")) && !r.left(string(name)) {
			list = append(append(list, name...), 0)
		}
	}
	return list
}

// left reports whether a path is left out of snapshots.
func (r *Repo) left(path string) bool {
	for _, l := range r.leave {
		if path == l || strings.HasPrefix(path, l+"/") {
			return true
		}
	}
	return false
}

// copyIndex copies an index into a new file with mode 0600, and with it when it was
// written: git reads a file again that is as new as the index. By a copy that is younger
// it would take one for unchanged that was written anew in the same tick of the clock.
func copyIndex(from, to string) error {
	src, err := disk.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := disk.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Close()); err != nil {
		return err
	}
	return disk.Chtimes(to, time.Time{}, info.ModTime())
}

// keepIndex is copyIndex for one that stays, durably: git cannot work with half of an index.
func keepIndex(from, to string) error {
	if err := copyIndex(from, to); err != nil {
		return err
	}
	f, err := disk.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
