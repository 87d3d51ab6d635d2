package dag

import (
	"fmt"
	"strings"
	"time"
)

// why returns the reason that stands for n, and the path of the step to blame where it
// is another one.
func (m *Machine) why(n *node) (reason, root string) {
	out := n.out
	switch {
	case n.opened && out.status == Failure:
		return because(n.inner.culprit), m.blame(n.inner.culprit)
	case n.opened && out.status == Cancelled:
		c := n.inner.first(cutShort)
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
	group = group.outermost()
	if group.out.status == "" {
		return "", ""
	}
	return because(group), m.blame(group)
}

// outermost returns the group around n that is the first not to be open, n if there is
// none.
func (n *node) outermost() *node {
	for !n.scope.open() {
		n = n.scope.owner
	}
	return n
}

// held is why for a step that was not allowed to start.
func (m *Machine) held(n *node) (reason, root string) {
	if c := m.striker(n.scope); c != nil {
		return c.path + " failed", c.path
	}
	if m.reason != "" {
		return "the run was cancelled: " + m.reason, ""
	}
	return "the run was cancelled", ""
}

func cutShort(n *node) bool { return n.out.cut }

// because says how the end of n keeps another step from running.
func because(n *node) string {
	switch n.out.status {
	case Cancelled:
		return n.step.ID + " was cancelled"
	case SkippedStep:
		return n.step.ID + " was skipped"
	default:
		return n.step.ID + " failed"
	}
}

// blame returns the path of the root cause of how n ended.
func (m *Machine) blame(n *node) string {
	for {
		next := n
		switch {
		case n.failing && n.opened:
			next = n.inner.culprit
		case n.out.status == SkippedStep:
			next = n.out.origin
		case n.out.status == Cancelled && m.striker(n.scope) != nil:
			return m.striker(n.scope).path
		case n.out.status == Cancelled && n.opened:
			next = n.inner.first(cutShort)
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
	for n.opened {
		n = n.inner.culprit
	}
	return n
}

// Waiting says why the step at path is not running: "needs analyze", "limit 4", "session
// of edit in use by fix2", "retry at …". It is empty for a step that runs, has ended,
// could start now, or does not exist.
func (m *Machine) Waiting(path string) string {
	n := m.find(path)
	switch {
	case n == nil || n.active || n.opened || n.out.status != "":
		return ""
	case !n.scope.open():
		return m.waitsGroup(n.outermost())
	case n.waits > 0:
		return "needs " + n.unmet()
	case !n.retryAt.IsZero() && !n.queued:
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
	switch s := n.taken(); {
	case !c.open && m.busy >= m.limit:
		return fmt.Sprintf("limit %d", m.limit)
	case c.full():
		return fmt.Sprintf("limit %d of %s", c.limit, c.agent)
	case s != nil:
		return fmt.Sprintf("session of %s in use by %s", s.root, s.holders[0].path)
	}
	return ""
}

// unmet names the needs of n that have not ended.
func (n *node) unmet() string {
	var ids []string
	for _, id := range n.step.Needs {
		if need := n.scope.byID[id]; need == nil || need.out.status == "" {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ", ")
}
