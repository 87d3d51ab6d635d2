package dag

// A gate lets only so many items of a `foreach` be under way at once: in plan order,
// each from when it is let in until it has ended, however long it waits in between. It
// binds Take, and not the facts. See begins.
//
// Who is let in depends on the facts alone, so that a run that is read back goes on
// with the same items.
type gate struct {
	limit   int
	busy    int          // items that were let in and have not ended
	waiting queue[*node] // items that want to be let in; some have ended since
	stirred bool         // in Machine.gates
}

// await lets n, should it be an item, wait to be let in.
func (m *Machine) await(n *node) {
	if g := n.scope.gate; g != nil {
		g.waiting.add(n)
		m.stir(g)
	}
}

func (m *Machine) stir(g *gate) {
	if !g.stirred {
		g.stirred = true
		m.gates = append(m.gates, g)
	}
}

// leave lets the next item in, now that n has ended.
func (m *Machine) leave(n *node) {
	if n.admitted {
		n.admitted = false
		n.scope.gate.busy--
		m.stir(n.scope.gate)
	}
}

// admit lets items in as far as there is room. It waits until a task or a fact asks for
// it, because facts that reopen steps come one after the other, and the first items in
// plan order are to be let in, not those that were reopened first.
func (m *Machine) admit() {
	for _, g := range m.gates {
		g.stirred = false
		for g.busy < g.limit && len(g.waiting) > 0 {
			n := g.waiting[0]
			g.waiting.drop()
			if !n.admitted && n.out.status == "" {
				m.enter(n)
				m.within(n)
			}
		}
	}
	m.gates = m.gates[:0]
	m.settle()
}

func (m *Machine) enter(n *node) {
	n.admitted = true
	n.scope.gate.busy++
}

// hold takes in that something happened in the items around n: they are under way, whether
// there was room for them or not.
func (m *Machine) hold(n *node) {
	for ; m.gated && n != nil; n = n.scope.owner {
		if n.scope.gate != nil && !n.admitted && n.out.status == "" {
			m.enter(n)
			m.within(n)
		}
	}
}

// shut returns the gate that does not let n run, that of the outermost item; nil if
// there is none.
func (m *Machine) shut(n *node) *node {
	if !m.gated {
		return nil
	}
	var item *node
	for ; n != nil; n = n.scope.owner {
		if n.scope.gate != nil && !n.admitted {
			item = n
		}
	}
	return item
}
