package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// overACP are agents that speak ACP, and what flow is told of them.
func overACP(t *testing.T, path string) []string {
	t.Helper()
	all := []string{"gemini"}
	for _, dir := range filepath.SplitList(path) {
		if _, err := os.Stat(filepath.Join(dir, "opencode")); err == nil {
			return append(all, "opencode")
		}
	}
	t.Fatal("no opencode; .ci/run installs it")
	return nil
}

// native is a call in the words of Gemini CLI or OpenCode, which both speak to the model
// by Gemini's API.
func native(r scriptmodel.Request, tool string, values ...string) scriptmodel.Turn {
	opencode := slices.Contains(r.Tools, "bash")
	switch {
	case tool == "write" && opencode:
		return call("write", map[string]any{"filePath": values[0], "content": values[1]})
	case tool == "write":
		return call("write_file", map[string]any{"file_path": values[0], "content": values[1]})
	case opencode:
		return call("bash", map[string]any{"command": values[0], "description": "a command"})
	}
	return call("run_shell_command", map[string]any{"command": values[0]})
}

// policyScript writes a file, runs a command that is denied and one that is asked for, and
// then tells what the model was told.
func policyScript(r scriptmodel.Request) scriptmodel.Turn {
	_, items := current(r)
	var told []string
	for _, i := range items {
		if i.Kind == scriptmodel.Result {
			told = append(told, strings.TrimSpace(i.Text))
		}
	}
	switch len(told) {
	case 0:
		return native(r, "write", "allowed.txt", "yes\n")
	case 1:
		return native(r, "shell", "touch denied.txt")
	case 2:
		return native(r, "shell", "touch asked.txt")
	}
	return final("acp", strings.Join(told, " | "))
}

// TestRealACP demands that over ACP an allowed edit happens, a denied command does not, and
// one that a person is asked for happens once it is approved.
func TestRealACP(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	rules := `{default: deny, ask-timeout: 5m, rules: [{allow: "write_file(**)"}, {deny: "shell(touch denied*)"}, {ask: "shell(touch asked*)"}]}`
	for _, agent := range overACP(t, path) {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(policyScript, nil))
			c := l.start(t, "run", l.pipeline(t, "acp.yaml", "AGENT", agent, "RULES", rules), "--run-id", l.run, "-o", "json")
			l.await(t, c, func() bool { return strings.Contains(l.tried(t, "show", l.run), "step only asks") })
			l.flow(t, 0, "approve", l.run, "only")
			if status := c.end(t); status != 0 {
				t.Fatalf("exit status %d\n%s%s", status, c.stderr.String(), c.stdout.String())
			}
			t.Log(c.report(t).Steps["only"].Text)
			for file, want := range map[string]bool{"allowed.txt": true, "denied.txt": false, "asked.txt": true} {
				if got := l.holds(t, file); got != want {
					t.Errorf("%s is there: %v", file, got)
				}
			}
			checkNothingLeft(t, l)
		})
	}
}

// TestRealACPAsksAll demands that Gemini CLI asks for every call, also where rules allow all of
// them but one.
func TestRealACPAsksAll(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	l := newLab(t, path, binary, scriptmodel.New(policyScript, nil))
	rules := `{default: allow, rules: [{deny: "shell(touch denied.txt)"}]}`
	l.flow(t, 0, "run", l.pipeline(t, "acp.yaml", "AGENT", "gemini", "RULES", rules), "--run-id", l.run, "-o", "json")
	asked := strings.Count(l.tried(t, "events", l.run, "-o", "json"), `"type":"permissionRequested"`)
	if asked != 3 || l.holds(t, "denied.txt") || !l.holds(t, "asked.txt") {
		t.Errorf("flow was asked %d times; denied.txt is there: %v", asked, l.holds(t, "denied.txt"))
	}
}

// sleeper runs a command that takes long. Once it has done so it tells what it was asked to.
func sleeper(r scriptmodel.Request) scriptmodel.Turn {
	if remembered(r, scriptmodel.Call, "") != "nothing" {
		return final("acp", "again: "+remembered(r, scriptmodel.Prompt, "Task: acp"))
	}
	return native(r, "shell", "touch begun.txt; sleep 300; touch slept.txt")
}

// TestRealACPInterrupt stops flow while a tool of the agent runs: nothing is left running,
// and the session goes on when the run is resumed.
func TestRealACPInterrupt(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range overACP(t, path) {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(sleeper, nil))
			c := l.start(t, "run", l.pipeline(t, "acp.yaml", "AGENT", agent, "RULES", "{default: allow}"), "--run-id", l.run, "-o", "json")
			l.await(t, c, func() bool { return l.holds(t, "begun.txt") })
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if status := c.end(t); status != 130 {
				t.Errorf("exit status %d\n%s", status, c.stderr.String())
			}
			checkNothingLeft(t, l)
			if !strings.Contains(l.tried(t, "events", l.run, "-o", "json"), `"reason":"cancelled"`) || l.holds(t, "slept.txt") {
				t.Error("the turn was not cancelled")
			}
			s := l.flow(t, 0, "resume", l.run, "-o", "json").report(t).Steps["only"]
			if !strings.HasPrefix(s.Text, "again: Task: acp") {
				t.Errorf("resumed, the agent says %q", s.Text)
			}
			started := map[string]bool{}
			for _, e := range l.events(t) {
				if e.Type == "sessionStarted" {
					started[e.SessionID] = true
				}
			}
			if len(started) != 1 {
				t.Errorf("it was done in the sessions %v", started)
			}
		})
	}
}

// await waits until something holds, while c runs. OpenCode may take a minute to begin on a
// machine that is busy.
func (l *lab) await(t *testing.T, c *command, holds func() bool) {
	t.Helper()
	for range 6 {
		if eventually(holds) {
			return
		}
	}
	_ = c.Process.Signal(os.Interrupt)
	t.Fatalf("nothing in three minutes: exit status %d\n%s%s", c.end(t), c.stderr.String(), c.stdout.String())
}

// tried is what flow printed, whatever it was.
func (l *lab) tried(t *testing.T, args ...string) string {
	t.Helper()
	c := l.start(t, args...)
	c.end(t)
	return c.stdout.String() + c.stderr.String()
}
