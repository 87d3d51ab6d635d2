package dag

import (
	"fmt"
	"time"

	"flow/pipeline"
)

// Apply takes in a fact. It returns an error, and changes nothing, when f cannot follow
// from the facts before it: an unknown path, another attempt than the one that is due,
// a step whose needs are not met, anything after the end.
//
// The Attempt of f is that of the Task; Reopened has none, and Lost may leave it out.
// A Stopped, Reopened or Updated with an empty path is about the run itself.
func (m *Machine) Apply(f Fact) error {
	if f.Path == "" {
		return m.applyRun(f)
	}
	n := m.find(f.Path)
	if n == nil {
		return refuse(f, "the plan has no such step")
	}
	if why := m.refuses(n, f); why != "" {
		return refuse(f, why)
	}
	m.note(n, f)
	m.recount(n)
	m.within(n)
	m.settle()
	if f.Kind != Reopened {
		m.hold(n)
	}
	m.admit()
	return nil
}

func refuse(f Fact, why string) error {
	return fmt.Errorf("%s of %q, attempt %d, cannot follow: %s", f.Kind, f.Path, f.Attempt, why)
}

// applyRun takes in what happened to the run: it was stopped, goes on, or follows another
// plan.
func (m *Machine) applyRun(f Fact) error {
	switch {
	case f.Kind == Updated && f.Attempt < m.floor:
		return refuse(f, fmt.Sprintf("there is an attempt %d", m.floor))
	case f.Kind == Updated:
		m.floor = f.Attempt
		return nil
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
	m.admit()
	return nil
}

// refuses says why f cannot be the next fact of n, "" if it can.
func (m *Machine) refuses(n *node, f Fact) string {
	if why := m.refusesAttempt(n, f); why != "" {
		return why
	}
	if n.past() {
		return "what it stands in has ended"
	}
	switch f.Kind {
	case Started, Opened, Continued, Succeeded, Failed, Skipped, Stopped, Lost, Reopened, Suspended:
		if n.allows(f) {
			return n.misfits(f)
		}
		return n.stands()
	case Updated:
		return "it is about the run"
	}
	return "the kind is unknown"
}

// allows says that a fact like f can follow, from how n stands.
func (n *node) allows(f Fact) bool {
	single := n.form == Single
	switch f.Kind {
	case Started:
		return single && n.begins()
	case Opened:
		return !single && n.begins()
	case Continued:
		return n.form == Loop && n.closing()
	case Succeeded:
		return n.running || n.closing()
	case Failed: // without Started it must be final, or a step could fail for ever
		return n.running || f.Final && (n.begins() || n.closing())
	case Skipped:
		return n.begins()
	case Stopped:
		return n.running || n.begins() || n.closing()
	case Lost:
		return n.running || !single && (n.begins() || n.closing())
	case Reopened:
		return n.end != "" && n.end != OK || n.last == Suspended
	case Suspended:
		return n.running || n.begins()
	default:
		return false
	}
}

// misfits says what else is wrong with f, which is allowed.
func (n *node) misfits(f Fact) string {
	switch {
	case f.Kind == Continued && f.Count != len(n.inner.nodes)+1:
		return fmt.Sprintf("round %d is due", len(n.inner.nodes)+1)
	case f.Kind == Opened && n.form == Each && (f.Count < 0 || f.Count > pipeline.MaxItems):
		return fmt.Sprintf("it has %d items, and may have %d", f.Count, pipeline.MaxItems)
	case f.Kind == Skipped && (n.scope.of(Loop) || n.scope.of(Contest) && !n.judge):
		return "rounds and candidates have no condition"
	case f.Kind == Suspended && !n.asks():
		return "only a step that asks waits for a person"
	}
	return ""
}

// due returns the attempt that the next task of n is.
func (m *Machine) due(n *node) int {
	switch {
	case n.opened:
		return n.inner.attempt
	case n.attempts > 0:
		return n.attempts + 1
	}
	return m.floor + 1
}

func (m *Machine) refusesAttempt(n *node, f Fact) string {
	due := m.due(n)
	switch {
	case f.Kind == Reopened:
		due = 0
	case n.end != "":
		return n.stands()
	case f.Kind == Lost && f.Attempt == 0:
		return ""
	case n.running:
		due = n.attempts
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
		return "the " + n.noun() + " is open"
	case !n.scope.open():
		return "the " + n.scope.owner.noun() + " " + n.scope.owner.path + " is not open"
	case n.waits > 0:
		return "its needs have not ended"
	case n.blocked():
		return "it is skipped for what it needs"
	case n.last == Suspended:
		return "the step waits for a person"
	case n.form != Single:
		return "the " + n.noun() + " has not been opened, and " + n.noun() + "s have no attempts"
	}
	return "the step has not started"
}

// noun names what n is, for messages.
func (n *node) noun() string {
	switch {
	case n.calls():
		return "call"
	case n.form == Each:
		return "foreach"
	}
	return string(n.form)
}

// note writes down what f says of n.
func (m *Machine) note(n *node, f Fact) {
	n.forget()
	if n.last == Suspended {
		m.waiting--
	}
	n.last, n.end, n.retryAt, n.rung = f.Kind, end(f), time.Time{}, false
	n.result, n.reason, n.cause = f.Result, f.Reason, f.Cause
	switch f.Kind {
	case Started:
		n.running, n.attempts, n.previous = true, f.Attempt, ""
		n.starts++
		m.activate(n, !n.class.open)
		return
	case Opened:
		n.result = nil
		m.open(n, f)
	case Continued:
		n.result = nil
		m.round(n)
	case Failed:
		if !f.Final {
			n.retryAt = f.RetryAt
		}
	case Suspended:
		m.waiting++
	case Succeeded:
		if n.scope.of(Contest) && !n.judge {
			m.wins(n)
		}
	default:
	}
	if n.running {
		n.previous = f.Kind
	}
	n.running = false
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
