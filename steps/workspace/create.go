package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/disk"
	"flow/state/failpoint"
)

// Request describes a workspace to make.
type Request struct {
	RunDir string // the run's directory: the workspace goes below it
	Run    string // the run's id
	Path   string // the step's
	Repo   string // the directory that the steps around it work in, absolute
	Mode   Mode   // Worktree or Copy
	// Base is what a worktree begins at, a name of a commit; "" is what Repo has now,
	// with what is not committed.
	Base string
	// Copy names untracked files and directories below Repo to take along into a
	// worktree: paths and globs with *. Each must match something.
	Copy []string
	Now  time.Time
}

// Create makes the workspace, or goes on with making it. Asked again for the same run
// and step in the same mode it gives the same workspace, with whatever was done in it since.
func (g *Git) Create(ctx context.Context, q Request) (*Workspace, error) {
	w, err := Load(q.RunDir, q.Path, q.Mode)
	if err != nil {
		return nil, err
	}
	if w == nil || w.Run != q.Run { // one of another run is only lent
		if w, err = g.plan(q); err != nil {
			return nil, err
		}
	}
	if w.Ready {
		_, err := g.OpenWorkspace(ctx, w)
		return w, err
	}
	if q.Mode == Copy {
		return w, g.createCopy(ctx, w)
	}
	return w, g.createWorktree(ctx, w, q)
}

// plan decides where the workspace goes. What is in that place without a record is
// not ours.
func (g *Git) plan(q Request) (*Workspace, error) {
	w := &Workspace{
		Run: q.Run, Path: q.Path, Mode: q.Mode, Repo: resolved(q.Repo), Branch: BranchName(q.Run, q.Path),
		Dir: filepath.Join(resolved(q.RunDir), treesDir, modeName(q.Path, q.Mode)), Created: q.Now.UTC().Round(0),
		file: recordFile(q.RunDir, q.Path, q.Mode),
	}
	if q.Mode == Merging {
		w.Branch = ""
	}
	if _, err := disk.Lstat(w.Dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Msg: w.Dir + " is there already, and not by flow", Hint: "move it away, then resume the run"}
	}
	w.Root = w.Dir
	return w, nil
}

func (g *Git) createWorktree(ctx context.Context, w *Workspace, q Request) error {
	repo, err := g.Open(ctx, w.Repo)
	if err != nil {
		return err
	}
	w.Root = filepath.Join(w.Dir, repo.prefix)
	if w.Base == "" {
		if err := repo.base(ctx, w, q.Base); err != nil {
			return err
		}
		if err := repo.freeBranch(ctx, w); err != nil {
			return err
		}
		if err := w.save(); err != nil {
			return err
		}
	}
	failpoint.Reach("workspace-recorded")
	if err := repo.addWorktree(ctx, w); err != nil {
		return err
	}
	failpoint.Reach("workspace-filled")
	if w.Copied, err = takeAlong(ctx, repo.top, w.Dir, repo.prefix, q.Copy); err != nil {
		return err
	}
	return w.ready(ctx)
}

// ready records that the workspace is made. A power failure must not leave it so with files
// that are empty, which would be taken for what a step did: git syncs its objects only.
func (w *Workspace) ready(ctx context.Context) error {
	for _, dir := range []string{w.Dir, w.GitDir} {
		if err := syncAll(ctx, dir); err != nil {
			return err
		}
	}
	w.Ready = true
	return w.save()
}

