package gemini

import (
	"strings"
	"testing"

	"flow/agents"
)

// An agent that is confined may have a shell, but not without a network of which it could
// not be kept.
func TestConfined(t *testing.T) {
	allowShell := agents.Rule{Effect: "allow", Tool: "shell", Where: "p.yaml:1:1"}
	for name, tt := range map[string]struct {
		change func(*agents.Request)
		denied string // tools that the sandbox denies; "-": the request is refused
	}{
		"workspace":           {func(*agents.Request) {}, "mcp_* discovered_tool_*"},
		"not confined":        {func(r *agents.Request) { r.Confined = false }, "run_shell_command mcp_* discovered_tool_*"},
		"offline":             {func(r *agents.Request) { r.Network = agents.NetworkOff }, "run_shell_command mcp_* discovered_tool_* web_fetch google_web_search"},
		"offline, inheriting": {func(r *agents.Request) { r.Network, r.Inherit = agents.NetworkOff, true }, "-"},
		"read-only": {
			func(r *agents.Request) { r.Sandbox = agents.SandboxReadOnly }, "run_shell_command mcp_* discovered_tool_* write_file replace",
		},
		"everything":       {func(r *agents.Request) { r.Approval = agents.ApprovalAutoAll }, "mcp_* discovered_tool_*"},
		"everything, free": {func(r *agents.Request) { r.Approval, r.Confined = agents.ApprovalAutoAll, false }, "-"},
		"a rule":           {func(r *agents.Request) { r.Rules = []agents.Rule{allowShell} }, "mcp_* discovered_tool_*"},
		"a rule, offline":  {func(r *agents.Request) { r.Rules, r.Network = []agents.Rule{allowShell}, agents.NetworkOff }, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(func(r *agents.Request) { r.Sandbox, r.Confined = agents.SandboxWorkspaceWrite, true })
			tt.change(&r)
			c, err := Adapter{}.Command(r)
			if (err != nil) != (tt.denied == "-") {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			policy := file(t, c, "/scratch/gemini-policy.toml")
			for tool := range strings.FieldsSeq("run_shell_command mcp_* discovered_tool_* web_fetch google_web_search write_file replace") {
				want := strings.Contains(" "+tt.denied+" ", " "+tool+" ")
				if got := strings.Contains(policy, deny(tool, sandboxPriority)); got != want {
					t.Errorf("the sandbox denies %s: %t", tool, got)
				}
			}
		})
	}
}

func TestEnforcementWhenConfined(t *testing.T) {
	r := request(func(r *agents.Request) {
		r.Sandbox, r.Confined = agents.SandboxWorkspaceWrite, true
		r.Rules = []agents.Rule{{Effect: "deny", Tool: "write_file", Pattern: "/etc/**"}, {Effect: "deny", Tool: "write_file", Pattern: "src/**"}}
	})
	e := Adapter{}.Enforcement(r)
	if e[0].How != agents.Sandboxed || e[1].How != agents.Detected {
		t.Errorf("%+v", e)
	}
}

func TestWritable(t *testing.T) {
	for _, inherit := range []bool{false, true} {
		c := command(t, request(func(r *agents.Request) { r.Home, r.Inherit = "/run/home", inherit }))
		if got, want := strings.Join(c.Writable, " "), map[bool]string{false: "/run/home/", true: "${GEMINI_CLI_HOME:-~}/.gemini/"}[inherit]; got != want {
			t.Errorf("inherit %t: %s may be written", inherit, got)
		}
	}
}
