package dag

import (
	"encoding/json"
	"slices"

	"flow/pipeline"
)

// RunStatus is how the run stands.
type RunStatus string

// The statuses of a run. A run goes on until nothing runs and nothing can start any
// more. Then it failed if a failure was not tolerated, else it was cancelled if a step
// was, else it succeeded.
const (
	RunRunning   RunStatus = "running"
	RunSucceeded RunStatus = "succeeded"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
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
		return RunRunning
	}
}

// Done says that nothing runs and nothing can start any more.
func (m *Machine) Done() bool { return m.root.pending == 0 }

// Idle says that no task is out: all that were taken have been answered.
func (m *Machine) Idle() bool { return len(m.active) == 0 }

// Stopping says that nothing new starts in the whole run: fail-fast has struck, or the
// run was stopped. See Cancels for what is to be ended.
func (m *Machine) Stopping() bool { return m.holds(m.root) }

// Cancels returns the paths of the steps that are out although nothing may run any more
// in their scope, in plan order: the driver is to cancel them.
func (m *Machine) Cancels() []string {
	if m.struck == 0 {
		return nil
	}
	return m.paths(func(n *node) bool { return m.holder(n.scope) != nil })
}

// Unfinished returns the paths of the steps that have started and not ended, and of the
// groups that are being opened, in plan order. On resume, Lost is applied to each.
func (m *Machine) Unfinished() []string {
	return m.paths(func(n *node) bool { return n.running || n.inner != nil })
}

// paths returns those of the active nodes that are so.
func (m *Machine) paths(is func(*node) bool) []string {
	var found []*node
	for _, n := range m.active {
		if is(n) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *node) int { return a.order - b.order })
	var paths []string
	for _, n := range found {
		paths = append(paths, n.path)
	}
	return paths
}

// StepState is how a step stands.
type StepState struct {
	Path     string
	Step     *pipeline.Step
	Status   Status
	Attempts int             // those that started
	Result   json.RawMessage // of the last attempt
	Reason   string          // why it failed, was skipped or cancelled, or is tried again
	Cause    string          // of the last attempt's failure
	Root     string          // path of the step to blame, where that is another one
}

// Steps returns how every step stands, in plan order, depth first.
func (m *Machine) Steps() []StepState {
	var states []StepState
	for n := range m.root.all() {
		s := StepState{
			Path: n.path, Step: n.step, Status: n.status(),
			Attempts: n.attempts, Result: n.result, Cause: n.cause,
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

// Input returns what a template sees of the step at path; the zero Input if there is no
// such step. Its maps are the caller's.
func (m *Machine) Input(path string) Input {
	if n := m.find(path); n != nil {
		return n.input()
	}
	return Input{}
}

func (n *node) input() Input {
	in := Input{Path: n.path, Status: n.status(), Result: n.result}
	if n.inner != nil {
		in.Steps = make(map[string]Input, len(n.inner.nodes))
		for _, c := range n.inner.nodes {
			in.Steps[c.step.ID] = c.input()
		}
	}
	return in
}
