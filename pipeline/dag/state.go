package dag

import (
	"encoding/json"
	"slices"

	"flow/pipeline"
)

// RunStatus is how the run stands.
type RunStatus string

// The statuses of a run. A run goes on until nothing runs and nothing can start any
// more. Then it waits if a person is to answer first, else it failed if a failure was
// not tolerated, else it was cancelled if a step was, else it succeeded.
const (
	RunRunning   RunStatus = "running"
	RunSucceeded RunStatus = "succeeded"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
	RunWaiting   RunStatus = "waiting"
)

// Status returns how the run stands.
func (m *Machine) Status() RunStatus {
	switch m.root.status() {
	case OK:
		return RunSucceeded
	case Failure:
		return RunFailed
	case Cancelled:
		return RunCancelled
	default:
		return m.goingOn()
	}
}

// goingOn is how a run stands that has not ended.
func (m *Machine) goingOn() RunStatus {
	if m.waiting > 0 && m.Idle() && !m.startable() {
		return RunWaiting
	}
	return RunRunning
}

// startable says that something could start, now or when its time has come.
func (m *Machine) startable() bool {
	for _, c := range m.classes {
		if slices.ContainsFunc(c.ready, m.ready) {
			return true
		}
	}
	return slices.ContainsFunc(m.timers, m.rings)
}

// Waits returns the paths of the questions that stand, in plan order: nobody was there to
// answer when they were asked, and a resume asks them again.
func (m *Machine) Waits() []string {
	var paths []string
	for n := range m.root.all() {
		if n.last == Suspended && n.out.status == "" {
			paths = append(paths, n.path)
		}
	}
	return paths
}

// Done says that all steps have ended.
func (m *Machine) Done() bool { return m.root.pending == 0 }

// Idle says that no task is out: all that were taken have been answered.
func (m *Machine) Idle() bool { return len(m.active) == 0 }

// Stopping says that nothing new starts in the whole run: fail-fast has struck, or the
// run was stopped. See Cancels for what is to be ended.
func (m *Machine) Stopping() bool { return m.holds(m.root) }

// Cancels returns the paths of the nodes that are out although nothing may run any more
// in their scope, in plan order: the driver is to cancel them. See Beaten for why.
func (m *Machine) Cancels() []string {
	if m.struck == 0 {
		return nil
	}
	return m.paths(func(n *node) bool { return m.holder(n.scope) != nil })
}

// Beaten says that the step at path is a candidate of a race that another one has won.
func (m *Machine) Beaten(path string) bool {
	n := m.find(path)
	return n != nil && n.scope.decided() && n.end != OK
}

// Unfinished returns the paths of the steps that have started and not ended, and of the
// nodes that are being opened or closed, in plan order. On resume, Lost is applied to
// each.
func (m *Machine) Unfinished() []string {
	return m.paths(func(n *node) bool { return n.running || n.form != Single })
}

// paths returns those of the active nodes that are so.
func (m *Machine) paths(is func(*node) bool) []string {
	var found []*node
	for _, n := range m.active {
		if is(n) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *node) int {
		if a.before(b) {
			return -1
		}
		return +1 // no node is there twice
	})
	var paths []string
	for _, n := range found {
		paths = append(paths, n.path)
	}
	return paths
}

// StepState is how a step stands.
type StepState struct {
	Path     string
	Form     Form
	Step     *pipeline.Step // of a candidate, a copy with its agent
	Status   Status
	Attempts int             // those that started
	Result   json.RawMessage // of the last attempt
	Reason   string          // why it failed, was skipped or cancelled, or is tried again
	Cause    string          // of the last attempt's failure
	Root     string          // path of the step to blame, where that is another one
}

// Steps returns how every node stands, in plan order, depth first: the steps, and the
// items, rounds and candidates that there are by now.
func (m *Machine) Steps() []StepState {
	count := 0
	for range m.root.all() {
		count++
	}
	states := make([]StepState, 0, count)
	for n := range m.root.all() {
		s := StepState{
			Path: n.path, Form: n.form, Step: n.step, Status: n.status(),
			Attempts: n.starts, Result: n.result, Cause: n.cause,
		}
		s.Reason, s.Root = m.why(n)
		states = append(states, s)
	}
	return states
}

// status returns the status of n. The steps of a group that ended without being opened
// were skipped, or cancelled with it.
func (n *node) status() Status {
	switch {
	case n.out.status != "":
		return n.out.status
	case n.running && n.asks() || n.last == Suspended:
		return Waiting
	case n.running || n.opened:
		return Running
	case n.last == Failed:
		return Retrying
	case n.scope.open():
		return Pending
	}
	switch group := n.scope.owner.status(); group {
	case SkippedStep, Failure:
		return SkippedStep
	default:
		return group
	}
}
