package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWorktreeBeginsAtWhatIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write("a.txt", "changed\n")       // not staged
	l.write("staged.txt", "s\n")        // staged
	l.sh(l.repo, "git add staged.txt")  //
	l.write("new.txt", "n\n")           // untracked
	l.write("debug.log", "ignored\n")   // ignored
	l.sh(l.repo, "git rm -q dir/b.txt") // deleted
	before := l.sh(l.repo, "git status --porcelain; git stash list; git branch -a")

	w := l.create("fix.0")
	want := ".gitignore 644 \"*.log\\n/.env\\n\"\na.txt 644 \"changed\\n\"\nnew.txt 644 \"n\\n\"\nstaged.txt 644 \"s\\n\"\n"
	if diff := cmp.Diff(want, files(w.Dir)); diff != "" {
		t.Error(diff)
	}
	if got := l.sh(w.Dir, "git status --porcelain; git symbolic-ref HEAD"); got != "refs/heads/flow/r1/fix-0\n" {
		t.Errorf("the worktree: %s", got)
	}
	if !w.Snapshot || l.sh(l.repo, "git rev-parse "+w.Base+"^") != l.sh(l.repo, "git rev-parse HEAD") {
		t.Errorf("base %s is not made of HEAD", w.Base)
	}
	l.sh(l.repo, "git worktree prune --expire=now && test -d .git/worktrees/fix.0")
	l.sh(l.repo, "git branch -q -m main main") // a git command refreshes nothing here
	if after := l.sh(l.repo, "git status --porcelain; git stash list; git branch -a | grep -v flow/"); after != before {
		t.Errorf("the workspace itself changed:\n%s\nwas\n%s", after, before)
	}
}

func TestWorktreeOfACleanWorkspaceBeginsAtHead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.create("fix")
	if head := strings.TrimSpace(l.sh(l.repo, "git rev-parse HEAD")); w.Base != head || w.Snapshot {
		t.Errorf("base %s, snapshot %v, want %s", w.Base, w.Snapshot, head)
	}
	again := l.create("fix")
	if diff := cmp.Diff(w, again, cmp.AllowUnexported(Workspace{})); diff != "" {
		t.Error(diff)
	}
}

func TestWorktreePlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare string
		repo    string
		request func(*Request)
		root    string
	}{
		"a subdirectory":    {repo: "dir", root: "dir"},
		"detached":          {prepare: "git checkout -q --detach"},
		"a named base":      {prepare: "git tag v1", request: func(q *Request) { q.Base = "v1" }},
		"a shallow clone":   {prepare: "git commit -q --allow-empty -m 2; git clone -q --depth 1 file://$PWD ../shallow", repo: "../shallow"},
		"a worktree":        {prepare: "git worktree add -q ../wt", repo: "../wt"},
		"a sparse checkout": {prepare: "git sparse-checkout set dir; mkdir out; echo x > out/untracked"},
		"a submodule inside": {prepare: `git init -q ../sub; git -C ../sub commit -q --allow-empty -m s
			git submodule --quiet add file://$PWD/../sub mod; git commit -q -m sub`},
		"a nested repository without commits": {prepare: "git init -q nested; echo x > nested/x"},
		"a nested repository":                 {prepare: "git init -q nested; git -C nested commit -q --allow-empty -m n"},
		"a rebase under way":                  {prepare: "git checkout -q -b o; git commit -q --allow-empty -m o; git rebase -q -x false HEAD~ || true"},
		"a split index":                       {prepare: "git update-index --split-index; echo x >> a.txt"},
		"a tag of the branch's name":          {prepare: "git tag flow/r1/fix-0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sh(l.repo, c.prepare)
			q := l.request("fix.0")
			q.Repo = filepath.Join(l.repo, c.repo)
			if c.request != nil {
				c.request(&q)
			}
			w, err := l.git.Create(t.Context(), q)
			l.check(err)
			if w.Root != filepath.Join(w.Dir, c.root) {
				t.Errorf("root %s, dir %s", w.Root, w.Dir)
			}
			if got := l.sh(w.Dir, "git status --porcelain"); got != "" {
				t.Errorf("not clean:\n%s", got)
			}
			l.writeIn(w.Dir, "dir/new", "x\n")
			done := l.commit(w)
			if got := l.sh(w.Dir, "git show --format= --name-only "+done.Commit); got != "dir/new\n" {
				t.Errorf("committed:\n%s", got)
			}
		})
	}
}

func TestWorktreeRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare string
		request func(*lab, *Request)
		want    string
	}{
		"no repository":  {"rm -rf .git", nil, "is not in a git repository"},
		"no commits":     {"rm -rf .git; git init -q", nil, "has no commits yet"},
		"bare":           {"git clone -q --bare . ../bare", func(_ *lab, q *Request) { q.Repo += "/../bare" }, "bare repository"},
		"gone":           {"true", func(_ *lab, q *Request) { q.Repo += "/nowhere" }, "no such file"},
		"unknown base":   {"true", func(_ *lab, q *Request) { q.Base = "nope" }, `"nope" is no commit`},
		"base an option": {"true", func(_ *lab, q *Request) { q.Base = "--all" }, `"--all" is no commit`},
		"branch taken":   {"git branch flow/r1/fix-0; git commit -q --allow-empty -m 2", nil, "exists already"},
		"place taken":    {"mkdir -p ../state/r1/worktrees/fix.0", nil, "is there already"},
		"bad run id":     {"true", func(_ *lab, q *Request) { q.Run = "a..b" }, "cannot be the name of a branch"},
		"copy missing":   {"true", func(_ *lab, q *Request) { q.Copy = []string{".env"} }, `nothing in the workspace matches ".env"`},
		"copy outside":   {"true", func(_ *lab, q *Request) { q.Copy = []string{"../x"} }, "outside the workspace"},
		"copy by a link": {"echo s > ../secret; ln -s ../secret .env", func(_ *lab, q *Request) { q.Copy = []string{".env"} }, "leads outside the workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sh(l.repo, c.prepare)
			q := l.request("fix.0")
			if c.request != nil {
				c.request(l, &q)
			}
			_, err := l.git.Create(t.Context(), q)
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an Error with %q", err, c.want)
			}
		})
	}
}

func TestCopyTakesFilesAlong(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(".env", "SECRET=1\n")
	l.write("conf/a.key", "a\n")
	l.write("conf/b.key", "b\n")
	l.write("node_modules/x/y.js", "y\n")
	q := l.request("fix.0")
	q.Base, q.Copy = "HEAD", []string{".env", "conf/*.key", "node_modules"}
	w, err := l.git.Create(t.Context(), q)
	l.check(err)
	for _, name := range []string{".env", "conf/a.key", "conf/b.key", "node_modules/x/y.js"} {
		if _, err := os.Stat(filepath.Join(w.Dir, name)); err != nil {
			t.Error(err)
		}
	}
	l.writeIn(w.Dir, "real.txt", "work\n")
	l.commit(w)
	if got := l.sh(w.Dir, "git show --format= --name-only HEAD"); got != "real.txt\n" {
		t.Errorf("what was only taken along was committed:\n%s", got)
	}
}

func TestCreateEveryFault(t *testing.T) {
	t.Parallel()
	everyFault(t, func(l *lab) {
		l.write("a.txt", "changed\n")
		l.write(".env", "x\n")
	}, func(l *lab, g *Git) error {
		q := l.request("fix.0")
		q.Copy = []string{".env"}
		_, err := g.Create(l.t.Context(), q)
		return err
	}, func(l *lab) string {
		w, err := Load(l.runDir, "fix.0", Worktree)
		l.check(err)
		return w.Base + files(w.Dir) + l.sh(w.Dir, "git status --porcelain -b; git branch -v; ls ../../../../repo/.git/worktrees; cat $(git rev-parse --git-dir)/locked")
	})
}

