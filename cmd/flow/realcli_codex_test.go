package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// talkScript makes the calls one after the other, whatever becomes of each, and then tells
// what the model was told of them.
func talkScript(calls ...scriptmodel.ToolCall) scriptmodel.Script {
	return func(r scriptmodel.Request) scriptmodel.Turn {
		var told []string
		for _, i := range r.Items {
			if i.Kind == scriptmodel.Result {
				told = append(told, strings.TrimSpace(i.Text))
			}
		}
		if len(told) < len(calls) {
			return scriptmodel.Turn{Calls: calls[len(told) : len(told)+1]}
		}
		return final("only", strings.Join(told, " | "))
	}
}

func bash(command string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": command}}
}

// escaping is a command that wants to be let out of the sandbox.
func escaping(command string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": command, "sandbox_permissions": "require_escalated"}}
}

func patching(file, text string) scriptmodel.ToolCall {
	return scriptmodel.ToolCall{Name: "apply_patch", Input: "*** Begin Patch\n*** Add File: " + file + "\n+" + text + "\n*** End Patch\n"}
}

// talksLab is a lab for a pipeline of Codex over app-server, or whatever transport says.
func talksLab(t *testing.T, path, binary string, model scriptmodel.Script, transport, rules string) (l *lab, file string) {
	t.Helper()
	l = newLab(t, path, binary, scriptmodel.New(model, nil))
	l.mkdir(t, "outside")
	return l, l.pipeline(t, "talks.yaml", "TRANSPORT", transport, "RULES", rules)
}

// TestRealCodexSandbox demands that nothing which the rules allow leaves the sandbox: not
// a command that the sandbox holds up, which Codex would run again without, not one that
// asks to be let out, not a patch, and not what is typed into a shell.
func TestRealCodexSandbox(t *testing.T) {
	outside := func(l *lab, name string) string { return filepath.Join(l.dir, "outside", name) }
	var l *lab
	script := func(r scriptmodel.Request) scriptmodel.Turn {
		return talkScript(
			bash("touch "+outside(l, "held")), escaping("touch "+outside(l, "escaped")), bash("rm -rf "+outside(l, "kept")),
			patching(outside(l, "patched"), "x"), patching("link/patched", "x"), patching(".git/hooks/pre-commit", "x"),
			scriptmodel.ToolCall{Name: "exec_command", Input: map[string]any{"cmd": "bash", "tty": true}},
			bash("touch inside"),
		)(r)
	}
	var file string
	l, file = talksLab(t, realCLIs(t), buildFlow(t), script, "app-server", `{default: allow}`)
	l.mkdir(t, "outside/kept")
	if err := os.Symlink(filepath.Join(l.dir, "outside"), filepath.Join(l.work, "link")); err != nil {
		t.Fatal(err)
	}
	s := l.flow(t, 0, "run", file, "--run-id", l.run, "-o", "json").report(t).Steps["only"]
	found, err := os.ReadDir(filepath.Join(l.dir, "outside"))
	if err != nil || len(found) != 1 || found[0].Name() != "kept" {
		t.Errorf("outside there is %v (%v); the model was told: %s", found, err, s.Text)
	}
	if !l.holds(t, "inside") || l.holds(t, ".git/hooks/pre-commit") {
		t.Errorf("the workspace is not as it should be; the model was told: %s", s.Text)
	}
	checkNothingLeft(t, l)
}

// TestRealCodexInterrupt ends a run in the middle of a command, over each transport: no
// process is left, and the session goes on.
func TestRealCodexInterrupt(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, transport := range []string{"app-server", "exec"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			script := func(r scriptmodel.Request) scriptmodel.Turn {
				if results(r) > 0 {
					return final("only", "Done.")
				}
				return scriptmodel.Turn{Calls: []scriptmodel.ToolCall{bash("touch begun; sleep 600")}}
			}
			l, file := talksLab(t, path, binary, script, transport, `{default: allow}`)
			run := l.start(t, "run", file, "--run-id", l.run, "-o", "json")
			begun := func() bool {
				_, err := os.Stat(filepath.Join(l.work, "begun"))
				return err == nil
			}
			if !eventually(begun) {
				t.Fatal("the command has not begun")
			}
			if err := run.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			run.end(t)
			before := run.report(t).Steps["only"]
			if before.Status != "cancelled" || before.Session == "" {
				t.Errorf("the step: %+v", before)
			}
			checkNothingLeft(t, l)
			after := l.flow(t, 0, "resume", l.run, "-o", "json").report(t).Steps["only"]
			if after.Text != "Done." || after.Session != before.Session {
				t.Errorf("session %s went on as %+v", before.Session, after)
			}
			checkNothingLeft(t, l)
		})
	}
}

// TestRealCodexTransports goes on over one transport in a session of the other: the model
// is sent what was said before, and every turn's tokens are its own.
func TestRealCodexTransports(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, transports := range [][2]string{{"app-server", "exec"}, {"exec", "app-server"}, {"app-server", "app-server"}} {
		t.Run(transports[0]+" then "+transports[1], func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
				task, _ := current(r)
				return final(task, `{"text":"I did `+task+`."}`)
			}, nil))
			file := l.pipeline(t, "transports.yaml", "FIRST", transports[0], "SECOND", transports[1])
			r := l.flow(t, 0, "run", file, "--run-id", l.run, "-o", "json").report(t)
			one, two := r.Steps["one"], r.Steps["two"]
			if one.Session == "" || one.Session != two.Session || r.Steps["three"].Session == one.Session {
				t.Errorf("sessions %q, %q and %q", one.Session, two.Session, r.Steps["three"].Session)
			}
			for name, s := range r.Steps {
				if s.Usage == nil || s.Usage.TotalTokens != 110 {
					t.Errorf("step %s used %+v", name, s.Usage)
				}
			}
			last := l.model.Exchanges()[2].Request
			if !last.Contains("I did one.") || !last.Contains("I did two.") {
				t.Errorf("the fork was sent %+v", last.Items)
			}
			checkNothingLeft(t, l)
		})
	}
}

func results(r scriptmodel.Request) (n int) {
	for _, i := range r.Items {
		if i.Kind == scriptmodel.Result {
			n++
		}
	}
	return n
}

// TestRealCodexErrors demands that errors of the provider are told apart by their type.
func TestRealCodexErrors(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for cause, failure := range map[string]scriptmodel.Turn{
		"auth":            {Status: 401, Message: "no such key"},
		"rate_limit":      {Status: 429, Message: "too fast"},
		"server":          {Status: 500, Message: "oops"},
		"invalid_request": {Status: 400, Message: "bad request"},
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			l, file := talksLab(t, path, binary, func(scriptmodel.Request) scriptmodel.Turn { return failure }, "app-server", `{default: allow}`)
			s := l.flow(t, 1, "run", file, "--run-id", l.run, "-o", "json").report(t).Steps["only"]
			if s.Status != "failed" || s.Cause != cause {
				t.Errorf("cause %q, want %q: %s", s.Cause, cause, s.Error)
			}
		})
	}
}
