package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemoveLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   Mode
		work   string // in the workspace
		commit bool
		after  string // in the repository
		state  State
		lost   string // "" when it may be removed
	}{
		"clean":                                {state: Clean},
		"ignored files":                        {work: "echo x > x.log", state: Clean},
		"not committed":                        {work: "echo x > n", state: Changed, lost: "1 changed files that are not committed: n"},
		"staged":                               {work: "echo x > n; git add n", state: Changed, lost: "not committed: n"},
		"committed":                            {work: "echo x > n", commit: true, state: Changed, lost: "commits that no other branch or tag has: flow/r1/fix"},
		"committed by hand":                    {work: "echo x > n; git add n; git commit -qm x", state: Changed, lost: "commits that no other branch"},
		"committed and undone":                 {work: "echo x > n; git add n; git commit -qm x; git rm -q n; git commit -qm y", state: Clean},
		"merged by hand":                       {work: "echo x > n", commit: true, after: "git merge -q flow/r1/fix", state: InGit},
		"kept in a branch":                     {work: "echo x > n", commit: true, after: "git branch mine flow/r1/fix", state: InGit},
		"kept in a tag":                        {work: "echo x > n", commit: true, after: "git tag mine flow/r1/fix", state: InGit},
		"merged, then changed":                 {work: "echo x > n", commit: true, after: "git merge -q flow/r1/fix; echo y > ../state/r1/worktrees/fix/n", state: Changed, lost: "not committed: n"},
		"nested repository":                    {work: "git init -q sub; echo x > sub/x", state: Changed, lost: "sub/"},
		"directory removed":                    {work: "true", after: "rm -r ../state/r1/worktrees/fix", state: Gone},
		"directory removed, branch not merged": {work: "echo x > n", commit: true, after: "rm -r ../state/r1/worktrees/fix", state: Gone, lost: "commits that no other"},
		"all removed":                          {work: "true", after: "git worktree remove -ff ../state/r1/worktrees/fix; git branch -qD flow/r1/fix", state: Gone},
		"git's part removed":                   {work: "true", after: "rm -r .git/worktrees", state: Changed, lost: "is not there to compare with"},
		"repository removed":                   {work: "true", after: "rm -rf ../repo", state: Changed, lost: "is not there to compare with"},
		"a copy":                               {mode: Copy, state: Clean},
		"a copy, changed":                      {mode: Copy, work: "echo x > n", state: Changed, lost: "not committed: n"},
		"a copy, committed":                    {mode: Copy, work: "echo x > n", commit: true, state: Changed, lost: "in this copy only"},
		"a copy, removed":                      {mode: Copy, after: "rm -r ../state/r1/worktrees/fix=copy", state: Gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			q := l.request("fix")
			if c.mode != "" {
				q.Mode = c.mode
			}
			w, err := l.git.Create(t.Context(), q)
			l.check(err)
			l.sh(w.Dir, c.work+"\n")
			if c.commit {
				l.commit(w)
			}
			l.sh(l.repo, c.after+"\n")
			st, err := l.git.Status(t.Context(), w)
			l.check(err)
			if st.State != c.state || (c.lost == "") != (st.Lost == "") || !strings.Contains(st.Lost, c.lost) {
				t.Errorf("%+v, want %s, %q", st, c.state, c.lost)
			}
			_, err = l.git.Remove(t.Context(), w)
			l.check(err)
			left, err := List(l.runDir)
			l.check(err)
			if c.lost != "" {
				if len(left) != 1 {
					t.Error("the record was removed")
				}
				return
			}
			entries, _ := os.ReadDir(filepath.Join(l.runDir, "workspaces"))
			if _, err := os.Stat(w.Dir); err == nil || len(entries) > 0 {
				t.Errorf("left: %s, %v", w.Dir, entries)
			}
			if got := l.sh(l.repo, "git branch --list 'flow/*'; git worktree list | sed 1d"); got != "" {
				t.Errorf("git still has %s", got)
			}
		})
	}
}

func TestRemoveEveryFault(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Worktree, Copy} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			everyFault(t, func(l *lab) {
				q := l.request("fix")
				q.Mode = mode
				_, err := l.git.Create(l.t.Context(), q)
				l.check(err)
			}, func(l *lab, g *Git) error {
				all, err := List(l.runDir)
				l.check(err)
				for _, w := range all {
					if _, err := g.Remove(l.t.Context(), w); err != nil {
						return err
					}
				}
				return nil
			}, func(l *lab) string {
				return l.sh(l.dir, "find state; git -C repo branch; git -C repo worktree list | wc -l")
			})
		})
	}
}
