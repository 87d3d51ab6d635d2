package dag

import (
	"strconv"

	"flow/pipeline"
)

// A nursery is what new nodes are made from. All that does not differ between the
// instances of a step is made once.
type nursery struct {
	plan     *pipeline.Plan
	agents   map[string]*class // with a limit, by `use`
	ids      map[*pipeline.Step]map[string]int
	contests map[*pipeline.Contest]*field
	shared   map[*pipeline.Step]bool // the steps whose sessions others use
	searched map[*pipeline.Plan]bool // for these
	sessions map[*node]*session      // by the node that began it
	gated    bool                    // some Each bounds its items
}

// A field is what all instances of a contest have in common.
type field struct {
	candidates []pipeline.Step
	ids        map[string]int // of the judge
}

func newNursery(p *pipeline.Plan) nursery {
	g := nursery{
		plan: p, agents: map[string]*class{},
		ids:      map[*pipeline.Step]map[string]int{},
		contests: map[*pipeline.Contest]*field{},
		shared:   map[*pipeline.Step]bool{},
		searched: map[*pipeline.Plan]bool{},
		sessions: map[*node]*session{},
	}
	g.findShared(p)
	return g
}

// formOf returns what the node of step is that has so many others of the same step around it.
func formOf(step *pipeline.Step, layer int) Form {
	if step.Foreach != nil {
		if layer == 0 {
			return Each
		}
		layer--
	}
	if step.Repeat != nil {
		if layer == 0 {
			return Loop
		}
		layer--
	}
	switch {
	case step.Contest != nil && layer == 0:
		return Contest
	case step.Kind == pipeline.KindGroup || step.Kind == pipeline.KindCall:
		return Group
	}
	return Single
}

// idsOf returns the places of steps by id.
func (g *nursery) idsOf(steps []pipeline.Step) map[string]int {
	if len(steps) == 0 {
		return nil
	}
	ids := g.ids[&steps[0]]
	if ids == nil {
		ids = make(map[string]int, len(steps))
		for i := range steps {
			ids[steps[i].ID] = i
		}
		g.ids[&steps[0]] = ids
	}
	return ids
}

// fieldOf returns the candidates of step's contest, each a copy of step with its agent.
func (g *nursery) fieldOf(step *pipeline.Step) *field {
	c := step.Contest
	if g.contests[c] == nil {
		f := &field{candidates: make([]pipeline.Step, len(c.Agents))}
		for i, agent := range c.Agents {
			f.candidates[i] = *step
			f.candidates[i].Agent = agent
		}
		if c.Judge != nil {
			f.ids = map[string]int{c.Judge.ID: len(c.Agents)}
		}
		g.contests[c] = f
	}
	return g.contests[c]
}

// child returns the node of s that its last part of the path names: an id, or the
// number of an item, a candidate or a round; nil if there is none.
func (s *scope) child(name string) *node {
	if i, ok := s.ids[name]; ok {
		return s.nodes[i]
	}
	if s.owner == nil || s.owner.form == Group {
		return nil
	}
	i, err := strconv.Atoi(name)
	if err != nil || strconv.Itoa(i) != name {
		return nil
	}
	if s.owner.form == Loop {
		i--
	}
	if i < 0 || i >= len(s.nodes) || s.nodes[i].judge {
		return nil
	}
	return s.nodes[i]
}

// open lets the nodes in n run, and makes them where they are not there from the beginning.
func (m *Machine) open(n *node, f Fact) {
	n.opened = true
	switch n.form {
	case Each:
		m.items(n, f.Count)
	case Loop:
		n.inner = newScope(n, 1)
		m.round(n)
	case Contest:
		m.contest(n)
	case Group, Single:
	}
	n.inner.attempt, n.inner.opening = f.Attempt, f.Result
}

func (m *Machine) items(n *node, count int) {
	s := newScope(n, count)
	n.inner, s.failFast = s, n.step.FailFast
	if limit := n.step.Foreach.MaxParallel; limit > 0 {
		s.gate, m.gated = &gate{limit: limit}, true
	}
	block := make([]node, count)
	for i := range block {
		m.plant(s, &block[i], n.step, n.layer+1, strconv.Itoa(i))
		m.await(&block[i])
	}
	m.lockAll(s)
}

// round lets the loop n have another round.
func (m *Machine) round(n *node) {
	s := n.inner
	m.plant(s, &node{}, n.step, n.layer+1, strconv.Itoa(len(s.nodes)+1))
	m.lockWithin(s.last())
}

func (m *Machine) contest(n *node) {
	field, judge := m.fieldOf(n.step), n.step.Contest.Judge
	s := newScope(n, len(field.candidates)+1)
	n.inner, s.race, s.ids = s, n.step.Contest.Race, field.ids
	for i := range field.candidates {
		m.plant(s, &node{}, &field.candidates[i], n.layer+1, strconv.Itoa(i))
	}
	if judge != nil {
		candidates := s.nodes
		m.plant(s, &node{judge: true}, judge, 0, judge.ID)
		last := s.last()
		last.waits = len(candidates)
		for _, c := range candidates {
			last.after(c)
		}
	}
	m.lockAll(s)
}

// decided says that a race has its winner: nothing in s goes on.
func (s *scope) decided() bool { return s.race && s.won > 0 }

// fails says that s makes its owner fail. A contest fails when all its candidates have, or
// with its judge.
func (s *scope) fails() bool {
	if !s.of(Contest) {
		return s.failing > 0
	}
	last := s.last()
	return s.failing >= len(s.owner.step.Contest.Agents) || last.judge && last.failing
}

// blamed returns the node whose failure fails s.
func (s *scope) blamed() *node {
	if s.of(Contest) && s.last().judge && s.last().failing {
		return s.last()
	}
	return s.culprit
}
