package workspace

import (
	"strings"
	"testing"
)

// A git that was killed between making commondir and writing it keeps every other git from
// making worktrees. What flow began is cleared away, and nothing else.
func TestHalfMadeWorktree(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.create("fix.0")
	l.sh(l.repo, ": >.git/worktrees/fix.0/commondir; rm -r "+w.Dir+"; ! git worktree list")
	l.create("fix.1")
	l.sh(l.repo, "test ! -e .git/worktrees/fix.0; git worktree list")

	l.sh(l.repo, "mkdir .git/worktrees/foreign; echo /somewhere/else/.git >.git/worktrees/foreign/gitdir; : >.git/worktrees/foreign/commondir")
	if _, err := l.git.Create(t.Context(), l.request("fix.2")); err == nil || !strings.Contains(err.Error(), "worktrees/foreign/commondir") {
		t.Errorf("the error is %v", err)
	}
	l.sh(l.repo, "test -e .git/worktrees/foreign/gitdir")
}
