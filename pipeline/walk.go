package pipeline

import "strings"

// Step returns the step at a path ("fix.edit": ids from the root, joined by dots),
// or nil.
func (p *Plan) Step(path string) *Step {
	steps := p.Steps
	for {
		id, rest, more := strings.Cut(path, ".")
		s := find(steps, id)
		if s == nil || !more {
			return s
		}
		steps, path = s.Steps, rest
	}
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
// before its steps.
func (p *Plan) Walk(f func(path string, s *Step)) { walk("", p.Steps, f) }

func walk(prefix string, steps []Step, f func(string, *Step)) {
	for i := range steps {
		s := &steps[i]
		f(prefix+s.ID, s)
		walk(prefix+s.ID+".", s.Steps, f)
	}
}
