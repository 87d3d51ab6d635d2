package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// execRunner runs git as a child of the test. Its commits have a fixed time, so that
// equal work has equal ids.
type execRunner struct{}

func (execRunner) Run(ctx context.Context, c Cmd) (Out, error) {
	cmd := exec.CommandContext(ctx, "git", c.Args...)
	cmd.Dir, cmd.Env = c.Dir, append(c.Env, "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	cmd.Stdin = bytes.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.Stdout != "" {
		f, err := os.OpenFile(c.Stdout, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return Out{}, err
		}
		defer f.Close()
		cmd.Stdout = f
	}
	err := cmd.Run()
	if err != nil && ctx.Err() != nil {
		return Out{}, context.Cause(ctx)
	}
	out := Out{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.String()}
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		out.Err = err
	}
	return out, nil
}

var errDied = errors.New("flow died")

// faultyRunner fails once, at the call numbered at: before git runs, when it has run, or
// while it holds its locks. All calls behind that fail too, as those of a dead flow would.
type faultyRunner struct {
	at, calls int
	when      moment
	failed    []string // the arguments of that call
}

type moment int

const (
	before moment = iota
	locked        // git was killed as well, and left its locks
	after
	moments
)

// leaveLocks makes the locks that a git has which is about to change names.
func leaveLocks(ctx context.Context, c Cmd) error {
	git := func(args ...string) string {
		out, _ := execRunner{}.Run(ctx, Cmd{Dir: c.Dir, Args: args, Env: c.Env})
		return strings.TrimSpace(string(out.Stdout))
	}
	own, common := git("rev-parse", "--absolute-git-dir"), git("rev-parse", "--path-format=absolute", "--git-common-dir")
	var locks []string
	switch command := slices.IndexFunc(c.Args, func(a string) bool { return a == "update-ref" || a == "symbolic-ref" }); {
	case command < 0:
	case slices.Contains(c.Args, "HEAD"):
		locks = append(locks, filepath.Join(own, "HEAD.lock"))
		if c.Args[command] == "update-ref" {
			locks = append(locks, filepath.Join(common, git("symbolic-ref", "HEAD")+".lock"))
		}
	default:
		ref := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "refs/heads/") })
		locks = append(locks, filepath.Join(common, c.Args[ref]+".lock"))
	}
	for _, lock := range locks {
		if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o755), os.WriteFile(lock, nil, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

func (f *faultyRunner) Run(ctx context.Context, c Cmd) (Out, error) {
	f.calls++
	if f.calls < f.at {
		return execRunner{}.Run(ctx, c)
	}
	if f.calls == f.at {
		f.failed = c.Args
	}
	var err error
	switch {
	case f.calls > f.at:
	case f.when == after:
		_, err = execRunner{}.Run(ctx, c)
	case f.when == locked:
		err = leaveLocks(ctx, c)
	}
	return Out{}, errors.Join(err, errDied)
}

// A lab is a repository, a run's directory and a Git.
type lab struct {
	t       *testing.T
	dir     string // resolved
	repo    string // the workspace
	runDir  string
	git     *Git
	environ []string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := emptyLab(t)
	l.sh(l.repo, "git init -q -b main --template= .") // without its samples of hooks
	l.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")
	l.write("dir/b.txt", "b\n")
	l.write(".gitignore", "*.log\n/.env\n")
	l.sh(l.repo, "git add -A && git commit -q -m first")
	return l
}

// emptyLab has a directory in place of the repository.
func emptyLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: resolved(t.TempDir())}
	l.repo, l.runDir = filepath.Join(l.dir, "repo"), filepath.Join(l.dir, "state", "r1")
	l.environ = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	l.write("../.gitconfig", "[user]\n\tname = Test\n\temail = test@example.org\n[protocol \"file\"]\n\tallow = always\n")
	l.mkdir(l.runDir)
	l.mkdir(l.repo)
	l.git = l.with(execRunner{})
	t.Cleanup(func() { _ = removeTree(l.dir) })
	return l
}

func (l *lab) with(r Runner) *Git {
	return New(Options{Runner: r, Environ: l.environ, Scratch: filepath.Join(l.runDir, "tmp"), Exclude: []string{filepath.Dir(l.runDir)}})
}

func (l *lab) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) mkdir(dir string) { l.t.Helper(); l.check(os.MkdirAll(dir, 0o755)) }

// write writes a file of the workspace.
func (l *lab) write(name, text string) { l.t.Helper(); l.writeIn(l.repo, name, text) }

func (l *lab) writeIn(dir, name, text string) {
	l.t.Helper()
	file := filepath.Join(dir, name)
	l.mkdir(filepath.Dir(file))
	l.check(os.WriteFile(file, []byte(text), 0o644))
}

