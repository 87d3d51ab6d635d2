package dag

import (
	"slices"

	"flow/pipeline"
)

// task makes the task of n.
func (m *Machine) task(n *node) Task {
	t := Task{
		Action: Execute, Path: n.path, Form: n.form, Step: n.step, Around: n.around(), Owns: n.owns(),
		Attempt: m.due(n), Previous: n.attempts, PreviousKind: n.previous, NotBefore: n.retryAt,
		Needs: n.outermost().needState(), Inputs: n.inputs(),
	}
	switch {
	case n.opened:
		t.Action, t.Inner = Close, n.input()
	case n.form != Single:
		t.Action = Open
	case n.judge:
		t.Inner = n.scope.owner.input()
	}
	if n.step.Previous || n.judge && n.scope.owner.step.Previous {
		t.Before = n.roundBefore()
	}
	return t
}

// around returns the nodes around n, from outside in.
func (n *node) around() []Enclosing {
	if n.scope.owner == nil {
		return nil
	}
	all := make([]Enclosing, 0, n.scope.depth)
	for ; n.scope.owner != nil; n = n.scope.owner {
		o := n.scope.owner
		all = append(all, Enclosing{o.path, o.form, o.step, n.scope.opening, n.number()})
	}
	slices.Reverse(all)
	return all
}

// number returns which item, candidate or round n is; 0 if it is a step of a group, and -1
// if it is a judge.
func (n *node) number() int {
	switch {
	case n.judge:
		return -1
	case n.scope.of(Loop):
		return n.index + 1
	case n.scope.of(Group):
		return 0
	}
	return n.index
}

// roundBefore returns the round before the one that n is in, or is, or, if n is a loop to be
// closed, before the one that it has come to; nil if that is the first.
func (n *node) roundBefore() *Input {
	if n.form == Loop && n.opened {
		n = n.inner.last()
	}
	for ; n.scope.owner != nil; n = n.scope.owner {
		if n.scope.of(Loop) {
			if n.index == 0 {
				return nil
			}
			return n.scope.nodes[n.index-1].input()
		}
	}
	return nil
}

// inputs returns what the templates of n's step see of the steps that they name.
func (n *node) inputs() map[string]Input {
	var all map[string]Input
	step := n.step
	if n.judge { // what it is told is part of the contest
		step = n.scope.owner.step
	}
	for _, id := range step.Refs {
		if n.layer > 0 && step.Foreach != nil && slices.Contains(step.Foreach.Refs, id) {
			continue // the list has been made: it may be long, and the items many
		}
		if ref := n.visible(id); ref != nil {
			if all == nil {
				all = make(map[string]Input, len(n.step.Refs))
			}
			all[id] = *ref.input()
		}
	}
	return all
}

// needState says how the needs of n ended. One that was skipped counts as what it was
// skipped for, so that a handler at the end of a chain learns of a failure at its start.
func (n *node) needState() pipeline.NeedState {
	var s pipeline.NeedState
	for _, need := range n.needs {
		origin := need.out.origin
		if origin == nil { // n was opened before a resume gave its need another chance
			continue
		}
		s.Failed = s.Failed || origin.out.status == Failure && !origin.tolerated()
		s.Cancelled = s.Cancelled || origin.out.status == Cancelled
	}
	return s
}

// visible returns the step that a template of n means by id: a sibling, or one of a
// group around n. The nearest wins. A called pipeline sees nothing of its caller's.
func (n *node) visible(id string) *node {
	for s := n.scope; s != nil; s = s.outer() {
		if i, ok := s.ids[id]; ok {
			return s.nodes[i]
		}
	}
	return nil
}
