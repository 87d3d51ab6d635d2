package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const gitPipeline = `
steps:
  a:
    agent: claude
    isolation: worktree
    timeout: TIMEOUT
    prompt: Work.
    env: {FLOW_SIMULATE: "edit=made.txt:made", FLOW_SIMULATE_LOG: DIR/turns.log}
`

// TestGitHangs has a git that never ends in one of its commands: while it makes a step's
// workspace, and while it keeps what the step has done.
func TestGitHangs(t *testing.T) {
	t.Parallel()
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		r := gitRun(t, "making", "1s")
		out := r.withGit(t, "worktree").exits(t, exitTimeout, "run", r.pipeline, "--simulate", "--run-id", r.id)
		sees(t, "05d-git-hangs", out)
		r.leftNothing(t)
		writeText(t, filepath.Join(r.dir, r.pipeline), gitSteps(r, "5m"))
		r.finish(t, "resume", r.id, "--update")
	})
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		r := gitRun(t, "keeping", "5m")
		cmd := r.withGit(t, "diff-tree").start("--simulate")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r.begun(t)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if exit := cmd.ProcessState.ExitCode(); exit != exitSignal+int(syscall.SIGTERM) || !strings.Contains(out.String(), "a  stopped: cancelled by SIGTERM") {
			t.Errorf("%v\n%s", err, &out)
		}
		r.leftNothing(t)
		r.finish(t, "resume", r.id)
		if turns := readText(t, filepath.Join(r.dir, "turns.log")); strings.Count(turns, `"done":true`) != 1 {
			t.Errorf("the agent, who had finished, was asked again:\n%s", turns)
		}
	})
}

// TestNotifyHangs has a script of `notify` that never ends.
func TestNotifyHangs(t *testing.T) {
	const pipeline = `
steps:
  work: {run: echo work, notify: {on: succeeded, run: "setsid sleep 1000 & touch begun; test -e go || sleep 1000"}}
  later: {needs: [work], run: "while ! test -e begun; do sleep 0.05; done"}
`
	// The minute passes while other tests run.
	r := newRunOf(t, "telling", pipeline)
	cmd, out := r.command("run", r.pipeline, "--run-id", r.id), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	t.Run("a minute", func(t *testing.T) {
		t.Parallel()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sees(t, "05c-notify-hangs", out.String())
		r.leftNothing(t)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		r := signalRun(t, "killed", pipeline)
		p := atTerminal(t, r.start(), 80)
		p.await(t, "later  done")
		p.enter(t, "\x03")
		p.await(t, "again to kill them")
		p.enter(t, "\x03")
		p.ends(t, 0) // all that was to be done is done
		r.survives(t)
	})
}

// gitRun is a run in a repository.
func gitRun(t *testing.T, id, timeout string) crashRun {
	t.Helper()
	r := newCrashRun(t, id)
	writeText(t, filepath.Join(r.dir, r.pipeline), gitSteps(r, timeout))
	r.git(t, "init", "-q")
	r.git(t, "add", r.pipeline)
	r.git(t, "commit", "-qm", "first")
	return r
}

func gitSteps(r crashRun, timeout string) string {
	return strings.NewReplacer("TIMEOUT", timeout, "DIR", r.dir).Replace(gitPipeline)
}

// withGit is the run with a git first on the PATH that hangs in a command, notices no
// signal, and has something running in a session of its own.
func (r crashRun) withGit(t *testing.T, command string) crashRun {
	t.Helper()
	bin := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in *" %s "*)
  trap '' INT TERM HUP
  setsid sleep 1000 &
  touch %s/begun
  while :; do sleep 0.1; done
esac
exec %s "$@"
`, command, r.dir, gitPath(t))
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"))
	return r
}

// leftNothing demands that no process of the run is left, once flow has ended.
func (r crashRun) leftNothing(t *testing.T) {
	t.Helper()
	if left := processesOf(r.id, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func writeText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
