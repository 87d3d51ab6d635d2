package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// State is how an isolated workspace stands.
type State string

// The states.
const (
	Clean   State = "clean"   // nothing in it differs from what it began at
	Changed State = "changed" // it has work that is nowhere else
	InGit   State = "merged"  // all its work is in another branch or tag
	Gone    State = "gone"    // its directory is not there
)

// Status is how an isolated workspace stands, and why.
type Status struct {
	State State
	// Lost says what would be lost if it were removed, "" if nothing.
	Lost string
	tip  string // of its branch, "" if it has none
}

// Status looks at a workspace without changing anything.
func (g *Git) Status(ctx context.Context, w *Workspace) (*Status, error) {
	if ok, err := isDirectory(w.Repo); err != nil {
		return nil, err
	} else if !ok && w.Mode != Copy {
		return g.orphaned(w)
	}
	home, err := g.home(ctx, w)
	if err != nil {
		return nil, err
	}
	s := &Status{State: Clean}
	if s.tip, err = home.tip(ctx, w); err != nil {
		return nil, err
	}
	if _, err := disk.Stat(w.Dir); errors.Is(err, fs.ErrNotExist) {
		s.State = Gone
	} else if w.Ready {
		if s.Lost, err = g.loose(ctx, w); err != nil {
			return nil, err
		}
	}
	if s.Lost != "" {
		s.State = Changed
		return s, nil
	}
	return s, home.judge(ctx, w, s)
}

// orphaned is the status of a worktree whose repository is gone: what it has cannot be
// told from what it began at.
func (g *Git) orphaned(w *Workspace) (*Status, error) {
	if _, err := disk.Stat(w.Dir); errors.Is(err, fs.ErrNotExist) {
		return &Status{State: Gone}, nil
	}
	return &Status{State: Changed, Lost: "its repository " + w.Repo + " is not there to compare with"}, nil
}

// home opens the repository that has the branch of a workspace.
func (g *Git) home(ctx context.Context, w *Workspace) (*Repo, error) {
	if w.Mode != Copy {
		return g.Open(ctx, w.Repo)
	}
	if err := g.checkVersion(ctx); err != nil {
		return nil, err
	}
	return &Repo{git: g, top: filepath.Dir(w.recordFile()), gitDir: w.GitDir, common: w.GitDir, env: []string{"GIT_DIR=" + w.GitDir}}, nil
}

// tip is the last commit of a workspace, "" if it has none any more.
func (r *Repo) tip(ctx context.Context, w *Workspace) (string, error) {
	switch {
	case w.Branch != "" && w.Mode == Copy && w.GitDir == "":
		return "", nil // not made to its end
	case w.Branch != "":
		return r.resolve(ctx, branchRef(w.Branch))
	case w.GitDir == "":
		return "", nil
	}
	head, err := disk.ReadFile(filepath.Join(w.GitDir, "HEAD")) // detached, as Merge leaves it
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it is gone with the worktree
	}
	if err != nil {
		return "", err
	}
	return r.resolve(ctx, strings.TrimSpace(string(head)))
}

// loose says what of a workspace's files is in no commit, "" if nothing.
func (g *Git) loose(ctx context.Context, w *Workspace) (string, error) {
	if ok, err := isDirectory(w.GitDir); err != nil {
		return "", err
	} else if !ok {
		return "its git directory " + w.GitDir + " is not there to compare with", nil
	}
	r, err := g.OpenWorkspace(ctx, w)
	if err != nil {
		return "", err
	}
	out, err := r.do(ctx, call{args: []string{"status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none"}})
	if err != nil {
		return "", err
	}
	var changed []string
	for line := range bytes.SplitSeq(out, []byte{0}) {
		if len(line) <= 3 || line[0] == '?' && r.left(string(line[3:])) {
			continue
		}
		changed = append(changed, string(line[3:]))
	}
	if len(changed) > 0 {
		return fmt.Sprintf("%d changed files that are not committed: %s", len(changed), listed(changed)), nil
	}
	if entries, _ := disk.ReadDir(filepath.Join(w.GitDir, "modules")); len(entries) > 0 {
		return "submodules that were checked out in it", nil
	}
	return "", nil
}

// judge says whether the commits of a workspace are nowhere else.
func (r *Repo) judge(ctx context.Context, w *Workspace, s *Status) error {
	if s.tip == "" || s.tip == w.Base {
		return nil
	}
	if in, err := r.elsewhere(ctx, w, s.tip); err != nil {
		return err
	} else if in {
		s.merged()
		return nil
	}
	if w.MergedTip == s.tip {
		if in, err := r.elsewhere(ctx, w, w.MergedAs); err != nil {
			return err
		} else if in {
			s.merged()
			return nil
		}
	}
	began, err := r.treeOf(ctx, w.Base)
	if err != nil {
		return err
	}
	now, err := r.treeOf(ctx, s.tip)
	if err != nil || began == now {
		return err
	}
	switch w.Mode {
	case Copy:
		s.Lost = "changes that are in this copy only"
	case Merging:
		s.Lost = "a merge that was not brought to its end"
	default:
		s.Lost = "commits that no other branch or tag has: " + w.Branch
	}
	if s.State != Gone {
		s.State = Changed
	}
	return nil
}

func (s *Status) merged() {
	if s.State != Gone {
		s.State = InGit
	}
}

// elsewhere reports whether a commit is reachable from another branch, remote branch or
// tag than the workspace's, or from the HEAD of its repository.
func (r *Repo) elsewhere(ctx context.Context, w *Workspace, commit string) (bool, error) {
	if w.Mode == Copy {
		return false, nil
	}
	known, err := r.resolve(ctx, commit)
	if err != nil || known == "" {
		return false, err
	}
	out, err := r.do(ctx, call{args: []string{"for-each-ref", "--contains", commit, "--format=%(refname)", "refs/heads", "refs/remotes", "refs/tags"}})
	if err != nil {
		return false, err
	}
	for ref := range strings.Lines(string(out)) {
		if strings.TrimSpace(ref) != branchRef(w.Branch) {
			return true, nil
		}
	}
	head, err := r.resolve(ctx, "HEAD") // it may be detached
	if err != nil || head == "" {
		return false, err
	}
	return r.ancestor(ctx, commit, head)
}
