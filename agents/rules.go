package agents

import (
	"slices"
	"strings"
)

// An Enforcement says who keeps a rule.
type Enforcement string

// The enforcements, the strongest first.
const (
	Enforced  Enforcement = "enforced"  // the agent refuses the call and goes on
	Sandboxed Enforcement = "sandboxed" // the call is made and comes to nothing
	Detected  Enforcement = "detected"  // flow sees the call and ends the agent
)

// A RuleEnforcement is what becomes of one rule of a request.
type RuleEnforcement struct {
	Rule *Rule // nil: Request.RuleDefault
	How  Enforcement
	Why  string // for people; "" when there is nothing to add
}

// A Ruler is an Adapter that says what becomes of rules.
type Ruler interface {
	// Enforcement returns what becomes of every one of r.Rules, in their order, and
	// then of r.RuleDefault if there is one.
	Enforcement(r Request) []RuleEnforcement
}

// EnforcementBy asks rule for each of r's rules, and for nil where r has a default.
func EnforcementBy(r Request, rule func(*Rule) (Enforcement, string)) []RuleEnforcement {
	var all []RuleEnforcement
	add := func(one *Rule) {
		how, why := rule(one)
		all = append(all, RuleEnforcement{Rule: one, How: how, Why: why})
	}
	for i := range r.Rules {
		add(&r.Rules[i])
	}
	if r.RuleDefault != "" {
		add(nil)
	}
	return all
}

// Ruled reports whether r has permissions: rules, a default or protected files.
func (r Request) Ruled() bool {
	return len(r.Rules) > 0 || r.RuleDefault != "" || len(r.Protected) > 0
}

// Asks reports whether a person is to be asked about some calls: a rule, the default or the
// approval mode wants it.
func (r Request) Asks() bool {
	if r.Approval == ApprovalAsk || r.Approval == ApprovalAskDangerous || r.RuleDefault == EffectAsk {
		return true
	}
	return slices.ContainsFunc(r.Rules, func(rule Rule) bool { return rule.Effect == EffectAsk })
}

// Closed reports whether a call that no rule is about must not be made: nobody is there
// to be asked.
func (r Request) Closed() bool { return r.RuleDefault == "deny" || r.RuleDefault == "ask" }

// Allows reports whether a rule allows calls of tool, all or some.
func (r Request) Allows(tool Tool) bool {
	return r.rule(tool, func(rule Rule) bool { return rule.Effect == "allow" })
}

// Forbids reports whether rules forbid every call of tool. What a person is to be asked
// for is forbidden: nobody is there.
func (r Request) Forbids(tool Tool) bool {
	return r.rule(tool, func(rule Rule) bool { return rule.Effect != "allow" && rule.Anything() })
}

func (r Request) rule(tool Tool, is func(Rule) bool) bool {
	for _, rule := range r.Rules {
		if (rule.Tool == string(tool) || rule.Tool == "*") && is(rule) {
			return true
		}
	}
	return false
}

// Anything reports whether the rule is about all calls of its tool.
func (r Rule) Anything() bool {
	return r.Pattern == "" || !r.paths() && strings.Trim(r.Pattern, "*") == ""
}

// Inside reports whether the rule is about all files of the working directory.
func (r Rule) Inside() bool { return r.paths() && r.Pattern == "**" }

// paths reports whether the rule's pattern is one of paths.
func (r Rule) paths() bool {
	switch Tool(r.Tool) {
	case ToolReadFile, ToolWriteFile, ToolEditFile, ToolSearchContent, ToolFindFiles:
		return true
	default:
		return false
	}
}
