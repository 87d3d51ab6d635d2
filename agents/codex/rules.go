package codex

import (
	"cmp"
	"slices"

	"flow/agents"
)

// Exec has no rules on tools: codex works through a shell, and what bounds that is the
// sandbox. Of a request's rules flow makes what the sandbox can hold; the rest it sees in
// the events. App-server asks before every command and every patch, and is answered by
// the rules; what it does not ask about is turned off where the rules allow none of it.

// sandbox is the sandbox mode: that of the profile, but where the rules let no file be
// written nothing is written at all.
func sandbox(r agents.Request) agents.SandboxMode {
	if r.Approval != agents.ApprovalAutoAll && writesNothing(r) {
		return agents.SandboxReadOnly
	}
	return cmp.Or(r.Sandbox, agents.SandboxWorkspaceWrite)
}

// writesNothing reports whether the rules forbid both to write and to edit files. A
// shell that they allow may write what they do not speak of. Over app-server a person may
// be asked, so that what is to be asked is not forbidden.
func writesNothing(r agents.Request) bool {
	if r.Transport == transportServer {
		r = withoutAsking(r)
	}
	if r.Forbids(agents.ToolWriteFile) && r.Forbids(agents.ToolEditFile) {
		return true
	}
	return r.Closed() && !r.Allows(agents.ToolWriteFile) && !r.Allows(agents.ToolEditFile) && !r.Allows(agents.ToolShell)
}

// withoutAsking is r where what is to be asked is allowed.
func withoutAsking(r agents.Request) agents.Request {
	r.Rules = slices.Clone(r.Rules)
	for i, rule := range r.Rules {
		if rule.Effect == agents.EffectAsk {
			r.Rules[i].Effect = agents.EffectAllow
		}
	}
	if r.RuleDefault == agents.EffectAsk {
		r.RuleDefault = agents.EffectAllow
	}
	return r
}

// without reports whether the rules allow no call of tool without asking.
func without(r agents.Request, tool agents.Tool) bool {
	return r.Forbids(tool) || r.Closed() && !r.Allows(tool)
}

// Enforces reports whether codex keeps a rule by itself. Exec does not: it tells of a call
// that its sandbox holds up as of one that failed. App-server asks before a call, and the
// answer is a matter of the rules.
func (Adapter) Enforces(r agents.Request, rule *agents.Rule) bool {
	if r.Transport != transportServer {
		return false
	}
	return rule == nil || asked(agents.Tool(rule.Tool))
}

// asked reports whether app-server asks before calls that a rule about tool may be about.
// Files are read and searched by commands.
func asked(tool agents.Tool) bool {
	return tool != agents.ToolWebSearch && tool != agents.ToolWebFetch
}

// Enforcement says what becomes of the rules.
func (Adapter) Enforcement(r agents.Request) []agents.RuleEnforcement {
	return agents.EnforcementBy(r, func(rule *agents.Rule) (agents.Enforcement, string) {
		if r.Transport == transportServer {
			return serverEnforcement(r, rule)
		}
		return enforcement(r, rule)
	})
}

// serverEnforcement is what app-server makes of a rule, nil for the default.
func serverEnforcement(r agents.Request, rule *agents.Rule) (agents.Enforcement, string) {
	const asks = "codex asks before every command and patch"
	within := "within sandbox " + string(sandbox(r))
	switch {
	case rule == nil && r.Closed(), rule != nil && rule.Tool == "*":
		return agents.Enforced, asks
	case rule == nil, rule.Effect == agents.EffectAllow && (rule.Anything() || rule.Inside()):
		return agents.Sandboxed, within
	}
	switch tool := agents.Tool(rule.Tool); tool {
	case agents.ToolShell, agents.ToolWriteFile, agents.ToolEditFile:
		return agents.Enforced, asks
	case agents.ToolWebSearch:
		if without(r, tool) {
			return agents.Enforced, "the tool is turned off"
		}
		return agents.Detected, "codex does not ask before it searches"
	case agents.ToolWebFetch:
		if sandbox(r) != agents.SandboxOff {
			return agents.Sandboxed, "the sandbox has no network"
		}
		return agents.Detected, "codex fetches by commands"
	case agents.ToolMCP:
		return agents.Detected, "codex does not ask before tools that say they only read"
	default:
		return agents.Detected, "codex reads by commands: what they name is judged"
	}
}

// enforcement is what exec makes of a rule, nil for the default.
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
	case tool == agents.ToolWebSearch && without(r, tool):
		return agents.Enforced, "the tool is turned off"
	case (tool == agents.ToolWriteFile || tool == agents.ToolEditFile) && box == agents.SandboxReadOnly:
		return agents.Sandboxed, "the sandbox is read-only"
	case tool == agents.ToolWebFetch && box != agents.SandboxOff && r.Network != agents.NetworkOn:
		return agents.Sandboxed, "the sandbox has no network"
	}
	return agents.Detected, lack
}
