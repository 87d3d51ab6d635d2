package simulate

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestBadArgumentsFailAsTheRealOnes(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	base := argv(Claude)
	tests := []struct {
		agent  string
		args   []string
		status int
		stderr string // a part of it
	}{
		{Claude, append(base, "--zork"), 1, "error: unknown option '--zork'"},
		{Claude, append(base, "--cwd", "/tmp"), 1, "error: unknown option '--cwd'"},
		{Claude, []string{"--list-sessions"}, 1, "error: unknown option '--list-sessions'"},
		{Claude, []string{"-p", "--output-format", "stream-json"}, 1, "When using --print, --output-format=stream-json requires --verbose"},
		{Claude, append(base, "--permission-mode", "zork"), 1, "error: option '--permission-mode <mode>' argument 'zork' is invalid. Allowed choices are acceptEdits, auto, bypassPermissions, manual, dontAsk, plan."},
		{Claude, append(base, "--model"), 1, "error: option '--model <value>' argument missing"},
		{Claude, append(base, "--allowedTools", "--verbose"), 1, "argument missing"},
		{Claude, append(base, "--session-id", "x"), 1, "Error: Invalid session ID"},
		{Claude, append(base, "--resume", id, "--session-id", id), 1, "--fork-session"},
		{Claude, append(base, "--json-schema", "{not json"), 1, "Error: --json-schema is not valid JSON: JSON Parse error: Expected '}'"},
		{Claude, append(base, "--json-schema", `{"type":"zork"}`), 1, "Error: --json-schema is not a valid JSON Schema"},
		{Claude, append(base, "--settings", "{bad"), 1, "Error: Settings file not found: "},
		{Claude, append(base, "--mcp-config", "/nonexistent.json"), 1, "MCP config file not found: /nonexistent.json"},
		{Claude, append(base, "--mcp-config", `{"lab":{}}`), 1, "mcpServers: Invalid input: expected record, received undefined"},
		{Claude, append(base, "--permission-prompt-tool", "lab__approve"), 1, "(passed via --permission-prompt-tool) not found"},
		{Claude, append(base, "--max-turns", "x"), 1, "--max-turns"},
		{Claude, append(base, "--max-budget-usd", "0"), 1, "--max-budget-usd"},
		{Claude, append(base, "--append-system-prompt-file", "/no/such"), 1, "/no/such"},
		{Codex, []string{"--json", "p"}, 2, "error: unexpected argument '--json' found\n\n  tip: to pass '--json' as a value, use '-- --json'"},
		{Codex, []string{"p"}, 1, `TERM is set to "dumb"`},
		{Codex, argv(Codex, "--full-auto"), 2, "error: unexpected argument '--full-auto' found"},
		{Codex, argv(Codex, "-a", "never"), 2, "error: unexpected argument '-a' found"},
		{Codex, argv(Codex, "-s", "nope"), 2, "error: invalid value 'nope' for '--sandbox <SANDBOX_MODE>'"},
		{Codex, argv(Codex, "-c", `sandbox_mode="nope"`), 1, "unknown variant `nope`, expected one of `read-only`, `workspace-write`, `danger-full-access`"},
		{Codex, argv(Codex, "-C", "/no/such"), 1, "Error: No such file or directory (os error 2)"},
		{Codex, argv(Codex, "--output-schema", "/no/such"), 1, "Failed to read output schema file /no/such"},
		{Codex, argv(Codex, "--disable", "zork"), 1, "Unknown feature flag: zork"},
		{Codex, argv(Codex, "--json"), 2, "cannot be used multiple times"},
		{Codex, argv(Codex, "-m", "--ephemeral"), 2, "error: a value is required for '--model <MODEL>'"},
		{Codex, []string{"exec", "--json", "--skip-git-repo-check", "resume", "-s", "read-only", id, "-"}, 2, "unexpected argument '-s'"},
		{Codex, []string{"exec", "--json", "-C", "/", "-"}, 1, "Not inside a trusted directory and --skip-git-repo-check was not specified."},
		{Codex, argv(Codex, "extra"), 2, "unexpected argument '-'"},
		{Gemini, argv(Gemini, "--non-interactive"), 1, "Unknown arguments: non-interactive, nonInteractive\nUsage: gemini"},
		{Gemini, argv(Gemini, "--zork"), 1, "Unknown argument: zork"},
		{Gemini, argv(Gemini, "--approval-mode", "bogus"), 1, `Choices: "default", "auto_edit", "yolo", "plan"`},
		{Gemini, argv(Gemini, "-y", "--approval-mode", "yolo"), 1, "Use --approval-mode=yolo instead."},
		{Gemini, argv(Gemini, "-p", "--help me"), 1, "Not enough arguments following: p"},
		{Gemini, argv(Gemini, "-p", "flag", "positional"), 1, "positional prompt"},
		{Gemini, argv(Gemini, "--session-id", id, "--resume", id), 1, "specify only one"},
		{Gemini, argv(Gemini, "--include-directories", "/no/such"), 1, "/no/such"},
		{Gemini, argv(Gemini, "--worktree", "x"), 1, "--worktree"},
	}
	for _, tt := range tests {
		t.Run(tt.agent+" "+strings.Join(tt.args, " "), func(t *testing.T) {
			o := newLab(t).run(tt.agent, "prompt", tt.args...)
			if o.status != tt.status || !strings.Contains(o.stderr, tt.stderr) || o.stdout != "" {
				t.Errorf("status %d, stderr %q, stdout %q; want %d and %q", o.status, o.stderr, o.stdout, tt.status, tt.stderr)
			}
		})
	}
}

