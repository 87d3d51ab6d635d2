package policy_test

import (
	"testing"

	"flow/agents"
	"flow/agents/policy"
)

// What becomes of a call that no rule is about, for each kind of call and each approval
// mode: the table of docs/permissions.md.
func TestDecideTable(t *testing.T) {
	modes := []agents.ApprovalMode{"", agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAsk, agents.ApprovalAskDangerous, agents.ApprovalAutoEdit, agents.ApprovalAutoAll}
	rows := []struct {
		name string
		call policy.Call
		risk agents.Risk
		want [7]policy.Effect
	}{
		{"read", file(agents.ToolReadFile, "a"), "low", [7]policy.Effect{"allow", "allow", "allow", "allow", "allow", "allow", "allow"}},
		{"search", policy.Call{Tool: agents.ToolSearchContent, Target: "x"}, "low", [7]policy.Effect{"allow", "allow", "allow", "allow", "allow", "allow", "allow"}},
		{"plan of its own", policy.Call{Tool: agents.ToolTodo}, "low", [7]policy.Effect{"allow", "allow", "allow", "allow", "allow", "allow", "allow"}},
		{"nothing", shell("cd sub; true"), "medium", [7]policy.Effect{"allow", "allow", "allow", "allow", "allow", "allow", "allow"}},
		{"edit", file(agents.ToolEditFile, "a"), "medium", [7]policy.Effect{"allow", "deny", "deny", "ask", "allow", "allow", "allow"}},
		{"web search", policy.Call{Tool: agents.ToolWebSearch, Target: "x"}, "medium", [7]policy.Effect{"deny", "allow", "deny", "ask", "allow", "ask", "allow"}},
		{"edit outside", file(agents.ToolEditFile, "../a"), "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"read outside", file(agents.ToolReadFile, "/etc/passwd"), "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"search outside", policy.Call{Tool: agents.ToolSearchContent, Arguments: []byte(`{"path":"/etc"}`)}, "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"no file", file(agents.ToolEditFile, ""), "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"shell", shell("make"), "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"fetch", policy.Call{Tool: agents.ToolWebFetch, Target: "https://a.b/"}, "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"mcp", policy.Call{Tool: agents.ToolMCP, Native: "mcp__a__b"}, "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"subagent", policy.Call{Tool: agents.ToolSubagent}, "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"unknown tool", policy.Call{Tool: agents.ToolOther, Native: "Teleport", Risk: "high"}, "high", [7]policy.Effect{"ask", "deny", "deny", "ask", "ask", "ask", "allow"}},
		{"protected file", file(agents.ToolWriteFile, ".claude/settings.json"), "high", [7]policy.Effect{"ask", "deny", "deny", "ask", "ask", "ask", "ask"}},
		{"protected by a command", shell("cp x .git/hooks/pre-commit"), "high", [7]policy.Effect{"deny", "deny", "deny", "ask", "ask", "ask", "ask"}},
	}
	p := policy.New(nil, "", "/w")
	for _, row := range rows {
		for i, mode := range modes {
			d := p.Decide(row.call, mode, false)
			if d.Effect != row.want[i] || d.Risk != row.risk || d.Rule != nil || d.Why == "" {
				t.Errorf("%s in mode %q: %+v, want %s of %s risk", row.name, mode, d, row.want[i], row.risk)
			}
		}
	}
}

// In a sandbox commands pass without an approval mode, and nothing else does.
func TestHeld(t *testing.T) {
	p := policy.New(rules("deny shell(rm *)"), "", "/w")
	for _, row := range []struct {
		call policy.Call
		mode agents.ApprovalMode
		want policy.Effect
	}{
		{shell("make"), "", policy.Allow},
		{shell("make"), agents.ApprovalDeny, policy.Deny},
		{shell("make"), agents.ApprovalAsk, policy.Ask},
		{shell("rm x"), "", policy.Deny},
		{shell("$x y"), "", policy.Ask},
		{shell("cp x .git/hooks/pre-commit"), "", policy.Ask},
		{policy.Call{Tool: agents.ToolWebFetch, Target: "https://a.b/"}, "", policy.Deny},
		{policy.Call{Tool: agents.ToolMCP, Native: "mcp__a__b"}, "", policy.Deny},
	} {
		if d := p.Decide(row.call, row.mode, true); d.Effect != row.want {
			t.Errorf("%s in mode %q: %+v, want %s", row.call.Target, row.mode, d, row.want)
		}
	}
}

// A rule or a default goes before any approval mode.
func TestRulesBeforeApproval(t *testing.T) {
	call := shell("git push")
	for _, mode := range []agents.ApprovalMode{"", agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAutoAll} {
		for _, effect := range []string{"allow", "ask", "deny"} {
			if d := policy.New(rules(effect+" shell(git push)"), "", "/w").Decide(call, mode, false); string(d.Effect) != effect || d.Rule == nil {
				t.Errorf("%s in mode %q is %+v", effect, mode, d)
			}
			if d := policy.New(nil, effect, "/w").Decide(call, mode, false); string(d.Effect) != effect || d.Rule != nil {
				t.Errorf("default %s in mode %q is %+v", effect, mode, d)
			}
		}
	}
	// Of a script with parts that no rule is about, those decide.
	p := policy.New(rules("allow shell(ls *)"), "", "/w")
	if d := p.Decide(shell("ls; make"), agents.ApprovalAutoEdit, false); d.Effect != policy.Ask || d.Risk != agents.RiskHigh {
		t.Errorf("%+v", d)
	}
}

// What rules allow is of less risk.
func TestRiskWithRules(t *testing.T) {
	p := policy.New(rules("allow shell(go test *)", "allow web_fetch(domain:go.dev)", "allow mcp(a)", "ask shell(git push)"), "allow", "/w")
	for _, c := range []struct {
		call policy.Call
		want agents.Risk
	}{
		{shell("go test ./... && go test -v x"), "medium"},
		{shell("go test ./... && make"), "high"},
		{shell("git push"), "high"},
		{policy.Call{Tool: agents.ToolWebFetch, Target: "https://go.dev/x"}, "medium"},
		{policy.Call{Tool: agents.ToolWebFetch, Target: "https://evil.dev/x"}, "high"},
		{policy.Call{Tool: agents.ToolMCP, Native: "mcp__a__b"}, "high"},
	} {
		if got := p.Risk(c.call); got != c.want {
			t.Errorf("%+v is of %s risk", c.call, got)
		}
		if d := p.Judge(c.call); d.Risk != c.want {
			t.Errorf("the decision on %+v says %s", c.call, d.Risk)
		}
	}
}
