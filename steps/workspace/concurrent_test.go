package workspace

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// The items of a foreach begin and end at the same time, in one repository.
func TestWorkspacesAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write("new.txt", "not committed\n")
	var group errgroup.Group
	const many = 8
	for i := range many {
		group.Go(func() error {
			w, err := l.git.Create(t.Context(), l.request(fmt.Sprintf("fix.%d", i)))
			if err != nil {
				return err
			}
			l.writeIn(w.Dir, fmt.Sprintf("made%d", i), "x\n")
			_, err = l.git.Commit(t.Context(), w, "Work")
			return err
		})
	}
	l.check(group.Wait())
	all, err := List(l.runDir)
	l.check(err)
	done, err := l.git.Merge(t.Context(), l.mergeRequest(all...))
	l.check(err)
	if len(done.Merged) != many {
		t.Errorf("merged %q", done.Merged)
	}
	if got := l.sh(l.repo, "ls made* | wc -l; git status --porcelain"); got != "8\n?? new.txt\n" {
		t.Error(got)
	}
	for _, w := range all {
		group.Go(func() error {
			_, err := l.git.Remove(t.Context(), w)
			return err
		})
	}
	l.check(group.Wait())
	if got := l.sh(l.repo, "git worktree list | sed 1d; git branch --list 'flow/*'"); got != "" {
		t.Error(got)
	}
}
