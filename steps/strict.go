package steps

import (
	"cmp"
	"fmt"

	"flow/agents"
	"flow/agents/policy"
	"flow/pipeline"
)

// Enforcement says what becomes of the rules that the plan has for a step of the agent
// behind adapter. An adapter that says nothing of rules leaves them to flow.
func Enforcement(adapter agents.Adapter, r agents.Request) []agents.RuleEnforcement {
	if ruler, ok := adapter.(agents.Ruler); ok {
		return ruler.Enforcement(r)
	}
	return agents.EnforcementBy(r, func(*agents.Rule) (agents.Enforcement, string) {
		return agents.Detected, "the agent knows no rules"
	})
}

// transport is the protocol of a request: the first of the agent's, unless it names one.
func transport(adapter agents.Adapter, r agents.Request) string {
	if known := adapter.Info().Transports; r.Transport == "" && len(known) > 0 {
		return known[0]
	}
	return r.Transport
}

// strictErrors are the rules of a step that the agent does not keep, where the plan
// demands that it does.
func strictErrors(p *pipeline.Plan, path string, s *pipeline.Step, adapter agents.Adapter, r agents.Request) (errs pipeline.Errors) {
	permissions := p.PermissionsOf(s)
	if permissions == nil || !permissions.Strict {
		return nil
	}
	for i, e := range Enforcement(adapter, r) {
		if e.How != agents.Detected {
			continue
		}
		file, pos, what := p.File, s.Pos, "the default "+r.RuleDefault
		if e.Rule != nil {
			rule := *e.Rule
			rule.Where = ""
			file, pos = cmp.Or(permissions.Rules[i].File, p.File), permissions.Rules[i].Pos
			what = "the rule " + policy.Text(rule)
		}
		errs = append(errs, pipeline.Error{
			File: file, Pos: pos,
			Msg:  fmt.Sprintf("agent %s (step %s) cannot keep %s: %s", s.Agent, path, what, e.Why),
			Hint: "leave out `strict`, and flow ends an agent that breaks the rule; or use another rule, or another agent",
		})
	}
	return errs
}
