package pipeline

import (
	"slices"
	"strings"
)

// Step returns the step at a path, or nil: ids from the root joined by dots, through
// groups and called pipelines ("fix.edit"). The path of a node of a run, which has
// the numbers of items, rounds and candidates in it, names its step
// ("fix.0.2.edit"); "review.judge" is the judge of the contest `review`.
func (p *Plan) Step(path string) *Step {
	var s *Step
	steps := p.Steps
	for id := range strings.SplitSeq(path, ".") {
		switch {
		case s != nil && counts(id):
		case s != nil && s.Contest != nil && s.Contest.Judge != nil && id == s.Contest.Judge.ID:
			s, steps = s.Contest.Judge, nil
		default:
			if s = find(steps, id); s == nil {
				return nil
			}
			steps = s.within()
		}
	}
	return s
}

// counts reports whether a part of a path counts an item, a round or a candidate: no
// id begins with a digit.
func counts(part string) bool { return part != "" && part[0] >= '0' && part[0] <= '9' }

// within are the steps of a group or of a called pipeline.
func (s *Step) within() []Step {
	if s.Call != nil && s.Call.Plan != nil {
		return s.Call.Plan.Steps
	}
	return s.Steps
}

func find(steps []Step, id string) *Step {
	for i := range steps {
		if steps[i].ID == id {
			return &steps[i]
		}
	}
	return nil
}

// Walk calls f for every step with its path, in the order of the file, a group
// before its steps. It does not enter called pipelines, whose steps mean other
// agents and inputs: see Each.
func (p *Plan) Walk(f func(path string, s *Step)) { walk("", p.Steps, f) }

func walk(prefix string, steps []Step, f func(string, *Step)) {
	for i := range steps {
		s := &steps[i]
		f(prefix+s.ID, s)
		walk(prefix+s.ID+".", s.Steps, f)
	}
}

// Each calls f for the plan and for every plan that it calls, once for each call.
// The path of a step of q in p is prefix followed by its path in q: prefix is "" or
// ends in a dot.
func (p *Plan) Each(f func(prefix string, q *Plan)) { each("", p, f) }

func each(prefix string, p *Plan, f func(string, *Plan)) {
	f(prefix, p)
	p.Walk(func(path string, s *Step) {
		if s.Call != nil && s.Call.Plan != nil {
			each(prefix+path+".", s.Call.Plan, f)
		}
	})
}

// AllSecrets lists the secrets of the plan and of all that it calls, each once.
func (p *Plan) AllSecrets() []string {
	var all []string
	p.Each(func(_ string, q *Plan) {
		for _, name := range q.Secrets {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	})
	return all
}

// Profiles lists the agents that a step may start, keys of Plan.Agents, each once:
// that of a prompt or merge, or the candidates and the judge of a contest.
func (s *Step) Profiles() []string {
	var all []string
	add := func(name string) {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	add(s.Agent)
	if s.Contest != nil {
		for _, name := range s.Contest.Agents {
			add(name)
		}
		if s.Contest.Judge != nil {
			add(s.Contest.Judge.Agent)
		}
	}
	return all
}
