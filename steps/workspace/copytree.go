package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/disk"
)

// createCopy copies the whole directory, ignored files too, and puts it under a git
// directory of its own outside of it.
func (g *Git) createCopy(ctx context.Context, w *Workspace) error {
	if err := g.checkVersion(ctx); err != nil {
		return err
	}
	gitDir := w.privateGit()
	if err := w.save(); err != nil {
		return err
	}
	for _, dir := range []string{w.Dir, gitDir} { // not made to their end
		if err := removeTree(dir); err != nil {
			return err
		}
	}
	if err := g.copyDir(ctx, w.Repo, w.Dir); err != nil {
		return err
	}
	if err := disk.Mkdir(gitDir, 0o700); err != nil { // git would make it as open as the umask is
		return err
	}
	repo := &Repo{git: g, top: w.Dir, gitDir: gitDir, common: gitDir, env: []string{"GIT_DIR=" + gitDir, "GIT_WORK_TREE=" + w.Dir}}
	if _, err := repo.do(ctx, call{args: []string{"init", "--quiet", "--template="}}); err != nil {
		return err
	}
	err := repo.withIndex(func(index string) error {
		tree, err := repo.writeTree(ctx, index)
		if err != nil {
			return err
		}
		if w.Base, err = repo.commitTree(ctx, tree, "The directory as it was copied"); err != nil {
			return err
		}
		return repo.moveTo(ctx, w.Branch, w.Base, "", index)
	})
	if err != nil {
		return err
	}
	w.GitDir = gitDir
	return w.ready(ctx)
}

// copyDir copies a directory: files with their mode and time, symbolic links as they
// are. Sockets, pipes and devices are left out, and so is a `.git` file, which would
// make the copy write to the original's repository.
func (g *Git) copyDir(ctx context.Context, from, to string) error {
	if err := disk.MkdirAllDurably(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	c := copier{ctx: ctx, exclude: inside(from, g.exclude)}
	var err error
	if c.from, err = disk.OpenRoot(from); err != nil {
		return &Error{Msg: "the workspace cannot be copied: " + err.Error(), Hint: "bring the directory back, then resume the run"}
	}
	defer c.from.Close()
	if err := disk.Mkdir(to, 0o700); err != nil {
		return err
	}
	if c.to, err = disk.OpenRoot(to); err != nil {
		return err
	}
	defer c.to.Close()
	return c.tree(".")
}

// A copier copies below one directory to below another, and leaves neither.
type copier struct {
	ctx      context.Context
	from, to *disk.Root
	exclude  []string
}

// tree copies what is at name, which has slashes.
func (c *copier) tree(name string) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	info, err := c.from.Lstat(name)
	if err != nil {
		return c.vanished(err)
	}
	switch {
	case slices.Contains(c.exclude, name), name == ".git" && !info.IsDir():
		return nil
	case info.IsDir():
		return c.directory(name, info)
	case info.Mode().IsRegular():
		return c.file(name, info)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := c.from.Readlink(name)
		if err != nil {
			return c.vanished(err)
		}
		return c.to.Symlink(target, name)
	default:
		return nil
	}
}

// vanished is nil for what was removed while it was copied: agents of other steps may
// be at work there.
func (c *copier) vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &Error{Msg: "the workspace cannot be copied: " + err.Error()}
}

func (c *copier) directory(name string, info fs.FileInfo) error {
	if name != "." {
		if err := c.to.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	dir, err := c.from.Open(name)
	if err != nil {
		return c.vanished(err)
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return c.vanished(err)
	}
	for _, n := range names {
		if err := c.tree(path.Join(name, n)); err != nil {
			return err
		}
	}
	if name == "." {
		return nil // it stays private
	}
	return c.to.Chmod(name, info.Mode().Perm())
}

func (c *copier) file(name string, info fs.FileInfo) error {
	src, err := c.from.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return c.vanished(err)
	}
	defer src.Close()
	dst, err := c.to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// A reflink shares the blocks until one of the two is written.
	if unix.IoctlFileClone(int(dst.OS().Fd()), int(src.OS().Fd())) != nil {
		_, err = io.Copy(dst, src)
	}
	if err = errors.Join(err, dst.Chmod(info.Mode().Perm()), dst.Close()); err != nil {
		return err
	}
	return c.to.Chtimes(name, time.Time{}, info.ModTime())
}

// takeAlong copies the untracked files that patterns name, relative to prefix, from
// one tree to another. It returns what they matched, relative to the trees.
func takeAlong(ctx context.Context, from, to, prefix string, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	c := copier{ctx: ctx}
	var err error
	if c.from, err = disk.OpenRoot(from); err != nil {
		return nil, err
	}
	defer c.from.Close()
	if c.to, err = disk.OpenRoot(to); err != nil {
		return nil, err
	}
	defer c.to.Close()
	var taken []string
	for _, p := range patterns {
		found, err := c.match(prefix, p)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if err := c.take(name); err != nil {
				return nil, err
			}
		}
		taken = append(taken, found...)
	}
	return taken, nil
}

// match returns what a pattern stands for.
func (c *copier) match(prefix, pattern string) ([]string, error) {
	if !filepath.IsLocal(pattern) {
		return nil, &Error{Msg: fmt.Sprintf("copy: %q is outside the workspace", pattern)}
	}
	name := path.Join(prefix, filepath.ToSlash(pattern))
	found, err := fs.Glob(c.from.FS(), name)
	if err != nil {
		return nil, &Error{Msg: fmt.Sprintf("copy: %q: %v", pattern, err)}
	}
	if _, err := c.from.Lstat(name); err == nil && len(found) == 0 {
		return nil, &Error{Msg: fmt.Sprintf("copy: %q is a link that leads outside the workspace, or nowhere", pattern)}
	}
	if len(found) == 0 {
		return nil, &Error{Msg: fmt.Sprintf("copy: nothing in the workspace matches %q", pattern), Hint: "make the file first, or take the line out of `copy`"}
	}
	return found, nil
}

// take copies one file or directory in place of what is there from an interrupted try.
// What git checked out stays: it is tracked.
func (c *copier) take(name string) error {
	info, err := c.from.Stat(name) // through a link, as long as that leads nowhere else
	if err != nil {
		return &Error{Msg: fmt.Sprintf("copy: %s: %v", name, err)}
	}
	if _, err := c.to.Lstat(name); err == nil {
		return nil
	}
	if err := c.to.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if info.IsDir() {
		return c.tree(name)
	}
	if !info.Mode().IsRegular() {
		return &Error{Msg: fmt.Sprintf("copy: %s is no file or directory", name)}
	}
	return c.file(name, info)
}
