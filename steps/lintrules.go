package steps

import (
	"cmp"
	"fmt"
	"slices"

	"flow/agents"
	"flow/agents/policy"
	"flow/pipeline"
)

// A ruleAt is a rule at its place in a file.
type ruleAt struct {
	file string
	pos  pipeline.Pos
}

// lintRules warns of rules that can never match a call: those that match nothing at all,
// and those on tools that none of the agents has that they are for.
func lintRules(p *pipeline.Plan, adapters map[string]agents.Adapter) []pipeline.Warning {
	found := map[ruleAt]*pipeline.Warning{} // nil: some agent has calls for it
	var order []ruleAt
	eachAgent(p, func(q *pipeline.Plan, _ string, s *pipeline.Step) {
		permissions, profile := q.PermissionsOf(s), q.Agents[s.Agent]
		adapter := adapters[profile.Use]
		if permissions == nil || adapter == nil {
			return
		}
		for _, rule := range permissions.Rules {
			at := ruleAt{cmp.Or(rule.File, q.File), rule.Pos}
			before, seen := found[at]
			if !seen {
				order = append(order, at)
			}
			if !seen || before != nil {
				found[at] = idle(at, rule, profile, adapter.Info())
			}
		}
	})
	var all []pipeline.Warning
	for _, at := range order {
		if w := found[at]; w != nil {
			all = append(all, *w)
		}
	}
	return all
}

// idle is the warning of a rule that no call of a profile's agent can match, nil for
// others.
func idle(at ruleAt, rule pipeline.Permission, profile pipeline.Profile, info agents.Info) *pipeline.Warning {
	warn := func(why, hint string) *pipeline.Warning {
		return &pipeline.Warning{File: at.file, Pos: at.pos, Msg: fmt.Sprintf("the rule `%s` never matches: %s", rule, why), Hint: hint}
	}
	if why, hint := policy.Never(agents.Rule{Effect: rule.Effect, Tool: rule.Tool, Pattern: rule.Pattern}); why != "" {
		return warn(why, hint)
	}
	tool := agents.Tool(rule.Tool)
	switch {
	case rule.Tool == "*":
	case info.Tools != nil && !slices.Contains(info.Tools, tool):
		return warn(info.Title+" has no such tool of its own", "what it does through its shell is judged by rules on `shell`, and bounded by its sandbox")
	case tool == agents.ToolMCP && rule.Effect != "deny" && info.Hermetic && !profile.Inherit && len(profile.Args) == 0:
		return warn("without `inherit: true` agent "+profile.Name+" loads no MCP servers", "add `inherit: true` to the profile, or remove the rule")
	}
	return nil
}
