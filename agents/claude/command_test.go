package claude_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/claude"
)

const (
	idA = "11111111-2222-4333-8444-555555555555"
	idB = "aaaaaaaa-2222-4333-8444-555555555555"
)

// base is what every command line begins with.
func base(rest ...string) []string {
	return append([]string{"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"}, rest...)
}

func TestCommandArgs(t *testing.T) {
	hermetic := []string{"--setting-sources", "", "--strict-mcp-config"}
	edit := []string{"--tools", "Read,Grep,Glob,Edit,Write", "--permission-mode", "acceptEdits"}
	for _, tt := range []struct {
		name string
		r    agents.Request
		want []string
	}{
		{"least", agents.Request{}, base(slices.Concat(hermetic, edit)...)},
		{
			"new session with an id of ours",
			agents.Request{Session: agents.Session{ID: idA}},
			base(slices.Concat([]string{"--session-id", idA}, hermetic, edit)...),
		},
		{
			"resume repeats every flag",
			agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: idA}, Sandbox: agents.SandboxReadOnly, Model: "opus", Effort: "low"},
			base(slices.Concat([]string{"--resume", idA}, hermetic,
				[]string{"--tools", "Read,Grep,Glob", "--permission-mode", "acceptEdits", "--model", "opus", "--effort", "low"})...),
		},
		{
			"fork",
			agents.Request{Session: agents.Session{Mode: agents.SessionFork, ID: idB, Parent: idA}},
			base(slices.Concat([]string{"--resume", idA, "--fork-session", "--session-id", idB}, hermetic, edit)...),
		},
		{
			"fork whose id the agent chooses",
			agents.Request{Session: agents.Session{Mode: agents.SessionFork, Parent: idA}},
			base(slices.Concat([]string{"--resume", idA, "--fork-session"}, hermetic, edit)...),
		},
		{"inherited settings", agents.Request{Inherit: true}, base(edit...)},
		{
			"two-way",
			agents.Request{Transport: "stream-json"},
			base(slices.Concat([]string{"--input-format", "stream-json", "--permission-prompt-tool", "stdio"}, hermetic, edit)...),
		},
		{
			"no sandbox, with a tool of the user's choice",
			agents.Request{
				Sandbox: agents.SandboxOff, Approval: agents.ApprovalDeny,
				AllowedTools: []string{"Bash(git diff *)", "NotebookEdit", "mcp__lab__echo"}, BlockedTools: []string{"WebFetch"},
			},
			base(slices.Concat(hermetic, []string{
				"--tools", "Read,Grep,Glob,Edit,Write,Bash,WebFetch,WebSearch,NotebookEdit",
				"--permission-mode", "dontAsk", "--allowedTools", "Bash(git diff *)", "NotebookEdit", "mcp__lab__echo", "--disallowedTools", "WebFetch",
			})...),
		},
		{
			"limits, schema, system prompt and the profile's own",
			agents.Request{
				AddDirs: []string{"/a", "/b"}, MaxTurns: 7, MaxCostUSD: 0.25, Schema: json.RawMessage("{ \"type\": \"object\" }"),
				SystemPrompt: "-be brief", Args: []string{"--fallback-model", "sonnet"},
			},
			base(slices.Concat(hermetic, edit, []string{
				"--add-dir", "/a", "--add-dir", "/b", "--max-turns", "7", "--max-budget-usd", "0.25", "--json-schema", `{"type":"object"}`,
				"--system-prompt-snapshot", "off", "--append-system-prompt", "-be brief", "--fallback-model", "sonnet",
			})...),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Prompt, tt.r.Dir = "go", "/repo"
			c, err := claude.Adapter{}.Command(tt.r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if c.Stdin != "go" || c.Dir != "/repo" || c.Interrupt != "INT" {
				t.Errorf("stdin %q, dir %q, interrupt %q", c.Stdin, c.Dir, c.Interrupt)
			}
			_, talks := claude.Adapter{}.Dialog(tt.r).(agents.Conversation)
			if want := tt.r.Transport == "stream-json"; c.Talks != want || talks != want || slices.Contains(c.Env, "CLAUDE_CODE_SIMPLE=0") != want {
				t.Errorf("talks %t, its dialog %t, environment %q", c.Talks, talks, c.Env)
			}
		})
	}
}

// A prompt that begins with a slash is a command to the CLI, and with exit status
// 0 no model would be asked. Nothing else in a prompt is touched.
func TestCommandPrompt(t *testing.T) {
	for prompt, want := range map[string]string{
		"/cost":          "\n/cost",
		"//comment":      "\n//comment",
		" /cost":         " /cost",
		"-p is a flag":   "-p is a flag",
		"see /etc/hosts": "see /etc/hosts",
	} {
		c, err := claude.Adapter{}.Command(agents.Request{Prompt: prompt})
		if err != nil || c.Stdin != want {
			t.Errorf("%q becomes %q (%v), want %q", prompt, c.Stdin, err, want)
		}
	}
}

