// Package policy judges tool calls by the rules of a pipeline, in words that all agents
// share. It is pure: what it knows of a call is what the call says. So it sees neither
// what a program does nor where a symbolic link leads; rules tell an agent what is
// wanted, and a sandbox holds one that will not listen.
package policy

import (
	"path/filepath"
	"slices"

	"flow/agents"
)

// Effect is what is to become of a call. The zero value leaves that to the agent's
// approval mode.
type Effect string

// The effects. Deny beats ask, and ask beats allow.
const (
	Unruled Effect = ""
	Allow   Effect = "allow"
	Ask     Effect = "ask"
	Deny    Effect = "deny"
)

// weight orders effects: of several, the heaviest holds. A call of several parts passes
// only when every part does, so that what no rule is about weighs more than what one allows.
func (e Effect) weight() int { return slices.Index([]Effect{Allow, Unruled, Ask, Deny}, e) }

// A Call is a call of a tool, as agents.ToolStarted has it.
type Call struct {
	Tool      agents.Tool
	Native    string // the agent's own name of the tool
	Target    string
	Risk      agents.Risk
	Arguments []byte // JSON, or nil
}

// CallOf is the call that an event reports.
func CallOf(e agents.ToolStarted) Call {
	return Call{Tool: e.ToolName, Native: e.NativeName, Target: e.Target, Risk: e.Risk, Arguments: e.Arguments}
}

// A Decision is what the rules say of a call.
type Decision struct {
	Effect Effect
	Rule   *agents.Rule // that decided; nil when none did
	Why    string       // what the decision is about, for people
	Risk   agents.Risk  // of the call, whatever was decided
}

// A Policy is rules made ready to judge. It may be used concurrently.
type Policy struct {
	rules    []rule
	fallback Effect
	dir      string
	protects []protection
	further  bool // it protects more than every policy does
}

// A rule is an agents.Rule with its pattern understood.
type rule struct {
	agents.Rule
	effect Effect
	match  func(text string) bool // of patterns that are compared with a text
}

// New returns the policy of rules. fallback is the effect of a call that no rule is
// about. dir is the absolute directory that the agent works in: paths of rules and of
// calls are relative to it. Besides what every policy protects (see Protected) it
// protects the files that the globs of protect match, with all that is below them.
func New(rules []agents.Rule, fallback, dir string, protect ...string) *Policy {
	p := &Policy{fallback: Effect(fallback), dir: filepath.Clean(dir), protects: protections(protect), further: len(protect) > 0}
	for _, r := range rules {
		p.rules = append(p.rules, rule{Rule: r, effect: Effect(r.Effect), match: matcher(r)})
	}
	return p
}

// Empty reports whether nobody has given the policy anything to say.
func (p *Policy) Empty() bool { return len(p.rules) == 0 && p.fallback == Unruled && !p.further }

// Judge says what is to become of a call by the rules, the default and what is
// protected. Of a call of several parts (a script, a patch of several files) the part
// that is judged hardest decides.
func (p *Policy) Judge(c Call) Decision {
	d := p.judge(c)
	d.Risk = p.Risk(c)
	return d
}

func (p *Policy) judge(c Call) Decision {
	if harmless(c) {
		return Decision{Effect: Allow, Why: "it touches nothing"}
	}
	switch c.Tool {
	case agents.ToolShell:
		return p.script(c.Target)
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile:
		return p.files(c)
	case agents.ToolWebFetch:
		return p.fetch(c)
	case agents.ToolMCP:
		return p.mcp(c)
	case agents.ToolSearchContent, agents.ToolFindFiles:
		return p.search(c)
	case agents.ToolWebSearch, agents.ToolSubagent, agents.ToolTodo, agents.ToolOther:
	}
	return p.decide(string(c.Tool), c.Target, func(r rule) bool { return r.match == nil || r.match(c.Target) })
}

// harmless reports whether a call is the agent's own affair: its plan, or the tool with
// which it gives an answer by schema.
func harmless(c Call) bool {
	return c.Tool == agents.ToolTodo || c.Tool == agents.ToolOther && c.Risk == agents.RiskLow
}

// decide finds the heaviest of the rules about tool that match.
func (p *Policy) decide(tool, what string, matches func(rule) bool) Decision {
	d := Decision{Effect: p.fallback, Why: tool + " " + what}
	for i, r := range p.rules {
		if !about(r, tool) || !matches(r) {
			continue
		}
		if d.Rule == nil || r.effect.weight() > d.Effect.weight() {
			d.Effect, d.Rule = r.effect, &p.rules[i].Rule
		}
	}
	return d
}

// about reports whether a rule is about calls of a tool. Agents differ in which of their
// tools makes a file and which changes one: to rules these are the same.
func about(r rule, tool string) bool {
	return r.Tool == "*" || r.Tool == tool || writes(r.Tool) && writes(tool)
}

func writes(tool string) bool {
	return tool == string(agents.ToolWriteFile) || tool == string(agents.ToolEditFile)
}

// Harder reports whether d denies or asks where other does not, or not as hard.
func (d Decision) Harder(other Decision) bool {
	return d.Effect.weight() >= Ask.weight() && d.Effect.weight() > other.Effect.weight()
}

// heavier returns the decision that is judged harder, the first of equal ones.
func heavier(a, b Decision) Decision {
	if b.Effect.weight() > a.Effect.weight() {
		return b
	}
	return a
}

// restricts reports whether some rule about tool denies or asks.
func (p *Policy) restricts(tool string) bool {
	return slices.ContainsFunc(p.rules, func(r rule) bool { return about(r, tool) && r.effect != Allow })
}

// Text is a rule as it is written, with its place.
func Text(r agents.Rule) string {
	s := r.Effect + " " + r.Tool
	if r.Pattern != "" {
		s += "(" + r.Pattern + ")"
	}
	if r.Where != "" {
		s += " at " + r.Where
	}
	return s
}
