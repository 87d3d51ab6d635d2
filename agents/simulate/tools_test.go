package simulate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Edits are made where the flags of the real CLI allow them, and only there.
func TestEditsObeyTheFlags(t *testing.T) {
	tests := []struct {
		agent string
		flags []string
		edit  string
		made  bool
	}{
		{Claude, []string{"--permission-mode", "acceptEdits"}, "a.txt", true},
		{Claude, []string{"--permission-mode", "acceptEdits"}, "sub/a.txt", true},
		{Claude, []string{"--permission-mode", "acceptEdits"}, "../a.txt", false},
		{Claude, []string{"--permission-mode", "acceptEdits"}, ".git/config", false},
		{Claude, []string{"--permission-mode", "acceptEdits", "--tools", "Read,Grep"}, "a.txt", false},
		{Claude, []string{"--permission-mode", "acceptEdits", "--tools", "Read,Edit,Write,Bash"}, "a.txt", true},
		{Claude, []string{"--permission-mode", "acceptEdits", "--disallowedTools", "Write,Edit"}, "a.txt", false},
		{Claude, []string{"--permission-mode", "dontAsk", "--allowedTools", "Write", "Edit"}, "a.txt", true},
		{Claude, []string{"--permission-mode", "dontAsk"}, "a.txt", false},
		{Claude, []string{"--permission-mode", "plan"}, "a.txt", false},
		{Claude, nil, "a.txt", false},
		{Codex, []string{"-s", "workspace-write"}, "a.txt", true},
		{Codex, []string{"-s", "workspace-write"}, "/nowhere/a.txt", false},
		{Codex, []string{"-s", "workspace-write"}, ".git/config", false},
		{Codex, []string{"-s", "danger-full-access"}, "a.txt", true},
		{Codex, []string{"-s", "read-only"}, "a.txt", false},
		{Codex, nil, "a.txt", false},
		{Codex, []string{"-c", `sandbox_mode="workspace-write"`}, "a.txt", true},
		{Codex, []string{"--yolo"}, "a.txt", true},
		{Gemini, []string{"--approval-mode", "auto_edit"}, "a.txt", true},
		{Gemini, []string{"--approval-mode", "yolo"}, "a.txt", true},
		{Gemini, []string{"--approval-mode", "yolo"}, "../a.txt", false},
		{Gemini, []string{"--approval-mode", "plan"}, "a.txt", false},
		{Gemini, []string{"--allowed-tools", "write_file"}, "a.txt", true},
		{Gemini, nil, "a.txt", false},
	}
	for _, tt := range tests {
		t.Run(tt.agent+" "+strings.Join(tt.flags, " ")+" "+tt.edit, func(t *testing.T) {
			l := newLab(t).script("edit=" + tt.edit + ":hello")
			o := l.run(tt.agent, "p", argv(tt.agent, tt.flags...)...)
			if o.status != 0 {
				t.Fatalf("a refused tool must not fail the turn: %+v", o)
			}
			file := tt.edit
			if !filepath.IsAbs(file) {
				file = filepath.Join(l.dir, file)
			}
			if _, err := os.Stat(file); (err == nil) != tt.made {
				t.Fatalf("made is %v, want %v; stdout %s", err == nil, tt.made, o.stdout)
			}
			if tt.made && content(t, file) != "hello\n" {
				t.Errorf("content %q", content(t, file))
			}
			if shown := strings.Contains(o.stdout, `"status":"completed"`); tt.agent == Codex && shown != tt.made {
				t.Errorf("codex shows an item: %v\n%s", shown, o.stdout)
			}
			if n := len(deniedOf(t, tt.agent, o)); tt.agent == Claude && (n > 0) == tt.made && !strings.Contains(o.stdout, "No such tool") {
				t.Errorf("%d permission_denials", n)
			}
		})
	}
}

func deniedOf(t *testing.T, agent string, o outcome) []any {
	t.Helper()
	if agent != Claude {
		return nil
	}
	return o.last(t)["permission_denials"].([]any)
}

func TestCommandsObeyTheFlags(t *testing.T) {
	tests := []struct {
		agent   string
		flags   []string
		command string
		ran     bool
	}{
		{Claude, []string{"--allowedTools", "Bash"}, "touch ran", true},
		{Claude, []string{"--allowedTools", "Bash(touch:*)"}, "touch ran", true},
		{Claude, []string{"--allowedTools", "Bash(touch *)", "Read"}, "touch ran", true},
		{Claude, []string{"--allowedTools", "Bash(git *)"}, "touch ran", false},
		{Claude, []string{"--allowedTools", "Bash", "--disallowedTools", "Bash(touch *)"}, "touch ran", false},
		{Claude, []string{"--permission-mode", "acceptEdits"}, "touch ran", true},
		{Claude, []string{"--permission-mode", "acceptEdits"}, "true; touch ran", false},
		{Claude, nil, "touch ran", false},
		{Codex, []string{"-s", "workspace-write"}, "touch ran", true},
		{Codex, []string{"-s", "read-only"}, "touch ran", false},
		{Gemini, []string{"--approval-mode", "yolo"}, "touch ran", true},
		{Gemini, []string{"--approval-mode", "auto_edit"}, "touch ran", false},
		{Gemini, []string{"--allowed-tools", "run_shell_command(touch)"}, "touch ran", true},
		{Gemini, []string{"--allowed-tools", "run_shell_command(echo)"}, "touch ran", false},
		{Gemini, []string{"--policy", "allow.toml"}, "touch ran", true},
		{Gemini, []string{"--policy", "allow.toml"}, "sh -c 'touch ran'", false},
		{Gemini, []string{"--approval-mode", "yolo", "--policy", "deny.toml"}, "touch ran", false},
	}
	for _, tt := range tests {
		t.Run(tt.agent+" "+strings.Join(tt.flags, " ")+" "+tt.command, func(t *testing.T) {
			l := newLab(t).script("run=" + tt.command)
			write(t, filepath.Join(l.dir, "allow.toml"), "# policy\n[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"touch\"]\ndecision = 'allow'\npriority = 100\n")
			write(t, filepath.Join(l.dir, "deny.toml"), "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"deny\"\n")
			o := l.run(tt.agent, "p", argv(tt.agent, tt.flags...)...)
			if o.status != 0 {
				t.Fatalf("%+v", o)
			}
			if ran := exists(filepath.Join(l.dir, "ran")); ran != tt.ran {
				t.Errorf("ran is %v, want %v; stdout %s", ran, tt.ran, o.stdout)
			}
		})
	}
}

