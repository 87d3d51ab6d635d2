package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNightly runs the largest example from end to end: a fan-out of loops in worktrees, a
// merge, a question, a push. It is killed ten times at random moments, waits for a
// person, and ends as if nothing had happened.
func TestNightly(t *testing.T) {
	t.Parallel()
	nightly := absolute(t, filepath.Join("..", "..", "examples", "pipelines", "nightly-maintenance.yaml"))
	calm := seeded(t, "calm")
	began := time.Now()
	calm.untilWaiting(t, "run", nightly, "--simulate", "--run-id", calm.id)
	usual := time.Since(began)
	calm.finish(t, "approve", calm.id, "approve")
	want := calm.nightly(t)

	r := seeded(t, "killed")
	args := r.killOften(t, 10, usual, []string{"run", nightly, "--simulate", "--run-id", r.id}, "resume", r.id)
	r.untilWaiting(t, args...)
	r.untilWaiting(t, "resume", r.id) // nobody has answered yet
	r.kill(t, usual/20, "approve", r.id, "approve")
	r.finish(t, "resume", r.id)
	if diff := cmp.Diff(want, r.nightly(t)); diff != "" {
		t.Errorf("the result differs from that of an undisturbed run (-want +got):\n%s", diff)
	}
	r.nothingLeft(t)
}

// killOften kills a run so many times, each at a random moment before most. It returns how
// the run goes on: by args while there is no record of it, then by resume.
func (r crashRun) killOften(t *testing.T, times int, most time.Duration, args []string, resume ...string) []string {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range times {
		r.kill(t, time.Duration(random.Int64N(int64(most))), args...)
		if r.recorded() {
			args = resume
		}
	}
	return args
}

// nothingLeft demands that no process of the run is left, and no lock in the repository.
func (r crashRun) nothingLeft(t *testing.T) {
	t.Helper()
	if left := processesOf(r.id, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	locks, err := filepath.Glob(filepath.Join(r.dir, ".git", "*.lock"))
	inner, _ := filepath.Glob(filepath.Join(r.dir, ".git", "worktrees", "*", "*.lock"))
	if locks = append(locks, inner...); err != nil || len(locks) > 0 {
		t.Errorf("locks left: %v, %v", locks, err)
	}
}

// untilWaiting runs flow, which is to end because a person is asked.
func (r crashRun) untilWaiting(t *testing.T, args ...string) {
	t.Helper()
	cmd := r.command(args...)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitPerson {
		t.Fatalf("flow %s: %v, want exit status %d\n%s", strings.Join(args, " "), err, exitPerson, out)
	}
	if want := "flow approve " + r.id + " approve"; !strings.Contains(string(out), want) {
		t.Fatalf("the output does not say %q:\n%s", want, out)
	}
}

// nightly is what must not depend on crashes: how each step stands, the outputs, what
// was pushed, and that the workspace is clean.
func (r crashRun) nightly(t *testing.T) map[string]any {
	t.Helper()
	var report struct {
		Status  string
		Outputs map[string]any
		Steps   map[string]struct{ Status string }
	}
	r.show(t, &report)
	result := map[string]any{"status": report.Status, "outputs": report.Outputs}
	for path, step := range report.Steps {
		result[path] = step.Status
	}
	pushed := strings.Split(r.git(t, "--git-dir", "../origin", "log", "--format=%s", "nightly"), "\n")
	slices.Sort(pushed) // items go on side by side
	result["pushed"] = strings.ReplaceAll(strings.Join(pushed, "\n"), r.id, "RUN")
	result["worktrees"] = len(strings.Split(r.git(t, "worktree", "list"), "\n"))
	result["changes"] = r.git(t, "status", "--porcelain")
	result["branches"] = fmt.Sprint(len(strings.Fields(r.git(t, "branch", "--list", "flow/*"))))
	return result
}
