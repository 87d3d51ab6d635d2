package dag

import (
	"slices"
	"time"
)

// A class is the ready nodes that compete for the same slots: those that need none
// (openings, closings and questions); the steps of one agent with a limit of its own;
// and all others.
type class struct {
	open  bool   // of those without a slot
	agent string // the `use` of an agent, for messages
	limit int    // of the agent; 0: none
	busy  int
	ready queue[*node] // some may no longer be ready: asked again when their turn comes
}

// full says that the class has no slot left of its own.
func (c *class) full() bool { return c.limit > 0 && c.busy >= c.limit }

// Take returns the tasks to start now, in plan order, and considers them started: each
// is handed out once. It honours needs, conditions of scopes, RetryAt, the limits of
// the run, of agents and of items, and sessions that only one step may use at a time.
// Every task must be answered with a fact. What tasks hold is shared, and read only.
func (m *Machine) Take(now time.Time) []Task {
	m.ring(now)
	var tasks []Task
	for n := m.next(now); n != nil; n = m.next(now) {
		n.class.ready.drop()
		n.queued = false
		m.activate(n, !n.class.open)
		tasks = append(tasks, m.task(n))
	}
	return tasks
}

// ring lets the retries compete whose time has come.
func (m *Machine) ring(now time.Time) {
	for len(m.timers) > 0 && (!m.timers[0].at.After(now) || !m.rings(m.timers[0])) {
		t := m.timers[0]
		m.timers.drop()
		if !m.rings(t) {
			continue
		}
		t.node.rung = true
		if !t.node.queued {
			t.node.queued = true
			t.node.class.ready.add(t.node)
		}
	}
}

// rings says that the node of t still waits for that time.
func (m *Machine) rings(t timer) bool {
	return m.ready(t.node) && t.node.retryAt.Equal(t.at)
}

// next returns the first node in plan order that limits and locks allow, which is the
// first of its class; nil if there is none.
func (m *Machine) next(now time.Time) *node {
	var first *node
	for _, c := range m.classes {
		if c.full() || !c.open && m.busy >= m.limit {
			continue
		}
		if n := m.head(c, now); n != nil && (first == nil || n.before(first)) {
			first = n
		}
	}
	return first
}

// head returns the first node of c that could start now. Those before it that could
// not are put where they belong.
func (m *Machine) head(c *class, now time.Time) *node {
	for len(c.ready) > 0 {
		n := c.ready[0]
		s := n.taken()
		switch {
		case !m.ready(n):
			n.queued = false
		case n.retryAt.After(now):
			n.queued = false
			m.timers.add(timer{n.retryAt, n})
		case s != nil:
			s.wait(n)
		default:
			return n
		}
		c.ready.drop()
		n.handOn()
	}
	return nil
}

// ready says that n could start, but for limits, locks and time.
func (m *Machine) ready(n *node) bool {
	return !n.active && (n.begins() || n.closing()) && m.holder(n.scope) == nil && m.shut(n) == nil
}

// enqueue lets n compete if it is ready.
func (m *Machine) enqueue(n *node) {
	switch {
	case !m.ready(n):
	case !n.retryAt.IsZero():
		m.timers.add(timer{n.retryAt, n})
	case !n.queued:
		n.queued = true
		n.class.ready.add(n)
	}
}

// activate gives n what a running step holds. It may be called again.
func (m *Machine) activate(n *node, slot bool) {
	if n.active {
		return
	}
	n.active, n.slot = true, slot
	m.active = append(m.active, n)
	for o := n; m.gated && o != nil; o = o.scope.owner {
		if o.scope.gate != nil {
			m.begin(o)
		}
	}
	if slot {
		m.busy++
		n.class.busy++
		n.lock()
	}
}

// deactivate takes it all back.
func (m *Machine) deactivate(n *node) {
	if !n.active {
		return
	}
	m.release(n)
	n.active = false
	i := slices.Index(m.active, n)
	last := len(m.active) - 1
	m.active[i] = m.active[last]
	m.active[last] = nil
	m.active = m.active[:last]
	n.unlock()
}

// Release says that the task of path has returned. Its slot is free from now on, although
// its fact has not been applied; what needs the step, or its session, waits for that.
// A path without a slot is left as it is.
func (m *Machine) Release(path string) {
	if n := m.find(path); n != nil {
		m.release(n)
	}
}

func (m *Machine) release(n *node) {
	if n.slot {
		n.slot = false
		m.busy--
		n.class.busy--
	}
}

// Wake returns the earliest time after now at which a retry may start, zero if none
// waits.
func (m *Machine) Wake(now time.Time) time.Time {
	m.ring(now)
	if len(m.timers) == 0 {
		return time.Time{}
	}
	return m.timers[0].at
}