// sh runs a script in dir and returns what it printed.
func (l *lab) sh(dir, script string) string {
	l.t.Helper()
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, l.environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func (l *lab) request(path string) Request {
	return Request{RunDir: l.runDir, Run: "r1", Path: path, Repo: l.repo, Mode: Worktree, Now: time.Unix(1700000000, 0)}
}

func (l *lab) create(path string) *Workspace {
	l.t.Helper()
	w, err := l.git.Create(l.t.Context(), l.request(path))
	l.check(err)
	return w
}

func (l *lab) commit(w *Workspace) *Committed {
	l.t.Helper()
	c, err := l.git.Commit(l.t.Context(), w, "Work of "+w.Path)
	l.check(err)
	return c
}

func (l *lab) open(dir string) *Repo {
	l.t.Helper()
	r, err := l.git.Open(l.t.Context(), dir)
	l.check(err)
	return r
}

// files lists a tree of files with what is in them, without `.git`.
func files(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == ".git" {
			if e != nil && e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			fmt.Fprintf(&b, "%s -> %s\n", rel, to)
		case e.Type().IsRegular():
			data, _ := os.ReadFile(name)
			info, _ := e.Info()
			fmt.Fprintf(&b, "%s %o %q\n", rel, info.Mode().Perm(), data)
		}
		return nil
	})
	return b.String()
}

// save keeps a copy of all that the lab has, and returns what brings it back.
func (l *lab) save() (restore func()) {
	l.t.Helper()
	g, kept := New(Options{}), filepath.Join(l.t.TempDir(), "kept")
	l.check(g.copyDir(l.t.Context(), l.dir, kept))
	return func() {
		l.t.Helper()
		l.check(removeTree(l.dir))
		l.check(g.copyDir(l.t.Context(), kept, l.dir))
	}
}

// everyFault asks for an operation, fails it at each of its git calls in turn, and asks
// again: what it leaves must be what it leaves undisturbed. The calls that change more
// than objects are also failed after git has done its work. All that an operation goes by
// is on the disk: where a failure leaves the same as an earlier one, it is not asked again.
func everyFault(t *testing.T, prepare func(*lab), operate func(*lab, *Git) error, describe func(*lab) string) {
	t.Helper()
	l := newLab(t)
	prepare(l)
	restore := l.save()
	l.check(operate(l, l.git))
	want := describe(l)
	seen := map[string]bool{}
	for at, when := 1, before; ; {
		restore()
		runner := &faultyRunner{at: at, when: when}
		err := operate(l, l.with(runner))
		if err == nil {
			return
		}
		if !errors.Is(err, errDied) {
			t.Fatalf("call %d: the failure was taken for another: %v", at, err)
		}
		if state := l.fingerprint(); !seen[state] { // from each state on the disk once
			seen[state] = true
			l.check(operate(l, l.with(execRunner{})))
			if got := describe(l); got != want {
				t.Errorf("call %d (%q), moment %d: got\n%s\nwant\n%s", at, runner.failed, when, got, want)
			}
		}
		if left := leftovers(filepath.Join(l.runDir, "tmp")); len(left) > 0 {
			t.Errorf("call %d: left behind: %q", at, left)
		}
		if when++; when == moments || !changes(runner.failed) {
			at, when = at+1, before
		}
	}
}

// fingerprint tells states of the disk apart: by all but objects, which are only ever
// added, and what differs between two runs of the same (times, inodes).
func (l *lab) fingerprint() string {
	sum := sha256.New()
	l.check(filepath.WalkDir(l.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == "objects" || e.Name() == "tmp" {
			return filepath.SkipDir
		}
		fmt.Fprintf(sum, "%s %s\n", name, e.Type())
		if !e.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(name)
		if e.Name() == "index" {
			data = timeless(data)
		}
		sum.Write(data)
		return err
	}))
	return string(sum.Sum(nil))
}

// timeless is a git index of version 2 without what stat(2) says of each file, and
// without the checksum at its end.
func timeless(index []byte) []byte {
	const header, fixed, sum = 12, 62, 20
	at := header
	for range binary.BigEndian.Uint32(index[8:]) {
		entry := index[at:]
		clear(entry[:24])
		clear(entry[36:40])
		name := int(binary.BigEndian.Uint16(entry[60:]) & 0xfff)
		at += (fixed + name + 8) / 8 * 8
	}
	return index[:len(index)-sum]
}

// changes reports whether a git command changes more than objects and files of its own.
func changes(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"update-ref", "symbolic-ref", "worktree", "init", "merge", "cherry-pick", "checkout-index", "reset"}, arg)
	})
}
