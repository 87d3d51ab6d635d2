package dag

import "flow/pipeline"

// task makes the task of n.
func (n *node) task() Task {
	t := Task{
		Action: Execute, Path: n.path, Step: n.step, Attempt: n.attempts + 1,
		Previous: n.attempts, PreviousKind: n.previous, NotBefore: n.retryAt,
		Needs: n.needState(),
	}
	if n.inner != nil {
		t.Action = Open
	}
	for _, id := range n.step.Refs {
		if ref := n.visible(id); ref != nil {
			if t.Inputs == nil {
				t.Inputs = make(map[string]Input, len(n.step.Refs))
			}
			t.Inputs[id] = ref.input()
		}
	}
	return t
}

// needState says how the needs of n ended. One that was skipped counts as what it was
// skipped for, so that a handler at the end of a chain learns of a failure at its start.
func (n *node) needState() pipeline.NeedState {
	var s pipeline.NeedState
	for _, need := range n.needs {
		origin := need.out.origin
		s.Failed = s.Failed || origin.out.status == Failure && !origin.tolerated()
		s.Cancelled = s.Cancelled || origin.out.status == Cancelled
	}
	return s
}

// visible returns the step that a template of n means by id: a sibling, or one of a
// group around n. The nearest wins.
func (n *node) visible(id string) *node {
	for s := n.scope; s != nil; s = s.up() {
		if found := s.byID[id]; found != nil {
			return found
		}
	}
	return nil
}
