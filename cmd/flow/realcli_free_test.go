package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/cmd/flow/internal/scriptmodel"
)

// TestRealInterrupt interrupts flow while a command of an agent runs: neither is left, the
// turn is cancelled, and its session goes on when the run is resumed.
func TestRealInterrupt(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for _, agent := range talking {
		for _, sandbox := range []string{"off", "workspace-write"} {
			t.Run(agent+"/"+sandbox, func(t *testing.T) {
				t.Parallel()
				mark := fmt.Sprintf("600.%d", time.Now().UnixNano()) // no other sleep of the machine has it
				l := newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
					if r.Contains("You were interrupted") {
						return final("free", "I remember "+remembered(r, scriptmodel.Call, "{"))
					}
					return commanding(r, "touch begun.txt; sleep "+mark)
				}, nil))
				file := l.pipeline(t, "free.yaml", "AGENT", agent, "DEFAULT", "allow", "SANDBOX", sandbox)
				before := l.interrupted(t, file, mark)
				after := l.flow(t, 0, "resume", l.run, "-o", "json").report(t).Steps["only"]
				if !strings.Contains(after.Text, mark) || after.Session != before.Session {
					t.Errorf("session %q went on as %+v", before.Session, after)
				}
				checkNothingLeft(t, l)
			})
		}
	}
}

// interrupted runs a pipeline until its command has begun, whose command line has mark in
// it, and interrupts it. It returns what became of the step.
func (l *lab) interrupted(t *testing.T, file, mark string) ranStep {
	t.Helper()
	c := l.start(t, "run", file, "--run-id", l.run, "-o", "json")
	l.await(t, c, func() bool { return isThere(filepath.Join(l.work, "begun.txt")) })
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := c.end(t); status != exitSignal+int(syscall.SIGINT) {
		t.Errorf("exit status %d", status)
	}
	checkNothingLeft(t, l)
	if running(t, mark) {
		t.Error("the command goes on")
	}
	s := c.report(t).Steps["only"]
	if events := l.flow(t, 0, "events", l.run, "-o", "json").stdout.String(); s.Status != "cancelled" || !strings.Contains(events, `"reason":"cancelled"`) {
		t.Errorf("the turn was not cancelled: %+v", s)
	}
	return s
}

// evasions are ways to write into a directory, by an absolute path and by one from the
// workspace.
var evasions = []string{
	"echo x > %[1]s/redirected",
	"cp greet.txt %[1]s/copied",
	"perl -e 'open F, q(>), q(%[1]s/opened)'",
	"ln -sfn %[1]s link; echo x > link/linked",
	"echo x > inside/../%[2]s/climbed",
}

// evade writes in every way into a directory of the workspace and into one outside, with
// the CLI's own tool as well, and then tells what it was told of that.
func (l *lab) evade(r scriptmodel.Request) scriptmodel.Turn {
	told, outside := toldOf(r), filepath.Join(l.dir, "outside")
	switch n := len(told); {
	case n < len(evasions):
		in, out := fmt.Sprintf(evasions[n], filepath.Join(l.work, "inside"), "inside"), fmt.Sprintf(evasions[n], outside, "../outside")
		return commanding(r, in+"; "+out)
	case n == len(evasions):
		return writing(r, filepath.Join(l.work, "inside", "written"), "x")
	case n == len(evasions)+1:
		return writing(r, filepath.Join(outside, "written"), "x")
	}
	return final("free", strings.Join(told, " | "))
}

// TestRealEvasions demands of every agent in a sandbox that nothing is written outside of
// it, though the policy allows every call.
func TestRealEvasions(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for _, agent := range append([]string{"headless"}, talking...) {
		for sandbox, inside := range map[string]int{"workspace-write": len(evasions) + 1, "read-only": 0} {
			t.Run(agent+"/"+sandbox, func(t *testing.T) {
				t.Parallel()
				var l *lab
				l = newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn { return l.evade(r) }, nil))
				l.mkdir(t, "outside")
				l.mkdir(t, "work/inside")
				s := l.flow(t, 0, "run", l.pipeline(t, "free.yaml", "AGENT", agent, "DEFAULT", "allow", "SANDBOX", sandbox), "--run-id", l.run, "-o", "json").report(t).Steps["only"]
				in, out := l.files(t, "work/inside"), l.files(t, "outside")
				if len(in) != inside || len(out) > 0 {
					t.Errorf("inside there are %v, outside %v; the model was told %q", in, out, s.Text)
				}
				checkNothingLeft(t, l)
			})
		}
	}
}

// files are the names of the files in a directory of the lab.
func (l *lab) files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.dir, dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// harmless are commands that agents run unasked if they are let.
var harmless = []string{"cat greet.txt", "ls", "pwd", "git --version", "git status", "head -n 1 greet.txt", "grep -n Hu greet.txt", "bash -c ls", "find ."}

// TestRealHarmless demands that commands which agents take for harmless are refused as all
// others where nothing allows them, and that the agent goes on.
func TestRealHarmless(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for _, agent := range append([]string{"headless"}, talking...) {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
				told := toldOf(r)
				if len(told) < len(harmless) {
					return commanding(r, harmless[len(told)])
				}
				return final("free", strings.Join(told, " | "))
			}, nil))
			s := l.flow(t, 0, "run", l.pipeline(t, "free.yaml", "AGENT", agent, "DEFAULT", "deny, rules: [{allow: shell(true)}]", "SANDBOX", "off"), "--run-id", l.run, "-o", "json").report(t).Steps["only"]
			t.Log(s.Text)
			for _, entry := range l.audit(t) {
				if entry.Decision != "deny" {
					t.Errorf("the audit log says %+v", entry)
				}
			}
			if strings.Contains(s.Text, "Hullo") || len(l.audit(t)) != len(harmless) {
				t.Errorf("the model was told %q; the audit log: %+v", s.Text, l.audit(t))
			}
		})
	}
}

// TestRealWrongCalls demands that calls which an agent cannot make break no rule: one
// without the arguments that it needs, and one of a tool that there is not.
func TestRealWrongCalls(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for _, agent := range append([]string{"headless"}, talking...) {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
				nothing := map[string]any{"nonsense": 1}
				switch told := toldOf(r); len(told) {
				case 0:
					return call(commanding(r, "").Calls[0].Name, nothing)
				case 1:
					return call("teleport", nothing)
				default:
					return final("free", strings.Join(told, " | "))
				}
			}, nil))
			file := l.pipeline(t, "free.yaml", "AGENT", agent, "DEFAULT", "deny, rules: [{allow: shell(true)}]", "SANDBOX", "off")
			t.Log(l.flow(t, 0, "run", file, "--run-id", l.run, "-o", "json").report(t).Steps["only"].Text)
		})
	}
}
