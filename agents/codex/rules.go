package codex

import (
	"cmp"

	"flow/agents"
)

// Codex exec has no rules on tools: it works through a shell, and what bounds that is
// the sandbox. Of a request's rules flow makes what the sandbox can hold; the rest it
// sees in the events.

// sandbox is the sandbox mode: that of the profile, but where the rules let no file be
// written nothing is written at all.
func sandbox(r agents.Request) agents.SandboxMode {
	if r.Approval != agents.ApprovalAutoAll && writesNothing(r) {
		return agents.SandboxReadOnly
	}
	return cmp.Or(r.Sandbox, agents.SandboxWorkspaceWrite)
}

// writesNothing reports whether the rules forbid both to write and to edit files. A
// shell that they allow may write what they do not speak of.
func writesNothing(r agents.Request) bool {
	if r.Forbids(agents.ToolWriteFile) && r.Forbids(agents.ToolEditFile) {
		return true
	}
	return r.Closed() && !r.Allows(agents.ToolWriteFile) && !r.Allows(agents.ToolEditFile) && !r.Allows(agents.ToolShell)
}

// Enforces is false: codex tells of a call that its sandbox holds up as of one that
// failed.
func (Adapter) Enforces(agents.Request, *agents.Rule) bool { return false }

// Enforcement says what becomes of the rules.
func (Adapter) Enforcement(r agents.Request) []agents.RuleEnforcement {
	return agents.EnforcementBy(r, func(rule *agents.Rule) (agents.Enforcement, string) { return enforcement(r, rule) })
}

func enforcement(r agents.Request, rule *agents.Rule) (agents.Enforcement, string) {
	const lack = "codex has no rules on tools"
	switch {
	case rule == nil && r.Closed():
		return agents.Detected, lack
	case rule == nil:
		return agents.Sandboxed, "within sandbox " + string(sandbox(r))
	case rule.Tool == string(agents.ToolMCP) && !r.Inherit:
		return agents.Enforced, "no MCP server is loaded"
	case rule.Effect == "allow" && (rule.Anything() || rule.Inside()):
		return agents.Sandboxed, "within sandbox " + string(sandbox(r))
	case rule.Effect == "allow":
		return agents.Detected, lack
	}
	tool, box := agents.Tool(rule.Tool), sandbox(r)
	switch {
	case (tool == agents.ToolWriteFile || tool == agents.ToolEditFile) && box == agents.SandboxReadOnly:
		return agents.Sandboxed, "the sandbox is read-only"
	case tool == agents.ToolWebFetch && box != agents.SandboxOff && r.Network != agents.NetworkOn:
		return agents.Sandboxed, "the sandbox has no network"
	}
	return agents.Detected, lack
}
