package gemini

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

const (
	uuid  = "11111111-2222-4333-8444-555555555555"
	other = "99999999-2222-4333-8444-555555555555"
)

// request is the smallest one, with with's changes.
func request(with func(*agents.Request)) agents.Request {
	r := agents.Request{Prompt: "say hello", Dir: "/repo", Scratch: "/scratch"}
	if with != nil {
		with(&r)
	}
	return r
}

func command(t *testing.T, r agents.Request) agents.Command {
	t.Helper()
	c, err := Adapter{}.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommandArgs(t *testing.T) {
	hermetic := []string{"--skip-trust", "--extensions=none", "--allowed-mcp-server-names=none"}
	base := func(mode string, more ...string) []string {
		return append([]string{"--output-format=stream-json", "--approval-mode=" + mode, "--admin-policy=/scratch/gemini-policy.toml"}, more...)
	}
	tests := []struct {
		name string
		with func(*agents.Request)
		want []string
	}{
		{"new", nil, slices.Concat(base("auto_edit"), hermetic, []string{"--model=gemini-2.5-pro"})},
		{
			"new with an id", func(r *agents.Request) { r.Session.ID = uuid },
			slices.Concat(base("auto_edit", "--session-id="+uuid), hermetic, []string{"--model=gemini-2.5-pro"}),
		},
		{
			"resume repeats every flag", func(r *agents.Request) {
				r.Session = agents.Session{Mode: agents.SessionResume, ID: uuid}
				r.Model, r.Approval = "gemini-2.5-flash", agents.ApprovalPlan
				r.AddDirs, r.Args = []string{"/lib", "/docs"}, []string{"--debug"}
			},
			slices.Concat(base("plan", "--resume="+uuid), hermetic,
				[]string{"--include-directories=/lib", "--include-directories=/docs", "--model=gemini-2.5-flash", "--debug"}),
		},
		{"inherit", func(r *agents.Request) { r.Inherit = true }, base("auto_edit", "--model=gemini-2.5-pro")},
		{
			"a model that looks like a flag stays a value", func(r *agents.Request) { r.Model = "--yolo" },
			slices.Concat(base("auto_edit"), hermetic, []string{"--model=--yolo"}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, command(t, request(tt.with)).Args); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A hermetic run must not trust the workspace by environment: the CLI would load
// its settings, hooks and all, before it reads a flag.
func TestCommandEnv(t *testing.T) {
	want := []string{
		"GEMINI_CLI_NO_RELAUNCH=1", "GEMINI_CLI_TRUST_WORKSPACE=false",
		"GEMINI_CLI_SYSTEM_SETTINGS_PATH=/scratch/gemini-settings.json",
		"GEMINI_CLI_SYSTEM_DEFAULTS_PATH=/scratch/gemini-defaults.json",
		"NO_COLOR=1", "TMPDIR=/scratch",
	}
	c := command(t, request(nil))
	if diff := cmp.Diff(want, c.Env); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c.Dir != "/repo" || c.Interrupt != "TERM" {
		t.Errorf("dir %q, interrupt %q", c.Dir, c.Interrupt)
	}
	inherit := command(t, request(func(r *agents.Request) { r.Inherit = true }))
	if !slices.Contains(inherit.Env, "GEMINI_CLI_TRUST_WORKSPACE=true") {
		t.Errorf("inherit does not trust the workspace: %q", inherit.Env)
	}
}

// In a home of the run's own the CLI works in a folder that it does not trust, and so
// leaves the repository's GEMINI.md alone; but for plan mode, which it would drop.
func TestCommandTrust(t *testing.T) {
	at := func(approval agents.ApprovalMode) agents.Command {
		return command(t, request(func(r *agents.Request) { r.Home, r.Approval = "/home", approval }))
	}
	for approval, want := range map[agents.ApprovalMode]string{
		"": "--approval-mode=default", agents.ApprovalDeny: "--approval-mode=default", agents.ApprovalPlan: "--approval-mode=plan",
	} {
		c, plan := at(approval), approval == agents.ApprovalPlan
		if !slices.Contains(c.Args, want) || slices.Contains(c.Args, "--skip-trust") != plan {
			t.Errorf("approval %q: %q", approval, c.Args)
		}
		if trusted := strings.Contains(file(t, c, "/scratch/gemini-settings.json"), "folderTrust"); trusted == plan {
			t.Errorf("approval %q: trust is spoken of: %t", approval, trusted)
		}
	}
}

func TestCommandStdin(t *testing.T) {
	tests := []struct{ name, prompt, want string }{
		{"plain", "say hello", "say hello"},
		{"a command of the CLI", "/memory show", "The task:\n\n/memory show"},
		{"after blanks too, which the CLI trims", "\n  /quit", "The task:\n\n\n  /quit"},
		{"a path further on", "read /etc/hosts", "read /etc/hosts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := command(t, request(func(r *agents.Request) { r.Prompt = tt.prompt })).Stdin; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	schema := json.RawMessage(`{"type":"object"}`)
	got := command(t, request(func(r *agents.Request) { r.Schema = schema })).Stdin
	if found := agents.SchemaOf(got); string(found) != string(schema) {
		t.Errorf("the schema in the prompt is %s", found)
	}
}

func TestCommandRefuses(t *testing.T) {
	tests := []struct {
		name string
		with func(*agents.Request)
		hint string // a part of it
	}{
		{"fork in the user's home", func(r *agents.Request) {
			r.Session, r.Inherit = agents.Session{Mode: agents.SessionFork, ID: other, Parent: uuid}, true
		}, "claude or codex"},
		{"fork without an id", func(r *agents.Request) {
			r.Session, r.Home = agents.Session{Mode: agents.SessionFork, Parent: uuid}, "/home"
		}, "UUID"},
		{"fork of nothing", func(r *agents.Request) {
			r.Session, r.Home = agents.Session{Mode: agents.SessionFork, ID: uuid}, "/home"
		}, "UUID"},
		{"money limit", func(r *agents.Request) { r.MaxCostUSD = 1 }, "claude"},
		{"system prompt", func(r *agents.Request) { r.SystemPrompt = "Be brief." }, "start of the prompt"},
		{"effort", func(r *agents.Request) { r.Effort = "high" }, "model"},
		{"no prompt", func(r *agents.Request) { r.Prompt = " \n" }, "prompt"},
		{"a prompt beyond what the CLI reads", func(r *agents.Request) { r.Prompt = strings.Repeat("x", maxPrompt+1) }, "file"},
		{"a prompt that is no text", func(r *agents.Request) { r.Prompt = "\xff" }, "file"},
		{"resume of nothing", func(r *agents.Request) { r.Session.Mode = agents.SessionResume }, "UUID"},
		{"resume of a place in a list", func(r *agents.Request) { r.Session = agents.Session{Mode: agents.SessionResume, ID: "latest"} }, "UUID"},
		{"a session id with a flag in it", func(r *agents.Request) { r.Session.ID = "--yolo" }, "UUID"},
		{"a UUID with a wrong digit", func(r *agents.Request) { r.Session.ID = "1111111g-2222-4333-8444-555555555555" }, "UUID"},
		{"a relative directory", func(r *agents.Request) { r.AddDirs = []string{"lib"} }, "absolute"},
		{"two directories in one", func(r *agents.Request) { r.AddDirs = []string{"/lib,/etc"} }, "comma"},
		{"ask-dangerous", func(r *agents.Request) { r.Approval = agents.ApprovalAskDangerous }, "plan, deny, ask, auto-edit or auto-all"},
		{"an unknown approval", func(r *agents.Request) { r.Approval = "maybe" }, "auto-edit"},
		{"an unknown sandbox", func(r *agents.Request) { r.Sandbox = "glass" }, "read-only"},
		{"an unreadable pattern", func(r *agents.Request) { r.AllowedTools = []string{"read_file(*.go)"} }, "run_shell_command(PREFIX)"},
		{"a pattern with a line break", func(r *agents.Request) { r.BlockedTools = []string{"x\ny"} }, "tool's name"},
		{"the shell within the workspace", func(r *agents.Request) { r.AllowedTools = []string{"run_shell_command(ls)"} }, "sandbox off"},
		{"everything within the workspace", func(r *agents.Request) { r.AllowedTools = []string{"*"} }, "sandbox off"},
		{"an MCP server within the workspace", func(r *agents.Request) { r.AllowedTools = []string{"mcp_github_*"} }, "sandbox off"},
		{"writing in plan mode", func(r *agents.Request) {
			r.Approval, r.AllowedTools = agents.ApprovalPlan, []string{"write_file"}
		}, "do not allow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Adapter{}.Command(request(tt.with))
			var p *agents.Problem
			if !errors.As(err, &p) {
				t.Fatalf("got %v, want a problem", err)
			}
			if p.Cause != agents.CauseConfig || p.Agent != Name || !strings.Contains(p.Hint, tt.hint) {
				t.Errorf("got %+v, want a hint with %q", p, tt.hint)
			}
		})
	}
}

// TestModes walks every pair of modes and holds the refusals against what the
// capabilities promise: a mode is promised exactly if some pair with it works.
func TestModes(t *testing.T) {
	want := map[agents.ApprovalMode]map[agents.SandboxMode]string{
		"":                          {agents.SandboxOff: "auto_edit", agents.SandboxReadOnly: "default", agents.SandboxWorkspaceWrite: "auto_edit"},
		agents.ApprovalPlan:         {agents.SandboxOff: "plan", agents.SandboxReadOnly: "plan", agents.SandboxWorkspaceWrite: "plan"},
		agents.ApprovalDeny:         {agents.SandboxOff: "default", agents.SandboxReadOnly: "default", agents.SandboxWorkspaceWrite: "default"},
		agents.ApprovalAsk:          {agents.SandboxOff: "default", agents.SandboxReadOnly: "default", agents.SandboxWorkspaceWrite: "default"},
		agents.ApprovalAskDangerous: {},
		agents.ApprovalAutoEdit:     {agents.SandboxOff: "auto_edit", agents.SandboxWorkspaceWrite: "auto_edit"},
		agents.ApprovalAutoAll:      {agents.SandboxOff: "yolo"},
	}
	capabilities := Adapter{}.Info().Capabilities
	works := map[string]bool{}
	for approval, row := range want {
		for _, box := range []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite} {
			c, err := Adapter{}.Command(request(func(r *agents.Request) { r.Approval, r.Sandbox = approval, box }))
			if mode := row[box]; (err == nil) != (mode != "") || err == nil && !slices.Contains(c.Args, "--approval-mode="+mode) {
				t.Errorf("approval %q, sandbox %s: got %q, %v; want mode %q", approval, box, c.Args, err, mode)
			}
			if err == nil {
				works[string(approval)], works[string(box)] = true, true
			}
			_, err = Adapter{}.Command(request(func(r *agents.Request) { r.Approval, r.Sandbox, r.Transport = approval, box, transport }))
			works[string(approval)] = works[string(approval)] || err == nil
		}
		if approval != "" && works[string(approval)] != slices.Contains(capabilities.Approval, approval) {
			t.Errorf("approval %q: the capabilities promise something else", approval)
		}
	}
	for _, box := range capabilities.Sandbox {
		if !works[string(box)] {
			t.Errorf("sandbox %q is promised but always refused", box)
		}
	}
}

// TestCapabilities holds the other promises against what Command does.
func TestCapabilities(t *testing.T) {
	c := Adapter{}.Info().Capabilities
	accepts := func(with func(*agents.Request)) bool {
		_, err := Adapter{}.Command(request(with))
		return err == nil
	}
	for _, tt := range []struct {
		name     string
		promised bool
		with     func(*agents.Request)
	}{
		{"fork", c.Fork, func(r *agents.Request) {
			r.Session, r.Home = agents.Session{Mode: agents.SessionFork, ID: other, Parent: uuid}, "/home"
		}},
		{"resume", c.Resume, func(r *agents.Request) { r.Session = agents.Session{Mode: agents.SessionResume, ID: uuid} }},
		{"session id", c.ChoosesSessionID, func(r *agents.Request) { r.Session.ID = uuid }},
		{"max turns", c.MaxTurns, func(r *agents.Request) { r.MaxTurns = 3 }},
		{"max cost", c.MaxCost, func(r *agents.Request) { r.MaxCostUSD = 3 }},
		{"system prompt", c.SystemPrompt, func(r *agents.Request) { r.SystemPrompt = "x" }},
	} {
		if accepts(tt.with) != tt.promised {
			t.Errorf("%s: promised %t, but Command does the opposite", tt.name, tt.promised)
		}
	}
}

func file(t *testing.T, c agents.Command, path string) string {
	t.Helper()
	for _, f := range c.Files {
		if f.Path == path {
			return string(f.Data)
		}
	}
	t.Fatalf("no file %s", path)
	return ""
}

func TestSettings(t *testing.T) {
	read := func(with func(*agents.Request)) map[string]map[string]any {
		var s map[string]map[string]any
		if err := json.Unmarshal([]byte(file(t, command(t, request(with)), "/scratch/gemini-settings.json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	hermetic := read(func(r *agents.Request) { r.MaxTurns = 7 })
	if hermetic["model"]["maxSessionTurns"] != 7.0 || hermetic["hooksConfig"]["enabled"] != false || hermetic["general"]["maxAttempts"] != 2.0 {
		t.Errorf("hermetic settings: %v", hermetic)
	}
	inherit := read(func(r *agents.Request) { r.Inherit = true })
	if inherit["model"] != nil || inherit["hooksConfig"] != nil || inherit["general"]["enableAutoUpdate"] != false {
		t.Errorf("inherited settings: %v", inherit)
	}
}

// A home of the run's own keeps the user's settings and instructions out, and
// serves all turns: they share their sessions, so they must share the file too.
func TestHome(t *testing.T) {
	const path = "/run/agents/gemini/.gemini/settings.json"
	at := func(with func(*agents.Request)) agents.Command {
		return command(t, request(func(r *agents.Request) {
			r.Home = "/run/agents/gemini"
			if with != nil {
				with(r)
			}
		}))
	}
	plain := at(nil)
	want := append(command(t, request(nil)).Env, "GEMINI_CLI_HOME=/run/agents/gemini", "FLOW_GEMINI_MAX_TURNS=-1")
	if diff := cmp.Diff(want, plain.Env); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	limited := at(func(r *agents.Request) {
		r.MaxTurns, r.Sandbox, r.Scratch = 7, agents.SandboxReadOnly, "/other"
		r.Session = agents.Session{Mode: agents.SessionResume, ID: uuid}
	})
	if !slices.Contains(limited.Env, "FLOW_GEMINI_MAX_TURNS=7") {
		t.Errorf("the limit is not in %q", limited.Env)
	}
	if diff := cmp.Diff(file(t, plain, path), file(t, limited, path)); diff != "" {
		t.Errorf("two turns differ in the file they share:\n%s", diff)
	}
}

func TestHomeSettings(t *testing.T) {
	var home, system map[string]map[string]any
	c := command(t, request(func(r *agents.Request) { r.Home = "/home" }))
	for path, s := range map[string]*map[string]map[string]any{"/home/.gemini/settings.json": &home, "/scratch/gemini-settings.json": &system} {
		if err := json.Unmarshal([]byte(file(t, c, path)), s); err != nil {
			t.Fatal(err)
		}
	}
	// What only a home can say, for the system's file is the turn's own.
	system["model"] = map[string]any{"maxSessionTurns": "${FLOW_GEMINI_MAX_TURNS}"}
	system["security"]["auth"] = map[string]any{"selectedType": "${GEMINI_DEFAULT_AUTH_TYPE:-gemini-api-key}"}
	if diff := cmp.Diff(system, home); diff != "" {
		t.Errorf("-system +home:\n%s", diff)
	}
}

// Inherit means the user's own home, where the user's sessions and login are too.
func TestInheritKeepsHome(t *testing.T) {
	inherit := func(r *agents.Request) { r.Inherit = true }
	c := command(t, request(func(r *agents.Request) { inherit(r); r.Home = "/home" }))
	if diff := cmp.Diff(command(t, request(inherit)), c); diff != "" {
		t.Errorf("-without +with a home:\n%s", diff)
	}
}

func TestPolicy(t *testing.T) {
	tests := []struct {
		name string
		with func(*agents.Request)
		want string
	}{
		{"nothing to say", func(r *agents.Request) { r.Sandbox = agents.SandboxOff }, ""},
		{
			"workspace-write", nil,
			deny("run_shell_command", 900) + deny("mcp_*", 900) + deny("discovered_tool_*", 900),
		},
		{
			"read-only", func(r *agents.Request) { r.Sandbox = agents.SandboxReadOnly },
			deny("run_shell_command", 900) + deny("mcp_*", 900) + deny("discovered_tool_*", 900) + deny("write_file", 900) + deny("replace", 900),
		},
		{
			"blocked and allowed", func(r *agents.Request) {
				r.Sandbox = agents.SandboxOff
				r.BlockedTools, r.AllowedTools = []string{"web_fetch"}, []string{`run_shell_command(echo "hi")`}
			},
			deny("web_fetch", 200) + "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"echo \\\"hi\\\"\"\ndecision = \"allow\"\npriority = 100\nallowRedirection = true\n\n",
		},
		{
			"a home of the run's own: what the mode would grant", func(r *agents.Request) { r.Home = "/home" },
			allow("write_file", 50) + allow("replace", 50) + allow("web_fetch", 50) +
				deny("run_shell_command", 900) + deny("mcp_*", 900) + deny("discovered_tool_*", 900),
		},
		{
			"and everything, where everything passes", func(r *agents.Request) {
				r.Home, r.Sandbox, r.Approval = "/home", agents.SandboxOff, agents.ApprovalAutoAll
			},
			allow("*", 50),
		},
		{"nothing where nothing is granted", func(r *agents.Request) {
			r.Home, r.Sandbox, r.Approval = "/home", agents.SandboxOff, agents.ApprovalDeny
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, file(t, command(t, request(tt.with)), "/scratch/gemini-policy.toml")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func allow(tool string, priority int) string {
	return string(appendRule(nil, rule{tool: tool}, "allow", priority))
}

func deny(tool string, priority int) string {
	b := appendRule(nil, rule{tool: tool}, "deny", priority)
	return string(b)
}
