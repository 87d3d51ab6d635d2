package dag

// Reopenable returns the facts that give a run that has ended, or was cancelled, another
// chance: a Reopened for each step that failed finally without being tolerated, for
// each that was stopped, and for each that its condition skipped for how one of these
// ended. Steps that never started need none, nor do groups that were open. The facts
// are in plan order, the run's own first; they can be applied in that order.
func (m *Machine) Reopenable() []Fact {
	r := reopening{again: map[*node]bool{}}
	r.seed(m.root, false, false)
	r.spread()
	var facts []Fact
	if m.stopped {
		facts = append(facts, Fact{Kind: Reopened})
	}
	for n := range m.root.all() {
		if r.again[n] && n.end != "" {
			facts = append(facts, Fact{Kind: Reopened, Path: n.path})
		}
	}
	return facts
}

// reopening collects the steps that will run again.
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

// seed adds the steps of s that will run again of themselves. A failure inside a group
// that is tolerated stays, and so does what its fail-fast ended.
func (r *reopening) seed(s *scope, tolerated, stays bool) {
	stays = stays || tolerated && s.strikes()
	for _, n := range s.nodes {
		tolerated := tolerated || n.tolerated()
		cut := n.out.status == Cancelled || n.out.status == "" // also if it never started
		switch {
		case n.opened:
			r.seed(n.inner, tolerated, stays)
		case n.end == Failure && !tolerated, cut && !stays:
			r.add(n)
		}
	}
}

// spread adds what depends on the steps that will run again: the groups around them, and
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

// skipped adds n, and the steps inside it, as far as they were skipped.
func (r *reopening) skipped(n *node) {
	if n.out.status == SkippedStep {
		r.add(n)
	}
	if n.opened {
		for _, c := range n.inner.nodes {
			r.skipped(c)
		}
	}
}
