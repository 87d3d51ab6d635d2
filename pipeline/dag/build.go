package dag

import (
	"cmp"

	"flow/pipeline"
)

// Options are what a Machine takes from its surroundings.
type Options struct {
	Limit int // steps at once where the plan sets no limit; 0: 4
}

const defaultLimit = 4

// New makes a Machine for p, in which nothing has happened yet. p is kept, and must not
// change. It is taken to be checked: a step that needs one that does not exist, or
// itself, never becomes ready.
func New(p *pipeline.Plan, o Options) *Machine {
	m := &Machine{limit: cmp.Or(max(p.Limit, 0), max(o.Limit, 0), defaultLimit)}
	b := builder{m: m, plan: p, named: map[string]*class{}}
	opens, free := &class{open: true}, &class{}
	m.classes = []*class{opens, free}
	m.root = b.scope(nil, p.Steps, p.FailFast)
	b.sessions()
	m.again(m.root)
	m.settle()
	return m
}

// builder holds what only New needs.
type builder struct {
	m     *Machine
	plan  *pipeline.Plan
	named map[string]*class // of the agents with a limit, by `use`
	order int
}

// scope makes the scope of the group owner, or of the run, and all within.
func (b *builder) scope(owner *node, steps []pipeline.Step, failFast bool) *scope {
	s := &scope{
		owner: owner, failFast: failFast, pending: len(steps),
		nodes: make([]*node, len(steps)), byID: make(map[string]*node, len(steps)),
	}
	block := make([]node, len(steps)) // one allocation for all
	for i := range steps {
		n := &block[i]
		s.nodes[i], s.byID[steps[i].ID] = n, n
		b.node(n, s, &steps[i])
	}
	for _, n := range s.nodes {
		n.link()
	}
	return s
}

func (b *builder) node(n *node, s *scope, step *pipeline.Step) {
	n.scope, n.step, n.order, n.path = s, step, b.order, step.ID
	b.order++
	if s.owner != nil {
		n.path = s.owner.path + "." + step.ID
	}
	n.class = b.class(step)
	if step.Kind == pipeline.KindGroup {
		n.inner = b.scope(n, step.Steps, step.FailFast)
	}
}

// link joins n with the siblings that it needs.
func (n *node) link() {
	n.waits = len(n.step.Needs)
	for _, id := range n.step.Needs {
		if need := n.scope.byID[id]; need != nil {
			n.needs = append(n.needs, need)
			need.dependents = append(need.dependents, n)
		}
	}
}

// class returns the class that step competes in.
func (b *builder) class(step *pipeline.Step) *class {
	if step.Kind == pipeline.KindGroup {
		return b.m.classes[0]
	}
	use := step.Agent
	if profile, ok := b.plan.Agents[step.Agent]; ok {
		use = profile.Use
	}
	limit := b.plan.AgentLimits[use]
	if step.Kind != pipeline.KindPrompt || limit <= 0 {
		return b.m.classes[1]
	}
	if b.named[use] == nil {
		b.named[use] = &class{agent: use, limit: limit}
		b.m.classes = append(b.m.classes, b.named[use])
	}
	return b.named[use]
}

// sessions gives the steps that share a native session their locks: those that
// continue or fork it, and the one that began it.
func (b *builder) sessions() {
	byRoot := map[string]*session{}
	for n := range b.m.root.all() {
		use := n.step.Session
		if use.Mode == pipeline.SessionNew || use.Root == "" {
			continue
		}
		s := byRoot[use.Root]
		if s == nil {
			s = &session{root: use.Root}
			byRoot[use.Root] = s
			if root := b.m.find(use.Root); root != nil && root != n {
				root.locks = append(root.locks, lock{s, true})
			}
		}
		n.locks = append(n.locks, lock{s, use.Mode == pipeline.SessionContinue})
	}
}