// syncAll is disk.SyncAll, which takes long on a disk that others write much to and cannot be
// interrupted. Nobody waits for it any more once ctx is done.
func syncAll(ctx context.Context, dir string) error {
	done := make(chan error, 1)
	go func() { done <- disk.SyncAll(dir) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// base decides what the workspace begins at.
func (r *Repo) base(ctx context.Context, w *Workspace, name string) (err error) {
	if name != "" {
		w.Base, err = r.resolve(ctx, name)
		if err == nil && w.Base == "" {
			err = &Error{Msg: fmt.Sprintf("the base %q is no commit of the repository", name), Hint: "name a branch, a tag or a commit; a remote branch as origin/NAME"}
		}
		return err
	}
	head, err := r.head(ctx)
	if err != nil {
		return err
	}
	w.Base, err = r.snapshotCommit(ctx, head)
	w.Snapshot = w.Base != head
	return err
}

// head returns the commit of HEAD.
func (r *Repo) head(ctx context.Context) (string, error) {
	head, err := r.resolve(ctx, "HEAD")
	if err == nil && head == "" {
		err = &Error{Msg: "the repository " + r.top + " has no commits yet", Hint: "make a first commit, or use `isolation: copy`"}
	}
	return head, err
}

// snapshotCommit returns a commit of what is there now: head itself if it is the same.
func (r *Repo) snapshotCommit(ctx context.Context, head string) (string, error) {
	tree, err := r.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	committed, err := r.treeOf(ctx, head)
	if err != nil || committed == tree {
		return head, err
	}
	return r.commitTree(ctx, tree, "Changes of the workspace that are not committed", head)
}

// freeBranch refuses a branch of the workspace's name that flow did not make.
func (r *Repo) freeBranch(ctx context.Context, w *Workspace) error {
	if w.Branch == "" {
		return nil
	}
	if ok, err := r.holds(ctx, "check-ref-format", branchRef(w.Branch)); err != nil {
		return err
	} else if !ok {
		return &Error{Msg: fmt.Sprintf("%q cannot be the name of a branch", w.Branch), Hint: "choose another run id"}
	}
	at, err := r.resolve(ctx, branchRef(w.Branch))
	if err != nil || at == "" || at == w.Base {
		return err
	}
	return &Error{Msg: "the branch " + w.Branch + " exists already", Hint: "another state directory had a run of this id; choose another, or: git branch -D " + w.Branch}
}

func branchRef(branch string) string { return "refs/heads/" + branch }

// addWorktree makes the branch and the worktree anew: a worktree that was not made to
// its end holds nothing.
func (r *Repo) addWorktree(ctx context.Context, w *Workspace) error {
	if err := disk.MkdirAllDurably(filepath.Dir(w.Dir), 0o700); err != nil {
		return err
	}
	if err := r.alone(ctx, func() error { return r.registerWorktree(ctx, w) }); err != nil {
		return err
	}
	tree, err := r.git.Open(ctx, w.Dir)
	if err != nil {
		return err
	}
	w.GitDir = tree.gitDir
	_, err = tree.do(ctx, call{args: []string{"reset", "--hard", "--quiet"}})
	return err
}

// registerWorktree makes a worktree without files, which can take long.
func (r *Repo) registerWorktree(ctx context.Context, w *Workspace) error {
	if err := r.forgetWorktree(ctx, w); err != nil {
		return err
	}
	what := []string{"--detach", "--", w.Dir, w.Base}
	if w.Branch != "" {
		if err := removeLock(filepath.Join(r.common, branchRef(w.Branch))); err != nil {
			return err
		}
		if _, err := r.do(ctx, call{args: []string{"update-ref", branchRef(w.Branch), w.Base}}); err != nil {
			return err
		}
		what = []string{"--", w.Dir, w.Branch}
	}
	if _, err := r.do(ctx, call{args: append([]string{"worktree", "add", "--quiet", "--no-checkout"}, what...)}); err != nil {
		return err
	}
	_, err := r.do(ctx, call{args: []string{"worktree", "lock", "--reason", "flow run " + w.Run + ", step " + w.Path, "--", w.Dir}})
	return err
}

// dropWorktree removes a worktree with what is in it, and what git knows of it.
func (r *Repo) dropWorktree(ctx context.Context, w *Workspace) error {
	return r.alone(ctx, func() error { return r.forgetWorktree(ctx, w) })
}

func (r *Repo) forgetWorktree(ctx context.Context, w *Workspace) error {
	// First the files: git refuses to remove a worktree that a killed git has left without
	// its .git, but not one that is not there.
	if err := removeTree(w.Dir); err != nil {
		return err
	}
	// Twice --force: it is locked. It may also be unknown, which is just as well.
	_, err := r.run(ctx, call{args: []string{"worktree", "remove", "--force", "--force", "--", w.Dir}})
	return err
}

// alone calls fn while no other flow makes or removes worktrees of the repository: git
// fails when it meets one that another git is just making.
func (r *Repo) alone(ctx context.Context, fn func() error) error {
	dir, err := disk.Open(r.common)
	if err != nil {
		return err
	}
	defer dir.Close() // and with it the lock
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(dir.OS().Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			if err := r.clearHalfMade(); err != nil {
				return err
			}
			return fn()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", r.common, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// removeTree removes a directory, also where directories in it may not be written:
// module caches make theirs so.
func removeTree(dir string) error {
	err := disk.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = disk.Chmod(path, 0o700)
		}
		return nil
	})
	return disk.RemoveAll(dir)
}

// message is the first line of what flow commits for a step.
func message(text, path string) string {
	return strings.TrimSpace(text) + "\n\nFlow-Step: " + path
}
