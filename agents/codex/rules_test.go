package codex

import (
	"slices"
	"strings"
	"testing"

	"flow/agents"
)

func ruled(fallback string, rules ...string) agents.Request {
	r := agents.Request{Prompt: "go", Dir: "/repo", Scratch: "/scratch", RuleDefault: fallback}
	for _, text := range rules {
		effect, rest, _ := strings.Cut(text, " ")
		tool, pattern, _ := strings.Cut(rest, "(")
		r.Rules = append(r.Rules, agents.Rule{Effect: effect, Tool: tool, Pattern: strings.TrimSuffix(pattern, ")")})
	}
	return r
}

// TestRulesChooseTheSandbox: where nothing may be written the sandbox is read-only.
func TestRulesChooseTheSandbox(t *testing.T) {
	for _, tt := range []struct {
		r    agents.Request
		want string
	}{
		{ruled(""), "workspace-write"},
		{ruled("deny"), "read-only"},
		{ruled("ask", "allow read_file"), "read-only"},
		{ruled("deny", "allow edit_file(src/**)"), "workspace-write"},
		{ruled("deny", "allow shell(make)"), "workspace-write"},
		{ruled("", "deny write_file"), "workspace-write"},
		{ruled("", "deny write_file", "deny edit_file"), "read-only"},
		{ruled("", "deny write_file(x)", "deny edit_file"), "workspace-write"},
		{ruled("allow", "deny *"), "read-only"},
	} {
		c, err := Adapter{}.Command(tt.r)
		if i := slices.Index(c.Args, "-s"); err != nil || c.Args[i+1] != tt.want {
			t.Errorf("%s %v: %q, %v", tt.r.RuleDefault, tt.r.Rules, c.Args, err)
		}
	}
}

func TestEnforcement(t *testing.T) {
	const lack = "detected codex has no rules on tools"
	for text, want := range map[string]string{
		"deny shell":                "detected codex has no rules on tools",
		"deny write_file":           lack,
		"deny web_fetch":            "sandboxed the sandbox has no network",
		"deny mcp":                  "enforced no MCP server is loaded",
		"allow read_file":           "sandboxed within sandbox workspace-write",
		"allow write_file(**)":      "sandboxed within sandbox workspace-write",
		"allow write_file(docs/**)": lack,
	} {
		r := ruled("", text)
		e := Adapter{}.Enforcement(r)
		if got := string(e[0].How) + " " + e[0].Why; len(e) != 1 || got != want || (Adapter{}).Enforces(r, &r.Rules[0]) {
			t.Errorf("%s: %s", text, got)
		}
	}
	if e := (Adapter{}).Enforcement(ruled("deny", "deny write_file")); e[0].How != agents.Sandboxed || e[1].How != agents.Detected {
		t.Errorf("%+v", e)
	}
}
