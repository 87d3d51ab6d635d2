package dag

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// why returns the reason that stands for n, and the path of the step to blame where it
// is another one.
func (m *Machine) why(n *node) (reason, root string) {
	out := n.out
	switch {
	case n.goesOn() && out.status == Failure:
		c := n.inner.blamed()
		return because(c), m.blame(c)
	case n.goesOn() && out.status == Cancelled && n.cutter() != nil:
		c := n.cutter()
		return because(c), m.blame(c)
	case n.end == "" && out.status == SkippedStep:
		return because(out.origin), m.blame(out.origin)
	case n.end == "" && out.status == Cancelled:
		return m.held(n)
	case out.status == "" && !n.scope.open():
		return m.unopened(n.scope.owner)
	}
	return n.reason, ""
}

// unopened is why for the steps of a group that was not opened.
func (m *Machine) unopened(group *node) (reason, root string) {
	group = group.unopenedAround()
	if group.out.status == "" {
		return "", ""
	}
	return because(group), m.blame(group)
}

// unopenedAround returns the outermost node around n that is not open, n if there is none.
func (n *node) unopenedAround() *node {
	for !n.scope.open() {
		n = n.scope.owner
	}
	return n
}

// held is why for a node that was not allowed to go on.
func (m *Machine) held(n *node) (reason, root string) {
	if s := m.holder(n.scope); s != nil && s.decided() {
		winner := first(s.nodes, func(n *node) bool { return n.end == OK })
		return winner.path + " won the race", ""
	}
	if c := m.striker(n.scope); c != nil {
		return c.path + " failed", c.path
	}
	if m.reason != "" {
		return "the run was cancelled: " + m.reason, ""
	}
	return "the run was cancelled", ""
}

// cutter returns the first node in n that was cut short, nil if none was.
func (n *node) cutter() *node {
	return first(n.inner.nodes, func(n *node) bool { return n.out.cut })
}

// because says how the end of n keeps another step from running.
func because(n *node) string {
	switch n.out.status {
	case Cancelled:
		return n.label() + " was cancelled"
	case SkippedStep:
		return n.label() + " was skipped"
	default:
		if n.scope.of(Contest) && !n.judge {
			return "no candidate succeeded" // or its failure would count for nothing
		}
		return n.label() + " failed"
	}
}

// label names n among its siblings.
func (n *node) label() string {
	switch {
	case n.scope.of(Each):
		return fmt.Sprintf("item %d", n.number())
	case n.scope.of(Loop):
		return fmt.Sprintf("round %d", n.number())
	case n.scope.of(Contest) && !n.judge:
		return fmt.Sprintf("candidate %d", n.number())
	}
	return n.step.ID
}

// blame returns the path of the root cause of how n ended.
func (m *Machine) blame(n *node) string {
	for {
		next := n
		switch {
		case n.failing && n.goesOn():
			next = n.inner.blamed()
		case n.out.status == SkippedStep:
			next = n.out.origin
		case n.out.status == Cancelled && m.striker(n.scope) != nil:
			return m.striker(n.scope).path
		case n.out.status == Cancelled && n.goesOn():
			next = cmp.Or(n.cutter(), n)
		}
		if next == n {
			return n.path
		}
		n = next
	}
}

// striker returns the step whose failure made fail-fast strike over s, the innermost
// one; nil if none did.
func (m *Machine) striker(s *scope) *node {
	for s = m.holder(s); s != nil && !s.strikes(); s = m.holder(s.up()) {
	}
	if s == nil {
		return nil
	}
	n := s.culprit
	for n.goesOn() {
		n = n.inner.blamed()
	}
	return n
}

// Waiting says why the step at path is not running: "needs analyze", "limit 4", "session
// of edit in use by fix2", "max-parallel 2 of fix", "an answer", "retry at …". It is empty
// for a step that runs, has ended, could start now, or does not exist.
func (m *Machine) Waiting(path string) string {
	n := m.find(path)
	switch {
	case n == nil || n.active || n.opened && !n.closing() || n.out.status != "":
		return ""
	case n.last == Suspended:
		return "an answer"
	case !n.scope.open():
		return m.waitsGroup(n.unopenedAround())
	case n.waits > 0:
		return "needs " + n.unmet()
	case !n.retryAt.IsZero() && !n.rung:
		return "retry at " + n.retryAt.Format(time.RFC3339)
	}
	return m.waitsTurn(n)
}

// waitsGroup is Waiting for a step of a group that is not open.
func (m *Machine) waitsGroup(group *node) string {
	why := m.Waiting(group.path)
	switch {
	case group.out.status != "":
		return ""
	case why == "":
		why = "is not open"
	}
	return group.path + " " + why
}

// waitsTurn is Waiting for a step that is ready.
func (m *Machine) waitsTurn(n *node) string {
	c := n.class
	if item := m.shut(n); item != nil {
		return fmt.Sprintf("max-parallel %d of %s", item.scope.gate.limit, item.scope.owner.path)
	}
	switch s := n.taken(); {
	case !c.open && m.busy >= m.limit:
		return fmt.Sprintf("limit %d", m.limit)
	case c.full():
		return fmt.Sprintf("limit %d of %s", c.limit, c.agent)
	case s != nil:
		return fmt.Sprintf("session of %s in use by %s", s.root.path, s.holder().path)
	}
	return ""
}

// unmet names the needs of n that have not ended.
func (n *node) unmet() string {
	var ids []string
	if n.judge {
		for _, need := range n.needs {
			if need.out.status == "" {
				ids = append(ids, need.label())
			}
		}
	}
	for _, id := range n.step.Needs {
		if need := n.scope.child(id); need == nil || need.out.status == "" {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ", ")
}
