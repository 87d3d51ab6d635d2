package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// steering is a text that steers terminals, and commands systems that build software.
const steering = "S\x1b[31mR\x1b]0;title\aT\x1b]52;c;eA==\x1b\\U\u009b2JV\u009d0;x\u009cW\u202eX\u2028Y\x7f\u2066\b\r\n::error::owned\n  ::add-mask::owned\n##[error]owned ##vso[task.setvariable variable=x]y ##teamcity[x]\n\x1b]8;;unended"

// steeringName is such a name of a file.
const steeringName = "n\x1b[31m\u009b2J\u202e\x7f\n::error::owned##[error]"

const hostilePipeline = `
name: "evil \u202e ##[error]owned \u2028::error::owned"
agents:
  teller: {use: exec, command: ./teller, exec: {format: jsonl, events: {text: .text, session: .session, model: .model, tool: .tool, error: .error, done: .done}}}
  failer: {use: exec, command: ./failer, exec: {format: jsonl, events: {text: .text, error: .error}}}
  claude: {use: claude, command: ./claude, permissions: {default: allow}}
steps:
  text: {run: cat steering}
  fails: {run: cat steering >&2; exit 3, continue-on-error: true}
  nomatch: {run: 'true', artifacts: ["*.##[error]"], continue-on-error: true}
  kept: {run: "echo x > \"$(cat name)\"", isolation: copy, artifacts: ["n*"]}
  told: {agent: teller, prompt: "{{ file \"steering.txt\" }}", timeout: 1m}
  broken: {agent: failer, prompt: Hello., timeout: 1m, continue-on-error: true}
  claude: {agent: claude, prompt: Hello., timeout: 1m, continue-on-error: true}
  items: {foreach: ["\u202e::error::owned", "##[error]owned"], run: "echo {{ .item }}"}
  asked: {needs: [text, told], ask: "{{ .steps.text.text }} {{ .steps.told.text }}"}
outputs:
  text: "{{ .steps.text.text }}"
  told: "{{ .steps.told.text }}"
`