func TestCommandLongSystemPrompt(t *testing.T) {
	text := strings.Repeat("x", 200<<10) // an argument holds 128 KiB
	c, err := claude.Adapter{}.Command(agents.Request{Prompt: "go", SystemPrompt: text, Scratch: "/scratch"})
	if err != nil {
		t.Fatal(err)
	}
	want := []agents.File{{Path: "/scratch/system-prompt.md", Data: []byte(text)}}
	if diff := cmp.Diff(want, c.Files); diff != "" {
		t.Error(diff)
	}
	if i := slices.Index(c.Args, "--append-system-prompt-file"); i < 0 || c.Args[i+1] != want[0].Path {
		t.Errorf("arguments do not name the file: %q", c.Args)
	}
}

// Without these the CLI retries a wrong key for three minutes, and lives on after
// its result for as long as a command in the background does.
func TestCommandEnvironment(t *testing.T) {
	c, err := claude.Adapter{}.Command(agents.Request{Prompt: "go"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1", "CLAUDE_CODE_DISABLE_FILE_MENTIONS=1", "CLAUDE_CODE_DISABLE_ULTRATHINK=1", "CLAUDE_CODE_MAX_RETRIES=3", "DISABLE_TELEMETRY=1"} {
		if !slices.Contains(c.Env, want) {
			t.Errorf("environment lacks %s: %q", want, c.Env)
		}
	}
}

// Under rules every command begins in the step's directory: a path in it is what it says.
func TestCommandDirectory(t *testing.T) {
	const stay = "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR=1"
	for name, tt := range map[string]struct {
		r    agents.Request
		want bool
	}{
		"rules":          {agents.Request{Prompt: "go", Rules: []agents.Rule{{Effect: "deny", Tool: "shell"}}}, true},
		"rules, one-way": {agents.Request{Prompt: "go", RuleDefault: "deny", Transport: "print"}, true},
		"two-way":        {agents.Request{Prompt: "go", Transport: "stream-json"}, true},
		"neither":        {agents.Request{Prompt: "go"}, false},
	} {
		c, err := claude.Adapter{}.Command(tt.r)
		if err != nil || slices.Contains(c.Env, stay) != tt.want {
			t.Errorf("%s: %q, %v", name, c.Env, err)
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	long := strings.Repeat("x", 128<<10)
	for _, tt := range []struct {
		name string
		r    agents.Request
		want string // in the message
	}{
		{"no prompt", agents.Request{Prompt: " \n"}, "prompt is empty"},
		{"prompt over the CLI's limit", agents.Request{Prompt: strings.Repeat("x", 11<<20)}, "reads at most"},
		{"resume of nothing", agents.Request{Session: agents.Session{Mode: agents.SessionResume}}, "not a UUID"},
		{"resume of a title", agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: "my-step"}}, "not a UUID"},
		{"resume of a flag", agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: "--continue"}}, "not a UUID"},
		{"fork of nothing", agents.Request{Session: agents.Session{Mode: agents.SessionFork, ID: idA}}, "not a UUID"},
		{"new session with a bad id", agents.Request{Session: agents.Session{ID: "11111111x2222-4333-8444-555555555555"}}, "not a UUID"},
		{"unknown session mode", agents.Request{Session: agents.Session{Mode: "last", ID: idA}}, "session mode"},
		{"ask-dangerous", agents.Request{Approval: agents.ApprovalAskDangerous}, "ask-dangerous"},
		{"unknown approval", agents.Request{Approval: "yolo"}, "yolo"},
		{"unknown sandbox", agents.Request{Sandbox: "docker"}, "docker"},
		{"all approved in the workspace", agents.Request{Approval: agents.ApprovalAutoAll}, "lifts the confinement"},
		{
			"all approved, read-only, with inherited MCP servers",
			agents.Request{Approval: agents.ApprovalAutoAll, Sandbox: agents.SandboxReadOnly, Inherit: true},
			"MCP tools",
		},
		{"a shell in the workspace", agents.Request{AllowedTools: []string{"Bash(go test *)"}}, "Bash cannot be allowed"},
		{"writing in read-only", agents.Request{Sandbox: agents.SandboxReadOnly, AllowedTools: []string{"Write"}}, "Write cannot be allowed"},
		{"a flag as a tool", agents.Request{AllowedTools: []string{"--bare"}}, "not a tool pattern"},
		{"an empty tool", agents.Request{BlockedTools: []string{""}}, "not a tool pattern"},
		{"relative directory", agents.Request{AddDirs: []string{"../x"}}, "not absolute"},
		{"negative turns", agents.Request{MaxTurns: -1}, "turn limit"},
		{"negative cost", agents.Request{MaxCostUSD: -1}, "money limit"},
		{"schema that is no JSON", agents.Request{Schema: json.RawMessage("{")}, "not JSON"},
		{"schema over one argument", agents.Request{Schema: json.RawMessage(`"` + long + `"`)}, "output schema has"},
		{"long system prompt, nowhere to put it", agents.Request{SystemPrompt: long}, "system prompt is too long"},
		{"another format", agents.Request{Args: []string{"--output-format=json"}}, "flow's own"},
		{"end of flags", agents.Request{Args: []string{"--", "hi"}}, "flow's own"},
		{"another session", agents.Request{Args: []string{"--continue"}}, "change the session"},
		{"an unknown transport", agents.Request{Transport: "carrier-pigeon"}, "no transport carrier-pigeon"},
		{"no callbacks", agents.Request{Transport: "stream-json", Args: []string{"--bare"}}, "does not call back"},
		{"no prompts", agents.Request{Args: []string{"--permission-prompts", "none"}}, "change the policy"},
		{"another policy", agents.Request{Args: []string{"--dangerously-skip-permissions"}}, "change the policy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.r.Prompt == "" {
				tt.r.Prompt = "go"
			}
			_, err := claude.Adapter{}.Command(tt.r)
			var p *agents.Problem
			if !errors.As(err, &p) {
				t.Fatalf("error %v, want a problem", err)
			}
			if p.Cause != agents.CauseConfig || p.Agent != "claude" || p.Hint == "" || !strings.Contains(p.Message, tt.want) {
				t.Errorf("problem %+v, want one about %q with a hint", p, tt.want)
			}
		})
	}
}

