package pipeline

import "strings"

// Expression is the source of a template of one action without its braces, on one
// line: what a condition or a list says. Any other template stays as it is.
func (t Text) Expression() string {
	s := strings.TrimSpace(t.Src)
	if inner, ok := strings.CutPrefix(s, "{{"); ok && strings.Count(s, "{{") == 1 && strings.HasSuffix(s, "}}") {
		s = strings.Trim(strings.TrimSuffix(inner, "}}"), "- \n\t")
	}
	return strings.Join(strings.Fields(s), " ")
}

// Columns is how many columns a text of one line takes on a terminal, or in any font of
// one width.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += len(blank(r))
	}
	return n
}

// Stages returns, for the steps of one scope by id, the earliest stage in which each
// can run: 1 for a step without needs, else one more than the latest of them.
func Stages(steps []Step) map[string]int {
	s := stager{stages: make(map[string]int, len(steps)), byID: make(map[string]*Step, len(steps))}
	for i := range steps {
		s.byID[steps[i].ID] = &steps[i]
	}
	for id := range s.byID {
		s.stage(id)
	}
	return s.stages
}

type stager struct {
	stages map[string]int
	byID   map[string]*Step
}

func (s stager) stage(id string) int {
	if s.stages[id] == 0 {
		latest := 0
		for _, need := range s.byID[id].Needs {
			latest = max(latest, s.stage(need))
		}
		s.stages[id] = latest + 1
	}
	return s.stages[id]
}