func TestDirectoryCopy(t *testing.T) {
	t.Parallel()
	l := emptyLab(t)
	l.write("a.txt", "a\n")
	l.write("deep/run.sh", "#!/bin/sh\n")
	l.write("big.log", "kept\n")
	l.write("nested/.git/HEAD", "ref: refs/heads/main\n")
	l.sh(l.repo, "chmod 755 deep/run.sh; ln -s ../outside link; mkfifo pipe; mkdir -m 555 ro; touch -d 2001-01-01 a.txt")
	q := l.request("fix.0")
	q.Mode = Copy
	w, err := l.git.Create(t.Context(), q)
	l.check(err)
	if diff := cmp.Diff(strings.ReplaceAll(files(l.repo), "nested/.git", ""), files(w.Dir)); diff != "" {
		t.Error(diff)
	}
	if got := l.sh(w.Dir, "stat -c %Y a.txt; ls -d ro; test -e pipe || echo no pipe"); got != "978307200\nro\nno pipe\n" && !strings.HasSuffix(got, "ro\nno pipe\n") {
		t.Error(got)
	}
	l.writeIn(w.Dir, "a.txt", "b\n")
	l.sh(w.Dir, "git init -q . && git add -A && git commit -q -m own") // as an agent may
	done := l.commit(w)
	r, err := l.git.OpenWorkspace(t.Context(), w)
	l.check(err)
	c, err := r.Diff(t.Context(), w.Base, done.Commit, filepath.Join(l.dir, "diff"))
	l.check(err)
	text, _, err := c.Text(1 << 20)
	l.check(err)
	if len(c.Files) != 1 || !strings.Contains(text, "diff --git a/a.txt b/a.txt") || !strings.Contains(text, "-a\n+b\n") {
		t.Errorf("%+v\n%s", c.Files, text)
	}
}

func TestCopyEveryFault(t *testing.T) {
	t.Parallel()
	everyFault(t, func(l *lab) { l.write("a.txt", "changed\n") }, func(l *lab, g *Git) error {
		q := l.request("fix.0")
		q.Mode = Copy
		_, err := g.Create(l.t.Context(), q)
		return err
	}, func(l *lab) string {
		w, err := Load(l.runDir, "fix.0", Copy)
		l.check(err)
		return w.Base + files(w.Dir) + l.sh(w.Dir, "git --git-dir="+w.GitDir+" --work-tree=. status --porcelain -b")
	})
}

// A step that is to work in another mode than before begins anew, and nothing is lost.
func TestCreateInAnotherMode(t *testing.T) {
	l := newLab(t)
	w := l.create("fix")
	l.writeIn(w.Dir, "n", "work\n")
	c, err := l.git.Create(t.Context(), Request{RunDir: l.runDir, Run: "r1", Path: "fix", Repo: l.repo, Mode: Copy})
	l.check(err)
	if _, err := os.Stat(filepath.Join(c.Dir, "n")); c.Dir == w.Dir || err == nil {
		t.Errorf("the copy %s is the worktree %s", c.Dir, w.Dir)
	}
	for _, mode := range []Mode{Worktree, Copy} {
		if got, err := Load(l.runDir, "fix", mode); err != nil || got == nil || got.Mode != mode {
			t.Errorf("%s: %+v, %v", mode, got, err)
		}
	}
	if got := l.sh(w.Dir, "cat n"); got != "work\n" {
		t.Error(got)
	}
}

// A git that was killed while it made or removed a worktree leaves any part of it.
func TestPartsOfWorktree(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"all of it":         "true",
		"no .git":           `rm "$1/.git"`,
		"no files":          `rm -rf "$1" && mkdir "$1"`,
		"no directory":      `rm -rf "$1"`,
		"nothing git knows": `rm -rf "$(git rev-parse --git-common-dir)/worktrees/fix.0"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			w := l.create("fix.0")
			r := l.open(l.repo)
			l.sh(l.repo, "set -- '"+w.Dir+"'; "+damage)
			l.check(r.addWorktree(t.Context(), w))
			l.sh(w.Dir, "test -z \"$(git status --porcelain)\" && test -f a.txt")
			l.sh(l.repo, "set -- '"+w.Dir+"'; "+damage)
			l.check(r.dropWorktree(t.Context(), w))
			if left := l.sh(l.repo, "git worktree list --porcelain | grep -c ^worktree"); strings.TrimSpace(left) != "1" {
				t.Errorf("%s worktrees are left", left)
			}
		})
	}
}
