package steps

import (
	"fmt"
	"slices"
	"strings"

	"flow/agents"
	"flow/pipeline"
)

// Lint warns of what a plan says and its agents cannot quite hold to: a budget in
// dollars that does not see what agents use which report no cost, and rules that none of
// their calls can match.
func Lint(p *pipeline.Plan, adapters map[string]agents.Adapter) []pipeline.Warning {
	return append(lintBudgets(p, adapters), lintRules(p, adapters)...)
}

// lintBudgets warns of budgets that do not see all that is used.
func lintBudgets(p *pipeline.Plan, adapters map[string]agents.Adapter) []pipeline.Warning {
	blind := map[string][]string{} // agents without cost, by the path of a budget
	var order []string
	budgets := map[string]pipeline.Warning{}
	note := func(path, file string, b *pipeline.Budget) {
		if b != nil && b.USD > 0 && b.Tokens == 0 && blind[path] == nil {
			blind[path] = []string{}
			order = append(order, path)
			budgets[path] = pipeline.Warning{File: file, Pos: b.Pos, Hint: "add `tokens` to the budget, which counts for all agents"}
		}
	}
	p.Each(func(prefix string, q *pipeline.Plan) {
		note(strings.TrimSuffix(prefix, "."), q.File, q.Budget)
		q.Walk(func(path string, s *pipeline.Step) { note(prefix+path, q.File, s.Budget) })
	})
	eachAgent(p, func(q *pipeline.Plan, path string, s *pipeline.Step) {
		adapter := adapters[q.Agents[s.Agent].Use]
		if adapter == nil || adapter.Info().Capabilities.Cost {
			return
		}
		for _, at := range order {
			if (limit{path: at}).covers(path) && !slices.Contains(blind[at], s.Agent) {
				blind[at] = append(blind[at], s.Agent)
			}
		}
	})
	var all []pipeline.Warning
	for _, at := range order {
		if names := blind[at]; len(names) > 0 {
			w := budgets[at]
			w.Msg = fmt.Sprintf("`budget.usd` does not see what %s uses: it reports tokens and no cost", strings.Join(names, ", "))
			all = append(all, w)
		}
	}
	return all
}
