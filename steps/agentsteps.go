package steps

import "flow/pipeline"

// eachAgentStep calls f for every step that starts an agent, of the plan and of those that
// it calls, with its plan and its path: agent steps, the candidates and the judge of a
// contest, and merges that an agent resolves.
func eachAgentStep(p *pipeline.Plan, f func(q *pipeline.Plan, path string, s *pipeline.Step)) {
	p.Each(func(prefix string, q *pipeline.Plan) {
		q.Walk(func(path string, s *pipeline.Step) {
			for _, one := range agentSteps(s) {
				f(q, prefix+path, one)
			}
		})
	})
}

func agentSteps(s *pipeline.Step) (all []*pipeline.Step) {
	if s.Contest == nil {
		if s.Agent == "" {
			return nil
		}
		return []*pipeline.Step{s}
	}
	for _, name := range s.Contest.Agents {
		candidate := *s
		candidate.Agent = name
		all = append(all, &candidate)
	}
	if judge := s.Contest.Judge; judge != nil {
		all = append(all, judge)
	}
	return all
}

// eachAgent is eachAgentStep with every agent that may work on a step: the copies of
// those that take over begin a session of their own.
func eachAgent(p *pipeline.Plan, f func(q *pipeline.Plan, path string, s *pipeline.Step)) {
	eachAgentStep(p, func(q *pipeline.Plan, path string, s *pipeline.Step) {
		f(q, path, s)
		for _, name := range fallbacks(q, s.Agent)[1:] {
			other := *s
			other.Agent, other.Session = name, pipeline.Session{}
			f(q, path, &other)
		}
	})
}
