package policy

import (
	"slices"

	"flow/agents"
)

// Decide says what is to become of a call that an agent asks about: what Judge says,
// and where no rule and no default speaks of the call, what the approval mode makes of
// its risk. Held says that the agent's commands are in a sandbox. The effect is never
// Unruled. Ask means that a person is to be asked.
func (p *Policy) Decide(c Call, approval agents.ApprovalMode, held bool) Decision {
	d := p.Judge(c)
	if d.Rule != nil || d.Effect == Allow || p.fallback != Unruled {
		return d
	}
	if by := p.unruled(c, d.Risk, approval, held); by.weight() > d.Effect.weight() || d.Effect == Unruled {
		d.Effect = by
		d.Why += ", of " + string(d.Risk) + " risk" + mode(approval)
	}
	return d
}

// unruled is what an approval mode makes of a call that no rule is about.
func (p *Policy) unruled(c Call, risk agents.Risk, approval agents.ApprovalMode, held bool) Effect {
	edit := writes(string(c.Tool)) && p.inside(c)
	switch {
	case approval == agents.ApprovalAutoAll, risk == agents.RiskLow:
		return Allow
	case approval == agents.ApprovalDeny:
		return Deny
	case approval == agents.ApprovalPlan:
		return choose(risk == agents.RiskMedium && !edit, Allow, Deny)
	case approval == agents.ApprovalAsk:
		return Ask
	case approval == agents.ApprovalAskDangerous:
		return choose(risk == agents.RiskHigh, Ask, Allow)
	case approval == agents.ApprovalAutoEdit:
		return choose(edit, Allow, Ask)
	case c.Tool == agents.ToolOther:
		return Ask
	}
	return choose(edit || held && c.Tool == agents.ToolShell, Allow, Deny)
}

func choose(first bool, a, b Effect) Effect {
	if first {
		return a
	}
	return b
}

func mode(approval agents.ApprovalMode) string {
	if approval == "" {
		return ""
	}
	return " in approval mode " + string(approval)
}

// Risk is how much harm a call could do. Low: it reads in the workspace, or it is the
// agent's own affair. Medium: it changes a file of the workspace, searches the web,
// reads from a host that a rule allows, or runs commands each of which a rule allows.
// High is everything else: other commands and hosts, what lies outside, protected files,
// tools of MCP servers, other agents, and tools that nobody knows.
func (p *Policy) Risk(c Call) agents.Risk {
	if harmless(c) {
		return agents.RiskLow
	}
	switch c.Tool {
	case agents.ToolReadFile, agents.ToolSearchContent, agents.ToolFindFiles:
		return p.riskOfFiles(c, agents.RiskLow)
	case agents.ToolWriteFile, agents.ToolEditFile:
		return p.riskOfFiles(c, agents.RiskMedium)
	case agents.ToolWebSearch:
		return agents.RiskMedium
	case agents.ToolShell, agents.ToolWebFetch:
		rules := *p
		rules.fallback = Unruled
		if rules.judge(c).Effect == Allow {
			return agents.RiskMedium
		}
	case agents.ToolMCP, agents.ToolSubagent, agents.ToolTodo, agents.ToolOther:
	}
	return agents.RiskHigh
}

// riskOfFiles is the risk of a call whose files are all in the workspace and not
// protected, and high for others.
func (p *Policy) riskOfFiles(c Call, usual agents.Risk) agents.Risk {
	guarded := func(file string) bool { return p.protected(file) != nil }
	if !p.inside(c) || writes(string(c.Tool)) && slices.ContainsFunc(Files(c), guarded) {
		return agents.RiskHigh
	}
	return usual
}

// inside reports whether all files that a call is about are in the workspace.
func (p *Policy) inside(c Call) bool {
	return !slices.ContainsFunc(Files(c), func(file string) bool {
		_, inside := p.resolve(file)
		return file == "" || !inside
	})
}
