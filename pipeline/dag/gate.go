package dag

// A gate lets only so many items of a `foreach` be under way at once: in plan order, each
// from when its first task is taken until it has ended, however long it waits in between.
// It binds Take, and not the facts. See begins.
//
// Who may run is a matter of which items have begun and which have ended, and not of the
// order in which that became known: an item that was let in but has not begun gives way
// to one before it.
type gate struct {
	limit   int
	busy    int          // items that are let in
	waiting queue[*node] // items that want to be; some have ended or were let in since
	next    queue[last]  // items that were let in; some have ended or begun since
	stirred bool         // in Machine.gates
}

// last orders the last item first.
type last struct{ *node }

func (l last) before(o last) bool { return o.node.before(l.node) }

// await lets the item n wait to be let in.
func (m *Machine) await(n *node) {
	if g := n.scope.gate; g != nil {
		g.waiting.add(n)
		m.stir(g)
	}
}

// leave gives the place of the item n to another, now that it has ended.
func (m *Machine) leave(n *node) {
	if n.admitted {
		n.admitted, n.begun = false, false
		n.scope.gate.busy--
		m.stir(n.scope.gate)
	}
}

func (m *Machine) stir(g *gate) {
	if !g.stirred {
		g.stirred = true
		m.gates = append(m.gates, g)
	}
}

// begin takes in that something happens in the item n: it is under way, whether there was
// room for it or not.
func (m *Machine) begin(n *node) {
	if n.begun = true; !n.admitted {
		m.enter(n)
		m.stir(n.scope.gate)
	}
}

// enter lets n in.
func (m *Machine) enter(n *node) {
	n.admitted = true
	n.scope.gate.busy++
	m.within(n)
}

// hold lets the items that n is in begin, as far as they have not ended.
func (m *Machine) hold(n *node) {
	for ; m.gated && n != nil; n = n.scope.owner {
		if n.scope.gate != nil && n.out.status == "" {
			m.begin(n)
		}
	}
}

// admit lets in as many items as there is room for.
func (m *Machine) admit() {
	for len(m.gates) > 0 {
		g := m.gates[len(m.gates)-1]
		m.gates = m.gates[:len(m.gates)-1]
		g.stirred = false
		for m.shift(g) {
		}
		m.settle()
	}
}

// shift lets one item in, or takes the place of one away that has not begun. It reports
// whether there was a reason to.
func (m *Machine) shift(g *gate) bool {
	for len(g.waiting) > 0 && (g.waiting[0].admitted || g.waiting[0].out.status != "") {
		g.waiting.drop()
	}
	for len(g.next) > 0 && (g.next[0].begun || !g.next[0].admitted) {
		g.next.drop()
	}
	switch {
	case g.busy < g.limit && len(g.waiting) > 0:
		m.enter(g.waiting[0])
		g.next.add(last{g.waiting[0]})
		g.waiting.drop()
		return true
	case len(g.next) > 0 && (g.busy > g.limit || len(g.waiting) > 0 && g.waiting[0].before(g.next[0].node)):
		n := g.next[0].node
		n.admitted = false
		g.busy--
		g.next.drop()
		g.waiting.add(n)
		return true
	}
	return false
}

// shut returns the item whose gate does not let n run, the outermost one; nil if there is
// none.
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
