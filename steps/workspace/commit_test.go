package workspace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		note   string // part of the only note, "" for none
		log    string // messages from the tip back to the base
	}{
		"nothing":                         {"true", "", ""},
		"only ignored":                    {"echo x > x.log", "", ""},
		"edited":                          {"echo x >> a.txt; echo n > n; rm dir/b.txt", "", "Work of fix\n"},
		"staged":                          {"echo x > n; git add n", "", "Work of fix\n"},
		"committed":                       {"echo x > n; git add n; git commit -qm own", "", "own\n"},
		"committed and more":              {"echo x > n; git add n; git commit -qm own; echo y >> n", "", "Work of fix\nown\n"},
		"another branch":                  {"git checkout -q -b mine; echo x > n; git add n; git commit -qm own", "was on the branch mine", "own\n"},
		"another branch, more":            {"git checkout -q -b mine; echo x > n; git add n; git commit -qm own; echo y > m", "was on the branch mine", "Work of fix\nown\n"},
		"detached":                        {"git checkout -q --detach; echo x > n; git add n; git commit -qm own", "was on no branch", "own\n"},
		"diverged":                        {"echo 1 > n1; git add .; git commit -qm one; git checkout -q -b mine HEAD~; echo 2 > n2; git add .; git commit -qm two", "was on the branch mine", "Work of fix\ntwo\none\n"},
		"an orphan":                       {"git checkout -q --orphan mine; echo x > n", "was on the branch mine", "Work of fix\n"},
		"rewritten":                       {"git commit -q --amend --allow-empty -m other; echo x > n", "was rewritten", "Work of fix\nother\n"},
		"branch removed":                  {"git checkout -q --detach; git branch -q -D flow/r1/fix; echo x > n", "is made again", "Work of fix\n"},
		"a merge under way":               {"echo x > dir/b.txt; git commit -qam x; git checkout -q -b mine HEAD~; echo y > dir/b.txt; git commit -qam y; git checkout -q flow/r1/fix; git merge -q mine > /dev/null || true", "a merge was under way", "Work of fix\nx\n"},
		"a stale lock":                    {"echo x > n; touch $(git rev-parse --git-dir)/index.lock", "", "Work of fix\n"},
		"the link to the repository lost": {"rm .git; echo x > n", "", "Work of fix\n"},
		"a repository of its own":         {"rm .git; git init -q; git add .; git commit -qm mine; echo x > n", "", "Work of fix\n"},
		"a hook":                          {"mkdir ../../../../repo/.git/hooks; echo 'exit 1' > ../../../../repo/.git/hooks/post-commit; chmod +x ../../../../repo/.git/hooks/post-commit; echo x > n", "", "Work of fix\n"},
		"a nested repository":             {"git init -q n; git -C n commit -q --allow-empty -m n; echo x > m", "", "Work of fix\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			w := l.create("fix")
			l.sh(w.Dir, c.script)
			before := files(w.Dir)
			r, err := l.git.OpenWorkspace(t.Context(), w)
			l.check(err)
			tree, err := r.Snapshot(t.Context())
			l.check(err)

			done := l.commit(w)
			if got := l.sh(l.repo, "git log --topo-order --format=%s "+w.Base+".."+w.Branch); got != c.log {
				t.Errorf("log:\n%s\nwant\n%s", got, c.log)
			}
			if got := strings.Join(done.Notes, "; "); (c.note == "") != (got == "") || !strings.Contains(got, c.note) {
				t.Errorf("notes %q, want %q", got, c.note)
			}
			if got := strings.TrimSpace(l.sh(l.repo, "git rev-parse "+w.Branch+"^{tree}")); got != tree {
				t.Errorf("the branch has the tree %s, the workspace %s", got, tree)
			}
			if diff := cmp.Diff(before, files(w.Dir)); diff != "" {
				t.Errorf("the files changed: %s", diff)
			}
			env := "export GIT_DIR=" + w.GitDir + " GIT_WORK_TREE=" + w.Dir + "; "
			if got := l.sh(w.Dir, env+"git status --porcelain | grep -v ' n/$' || true; git symbolic-ref HEAD"); got != "refs/heads/flow/r1/fix\n" {
				t.Errorf("left behind:\n%s", got)
			}
			if again := l.commit(w); again.Commit != done.Commit {
				t.Errorf("again: %s, was %s", again.Commit, done.Commit)
			}
		})
	}
}

func TestCommitOfAWorkspaceThatIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.create("fix")
	l.check(os.RemoveAll(w.Dir))
	_, err := l.git.Commit(t.Context(), w, "x")
	if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), "the workspace of fix is gone") {
		t.Error(err)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.check(os.Remove(l.dir + "/.gitconfig"))
	w := l.create("fix")
	l.writeIn(w.Dir, "n", "x\n")
	c := l.commit(w)
	if got := l.sh(l.repo, "git show -s --format='%an <%ae> %cn <%ce>' "+c.Commit); got != "flow <flow@localhost> flow <flow@localhost>\n" {
		t.Error(got)
	}
	l.sh(l.repo, "git config user.name Me; git config user.email me@example.org")
	l.writeIn(w.Dir, "n", "y\n")
	c = l.commit(w)
	if got := l.sh(l.repo, "git show -s --format='%an <%ae>' "+c.Commit); got != "Me <me@example.org>\n" {
		t.Error(got)
	}
}

func TestCommitEveryFault(t *testing.T) {
	t.Parallel()
	everyFault(t, func(l *lab) {
		w := l.create("fix")
		l.sh(w.Dir, "git checkout -q -b mine; echo x > n; git add n; git commit -qm own; echo y >> a.txt; echo z > z")
	}, func(l *lab, g *Git) error {
		w, err := Load(l.runDir, "fix", Worktree)
		l.check(err)
		_, err = g.Commit(l.t.Context(), w, "Work")
		return err
	}, func(l *lab) string {
		w, err := Load(l.runDir, "fix", Worktree)
		l.check(err)
		return files(w.Dir) + l.sh(w.Dir, "git status --porcelain -b; git log --format='%H %s' --all")
	})
}
