package workspace

import (
	"context"
	"path/filepath"

	"flow/state/disk"
)

// Remove removes a workspace with its branch and its record, unless something would be
// lost by that: then it does nothing, and the status says what. Files that are ignored
// do not count.
func (g *Git) Remove(ctx context.Context, w *Workspace) (*Status, error) {
	s, err := g.Status(ctx, w)
	if err != nil || s.Lost != "" {
		return s, err
	}
	if w.Mode != Copy {
		if err := g.removeWorktree(ctx, w, s); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{w.Dir, w.privateGit()} {
		if dir == "" {
			continue
		}
		if err := removeTree(dir); err != nil {
			return nil, err
		}
	}
	return s, disk.RemoveAll(w.recordFile()) // last: with it, an interrupted removal is gone on with
}

func (g *Git) removeWorktree(ctx context.Context, w *Workspace, s *Status) error {
	if ok, err := isDirectory(w.Repo); err != nil || !ok {
		return err // without one, the branch is gone with the repository
	}
	repo, err := g.Open(ctx, w.Repo)
	if err != nil {
		return err
	}
	if err := repo.dropWorktree(ctx, w); err != nil || w.Branch == "" || s.tip == "" {
		return err
	}
	if err := removeLock(filepath.Join(repo.common, branchRef(w.Branch))); err != nil {
		return err
	}
	_, err = repo.do(ctx, call{args: []string{"update-ref", "-d", branchRef(w.Branch), s.tip}})
	return err
}