// The output and the status of a command are told in each CLI's own way.
func TestCommandOutput(t *testing.T) {
	const script = "run=echo out && echo err >&2 && exit 3"
	l := newLab(t).script(script)
	run := func(agent string) []map[string]any {
		return l.run(agent, "p", argv(agent, writing(agent)...)...).lines(t)
	}
	if got := get(t, run(Claude)[2], "message.content.0.content"); got != "Exit code 3\nout\nerr" {
		t.Errorf("claude: %q", got)
	}
	item := get(t, run(Codex)[3], "item").(map[string]any)
	if item["aggregated_output"] != "out\nerr\n" || item["exit_code"] != 3.0 || item["status"] != "failed" {
		t.Errorf("codex: %v", item)
	}
	if line := run(Gemini)[3]; line["output"] != "out\nerr" || line["status"] != "success" {
		t.Errorf("gemini, which tells only the model of the status: %v", line)
	}
}

func TestEditAppendsToAFile(t *testing.T) {
	want := map[string]string{Claude: "Edit", Codex: "update", Gemini: "replace"}
	for _, agent := range vendors() {
		l := newLab(t).script("edit=old.txt:two;edit=old.txt:three")
		file := filepath.Join(l.dir, "old.txt")
		write(t, file, "one\n")
		o := l.run(agent, "p", argv(agent, writing(agent)...)...)
		if got := content(t, file); got != "one\ntwo\nthree\n" {
			t.Errorf("%s: %q", agent, got)
		}
		if !strings.Contains(o.stdout, `"`+want[agent]+`"`) {
			t.Errorf("%s: no %s in %s", agent, want[agent], o.stdout)
		}
	}
}

func TestGeminiStopsAtItsLimitOfTurns(t *testing.T) {
	l := newLab(t).script("run=true;run=true")
	settings := filepath.Join(l.dir, "settings.json")
	write(t, settings, `{"model":{"maxSessionTurns":2}}`)
	o := l.with("GEMINI_CLI_SYSTEM_SETTINGS_PATH", settings).run(Gemini, "p", argv(Gemini, writing(Gemini)...)...)
	if got := get(t, o.last(t), "error.type"); o.status != 53 || got != "FatalTurnLimitedError" {
		t.Errorf("status %d, %v", o.status, got)
	}
}

func TestClaudeStopsAtItsLimits(t *testing.T) {
	tests := []struct {
		script  string
		flags   []string
		subtype string
		message string
	}{
		{"run=true;run=true", []string{"--max-turns", "2"}, "error_max_turns", "Reached maximum number of turns (2)"},
		{"tokens=1000000:0", []string{"--max-budget-usd", "1.5"}, "error_max_budget_usd", "Reached maximum budget ($1.5)"},
		{"tokens=1000000:0", []string{"--max-budget-usd", "4.5"}, "success", ""},
		{"run=true", []string{"--max-turns", "2"}, "success", ""},
	}
	for _, tt := range tests {
		o := newLab(t).script(tt.script).run(Claude, "p", argv(Claude, append(writing(Claude), tt.flags...)...)...)
		r := o.last(t)
		failed := tt.message != ""
		if r["subtype"] != tt.subtype || r["is_error"] != failed || (o.status == 1) != failed {
			t.Errorf("%s %v: status %d, %v", tt.script, tt.flags, o.status, r)
		}
		if failed && get(t, r, "errors.0") != tt.message {
			t.Errorf("errors %v, want %q", r["errors"], tt.message)
		}
	}
}

func TestEditsNamedByTheSession(t *testing.T) {
	l := newLab(t).script("edit={session}/{turn}.txt:by {session}")
	id := sessionOf(t, l.run(Gemini, "p", argv(Gemini, writing(Gemini)...)...))
	l.run(Gemini, "p", argv(Gemini, append(writing(Gemini), "--resume", id)...)...)
	for _, turn := range []string{"1", "2"} {
		if got := content(t, filepath.Join(l.dir, id, turn+".txt")); got != "by "+id+"\n" {
			t.Errorf("turn %s: %q", turn, got)
		}
	}
}
