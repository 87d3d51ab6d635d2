package dag

import "slices"

// This file keeps what is derived in step with the records: who is ready, skipped, held
// back; which groups have ended. Each change of one node is handed on to those that
// look at it, through a list instead of by recursion, because chains may be long.

// outcome derives how n ended.
func (m *Machine) outcome(n *node) outcome {
	switch {
	case n.end != "":
		return outcome{n.end, n, n.end == Cancelled}
	case n.opened:
		return m.together(n)
	case n.active || !n.scope.open() || n.waits > 0:
		return outcome{}
	case n.blocked():
		return outcome{SkippedStep, n.barrier().out.origin, false}
	case m.holder(n.scope) != nil:
		return outcome{Cancelled, n, true}
	}
	return outcome{}
}

// together derives how n ended from what is in it. A failure is not tolerated as long as
// steps beside it were cancelled: the node is then cancelled, for a resume to go on
// with it. A node that is yet to be closed has not ended, unless it must not be.
func (m *Machine) together(n *node) outcome {
	s := n.inner
	out := outcome{s.status(), n, s.cut > 0 && !s.strikes() && !s.decided()}
	switch {
	case out.status == "":
		return outcome{}
	case out.cut && n.tolerated():
		out.status = Cancelled
	case out.status == OK && n.closes() && m.holder(n.scope) != nil && !n.active:
		return outcome{Cancelled, n, true}
	case out.status == OK && n.closes():
		return outcome{}
	}
	return out
}

// status is how the nodes of s ended together, "" while one has not.
func (s *scope) status() Status {
	switch {
	case s.pending > 0:
		return ""
	case s.decided():
		return OK
	case s.fails():
		return Failure
	case s.cut > 0:
		return Cancelled
	}
	return OK
}

// barrier returns the first need of n that keeps it from running. For a judge without
// candidates it is the first of these.
func (n *node) barrier() *node {
	for _, need := range n.needs {
		if need.bars(need.out.status) {
			return need
		}
	}
	return n.needs[0]
}

// strikes says that fail-fast keeps anything new in s from starting.
func (s *scope) strikes() bool { return s.failFast && s.failing > 0 }

// holds says that nothing new may start in s, of its own accord.
func (m *Machine) holds(s *scope) bool {
	return s.strikes() || s.decided() || s == m.root && m.stopped
}

// holder returns the scope that keeps the nodes of s from starting: s or one around it.
func (m *Machine) holder(s *scope) *scope {
	if m.struck == 0 {
		return nil
	}
	for ; s != nil; s = s.up() {
		if m.holds(s) {
			return s
		}
	}
	return nil
}

// settle derives again until nothing changes.
func (m *Machine) settle() {
	for len(m.work) > 0 {
		last := len(m.work) - 1
		n := m.work[last]
		m.work = m.work[:last]
		if out := m.outcome(n); out != n.out {
			m.change(n, out)
		}
		m.enqueue(n)
	}
}

// change gives n another outcome and hands it on to its dependents and its group.
func (m *Machine) change(n *node, out outcome) {
	was := n.out
	n.out = out
	n.forget()
	switch {
	case n.scope.gate == nil:
	case out.status != "":
		m.leave(n)
	case was.status != "":
		m.await(n)
	}
	n.scope.count(was, -1)
	n.scope.count(out, +1)
	for _, d := range n.dependents {
		d.count(n, was.status, -1)
		d.count(n, out.status, +1)
	}
	m.work = append(m.work, n.dependents...)
	if n.scope.owner != nil {
		m.work = append(m.work, n.scope.owner)
	}
}

// count adds a node that ended like out to s, or takes it away.
func (s *scope) count(out outcome, by int) {
	if out.status == "" {
		s.pending += by
	}
	if out.cut {
		s.cut += by
	}
}

// count adds to n, or takes away, that its need ended with status st.
func (n *node) count(need *node, st Status, by int) {
	if st == "" {
		return
	}
	n.waits -= by
	if need.bars(st) {
		n.barred += by
	}
}

// recount finds out whether n makes its scope fail, that scope the one around it, and
// so on. A failure counts at once, before the groups around it have ended, so that
// fail-fast is fast.
func (m *Machine) recount(n *node) {
	for {
		failing := !n.tolerated() && (n.end == Failure || n.opened && n.inner.fails())
		if failing == n.failing {
			return
		}
		n.failing = failing
		m.fails(n.scope, n)
		if n = n.scope.owner; n == nil {
			return
		}
	}
}

// fails takes in that n makes s fail now, or no longer. If that makes fail-fast strike,
// or lifts it, everything in s is derived again.
func (m *Machine) fails(s *scope, n *node) {
	before := s.strikes()
	if n.failing {
		s.failing++
	} else {
		s.failing--
	}
	switch {
	case n.failing && (s.culprit == nil || n.before(s.culprit)):
		s.culprit = n
	case n == s.culprit: // the next one comes after it
		s.culprit = first(s.nodes[n.index:], func(n *node) bool { return n.failing })
	}
	switch {
	case s.strikes() == before:
		return
	case before:
		m.struck--
	default:
		m.struck++
	}
	m.again(s)
}

// first returns the first of nodes that is so, nil if there is none.
func first(nodes []*node, is func(*node) bool) *node {
	if i := slices.IndexFunc(nodes, is); i >= 0 {
		return nodes[i]
	}
	return nil
}

// wins takes in that the candidate n succeeded. The first one decides a race.
func (m *Machine) wins(n *node) {
	s := n.scope
	if s.won++; s.race && s.won == 1 {
		m.struck++
		m.again(s)
	}
}

// again puts the nodes of s, and what is in them, on the list.
func (m *Machine) again(s *scope) {
	for _, n := range s.nodes {
		m.within(n)
	}
}

// within puts n on the list, and what is in it if it is open.
func (m *Machine) within(n *node) {
	m.work = append(m.work, n)
	if n.opened {
		m.again(n.inner)
	}
}
