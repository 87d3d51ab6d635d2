package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	// obliging has a step that ends at the first signal, unless a file lets it go on.
	obliging = `
steps:
  obliging: {run: "touch begun; while ! test -e go; do sleep 0.05; done"}
`
	// stubborn has one that takes no notice, nor does what it leaves in another session.
	stubborn = `
steps:
  stubborn:
    run: |
      trap '' INT TERM HUP
      touch begun
      test -e go && exit
      setsid sh -c 'while :; do sleep 0.05; done' &
      while :; do sleep 0.05; done
`
)

// signalRun is a run of that pipeline, which is not under way yet.
func signalRun(t *testing.T, id, pipeline string) crashRun {
	t.Helper()
	r := newCrashRun(t, id)
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"TERM=xterm", "NO_COLOR="}
	return r
}

// start is the command that begins the run.
func (r crashRun) start(args ...string) *exec.Cmd {
	return r.command(append([]string{"run", r.pipeline, "--run-id", r.id}, args...)...)
}

// begun waits for the step to have begun.
func (r crashRun) begun(t *testing.T) {
	t.Helper()
	if !eventually(func() bool { _, err := os.Stat(filepath.Join(r.dir, "begun")); return err == nil }) {
		t.Fatal("the step does not begin")
	}
}

// survives demands that no process is left of the run, and that it resumes.
func (r crashRun) survives(t *testing.T) {
	t.Helper()
	var left []string
	if !eventually(func() bool { left = processesOf(r.id, r.home()); return len(left) == 0 }) {
		t.Errorf("processes left: %v", left)
	}
	write(t, r.dir, "go")
	if out := r.finish(t, "resume", r.id); !strings.Contains(out, "succeeded") {
		t.Errorf("resume:\n%s", out)
	}
}

// TestInterrupts types Ctrl-C at a terminal: once, for an end in order; again, to kill what
// takes no notice; and once more, when not even that can be done.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "once", obliging)
		p := atTerminal(t, r.start(), 80)
		r.begun(t)
		p.enter(t, "\x03")
		p.ends(t, 130)
		sees(t, "37a-interrupted", p.screen())
		r.survives(t)
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "twice", stubborn)
		p := atTerminal(t, r.start(), 80)
		r.begun(t)
		p.enter(t, "\x03")
		p.await(t, "again to kill them")
		p.enter(t, "\x03")
		p.ends(t, 130)
		sees(t, "37b-interrupted-twice", p.screen())
		r.survives(t)
	})
	t.Run("thrice", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "thrice", stubborn)
		cmd := r.start()
		p := atTerminal(t, cmd, 80)
		r.begun(t)
		guardian := guardianOf(t, cmd.Process.Pid)
		if err := syscall.Kill(guardian, syscall.SIGSTOP); err != nil { // so that nothing is killed
			t.Fatal(err)
		}
		p.enter(t, "\x03")
		p.await(t, "again to kill them")
		p.enter(t, "\x03")
		p.await(t, "once more to leave at once")
		p.enter(t, "\x03")
		err := cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit status %d, %v", code, err)
		}
		sees(t, "37c-interrupted-thrice", p.screen())
		if err := syscall.Kill(guardian, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		r.survives(t)
	})
}

// ends waits for the command to end with an exit status.
func (p *pty) ends(t *testing.T, want int) {
	t.Helper()
	if exit, screen := p.end(t); exit != want {
		t.Errorf("exit status %d, want %d\n%s", exit, want, screen)
	}
}

// TestTerminated ends a run by signals that no person sends.
func TestTerminated(t *testing.T) {
	t.Parallel()
	for sig, row := range map[syscall.Signal]string{syscall.SIGTERM: "38a-terminated", syscall.SIGHUP: "38b-hung-up"} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			r := signalRun(t, row, obliging)
			cmd := r.start()
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r.begun(t)
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if exit := cmd.ProcessState.ExitCode(); exit != exitSignal+int(sig) {
				t.Errorf("exit status %d, %v\n%s", exit, err, &out)
			}
			if sig == syscall.SIGTERM {
				sees(t, "38a-terminated", out.String())
			} else {
				sees(t, "38b-hung-up", out.String())
			}
			r.survives(t)
		})
	}
}

// TestClosedTerminal closes the terminal that flow works at: while a step runs and while a
// person is asked, that ends it in order. With nohup it goes on.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "closed", obliging)
		cmd := r.start()
		p := atTerminal(t, cmd, 80)
		r.begun(t)
		p.person.Close()
		err := cmd.Wait()
		if exit := cmd.ProcessState.ExitCode(); exit != 129 {
			t.Errorf("exit status %d, %v", exit, err)
		}
		r.survives(t)
	})
	t.Run("asking", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "asked", "steps:\n  ask: {ask: Go on}\n")
		cmd := r.start()
		p := atTerminal(t, cmd, 80)
		p.await(t, "approve?")
		p.person.Close()
		err := cmd.Wait()
		if exit := cmd.ProcessState.ExitCode(); exit != 129 && exit != exitPerson { // whichever it hears first
			t.Errorf("exit status %d, %v", exit, err)
		}
		if out := r.finish(t, "resume", r.id, "--yes"); !strings.Contains(out, "succeeded") {
			t.Errorf("resume:\n%s", out)
		}
	})
	t.Run("nohup", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "nohup", obliging)
		shell := r.command()
		shell.Path, shell.Args = "/bin/sh", []string{"sh", "-c", `nohup "$0" "$@" > log 2>&1 & wait`, shell.Path, "run", r.pipeline, "--run-id", r.id}
		p := atTerminal(t, shell, 80)
		r.begun(t)
		p.person.Close()
		if err := shell.Wait(); err == nil {
			t.Error("the shell does not hear that its terminal is closed")
		}
		write(t, r.dir, "go")
		var log []byte
		if !eventually(func() bool {
			log, _ = os.ReadFile(filepath.Join(r.dir, "log"))
			return bytes.Contains(log, []byte("run nohup succeeded")) && len(processesOf(r.id, r.home())) == 0
		}) {
			t.Errorf("the run does not end:\n%s", log)
		}
		sees(t, "38c-nohup", string(log))
	})
}