// Every mode is taken or refused as the capabilities say; a mode that is among
// them works with at least one of the others.
func TestCapabilitiesAgree(t *testing.T) {
	caps := claude.Adapter{}.Info().Capabilities
	approvals := []agents.ApprovalMode{
		agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAsk,
		agents.ApprovalAskDangerous, agents.ApprovalAutoEdit, agents.ApprovalAutoAll,
	}
	sandboxes := []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite}
	takes := func(a agents.ApprovalMode, s agents.SandboxMode) bool {
		return slices.ContainsFunc(claude.Adapter{}.Info().Transports, func(transport string) bool {
			_, err := claude.Adapter{}.Command(agents.Request{Prompt: "go", Approval: a, Sandbox: s, Transport: transport})
			return err == nil
		})
	}
	for _, a := range approvals {
		got := slices.ContainsFunc(sandboxes, func(s agents.SandboxMode) bool { return takes(a, s) })
		if want := slices.Contains(caps.Approval, a); got != want {
			t.Errorf("approval %s is taken: %v, capabilities say %v", a, got, want)
		}
	}
	for _, s := range sandboxes {
		got := slices.ContainsFunc(approvals, func(a agents.ApprovalMode) bool { return takes(a, s) })
		if want := slices.Contains(caps.Sandbox, s); got != want {
			t.Errorf("sandbox %s is taken: %v, capabilities say %v", s, got, want)
		}
	}
	if !takes("", "") {
		t.Error("the default modes are refused")
	}
	all := caps.ChoosesSessionID && caps.Resume && caps.Fork && caps.Schema && caps.MaxTurns && caps.MaxCost && caps.SystemPrompt
	if !all {
		t.Errorf("capabilities lack what Command takes: %+v", caps)
	}
}

// A sandbox is a choice of tools; none of them may be one that it cannot hold.
func TestSandboxTools(t *testing.T) {
	shell, edit := []string{"Bash"}, []string{"Edit", "Write"}
	for _, tt := range []struct {
		sandbox agents.SandboxMode
		lacks   []string
	}{
		{agents.SandboxReadOnly, append(shell, edit...)},
		{agents.SandboxWorkspaceWrite, shell},
		{agents.SandboxOff, []string{"SendMessage", "ListAgents"}},
	} {
		c, err := claude.Adapter{}.Command(agents.Request{Prompt: "go", Sandbox: tt.sandbox})
		if err != nil {
			t.Fatal(err)
		}
		tools := strings.Split(c.Args[slices.Index(c.Args, "--tools")+1], ",")
		for _, tool := range tt.lacks {
			if slices.Contains(tools, tool) {
				t.Errorf("sandbox %s has the tool %s", tt.sandbox, tool)
			}
		}
	}
}
