package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mountState gives the run a state directory on a disk of its own, of so many bytes.
func (r crashRun) mountState(t *testing.T, size string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a disk")
	}
	if err := os.MkdirAll(r.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", r.state(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+size); err != nil {
		t.Skipf("no disk can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(r.state(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func (r crashRun) remount(t *testing.T, flags uintptr, size string) {
	t.Helper()
	if err := unix.Mount("", r.state(), "", unix.MS_REMOUNT|flags, "size="+size); err != nil {
		t.Fatal(err)
	}
}

// exits runs flow, which must end with that status, and returns what it printed.
func (r crashRun) exits(t *testing.T, want int, args ...string) string {
	t.Helper()
	cmd := r.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		t.Errorf("flow %s: %v, want the exit status %d\n%s", strings.Join(args, " "), err, want, out)
	}
	return string(out)
}

func newRunOf(t *testing.T, id, pipeline string) crashRun {
	t.Helper()
	r := newCrashRun(t, id)
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDiskFull fills a real disk while a run is under way on it, and when a person answers.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	r := newRunOf(t, "full", `
steps:
  long: {run: test -e again || sleep 600}
  fill: {run: "test -e again || cat /dev/zero > $FILL 2>/dev/null || true"}
  agent: {needs: [fill], agent: claude, timeout: 5m, prompt: "Read {{ .steps.fill.status }}."}
  sign: {needs: [agent, long], ask: "Ship it?", timeout: 12h}
`)
	r.mountState(t, "3m")
	fill := filepath.Join(r.state(), "fill")
	pipeline := strings.ReplaceAll(readText(t, filepath.Join(r.dir, r.pipeline)), "$FILL", fill)
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	out := r.exits(t, exitState, "run", r.pipeline, "--simulate", "--run-id", r.id)
	sees(t, "23a-disk-full", out)
	if left := processesOf(r.id, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	write(t, r.dir, "again")
	r.exits(t, exitPerson, "resume", r.id)

	full, err := os.Create(fill)
	if err == nil {
		_, err = full.Write(make([]byte, 4<<20))
	}
	if err == nil || full.Close() != nil {
		t.Fatal("the disk is not full")
	}
	sees(t, "23b-disk-full-asking", r.exits(t, exitState, "approve", r.id))
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	r.finish(t, "approve", r.id)
	r.finish(t, "resume", r.id)
	r.finish(t, "state", "check")
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReadOnlyState has a state directory on a disk that is, or became, read-only.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	r := newRunOf(t, "readonly", "steps:\n  a: {run: test ! -e stop && echo ran >> ran}\n")
	r.mountState(t, "3m")
	r.finish(t, "run", r.pipeline, "--run-id", "before")
	write(t, r.dir, "stop")
	r.exits(t, exitFailed, "run", r.pipeline, "--run-id", "failed")
	if err := os.Remove(filepath.Join(r.dir, "stop")); err != nil {
		t.Fatal(err)
	}
	r.remount(t, unix.MS_RDONLY, "3m")
	sees(t, "24-read-only", r.exits(t, exitState, "run", r.pipeline, "--run-id", r.id))
	sees(t, "24-read-only", r.exits(t, exitState, "resume", "failed"))
	if got := readText(t, filepath.Join(r.dir, "ran")); got != "ran\n" {
		t.Errorf("a step was started: %q", got)
	}
	if out := r.finish(t, "runs"); !strings.Contains(out, "before") {
		t.Errorf("the runs cannot be looked at: %q", out)
	}
	r.remount(t, 0, "3m")
	r.finish(t, "resume", "failed")
}

// TestDamagedJournal overwrites, empties and cuts the journal of a run.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	r := newRunOf(t, "damaged", "steps:\n  a: {run: yes 0123456789 | head -c 12000}\n  b: {needs: [a], run: 'test -e go'}\n")
	r.exits(t, exitFailed, "run", r.pipeline, "--run-id", r.id)
	name := filepath.Join(r.state(), "runs", r.id, "journal.jsonl")
	whole := []byte(readText(t, name))
	for at := 0; at < len(whole); at += 4096 {
		damaged := bytes.Clone(whole)
		clear(damaged[at:min(at+4096, len(whole))])
		r.refusesJournal(t, name, damaged)
	}
	r.refusesJournal(t, name, nil)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	torn := bytes.Join(lines[:len(lines)-3], nil)
	torn = append(torn, lines[len(lines)-3][:20]...)
	if err := os.WriteFile(name, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	sees(t, "31b-cut", r.finish(t, "state", "check", r.id))
	write(t, r.dir, "go")
	r.finish(t, "resume", r.id)
	r.finish(t, "state", "check")
}

// refusesJournal demands that flow finds the damage and leaves it as it is.
func (r crashRun) refusesJournal(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r.exits(t, exitState, "state", "check", r.id)
	sees(t, "31a-damaged", r.exits(t, exitState, "resume", r.id))
	if got := readText(t, name); got != string(data) {
		t.Errorf("the damaged journal was changed")
	}
}

// TestNewerState is that a run of a newer format is refused by whatever reads it.
func TestNewerState(t *testing.T) {
	t.Parallel()
	r := newRunOf(t, "newer", "steps:\n  a: {run: 'true'}\n")
	r.finish(t, "run", r.pipeline, "--run-id", r.id)
	name := filepath.Join(r.state(), "runs", r.id, "run.json")
	newer := strings.Replace(readText(t, name), `"format": 1`, `"format": 7`, 1)
	if err := os.WriteFile(name, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"resume", "show", "events", "audit", "artifacts"} {
		sees(t, "32-newer", r.exits(t, exitState, command, r.id))
	}
}
