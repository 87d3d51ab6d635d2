package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// work makes a workspace for a step, runs a script in it and commits it.
func (l *lab) work(path, script string) *Workspace {
	l.t.Helper()
	w := l.create(path)
	l.sh(w.Dir, script)
	l.commit(w)
	return w
}

func (l *lab) mergeRequest(sources ...*Workspace) MergeRequest {
	return MergeRequest{RunDir: l.runDir, Run: "r1", Path: "merge", Repo: l.repo, Sources: sources}
}

// history is what git and the disk say of a workspace.
func (l *lab) history() string {
	l.t.Helper()
	return files(l.repo) + l.sh(l.repo, "git log --format='%H %s' HEAD; git status --porcelain -b; git worktree list --porcelain | grep -c '^worktree'; git fsck --no-dangling")
}

func (l *lab) leftNothing() {
	l.t.Helper()
	if _, err := os.Stat(filepath.Join(l.runDir, "worktrees", "merge=merge")); err == nil {
		l.t.Error("the worktree of the merge is still there")
	}
	if w, err := Load(l.runDir, "merge", Merging); w != nil || err != nil {
		l.t.Errorf("its record is still there: %+v, %v", w, err)
	}
	l.sh(l.repo, "! git worktree list | grep -q merge=merge; test ! -e .git/index.lock; test ! -e .git/index.flow")
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before  string   // in the workspace, before the steps begin
		steps   []string // what each does in its worktree
		between string   // in the workspace, before the merge
		files   string   // what `git diff --name-only` says of the commits made
		status  string   // of the workspace afterwards
		log     string
	}{
		"one": {
			steps: []string{"echo x > n"}, files: "n\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n",
		},
		"two in different places of a file": {
			steps: []string{"sed -i 's/one/1/' a.txt", "sed -i 's/nine/9/; $a ten' a.txt; rm dir/b.txt"}, files: "a.txt\ndir/b.txt\n",
			log: "Merge flow/r1/fix-1\nWork of fix.1\nMerge flow/r1/fix-0\nWork of fix.0\n",
		},
		"nothing": {steps: []string{"true", "echo x > x.log"}},
		"one of two": {
			steps: []string{"true", "echo x > n"}, files: "n\n", log: "Merge flow/r1/fix-1\nWork of fix.1\n",
		},
		"the same change twice": {
			steps: []string{"echo x > n", "echo x > n"}, files: "n\n", log: "Merge flow/r1/fix-1\nWork of fix.1\nMerge flow/r1/fix-0\nWork of fix.0\n",
		},
		"HEAD went on": {
			steps: []string{"echo x > n"}, between: "echo y > m; git add m; git commit -qm other", files: "m\nn\n",
			log: "Merge flow/r1/fix-0\nWork of fix.0\nother\n",
		},
		"detached": {before: "git checkout -q --detach", steps: []string{"echo x > n"}, files: "n\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n"},
		"untracked files before": {
			before: "echo u > untracked", steps: []string{"echo x > n"}, files: "n\n", status: "?? untracked\n", log: "Merge flow/r1/fix-0\n",
		},
		"uncommitted changes before": {
			before: "sed -i 's/five/5/' a.txt; echo s > staged; git add staged; git rm -q dir/b.txt", steps: []string{"sed -i 's/one/1/' a.txt", "echo x > n"},
			files: "a.txt\nn\n", status: " M a.txt\nD  dir/b.txt\nA  staged\n", log: "Merge flow/r1/fix-1\nMerge flow/r1/fix-0\n",
		},
		"uncommitted changes since": {
			steps: []string{"sed -i 's/one/1/' a.txt"}, between: "sed -i 's/nine/9/' a.txt; echo u > u", files: "a.txt\n",
			status: " M a.txt\n?? u\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n",
		},
		"committed meanwhile": {
			before: "sed -i 's/five/5/' a.txt", steps: []string{"sed -i 's/5/fünf/' a.txt"}, between: "git commit -qam mine", files: "a.txt\n",
			log: "Merge flow/r1/fix-0\nmine\n",
		},
		"the same file as untracked": {
			steps: []string{"echo x > n"}, between: "echo x > n", files: "n\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n",
		},
		"file to directory and back": {
			steps: []string{"rm a.txt; mkdir a.txt; echo x > a.txt/x; rm -r dir; echo d > dir"}, files: "a.txt\na.txt/x\ndir\ndir/b.txt\n",
			log: "Merge flow/r1/fix-0\nWork of fix.0\n",
		},
		"directory to link": {
			steps: []string{"mkdir e; mv dir/b.txt e; rmdir dir; ln -s e dir"}, files: "dir\ndir/b.txt\ne/b.txt\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n",
		},
		"modes, links, odd names": {
			steps: []string{`chmod +x a.txt; ln -s a.txt l; echo x > "$(printf 'a\nb')"`}, files: "\"a\\nb\"\na.txt\nl\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n",
		},
		"a branch with merges of its own": {
			steps: []string{"git checkout -q -b side; echo s > s; git add s; git commit -qm side; git checkout -q flow/r1/fix-0; echo n > n; git add n; git commit -qm own; git merge -q --no-edit side"},
			files: "n\ns\n", log: "Merge flow/r1/fix-0\nMerge branch 'side' into flow/r1/fix-0\nside\nown\n",
		},
		"a rewritten branch": {
			steps: []string{"git commit -q --amend --allow-empty -m other; echo x > n"}, files: "n\n", log: "Merge flow/r1/fix-0\n",
		},
		"a subdirectory that becomes empty": {steps: []string{"rm -r dir"}, files: "dir/b.txt\n", log: "Merge flow/r1/fix-0\nWork of fix.0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sh(l.repo, c.before+"\n")
			var sources []*Workspace
			for i, script := range c.steps {
				sources = append(sources, l.work("fix."+string(rune('0'+i)), script))
			}
			base := strings.TrimSpace(l.sh(l.repo, "git rev-parse HEAD"))
			l.sh(l.repo, c.between+"\n")
			branch := l.sh(l.repo, "git symbolic-ref -q HEAD || true")
			done, err := l.git.Merge(t.Context(), l.mergeRequest(sources...))
			l.check(err)
			if head := strings.TrimSpace(l.sh(l.repo, "git rev-parse HEAD")); head != done.Commit || l.sh(l.repo, "git symbolic-ref -q HEAD || true") != branch {
				t.Errorf("HEAD is %s, merged %s", head, done.Commit)
			}
			for _, check := range []struct{ what, script, want string }{
				{"changed", "git diff --no-renames --name-only " + base + " HEAD", c.files},
				{"status", "git status --porcelain", c.status},
				{"log", "git log --topo-order --format=%s " + base + "..", c.log},
			} {
				if diff := cmp.Diff(check.want, l.sh(l.repo, check.script)); diff != "" {
					t.Errorf("%s: %s", check.what, diff)
				}
			}
			l.leftNothing()
			before := l.history()
			again, err := l.git.Merge(t.Context(), l.mergeRequest(sources...))
			l.check(err)
			if diff := cmp.Diff(done, again) + cmp.Diff(before, l.history()); diff != "" {
				t.Errorf("asked again: %s", diff)
			}
			for _, s := range sources {
				if st, err := l.git.Remove(t.Context(), s); err != nil || st.Lost != "" {
					t.Errorf("%s cannot be removed after the merge: %+v, %v", s.Path, st, err)
				}
			}
		})
	}
}

func TestMergeRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before  string
		step    string
		between string
		want    string
	}{
		"uncommitted changes clash":       {"", "sed -i 's/one/1/' a.txt", "sed -i 's/one/eins/' a.txt", "not committed clash with the merged ones, in a.txt"},
		"builds on what is not committed": {"echo x > n", "echo y > n", "", "step fix builds on changes of the workspace that are not committed, in n"},
		"an ignored file in the way":      {"", "echo s > .env; git add -f .env; git commit -qm env", "echo mine > .env", "the merge brings .env, but"},
		"a repository in the way":         {"", "echo x > n", "git init -q n", "the merge brings n, but"},
		"an ignored directory in the way": {"", "echo x > build", "mkdir build; echo x > build/x.log", "the merge brings build, but"},
		"a merge under way":               {"git checkout -q -b o; echo o > dir/b.txt; git commit -qam o; git checkout -q main; echo m > dir/b.txt; git commit -qam m", "echo x > n", "git merge -q o > /dev/null || true", "a merge is under way"},
		"the branch removed":              {"", "echo x > n; git checkout -q --detach", "git worktree remove -ff ../state/r1/worktrees/fix; git branch -qD flow/r1/fix", "the branch flow/r1/fix of step fix is gone"},
		"a conflict":                      {"", "sed -i 's/one/1/' a.txt", "sed -i 's/one/eins/' a.txt; git commit -qam mine", "merging flow/r1/fix (step fix) conflicts in a.txt; the workspace is unchanged"},
		"changed and removed":             {"", "sed -i 's/one/1/' a.txt", "git rm -q a.txt; git commit -qm mine", "conflicts in a.txt"},
		"a locked index":                  {"", "echo x > n", "touch .git/index.lock", "git's index is locked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sh(l.repo, c.before+"\n")
			w := l.work("fix", c.step)
			l.sh(l.repo, c.between+"\n")
			before := l.history()
			_, err := l.git.Merge(t.Context(), l.mergeRequest(w))
			_, conflict := errors.AsType[*ConflictError](err)
			_, refused := errors.AsType[*Error](err)
			if conflict == refused || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if name == "a locked index" {
				l.sh(l.repo, "rm .git/index.lock")
				_, err := l.git.Merge(t.Context(), l.mergeRequest(w))
				l.check(err)
				l.leftNothing()
				return
			}
			if diff := cmp.Diff(before, l.history()); diff != "" {
				t.Errorf("the workspace changed: %s", diff)
			}
			l.leftNothing()
		})
	}
}

func TestMergeResolvesConflicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   string // part of the error
	}{
		"edited":              {"printf 'both\\n' > a.txt", ""},
		"staged":              {"printf 'both\\n' > a.txt; git add a.txt", ""},
		"committed":           {"printf 'both\\n' > a.txt; git commit -qam done", ""},
		"removed":             {"git rm -q a.txt", ""},
		"not at all":          {"true", "a.txt still has conflict markers"},
		"staged with markers": {"git add a.txt", "still has conflict markers"},
		"given up":            {"git merge --abort", "nothing of the branch is left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			one := l.work("fix.0", "sed -i 's/one/1/' a.txt")
			two := l.work("fix.1", "sed -i 's/one/eins/' a.txt; echo n > n")
			before := l.history()
			q := l.mergeRequest(one, two)
			var seen []Conflict
			q.Resolve = func(_ context.Context, dir string, found Conflict) error {
				seen = append(seen, found)
				l.sh(dir, "grep -q '^|||||||' a.txt; "+c.script)
				return nil
			}
			done, err := l.git.Merge(t.Context(), q)
			if diff := cmp.Diff([]Conflict{{Branch: "flow/r1/fix-1", Step: "fix.1", Files: []string{"a.txt"}}}, seen); diff != "" {
				t.Error(diff)
			}
			l.leftNothing()
			if c.want != "" {
				if _, ok := errors.AsType[*ConflictError](err); !ok || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if diff := cmp.Diff(before, l.history()); diff != "" {
					t.Errorf("the workspace changed: %s", diff)
				}
				return
			}
			l.check(err)
			want := &Merged{Commit: done.Commit, Merged: []string{"flow/r1/fix-0", "flow/r1/fix-1"}, Conflicts: []string{"a.txt"}, Resolved: true}
			if diff := cmp.Diff(want, done); diff != "" {
				t.Error(diff)
			}
			if got := l.sh(l.repo, "cat n; git status --porcelain; git log --merges --format=%s"); got != "n\nMerge flow/r1/fix-1\nMerge flow/r1/fix-0\n" {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestMergeThatNobodyResolves(t *testing.T) {
	l := newLab(t)
	one := l.work("fix.0", "sed -i 's/one/1/' a.txt")
	two := l.work("fix.1", "sed -i 's/one/eins/' a.txt")
	before, gaveUp := l.history(), errors.New("gave up")
	q := l.mergeRequest(one, two)
	q.Resolve = func(context.Context, string, Conflict) error { return gaveUp }
	if _, err := l.git.Merge(t.Context(), q); !errors.Is(err, gaveUp) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, l.history()); diff != "" {
		t.Errorf("the workspace changed: %s", diff)
	}
	l.leftNothing()
}

// A conflict is resolved once, whatever interrupts the merge later.
func TestMergeKeepsWhatWasResolved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one := l.work("fix.0", "sed -i 's/one/1/' a.txt")
	two := l.work("fix.1", "sed -i 's/one/eins/' a.txt")
	q := l.mergeRequest(one, two)
	calls := 0
	q.Resolve = func(_ context.Context, dir string, _ Conflict) error {
		calls++
		l.writeIn(dir, "a.txt", "both\n")
		return nil
	}
	for at := 1; ; at++ {
		runner := &faultyRunner{at: at}
		_, err := l.with(runner).Merge(t.Context(), q)
		if err == nil {
			break
		}
		if calls == 2 {
			q.Resolve = func(context.Context, string, Conflict) error { return errors.New("asked again") }
		}
		if calls == 1 && runner.calls < at {
			t.Fatalf("%v", err)
		}
		p := &merge{q: q}
		l.check(p.load())
		if len(p.Parts) == 2 {
			q.Resolve = func(context.Context, string, Conflict) error { return errors.New("asked again") }
		}
	}
	if got := l.sh(l.repo, "cat a.txt"); got != "both\n" {
		t.Error(got)
	}
}

// A merge that was interrupted at its end is known for one that is complete, or completed,
// also when another one has gone on from there meanwhile.
func TestMergeAfterAnotherOne(t *testing.T) {
	t.Parallel()
	for _, when := range []moment{before, after} {
		l := newLab(t)
		q := l.mergeRequest(l.work("fix.0", "sed -i 's/one/1/' a.txt"), l.work("fix.1", "sed -i 's/one/eins/' a.txt"))
		q.Resolve = func(_ context.Context, dir string, _ Conflict) error {
			l.writeIn(dir, "a.txt", "both\n")
			return nil
		}
		other := q
		other.Path, other.Sources = "other", []*Workspace{l.work("fix.2", "echo x > n")}
		if _, err := l.with(&dyingAtHead{when: when}).Merge(t.Context(), q); !errors.Is(err, errDied) {
			t.Fatalf("the error is %v", err)
		}
		_, err := l.git.Merge(t.Context(), other)
		l.check(err)
		got, err := l.git.Merge(t.Context(), q)
		l.check(err)
		want := &Merged{Commit: got.Commit, Merged: []string{"flow/r1/fix-0", "flow/r1/fix-1"}, Conflicts: []string{"a.txt"}, Resolved: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("moment %d: %s", when, diff)
		}
		if got := l.sh(l.repo, "cat a.txt n; git status --porcelain"); got != "both\nx\n" {
			t.Errorf("moment %d: the workspace has %q", when, got)
		}
		l.leftNothing()
	}
}

// dyingAtHead fails when HEAD of the workspace is about to move, or has, and ever after.
type dyingAtHead struct {
	when moment
	dead bool
}

func (d *dyingAtHead) Run(ctx context.Context, c Cmd) (out Out, err error) {
	at := slices.Contains(c.Args, "flow: merge")
	if !d.dead && (!at || d.when == after) {
		out, err = execRunner{}.Run(ctx, c)
	}
	if d.dead = d.dead || at; d.dead {
		return Out{}, errors.Join(err, errDied)
	}
	return out, err
}

// A merge that is stopped when a conflict has just been resolved does not have it resolved
// again.
func TestMergeStoppedKeepsWhatWasResolved(t *testing.T) {
	l := newLab(t)
	q := l.mergeRequest(l.work("fix.0", "sed -i 's/one/1/' a.txt"), l.work("fix.1", "sed -i 's/one/eins/' a.txt"))
	ctx, stop := context.WithCancel(t.Context())
	q.Resolve = func(_ context.Context, dir string, _ Conflict) error {
		l.writeIn(dir, "a.txt", "both\n")
		stop()
		return nil
	}
	if _, err := l.git.Merge(ctx, q); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	q.Resolve = func(context.Context, string, Conflict) error { return errors.New("asked again") }
	_, err := l.git.Merge(t.Context(), q)
	l.check(err)
	if got := l.sh(l.repo, "cat a.txt"); got != "both\n" {
		t.Error(got)
	}
	l.leftNothing()
}

func TestMergeEveryFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, second, between string }{
		"clean":   {},
		"changed": {"sed -i 's/five/5/' a.txt; echo s > staged; git add staged; rm dir/b.txt", "sed -i 's/nine/9/' a.txt", "echo u > u"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyFault(t, func(l *lab) {
				l.sh(l.repo, c.before+"\n")
				l.work("fix.0", "sed -i 's/one/1/' a.txt; mkdir d; echo x > d/x")
				l.work("fix.1", c.second+"\n")
				l.sh(l.repo, c.between+"\n")
			}, func(l *lab, g *Git) error {
				all, err := List(l.runDir)
				l.check(err)
				all = all[:2] // fix.0, fix.1; behind them may be the merge's own
				_, err = g.Merge(l.t.Context(), l.mergeRequest(all...))
				return err
			}, func(l *lab) string {
				l.leftNothing()
				return l.history()
			})
		})
	}
}
