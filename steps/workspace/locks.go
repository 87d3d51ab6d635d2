package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flow/state/disk"
)

// A git that is killed leaves its locks, which stop every git after it. Those on what
// belongs to one workspace of one run can only be left over once that run works there
// alone; they are removed. Those on the repository that others use are removed only if
// they came up while flow was at it, and nobody has let go of them for a while.

// lockPatience is how long a lock on a name in a shared repository is respected. Git holds
// such locks for milliseconds; that on the index, which an editor can keep open for
// hours, is not among them.
const lockPatience = 3 * time.Second

// unlock removes the locks that were left on an isolated workspace and its branch.
// Nobody may be at work there.
func (r *Repo) unlock(branch string) error {
	return errors.Join(
		removeLock(filepath.Join(r.gitDir, "HEAD")),
		removeLock(filepath.Join(r.gitDir, "index")),
		removeLock(filepath.Join(sharedDir(r.gitDir), branchRef(branch))))
}

// removeLock removes the lock on a file, if there is one.
func removeLock(file string) error {
	if err := disk.Remove(file + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sharedDir is the directory with the branches for a git directory, which is another one
// for a worktree.
func sharedDir(gitDir string) string {
	data, err := disk.ReadFile(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return gitDir // not a worktree
	}
	dir := strings.TrimSpace(string(data))
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(gitDir, dir)
}

// outwait waits until HEAD and its branch are free. A lock that came up after since, when
// flow itself was about to take it, and that is kept for long, was left by a git that was
// killed with flow: it is removed.
func (r *Repo) outwait(ctx context.Context, since time.Time) error {
	names := []string{"HEAD"}
	out, err := r.run(ctx, call{args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	if err != nil {
		return err
	}
	if ref := strings.TrimSpace(string(out.Stdout)); ref != "" {
		names = append(names, ref)
	}
	for _, name := range names {
		dir := r.gitDir
		if name != "HEAD" {
			dir = sharedDir(r.gitDir)
		}
		if err := outwait(ctx, filepath.Join(dir, name+".lock"), since); err != nil {
			return err
		}
	}
	return nil
}

func outwait(ctx context.Context, lock string, since time.Time) error {
	first, err := disk.Lstat(lock)
	if err != nil || first.ModTime().Before(since) {
		return nil //nolint:nilerr // free, or somebody else's: git says so
	}
	tick := time.NewTicker(lockPatience / 20)
	defer tick.Stop()
	for late := time.After(lockPatience); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if now, err := disk.Lstat(lock); err != nil || !os.SameFile(first, now) {
				return nil //nolint:nilerr // it is in use, and not left
			}
		case <-late:
			return disk.Remove(lock)
		}
	}
}
