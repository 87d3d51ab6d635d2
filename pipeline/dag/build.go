package dag

import (
	"cmp"

	"flow/pipeline"
)

// Options are what a Machine takes from its surroundings.
type Options struct {
	Limit int // steps at once where the plan sets no limit; 0: DefaultLimit
}

// DefaultLimit is how many steps run at once where neither plan nor options say it.
const DefaultLimit = 4

// New makes a Machine for p, in which nothing has happened yet. p is kept, and must not
// change. It is taken to be checked: a step that needs one that does not exist, or
// itself, never becomes ready.
func New(p *pipeline.Plan, o Options) *Machine {
	opens, free := &class{open: true}, &class{}
	m := &Machine{
		nursery: newNursery(p),
		limit:   cmp.Or(max(p.Limit, 0), max(o.Limit, 0), DefaultLimit),
		classes: []*class{opens, free},
	}
	m.root = m.group(nil, p, p.Steps, p.FailFast)
	m.lockAll(m.root)
	m.again(m.root)
	m.settle()
	return m
}

// group makes the scope of the steps of the group owner, or of the run, and all within.
func (m *Machine) group(owner *node, plan *pipeline.Plan, steps []pipeline.Step, failFast bool) *scope {
	s := newScope(owner, len(steps))
	s.plan, s.failFast, s.ids = plan, failFast, m.idsOf(steps)
	if s.level++; s.sealed() {
		s.level = 0
	}
	block := make([]node, len(steps)) // one allocation for all
	for i := range steps {
		m.plant(s, &block[i], &steps[i], 0, steps[i].ID)
	}
	for _, n := range s.nodes {
		n.link()
	}
	return s
}

func newScope(owner *node, size int) *scope {
	s := &scope{owner: owner, nodes: make([]*node, 0, size)}
	if owner != nil {
		s.plan, s.level, s.depth = owner.scope.plan, owner.scope.level, owner.scope.depth+1
	}
	return s
}

// plant makes n the next node of s.
func (m *Machine) plant(s *scope, n *node, step *pipeline.Step, layer int, name string) {
	n.scope, n.step, n.layer, n.path = s, step, layer, name
	n.index, n.form = len(s.nodes), formOf(step, layer)
	if s.owner != nil {
		n.path = s.owner.path + "." + name
	}
	s.nodes = append(s.nodes, n)
	s.pending++
	n.class = m.classOf(n)
	if n.form != Group {
		return
	}
	if call := step.Call; step.Kind == pipeline.KindCall && call != nil && call.Plan != nil {
		n.inner = m.group(n, call.Plan, call.Plan.Steps, call.Plan.FailFast)
		return
	}
	// With items, the step's fail-fast is theirs.
	n.inner = m.group(n, s.plan, step.Steps, step.FailFast && step.Foreach == nil)
}

// link joins n with the siblings that it needs.
func (n *node) link() {
	n.waits = len(n.step.Needs)
	for _, id := range n.step.Needs {
		if need := n.scope.child(id); need != nil {
			n.after(need)
		}
	}
}

func (n *node) after(need *node) {
	n.needs = append(n.needs, need)
	need.dependents = append(need.dependents, n)
}

// classOf returns the class that n competes in. How many steps of an agent may run at once
// is the run's to say, who it is the pipeline's that the step stands in.
func (m *Machine) classOf(n *node) *class {
	if n.slotless() {
		return m.classes[0]
	}
	if n.step.Agent == "" || n.step.Kind != pipeline.KindPrompt && n.step.Kind != pipeline.KindMerge {
		return m.classes[1]
	}
	use := n.step.Agent
	if profile, ok := n.scope.plan.Agents[use]; ok {
		use = profile.Use
	}
	limit := m.plan.AgentLimits[use]
	if limit <= 0 {
		return m.classes[1]
	}
	if m.agents[use] == nil {
		m.agents[use] = &class{agent: use, limit: limit}
		m.classes = append(m.classes, m.agents[use])
	}
	return m.agents[use]
}
