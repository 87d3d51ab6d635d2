package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flow/state/failpoint"
)

// staged is a run of a pipeline of one's own, not begun.
func staged(t *testing.T, id, pipeline string) crashRun {
	t.Helper()
	r := newCrashRun(t, id)
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// fails runs flow, which must end with that exit status, and returns what it printed.
func (r crashRun) fails(t *testing.T, status int, args ...string) string {
	t.Helper()
	cmd := r.command(args...)
	out, _ := cmd.CombinedOutput() // the exit status is what counts
	if code := cmd.ProcessState.ExitCode(); code != status {
		t.Fatalf("flow %s: exit status %d, want %d\n%s", strings.Join(args, " "), code, status, out)
	}
	return string(out)
}

// ran is how often the run's steps have said so.
func (r crashRun) ran(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestManyResumes starts many resumes of one run at once: exactly one goes on, the others say
// who has the run.
func TestManyResumes(t *testing.T) {
	t.Parallel()
	r := staged(t, "held", "steps:\n  wait: {run: 'test -e ready || exit 1; echo ran >> ran; while ! test -e go; do sleep 0.01; done'}\n")
	r.fails(t, exitFailed, "run", r.pipeline, "--run-id", r.id)
	write(t, r.dir, "ready")
	const resumes = 20
	type end struct {
		code int
		said string
	}
	ends := make(chan end, resumes)
	for range resumes {
		go func() {
			cmd := r.command("resume", r.id)
			out, _ := cmd.CombinedOutput() // the exit status is what counts
			ends <- end{cmd.ProcessState.ExitCode(), string(out)}
		}()
	}
	for range resumes - 1 {
		late := <-ends
		if late.code != exitLocked {
			t.Errorf("exit status %d of a resume that came too late, want %d\n%s", late.code, exitLocked, late.said)
		}
		sees(t, "29-two-resumes", late.said)
	}
	write(t, r.dir, "go")
	if first := <-ends; first.code != 0 {
		t.Errorf("exit status %d of the resume that went on\n%s", first.code, first.said)
	}
	if got := r.ran(t); got != "ran\n" {
		t.Errorf("the step ran like this: %q", got)
	}
}

// TestStaleLock: the text in the lock of a killed flow names a process that lives, because the
// number was used again. The run goes on all the same.
func TestStaleLock(t *testing.T) {
	t.Parallel()
	r := staged(t, "stale", "steps:\n  wait: {run: 'echo ran >> ran; while ! test -e go; do sleep 0.01; done'}\n")
	cmd := r.command("run", r.pipeline, "--run-id", r.id)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := eventually(func() bool { _, err := os.Stat(filepath.Join(r.dir, "ran")); return err == nil })
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if left, _ := r.left(); !begun || len(left) > 0 {
		t.Fatalf("the step began: %v; left: %v", begun, left)
	}
	lock := filepath.Join(r.state(), "runs", r.id, "lock")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"pid":%d,"start":1,"host":%q,"since":"2026-11-21T00:00:00Z"}`+"\n", os.Getpid(), host)
	if err := os.WriteFile(lock, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, r.dir, "go")
	sees(t, "30-stale-lock", r.finish(t, "resume", r.id))
}

// TestEditedBeforeResume: a run goes on as it began, and says that its file is another by now.
func TestEditedBeforeResume(t *testing.T) {
	t.Parallel()
	const began = "steps:\n  first: {run: 'echo first >> ran'}\n  second: {needs: [first], run: 'test -e ready; echo second >> ran'}\n"
	r := staged(t, "edited", began)
	r.fails(t, exitFailed, "run", r.pipeline, "--run-id", r.id)
	write(t, r.dir, "ready")
	edited := strings.Replace(began, "echo second", "echo another", 1)
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	sees(t, "34-edited", r.finish(t, "resume", r.id))
	if got := r.ran(t); got != "first\nsecond\n" {
		t.Errorf("the steps ran like this: %q", got)
	}
	r.finish(t, "resume", r.id, "--update")
	if got := r.ran(t); got != "first\nsecond\nanother\n" {
		t.Errorf("after the update the steps have run like this: %q", got)
	}
}

// TestPanic: a defect of flow in one step is the failure of that step.
func TestPanic(t *testing.T) {
	t.Parallel()
	r := staged(t, "panic", "steps:\n  bad: {run: 'echo bad >> ran'}\n  beside: {run: 'echo beside >> ran'}\n  after: {needs: [bad], run: 'echo after >> ran'}\n")
	calm := r.env
	r.env = []string{failpoint.Variable + "=process-starts:1=panic"}
	said := r.fails(t, exitFailed, "run", r.pipeline, "--run-id", r.id)
	sees(t, "43-panic", said)
	if !strings.Contains(said, "goroutine ") || !strings.Contains(said, "failed: panic: failpoint process-starts:1") {
		t.Errorf("it does not show the stack and the step's failure:\n%s", said)
	}
	r.env = calm
	r.finish(t, "state", "check")
	r.finish(t, "resume", r.id)
	for _, step := range []string{"bad\n", "beside\n", "after\n"} {
		if strings.Count(r.ran(t), step) != 1 {
			t.Errorf("the steps ran like this: %q", r.ran(t))
		}
	}
}
