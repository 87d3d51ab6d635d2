package dag

// Reopenable returns the facts that give a run that has ended, waits, or was cancelled,
// another chance: a Reopened for each step that failed finally without being tolerated,
// for each that was stopped or waits for a person, and for each that its condition
// skipped for how one of these ended. Steps that never started need none, nor do nodes
// that were open: they go on, and are closed again, once what is in them has ended. The
// facts are in plan order, the run's own first; they can be applied in that order.
func (m *Machine) Reopenable() []Fact {
	r := reopening{again: map[*node]bool{}}
	r.seed(m.root, false, false)
	r.spread()
	var facts []Fact
	if m.stopped {
		facts = append(facts, Fact{Kind: Reopened})
	}
	for n := range m.root.all() {
		if r.again[n] && (n.end != "" || n.last == Suspended) {
			facts = append(facts, Fact{Kind: Reopened, Path: n.path})
		}
	}
	return facts
}

// reopening collects the nodes that will run again.
type reopening struct {
	again map[*node]bool
	work  []*node
}

func (r *reopening) add(n *node) {
	if !r.again[n] {
		r.again[n] = true
		r.work = append(r.work, n)
	}
}

// seed adds the nodes of s that will run again of themselves. A failure inside a node
// that is tolerated stays, and so does what its fail-fast ended.
func (r *reopening) seed(s *scope, tolerated, stays bool) {
	stays = stays || tolerated && s.strikes()
	for _, n := range s.current() {
		tolerated := tolerated || n.tolerated() || s.of(Contest) && !n.judge && s.won > 0
		cut := n.out.status == Cancelled || n.out.status == "" // also if it never started
		switch {
		case n.goesOn():
			r.seed(n.inner, tolerated, stays)
			if n.out.status == Cancelled && n.inner.status() == OK && !stays {
				r.add(n) // it was not closed
			}
		case n.end == Failure && !tolerated, cut && !stays:
			r.add(n)
		}
	}
}

// current returns the nodes of s that may change yet: the last round of a loop, and none of
// a race that is over.
func (s *scope) current() []*node {
	switch {
	case s.decided():
		return nil
	case s.of(Loop):
		return s.nodes[len(s.nodes)-1:]
	}
	return s.nodes
}

// goesOn says that n was opened, and that how it ended is a matter of what is in it.
func (n *node) goesOn() bool { return n.opened && n.end == "" }

// spread adds what depends on the nodes that will run again: the nodes around them, and
// the steps that were skipped by a condition that may come out differently now.
func (r *reopening) spread() {
	for len(r.work) > 0 {
		last := len(r.work) - 1
		n := r.work[last]
		r.work = r.work[:last]
		if n.scope.owner != nil {
			r.add(n.scope.owner)
		}
		for _, d := range n.dependents {
			r.skipped(d)
		}
	}
}

// skipped adds n, and the nodes inside it, as far as they were skipped.
func (r *reopening) skipped(n *node) {
	if n.out.status == SkippedStep {
		r.add(n)
	}
	if n.goesOn() {
		for _, c := range n.inner.current() {
			r.skipped(c)
		}
	}
}
