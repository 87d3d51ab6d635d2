package pipeline

import (
	"cmp"
	"slices"
	"strings"
)

// PermissionsOf returns the rules for the agent of a step: those of the pipeline, of the
// step's profile and of the step itself together. nil: there are none. The default is
// that of the step, else of the profile, else of the pipeline, but none weaker than any
// Least. Of a step that another agent works on, as a fallback or a candidate, it wants
// the copy with that agent.
func (p *Plan) PermissionsOf(step *Step) *Permissions {
	all := MergePermissions(p.Permissions, p.Agents[step.Agent].Permissions, step.Permissions)
	if all != nil {
		all.Default = strongest(all.Default, all.Least)
	}
	return all
}

// MergePermissions joins the permissions of layers, the farthest first; nil ones say
// nothing. The nearest default counts, and so does the nearest time to wait for a person;
// one `strict` makes all strict. nil: none says anything.
func MergePermissions(layers ...*Permissions) *Permissions {
	var all *Permissions
	for _, one := range layers {
		if one == nil {
			continue
		}
		if all == nil {
			all = &Permissions{}
		}
		if one.Default != "" {
			all.Default = one.Default
		}
		all.Rules = append(all.Rules, one.Rules...)
		all.Strict = all.Strict || one.Strict
		all.AskTimeout = cmp.Or(one.AskTimeout, all.AskTimeout)
		all.Protect = append(all.Protect, one.Protect...)
		all.Least = strongest(all.Least, one.Least)
	}
	return all
}

// lintPermissions warns of rules of profiles and steps that have no effect because of
// those around them. Each block has been looked at by itself.
func (l *loader) lintPermissions() {
	var outer []Permission
	if l.plan.Permissions != nil {
		outer = l.plan.Permissions.Rules
	}
	for _, a := range l.plan.Agents {
		if a.Permissions != nil {
			l.lintRules(a.Permissions.Rules, outer)
		}
	}
	l.plan.Walk(func(_ string, s *Step) {
		if s.Permissions == nil {
			return
		}
		around := outer
		if a := l.plan.Agents[s.Agent].Permissions; a != nil {
			around = slices.Concat(outer, a.Rules)
		}
		l.lintRules(s.Permissions.Rules, around)
	})
}

// lintRules warns of every rule that another one leaves without effect: one of around,
// or one beside it.
func (l *loader) lintRules(rules, around []Permission) {
	for i, r := range rules {
		other := overruling(r, slices.Concat(around, rules[:i]), rules[i+1:])
		switch {
		case other == nil, other.Effect == r.Effect && namesFile(r) && other.Pattern != r.Pattern:
		case other.Effect == r.Effect:
			l.warn(r.Pos, "remove it", "this rule says nothing new: line %d has `%s`", other.Pos.Line, other)
		case other.Tool == "*":
			l.warn(r.Pos, "write `default: "+other.Effect+"` instead of that rule", "this rule never applies: `%s` on line %d goes before it", other, other.Pos.Line)
		default:
			l.warn(r.Pos, "remove it, or narrow the other one", "this rule never applies: `%s` on line %d goes before it", other, other.Pos.Line)
		}
	}
}

// namesFile reports whether a rule allows something by a pattern that may spell a
// protected file: then it says more than a wider one that does not.
func namesFile(r Permission) bool {
	switch r.Tool {
	case "write_file", "edit_file":
		return r.Effect == "allow" && r.Pattern != ""
	case "shell":
		return r.Effect == "allow" && strings.ContainsAny(r.Pattern, "./")
	}
	return false
}

// overruling returns a rule that matches all that r does, and has the same effect or a
// stronger one. Of two that are the same, the first one counts.
func overruling(r Permission, before, after []Permission) *Permission {
	for i, other := range before {
		if covers(other, r) && (other.Effect == r.Effect || stronger(other.Effect, r.Effect)) {
			return &before[i]
		}
	}
	for i, other := range after {
		again := other.Effect == r.Effect && (other.Tool != r.Tool || other.Pattern != r.Pattern)
		if covers(other, r) && (again || stronger(other.Effect, r.Effect)) {
			return &after[i]
		}
	}
	return nil
}

// String is a rule as it is written.
func (p Permission) String() string {
	s := p.Effect + ": " + p.Tool
	if p.Pattern != "" {
		s += "(" + p.Pattern + ")"
	}
	return s
}

// strongest is the stronger one of two effects; "" is weaker than any.
func strongest(a, b string) string {
	if a == "" || b != "" && stronger(b, a) {
		return b
	}
	return a
}

func stronger(a, b string) bool { return slices.Index(Effects(), a) < slices.Index(Effects(), b) }

// covers reports whether every call that b matches is surely matched by a as well.
func covers(a, b Permission) bool {
	if a.Tool == "*" {
		return true
	}
	if a.Tool != b.Tool || a.Pattern == b.Pattern {
		return a.Tool == b.Tool
	}
	return a.Pattern == "" || wider(a.Tool, a.Pattern, b.Pattern)
}

// wider looks at patterns that are a text and one wildcard at the end of it.
func wider(tool, a, b string) bool {
	wildcard := "*"
	if tool != "shell" && tool != "mcp" {
		wildcard = "**"
	}
	before, ok := strings.CutSuffix(a, wildcard)
	switch {
	case !ok || strings.ContainsAny(before, "*?["):
		return false
	case wildcard == "**" && before == "":
		return b != "" && !strings.HasPrefix(b, "/") && !strings.HasPrefix(b, "~")
	}
	return b != "" && strings.HasPrefix(b, before)
}
