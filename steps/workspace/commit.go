package workspace

import (
	"context"
	"path/filepath"
	"strings"

	"flow/state/disk"
	"flow/state/failpoint"
)

// Committed is a workspace after Commit.
type Committed struct {
	Commit string // the last commit of the branch; Workspace.Base if there was nothing to commit
	// Notes are what a person should know: work was found on another branch, say.
	Notes []string
}

// Commit brings everything that is in the workspace onto its branch: what its agent
// committed, staged or merely wrote. Wherever the agent left HEAD, the files as they
// are decide, and all commits that it made stay reachable. Without a change there is
// no commit.
func (g *Git) Commit(ctx context.Context, w *Workspace, text string) (*Committed, error) {
	r, err := g.OpenWorkspace(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := r.unlock(w.Branch); err != nil {
		return nil, err
	}
	c := &Committed{}
	err = r.withIndex(func(index string) error {
		tree, err := r.writeTree(ctx, index)
		if err != nil {
			return err
		}
		tip, err := r.resolve(ctx, branchRef(w.Branch))
		if err != nil {
			return err
		}
		parents, err := r.parents(ctx, w, tip, c)
		if err != nil {
			return err
		}
		c.Commit = parents[0]
		if committed, err := r.treeOf(ctx, parents[0]); err != nil {
			return err
		} else if len(parents) > 1 || committed != tree {
			if c.Commit, err = r.commitTree(ctx, tree, message(text, w.Path), parents...); err != nil {
				return err
			}
		}
		failpoint.Reach("commit-made")
		c.Notes = append(c.Notes, r.abandon()...)
		return r.moveTo(ctx, w.Branch, c.Commit, tip, index)
	})
	return c, err
}

// parents are the commits that the workspace's next one stands on. tip is that of its
// branch, "" if an agent removed it.
func (r *Repo) parents(ctx context.Context, w *Workspace, tip string, c *Committed) ([]string, error) {
	if tip == "" {
		tip = w.Base
		c.Notes = append(c.Notes, "the branch "+w.Branch+" was removed and is made again")
	}
	if kept, err := r.ancestor(ctx, w.Base, tip); err != nil {
		return nil, err
	} else if !kept {
		c.Notes = append(c.Notes, "the history of "+w.Branch+" was rewritten: it no longer begins at "+w.Base)
	}
	head, err := r.resolve(ctx, "HEAD")
	if err != nil {
		return nil, err
	}
	if at, err := r.run(ctx, call{args: []string{"symbolic-ref", "--quiet", "HEAD"}}); err != nil {
		return nil, err
	} else if ref := strings.TrimSpace(string(at.Stdout)); ref != branchRef(w.Branch) {
		where := "the branch " + strings.TrimPrefix(ref, "refs/heads/")
		if ref == "" {
			where = "no branch"
		}
		c.Notes = append(c.Notes, "the workspace was on "+where+"; its files are committed to "+w.Branch)
	}
	if head == "" {
		return []string{tip}, nil
	}
	behind, err := r.ancestor(ctx, head, tip)
	if err != nil || behind {
		return []string{tip}, err
	}
	ahead, err := r.ancestor(ctx, tip, head)
	if err != nil || ahead {
		return []string{head}, err
	}
	return []string{tip, head}, nil
}

// abandon forgets what git was in the middle of: a merge, a rebase. Its files are
// committed as they are.
func (r *Repo) abandon() (notes []string) {
	for _, op := range []struct{ name, what string }{
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
		{"sequencer", ""},
		{"rebase-merge", "rebase"},
		{"rebase-apply", "rebase"},
	} {
		name := filepath.Join(r.gitDir, op.name)
		if _, err := disk.Lstat(name); err != nil {
			continue
		}
		_ = disk.RemoveAll(name) // it only keeps the agent's next git command from starting
		if op.what != "" {
			notes = append(notes, "a "+op.what+" was under way; its files are committed as they were")
		}
	}
	return notes
}

// moveTo makes branch, which is at old ("": nowhere), and HEAD stand at commit, whose
// files are there and in index already. Nobody else works in the workspace.
func (r *Repo) moveTo(ctx context.Context, branch, commit, old, index string) error {
	if commit != old {
		if _, err := r.do(ctx, call{args: []string{"update-ref", "-m", "flow: commit", branchRef(branch), commit, old}}); err != nil {
			return err
		}
	}
	failpoint.Reach("branch-moved")
	if _, err := r.do(ctx, call{args: []string{"symbolic-ref", "-m", "flow: commit", "HEAD", branchRef(branch)}}); err != nil {
		return err
	}
	return r.replaceIndex(index)
}

// replaceIndex puts index in place of the workspace's own.
func (r *Repo) replaceIndex(index string) error {
	own := filepath.Join(r.gitDir, "index")
	if err := keepIndex(index, own+".flow"); err != nil {
		return err
	}
	return disk.Rename(own+".flow", own)
}
