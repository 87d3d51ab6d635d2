package pipeline

import (
	"maps"
	"slices"
)

// never says whether a step can run at all.
type never byte

const (
	neverUnknown never = iota // not looked at yet
	neverNot                  // as far as can be told it may run
	neverIf                   // its condition is false however the steps before it end
	neverNeeds                // it needs a step that never runs
)

// lintNever warns of steps that can never run. Those of a group that never runs are
// not named.
func (l *loader) lintNever(sc *scope) {
	for _, nd := range sc.steps {
		switch st := nd.step; l.neverRuns(nd) {
		case neverIf:
			l.warn(st.If.Pos, "remove it, or make the condition depend on an input", "step `%s` never runs", st.ID)
		case neverNeeds:
			l.warn(st.Pos, "remove it, or let `if` say when it runs all the same: always", "step `%s` never runs, because `%s` never does", st.ID, l.missed(nd).step.ID)
		default:
			if nd.inner != nil {
				l.lintNever(nd.inner)
			}
		}
	}
}

// neverRuns looks at what nd itself says and at the steps that it needs; there are no
// circles among them.
func (l *loader) neverRuns(nd *node) never {
	if nd.never == neverUnknown {
		nd.never = neverNot
		switch {
		case nd.fixed && l.alwaysFalse(*nd.step.If):
			nd.never = neverIf
		case !nd.step.Handles && l.missed(nd) != nil:
			nd.never = neverNeeds
		}
	}
	return nd.never
}

// missed returns the first step that nd needs and that never runs, or nil.
func (l *loader) missed(nd *node) *node {
	for _, i := range slices.Sorted(maps.Keys(nd.links)) {
		if need := nd.in.steps[i]; l.neverRuns(need) != neverNot {
			return need
		}
	}
	return nil
}

// alwaysFalse evaluates a condition without values for every end that the steps before
// can come to.
func (l *loader) alwaysFalse(t Text) bool {
	if l.conditions == nil {
		l.conditions, _ = NewRenderer(&Plan{}, Funcs{}) // nothing to parse, no error
	}
	for _, state := range []NeedState{{}, {Failed: true}, {Cancelled: true}} {
		if yes, err := l.conditions.Condition(t, Data{}, state); yes || err != nil {
			return false
		}
	}
	return true
}
