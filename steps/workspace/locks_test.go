package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A merge that was killed while it held the lock on the index knows it by its own file;
// that of somebody else stays.
func TestMergeAndTheLockOnTheIndex(t *testing.T) {
	for name, own := range map[string]bool{"left by this run": true, "of another git": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			q := l.mergeRequest(l.work("fix", "echo x > x"))
			index := filepath.Join(l.repo, ".git", "index")
			mine, lock := index+".flow-"+q.Run, index+".lock"
			l.write(".git/"+filepath.Base(mine), "half a copy")
			if own {
				l.check(os.Link(mine, lock))
			} else {
				l.write(".git/index.lock", "")
			}
			_, err := l.git.Merge(t.Context(), q)
			if own {
				l.check(err)
				l.leftNothing()
				return
			}
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), lock) {
				t.Errorf("the error is %v", err)
			}
			l.check(os.Remove(lock))
			_, err = l.git.Merge(t.Context(), q)
			l.check(err)
			l.leftNothing()
		})
	}
}

// A second name of the index, which a flow leaves that was killed right after the swap, is
// not written through.
func TestMergeDoesNotWriteThroughASecondNameOfTheIndex(t *testing.T) {
	l := newLab(t)
	q := l.mergeRequest(l.work("fix", "echo x > x"))
	index := filepath.Join(l.repo, ".git", "index")
	l.check(os.Link(index, index+".flow-"+q.Run))
	l.check(os.Link(index, index+".kept"))
	was, err := os.ReadFile(index)
	l.check(err)
	_, err = l.git.Merge(t.Context(), q)
	l.check(err)
	if now, err := os.ReadFile(index + ".kept"); err != nil || string(now) != string(was) {
		t.Errorf("the old index was written over (%v)", err)
	}
}

// A lock that is older than what flow was about to do is not flow's, however long it stays.
func TestOutwaitLeavesOlderLocks(t *testing.T) {
	l := newLab(t)
	l.write(".git/HEAD.lock", "")
	r, err := l.git.Open(t.Context(), l.repo)
	l.check(err)
	l.check(r.outwait(t.Context(), time.Now().Add(time.Hour)))
	if _, err := os.Lstat(filepath.Join(l.repo, ".git", "HEAD.lock")); err != nil {
		t.Error(err)
	}
}
