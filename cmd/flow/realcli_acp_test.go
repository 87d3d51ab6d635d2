package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

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

// TestRealACPAsksAll demands that Gemini CLI asks for every call, also where rules allow all of
// them but one.
func TestRealACPAsksAll(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	l := newLab(t, path, binary, scriptmodel.New(onePolicy, nil))
	file := l.pipeline(t, "free.yaml", "AGENT", "gemini", "DEFAULT", "allow, rules: [{deny: shell(touch denied.txt)}]", "SANDBOX", "off")
	l.flow(t, 0, "run", file, "--run-id", l.run, "-o", "json")
	asked := strings.Count(l.flow(t, 0, "events", l.run, "-o", "json").stdout.String(), `"type":"permissionRequested"`)
	if asked != 3 || l.holds(t, "denied.txt") || l.made(t) != 1 {
		t.Errorf("flow was asked %d times; denied.txt is there: %v", asked, l.holds(t, "denied.txt"))
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