// hostileRun is a directory where all that flow may print is hostile.
func hostileRun(t *testing.T) crashRun {
	t.Helper()
	r := newCrashRun(t, "hostile")
	line := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	message := func(role string, content any) map[string]any {
		return map[string]any{"type": role, "message": map[string]any{"role": role, "model": steering, "content": []any{content}}, "session_id": steering}
	}
	for name, text := range map[string]string{
		r.pipeline: hostilePipeline,
		"steering": steering, "name": steeringName, "steering.txt": strings.ToValidUTF8(steering, ""),
		"broken.yaml": "steps:\n  \"a\u202e##[error]\": {run: \"\u202e ##[error]\", needd: x}\n\"\u202e::error::\": 1\n",
		"told.jsonl":  line(map[string]any{"session": steering, "model": steering, "tool": steering}) + line(map[string]any{"text": steering}) + line(map[string]any{"done": steering}),
		"fail.jsonl":  line(map[string]any{"error": steering}),
		"claude.jsonl": line(map[string]any{"type": "system", "subtype": "init", "session_id": steering, "model": steering}) +
			line(message("assistant", map[string]any{"type": "text", "text": steering})) +
			line(message("assistant", map[string]any{"type": "tool_use", "id": "t1", "name": "Bash", "input": map[string]any{"command": steering}})) +
			line(message("user", map[string]any{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": steering})) +
			line(map[string]any{"type": steering, "subtype": steering, "message": steering}) + steering + "\n" +
			line(map[string]any{"type": "result", "subtype": "error_during_execution", "is_error": true, "result": steering, "errors": []any{steering}, "session_id": steering}),
		"teller": "#!/bin/sh\ncat told.jsonl\n", "failer": "#!/bin/sh\ncat fail.jsonl\ncat steering >&2\nexit 1\n", "claude": "#!/bin/sh\ncat claude.jsonl\ncat steering >&2\nexit 1\n",
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// In the log of a build nothing is data: it need not be known where output goes.
	r.env = []string{"TERM=xterm", "NO_COLOR=", "GITHUB_ACTIONS=", "TF_BUILD=", "TEAMCITY_VERSION="}
	return r
}

// TestHostileText has everything that flow prints steer terminals and builds: what agents and
// commands say, names of files, and pipelines. Nothing comes through, at terminals and in
// pipes, but the control sequence that flow knows itself.
func TestHostileText(t *testing.T) {
	t.Parallel()
	r := hostileRun(t)
	const text, name = `SRTUVW\u202eX\u2028Y\u2066`, `n\u202e`
	for _, c := range []struct {
		exit  int
		shows string // of what would steer
		args  []string
	}{
		{0, text, []string{"run", r.pipeline, "--run-id", r.id}},
		{4, text, []string{"run", r.pipeline, "--run-id", "steered", "--log-level", "trace", "--no-input"}},
		{4, `"S\u001b[31mR`, []string{"run", r.pipeline, "--run-id", "json", "-o", "json", "--no-input"}},
		{0, text, []string{"approve", "steered", "asked", "--reason", steering}},
		{0, text, []string{"resume", "json", "--yes"}},
		{0, text, []string{"show", r.id}},
		{0, `"S\u001b[31mR`, []string{"show", r.id, "-o", "json"}},
		{0, text, []string{"events", r.id}},
		{0, `"S\u001b[31mR`, []string{"events", r.id, "-o", "json"}},
		{0, text, []string{"output", r.id, "told"}},
		{0, text, []string{"output", r.id, "text"}},
		{0, `\u202e::error`, []string{"output", r.id, "items.0"}},
		{0, text, []string{"audit", r.id}},
		{0, `"S\u001b[31mR`, []string{"audit", r.id, "-o", "json"}},
		{0, text, []string{"sessions", r.id}},
		{0, `"S\u001b[31mR`, []string{"sessions", r.id, "-o", "json"}},
		{0, text, []string{"sessions", "show", "S"}},
		{0, `"S\u001b[31mR`, []string{"sessions", "show", "S", "-o", "json"}},
		{0, `evil \u202e`, []string{"runs"}},
		{0, `evil \u202e`, []string{"runs", "-o", "json"}},
		{0, "kept", []string{"worktrees"}},
		{0, "kept", []string{"worktrees", "-o", "json"}},
		{0, name, []string{"artifacts", r.id}},
		{0, `n\u001b[31m`, []string{"artifacts", r.id, "-o", "json"}},
		{0, name, []string{"artifacts", r.id, "--to", "out", "--force"}},
		{1, "", []string{"chat", r.id, "claude", "Why?"}},
		{0, text, []string{"attach", r.id, "claude", "--print"}},
		{0, `\u202e::error`, []string{"graph", r.pipeline}},
		{0, `evil \u202e`, []string{"graph", r.id}},
		{0, `evil \u202e`, []string{"graph", r.id, "--format", "dot"}},
		{0, `\u202e::error`, []string{"graph", r.id, "--format", "mermaid"}},
		{0, text, []string{"plan", r.pipeline}},
		{0, `S\u001b[31mR`, []string{"plan", r.pipeline, "-o", "json"}},
		{0, "warning", []string{"validate", r.pipeline, "-o", "json"}},
		{2, `\u202e`, []string{"validate", "broken.yaml"}},
		{2, `\u202e`, []string{"validate", "broken.yaml", "-o", "json"}},
		{2, name, []string{"validate", steeringName}},
		{2, name, []string{"run", steeringName + ".yaml"}},
		{10, text, []string{"show", steering}},
		{2, "", []string{"show", r.id, "-o", steering}},
		{2, "", []string{"output", r.id, steering}},
		{2, "", []string{steering}},
		{2, "S", []string{"run", r.pipeline, "-i", steering}},
		{2, "S", []string{"run", "--" + steering}},
		{2, "", []string{"run", r.pipeline, "--run-id", steering}},
		{12, name, []string{"runs", "--state-dir", r.pipeline + "/" + steeringName}},
		{0, "checked", []string{"state", "check"}},
		{0, text, []string{"rerun", r.id, "--step", "claude", "--run-id", "again", "--no-input"}},
	} {
		p := atTerminal(t, r.command(c.args...), 80)
		if c.args[0] == "run" {
			p.enter(t, "y\n")
		}
		exit, screen := p.end(t)
		if c.args[0] == "run" && strings.Contains(screen, "run "+r.id) {
			sees(t, "65-steering-text", screen)
		}
		if exit != c.exit || !strings.Contains(screen, c.shows) || !disarmed(strings.ReplaceAll(screen, eraseLine, "")) {
			t.Errorf("flow %q at a terminal: exit status %d, not %d, or no %q, or not disarmed:\n%q", c.args, exit, c.exit, c.shows, screen)
		}
		if len(c.args) > 2 && c.args[2] == "--run-id" || c.args[0] == "rerun" || c.args[0] == "approve" {
			continue // it has been done
		}
		out, err := r.command(c.args...).CombinedOutput()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		if data := c.args[0] == "output" && c.exit == 0; disarmed(string(out)) == data {
			t.Errorf("flow %q prints into a pipe\n%q", c.args, out)
		}
	}
}

// disarmed reports whether a text neither steers a terminal nor commands a build.
func disarmed(text string) bool {
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029') {
			return false
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") || strings.Contains(line, "##vso[") || strings.Contains(line, "##teamcity[") {
			return false
		}
	}
	return true
}

// A program gets a step's text as it is, whatever it is, and JSON has it too. In the log of a
// build only a file gets it so.
func TestHostileData(t *testing.T) {
	t.Parallel()
	r := hostileRun(t)
	if out, err := r.command("run", r.pipeline, "--run-id", r.id, "--yes", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := steering + "\n"
	if got := r.finish(t, "output", r.id, "text"); got != want {
		t.Errorf("a pipe gets %q, want %q", got, want)
	}
	var report struct {
		Steps map[string]struct{ Text string }
	}
	r.show(t, &report)
	if got := report.Steps["text"].Text; got != steering {
		t.Errorf("JSON has %q, want %q", got, steering)
	}
	for _, system := range []string{"GITHUB_ACTIONS=true", "TF_BUILD=True", "TEAMCITY_VERSION=2026.1"} {
		build := r
		build.env = append(slices.Clip(build.env), system)
		if got := build.finish(t, "output", r.id, "text"); !disarmed(got) || !strings.Contains(got, ": :error::owned") {
			t.Errorf("%s: the log gets %q", system, got)
		}
		file, err := os.Create(filepath.Join(t.TempDir(), "file"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd := build.command("output", r.id, "text")
		cmd.Stdout = file
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s: a file gets %q, %v; want %q", system, got, err, want)
		}
	}
}