func TestEnvironmentIsChecked(t *testing.T) {
	l := newLab(t)
	settings := filepath.Join(l.dir, "settings.json")
	write(t, settings, "{bad")
	tests := []struct {
		name   string
		o      outcome
		status int
		stderr string
	}{
		{"gemini in an untrusted directory", l.with("GEMINI_CLI_TRUST_WORKSPACE", "").run(Gemini, "p", argv(Gemini)...), 55, "trusted directory"},
		{"gemini with broken settings", l.with("GEMINI_CLI_SYSTEM_SETTINGS_PATH", settings).run(Gemini, "p", argv(Gemini)...), 52, "Error in " + settings},
		{"no home", l.with(EnvHome, "").run(Claude, "p", argv(Claude)...), 1, EnvHome},
		{"unknown agent", l.run("zork", "p"), 2, "claude, codex, gemini"},
		{"misspelt item", l.script("text=a;edti=b").run(Codex, "p", argv(Codex)...), 1, `"edti=b": no such item`},
		{"cause that the agent lacks", l.script("fail=budget").run(Codex, "p", argv(Codex)...), 1, `codex has no failure "budget"`},
	}
	for _, tt := range tests {
		if tt.o.status != tt.status || !strings.Contains(tt.o.stderr, tt.stderr) || tt.o.stdout != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", tt.name, tt.o.status, tt.o.stdout, tt.o.stderr)
		}
	}
}

func TestPromptsThatAreRefused(t *testing.T) {
	tests := []struct {
		agent, stdin string
		args         []string
		status       int
		stderr       string
	}{
		{Claude, "", nil, 1, "Error: Input must be provided either through stdin or as a prompt argument when using --print"},
		{Claude, " \n", nil, 1, "Error: Input contained only whitespace."},
		{Claude, strings.Repeat("x", 10<<20+1), nil, 1, "piped stdin input exceeds 10MB"},
		{Codex, "", nil, 1, "No prompt provided via stdin."},
		{Codex, "\xff\xfe", nil, 1, "input is not valid UTF-8"},
		{Gemini, "", nil, 42, "No input provided via stdin."},
	}
	for _, tt := range tests {
		o := newLab(t).run(tt.agent, tt.stdin, argv(tt.agent, tt.args...)...)
		if o.status != tt.status || !strings.Contains(o.stderr, tt.stderr) || o.stdout != "" {
			t.Errorf("%s with %.10q: status %d, stderr %q, stdout %q", tt.agent, tt.stdin, o.status, o.stderr, o.stdout)
		}
	}
	o := newLab(t).run(Codex, strings.Repeat("x", 1<<20+1), argv(Codex)...)
	if lines := o.lines(t); o.status != 1 || len(lines) != 1 || lines[0]["type"] != "thread.started" {
		t.Errorf("codex with too long a prompt: status %d, stdout %q", o.status, o.stdout)
	}
}

func TestVersions(t *testing.T) {
	want := map[string]string{Claude: "2.1.329 (Claude Code)\n", Codex: "codex-cli 0.169.0\n", Gemini: "0.61.0\n"}
	for agent, version := range want {
		// No home and no prompt are needed.
		if o := (&lab{t: t}).run(agent, "", "--version"); o.stdout != version || o.status != 0 {
			t.Errorf("%s --version: %d %q", agent, o.status, o.stdout)
		}
	}
	if o := (&lab{t: t}).run(Codex, "", "login", "status"); o.status != 0 {
		t.Errorf("codex login status: %d %s", o.status, o.stderr)
	}
}

func TestPromptAsArgument(t *testing.T) {
	tests := []struct {
		agent string
		stdin string
		args  []string
		want  string
	}{
		{Claude, "", argv(Claude, "say hello"), "Simulated claude answer to: say hello"},
		{Claude, "from stdin", argv(Claude, "--", "-x"), "Simulated claude answer to: -x"},
		{Codex, "", []string{"exec", "--json", "--skip-git-repo-check", "say hello"}, "Simulated codex answer to: say hello"},
		{Codex, "", []string{"exec", "--json", "--skip-git-repo-check", "--", "-x"}, "Simulated codex answer to: -x"},
		{Gemini, "from stdin", argv(Gemini, "-p", "say hello"), "Simulated gemini answer to: from stdin"},
		{Gemini, "", argv(Gemini, "--prompt=--help me"), "Simulated gemini answer to: --help me"},
	}
	for _, tt := range tests {
		o := newLab(t).run(tt.agent, tt.stdin, tt.args...)
		if got := finalText(t, tt.agent, o); got != tt.want {
			t.Errorf("%s %q: %q, want %q (stderr %s)", tt.agent, tt.args, got, tt.want, o.stderr)
		}
	}
}

// finalText is the answer, read as the protocol of the agent has it.
func finalText(t *testing.T, agent string, o outcome) string {
	t.Helper()
	text := ""
	for _, line := range o.lines(t) {
		switch {
		case agent == Claude && line["type"] == "result":
			text, _ = line["result"].(string)
		case agent == Codex && line["type"] == "item.completed" && get(t, line, "item.type") == "agent_message":
			text = get(t, line, "item.text").(string)
		case agent == Gemini && line["type"] == "message" && line["role"] == "assistant":
			text += line["content"].(string)
		}
	}
	return text
}
