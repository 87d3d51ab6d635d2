package dag

import (
	"fmt"
	"time"
)

// Apply takes in a fact. It returns an error, and changes nothing, when f cannot follow
// from the facts before it: an unknown path, another attempt than the one that is due,
// a step whose needs are not met, anything after the end.
//
// The Attempt of f is that of the Task; Reopened has none, and Lost may leave it out.
// A Stopped or Reopened with an empty path is about the run itself.
func (m *Machine) Apply(f Fact) error {
	if f.Path == "" {
		return m.applyRun(f)
	}
	n := m.find(f.Path)
	if n == nil {
		return refuse(f, "the plan has no such step")
	}
	if why := n.refuses(f); why != "" {
		return refuse(f, why)
	}
	m.note(n, f)
	m.recount(n)
	m.within(n)
	m.settle()
	return nil
}

func refuse(f Fact, why string) error {
	return fmt.Errorf("%s of %q, attempt %d, cannot follow: %s", f.Kind, f.Path, f.Attempt, why)
}

// applyRun takes in what happened to the run: it was stopped, or goes on.
func (m *Machine) applyRun(f Fact) error {
	switch {
	case f.Kind == Stopped && !m.stopped:
		m.struck++
	case f.Kind == Reopened && m.stopped:
		m.struck--
	case f.Kind == Stopped:
		return refuse(f, "the run is stopped already")
	case f.Kind == Reopened:
		return refuse(f, "the run is not stopped")
	default:
		return refuse(f, "it needs a step")
	}
	m.stopped, m.reason = f.Kind == Stopped, f.Reason
	m.again(m.root)
	m.settle()
	return nil
}

// refuses says why f cannot be the next fact of n, "" if it can.
func (n *node) refuses(f Fact) string {
	if why := n.refusesAttempt(f); why != "" {
		return why
	}
	group := n.inner != nil
	switch f.Kind {
	case Started:
		return unless(!group && n.begins(), n)
	case Opened:
		return unless(group && n.begins(), n)
	case Succeeded:
		return unless(n.running, n)
	case Failed: // without Started it must be final, or a step could fail for ever
		return unless(n.running || f.Final && n.begins(), n)
	case Skipped:
		return unless(n.begins(), n)
	case Stopped:
		return unless(n.running || n.begins(), n)
	case Lost:
		return unless(n.running || group && n.begins(), n)
	case Reopened:
		return unless(n.end != "" && n.end != OK, n)
	}
	return "the kind is unknown"
}

func unless(ok bool, n *node) string {
	if ok {
		return ""
	}
	return n.stands()
}

func (n *node) refusesAttempt(f Fact) string {
	due := n.attempts
	switch {
	case f.Kind == Reopened:
		due = 0
	case n.end != "":
		return n.stands()
	case f.Kind == Lost && f.Attempt == 0:
		return ""
	case !n.running:
		due++
	}
	if f.Attempt != due {
		return fmt.Sprintf("attempt %d is due", due)
	}
	return ""
}

// stands says how n stands, for a message.
func (n *node) stands() string {
	switch {
	case n.end != "":
		return "the step has ended: " + string(n.end)
	case n.running:
		return "the step is running"
	case n.opened:
		return "the group is open"
	case !n.scope.open():
		return "the group " + n.scope.owner.path + " is not open"
	case n.waits > 0:
		return "its needs have not ended"
	case n.blocked():
		return "it is skipped for what it needs"
	case n.inner != nil:
		return "the group has not been opened, and groups have no attempts"
	}
	return "the step has not started"
}

// note writes down what f says of n.
func (m *Machine) note(n *node, f Fact) {
	n.last, n.end, n.retryAt = f.Kind, end(f), time.Time{}
	n.result, n.reason, n.cause = f.Result, f.Reason, f.Cause
	if f.Kind == Started {
		n.running, n.attempts, n.previous = true, f.Attempt, ""
		m.activate(n, true)
		return
	}
	if f.Kind == Failed && !f.Final {
		n.retryAt = f.RetryAt
	}
	if n.running {
		n.previous = f.Kind
	}
	n.running, n.opened = false, f.Kind == Opened
	m.deactivate(n)
}

// end is how a step stands after f: ended, or "" for not yet.
func end(f Fact) Status {
	switch {
	case f.Kind == Succeeded:
		return OK
	case f.Kind == Failed && f.Final:
		return Failure
	case f.Kind == Skipped:
		return SkippedStep
	case f.Kind == Stopped:
		return Cancelled
	}
	return ""
}
