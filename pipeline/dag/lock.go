package dag

import (
	"slices"
	"strings"

	"flow/pipeline"
)

// A session is a native session that more than one step uses. A step that continues
// it must be alone; steps that fork it only read it, and may do so together.
type session struct {
	root    *node // that began it
	holders []*node
	alone   bool // the holder is one that continues it, or began it
	lines   []line
}

// A line is the nodes of one class that are ready but for a session which they would use
// alike, so that all of them have to wait while the first has to.
type line struct {
	class *class
	alone bool
	nodes queue[*node]
}

// wait puts n in its line.
func (s *session) wait(n *node) {
	i := slices.IndexFunc(n.locks, func(l lock) bool { return l.session == s })
	alone := n.locks[i].alone
	at := slices.IndexFunc(s.lines, func(l line) bool { return l.class == n.class && l.alone == alone })
	if at < 0 {
		at = len(s.lines)
		s.lines = append(s.lines, line{class: n.class, alone: alone})
	}
	s.lines[at].nodes.add(n)
}

// wake lets the first of each line compete again that can use s as it stands. Should that
// one not start, it hands its turn on: see head.
func (s *session) wake() {
	for i := range s.lines {
		if l := &s.lines[i]; len(l.nodes) > 0 && (lock{s, l.alone}).free() {
			l.class.ready.add(l.nodes[0])
			l.nodes.drop()
		}
	}
}

// holder returns the first that holds s, in plan order.
func (s *session) holder() *node {
	found := s.holders[0]
	for _, n := range s.holders {
		if n.before(found) {
			found = n
		}
	}
	return found
}

// A lock is the use that a step makes of a session, from Take until the end of the
// attempt has been applied.
type lock struct {
	session *session
	alone   bool
}

func (l lock) free() bool {
	return len(l.session.holders) == 0 || !l.alone && !l.session.alone
}

// taken returns the session that n would have to wait for, nil if there is none.
func (n *node) taken() *session {
	for _, l := range n.locks {
		if !l.free() {
			return l.session
		}
	}
	return nil
}

func (n *node) lock() {
	for _, l := range n.locks {
		l.session.holders = append(l.session.holders, n)
		l.session.alone = l.session.alone || l.alone
	}
	n.handOn() // to others that only read, too
}

// handOn lets others compete for the sessions of n.
func (n *node) handOn() {
	for _, l := range n.locks {
		l.session.wake()
	}
}

// unlock leaves the sessions of n.
func (n *node) unlock() {
	for _, l := range n.locks {
		s := l.session
		s.holders = slices.DeleteFunc(s.holders, func(h *node) bool { return h == n })
		s.alone = s.alone && len(s.holders) > 0
	}
	n.handOn()
}

// findShared notes the steps of p whose sessions other steps continue or fork.
func (g *nursery) findShared(p *pipeline.Plan) {
	if p != nil && !g.searched[p] {
		g.searched[p] = true
		g.findSharedBy(p, p.Steps)
	}
}

// findSharedBy notes the steps of p whose sessions some of its steps use.
func (g *nursery) findSharedBy(p *pipeline.Plan, some []pipeline.Step) {
	for i := range some {
		step := &some[i]
		if step.Session.Mode != pipeline.SessionNew {
			if root := g.stepAt(p.Steps, step.Session.Root); root != nil && root != step {
				g.shared[root] = true
			}
		}
		g.findSharedBy(p, step.Steps)
		if step.Call != nil {
			g.findShared(step.Call.Plan)
		}
	}
}

// stepAt returns the step at a path of ids, nil if there is none.
func (g *nursery) stepAt(steps []pipeline.Step, path string) *pipeline.Step {
	id, rest, deeper := strings.Cut(path, ".")
	i, ok := g.idsOf(steps)[id]
	switch {
	case !ok:
		return nil
	case deeper:
		return g.stepAt(steps[i].Steps, rest)
	}
	return &steps[i]
}

// lockAll gives the nodes in s the locks of the sessions that they share.
func (m *Machine) lockAll(s *scope) {
	if len(m.shared) > 0 {
		for _, n := range s.nodes {
			m.lockWithin(n)
		}
	}
}

func (m *Machine) lockWithin(n *node) {
	if len(m.shared) == 0 {
		return
	}
	if n.inner != nil {
		m.lockAll(n.inner)
	}
	if n.form != Single {
		return
	}
	if root := n.sessionRoot(); root != nil {
		m.share(n, root, n.step.Session.Mode == pipeline.SessionContinue)
	}
	if m.shared[n.outermost().step] {
		m.share(n, n.sessionOwner(), !n.scope.of(Contest)) // each candidate begins one of its own
	}
}

// share makes n use the session that root began.
func (m *Machine) share(n, root *node, alone bool) {
	s := m.sessions[root]
	if s == nil {
		s = &session{root: root}
		m.sessions[root] = s
	}
	n.locks = append(n.locks, lock{s, alone})
}

// sessionRoot returns the node whose session n continues or forks, nil if that is its
// own: the rounds of a loop follow one another anyway. The path of the plan says in which
// of the groups around n it is, and there is one instance that n can see.
func (n *node) sessionRoot() *node {
	use := n.step.Session
	if use.Mode == pipeline.SessionNew || use.Root == "" {
		return nil
	}
	level := strings.Count(use.Root, ".")
	id := use.Root[strings.LastIndexByte(use.Root, '.')+1:]
	for s := n.scope; s != nil; s = s.outer() {
		if s.level != level {
			continue
		}
		if root := s.child(id); root != nil && root != n.outermost() {
			return root
		}
	}
	return nil
}

// sessionOwner returns the node that stands for the session which n begins, or goes on
// with as another round. Each item has a session of its own.
func (n *node) sessionOwner() *node {
	for n.layer > 0 && !n.scope.of(Each) {
		n = n.scope.owner
	}
	return n
}
