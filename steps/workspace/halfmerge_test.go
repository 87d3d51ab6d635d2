package workspace

import (
	"errors"
	"testing"
)

// A merge that died when its files were in the workspace is there, and is gone on with by
// itself: all of it is then in HEAD, and nothing but the tidying up is left to the merge.
func TestHalfMerge(t *testing.T) {
	t.Parallel()
	for _, when := range []moment{before, after} {
		l := newLab(t)
		q := l.mergeRequest(l.work("fix", "sed -i 's/one/1/' a.txt; echo x > n"))
		if _, err := l.with(&dyingAtHead{when: when}).Merge(t.Context(), q); !errors.Is(err, errDied) {
			t.Fatalf("the error is %v", err)
		}
		half, err := HalfMerges(l.runDir)
		l.check(err)
		if len(half) != 1 || half[0].Path != q.Path || half[0].Repo != l.repo {
			t.Fatalf("moment %d: %+v", when, half)
		}
		for range 2 { // the second time nothing is left to do
			l.check(l.git.GoOn(t.Context(), half[0]))
			if got := l.sh(l.repo, "git status --porcelain; git show HEAD:n HEAD:a.txt | head -2"); got != "x\n1\n" {
				t.Errorf("moment %d: the workspace has %q", when, got)
			}
		}
		_, err = l.git.Merge(t.Context(), q)
		l.check(err)
		l.leftNothing()
		if half, err := HalfMerges(l.runDir); err != nil || len(half) > 0 {
			t.Errorf("moment %d: there are still %v, %v", when, half, err)
		}
	}
}

// Somebody who has put the workspace elsewhere meanwhile finds it as he left it.
func TestHalfMergeOutOfDate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	q := l.mergeRequest(l.work("fix", "sed -i 's/one/1/' a.txt"))
	if _, err := l.with(&dyingAtHead{when: before}).Merge(t.Context(), q); !errors.Is(err, errDied) {
		t.Fatalf("the error is %v", err)
	}
	half, err := HalfMerges(l.runDir)
	l.check(err)
	l.sh(l.repo, "git reset -q --hard; echo mine > own; git add own; git commit -qm own")
	want := l.history()
	l.check(l.git.GoOn(t.Context(), half[0]))
	if got := l.history(); got != want {
		t.Errorf("the workspace was\n%s\nand is\n%s", want, got)
	}
}
