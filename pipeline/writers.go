package pipeline

import (
	"encoding/json"
	"maps"
	"slices"
)

// maxPairs is how many pairs of writers are warned of.
const maxPairs = 5

// lintWriters warns of agents that may change the files of one workspace at the same
// time. Scripts are left out: what they write is not known.
func (l *loader) lintWriters(sc *scope) {
	for _, nd := range sc.steps {
		l.lintOwnWriters(nd)
		if nd.inner != nil {
			l.lintWriters(nd.inner)
		}
	}
	writers := l.inOrder(sc)
	for i := 1; i < len(writers.all); i++ {
		a, b := writers.all[i-1], writers.all[i]
		one, other := l.writerIn(a), l.writerIn(b)
		// Where each waits for the one before it, all are in order.
		if l.pairs < maxPairs && !writers.waits(b, a) && began(one) != began(other) {
			l.pairs++
			l.warn(other.step.Pos, "add `needs` or `isolation: worktree`, or give one of them `sandbox: read-only`",
				"`%s` and `%s` may write in the same workspace at the same time", one.path, other.path)
		}
	}
}

// lintOwnWriters warns of the items or candidates of one step.
func (l *loader) lintOwnWriters(nd *node) {
	st := nd.step
	if st.Isolation != nil || st.Foreach == nil && st.Contest == nil || l.writerIn(nd) == nil {
		return
	}
	var items []json.RawMessage
	switch {
	case st.Contest != nil:
		l.warn(st.Contest.Pos, "add isolation: worktree", "the candidates of `%s` may write in the same workspace at the same time", nd.path)
	case st.Foreach.MaxParallel == 1, st.Foreach.Items != nil && json.Unmarshal(st.Foreach.Items, &items) == nil && len(items) < 2:
	default:
		l.warn(nd.keys["foreach"], "add isolation: worktree, or max-parallel: 1", "the items of `%s` may write in the same workspace at the same time", nd.path)
	}
}

// writer is an agent step in a scope that may write in the workspace around it, or nil.
func (l *loader) writer(sc *scope) *node {
	for _, nd := range sc.steps {
		if w := l.writerIn(nd); w != nil {
			return w
		}
	}
	return nil
}

// writerIn is the step, or the first inside of it, that may write in the workspace
// around it.
func (l *loader) writerIn(nd *node) *node {
	switch st := nd.step; {
	case st.Isolation != nil:
		return nil
	case nd.inner != nil:
		return l.writer(nd.inner)
	case st.Kind == KindMerge,
		st.Kind == KindCall && nd.ctl.callee != nil && nd.ctl.callee.writes,
		st.Kind == KindPrompt && slices.ContainsFunc(st.Profiles(), func(name string) bool { return writes(st, l.plan.Agents[name]) }):
		return nd
	}
	return nil
}

// writes says whether a profile lets an agent change files.
func writes(st *Step, p Profile) bool {
	sandbox, permissions := p.Sandbox, p.Permissions
	if st.Sandbox != "" {
		sandbox = st.Sandbox
	}
	if st.Permissions != nil {
		permissions = st.Permissions
	}
	if sandbox == "read-only" || p.Approval == "plan" {
		return false
	}
	return permissions == nil || permissions.Default != "deny" || slices.ContainsFunc(permissions.Rules, func(r Permission) bool {
		return r.Effect != "deny" && !slices.Contains([]string{"read_file", "search_content", "find_files", "web_fetch", "web_search"}, r.Tool)
	})
}

// ordered are the steps of a scope with writers in them, so that none stands before one
// that it needs.
type ordered struct {
	sc    *scope
	place []int // of every step, from 1
	all   []*node
}

func (l *loader) inOrder(sc *scope) *ordered {
	o := &ordered{sc: sc, place: make([]int, len(sc.steps))}
	next := 0
	var visit func(i int)
	visit = func(i int) {
		if o.place[i] != 0 {
			return
		}
		for _, need := range slices.Sorted(maps.Keys(sc.steps[i].links)) {
			visit(need)
		}
		next++
		o.place[i] = next
		if l.writerIn(sc.steps[i]) != nil {
			o.all = append(o.all, sc.steps[i])
		}
	}
	for i := range sc.steps {
		visit(i)
	}
	return o
}

// waits says whether b begins after a has ended. Only what stands between the two is
// looked at.
func (o *ordered) waits(b, a *node) bool {
	seen := map[int]bool{}
	var visit func(i int) bool
	visit = func(i int) bool {
		if i == a.index {
			return true
		}
		if seen[i] || o.place[i] < o.place[a.index] {
			return false
		}
		seen[i] = true
		for need := range o.sc.steps[i].links {
			if visit(need) {
				return true
			}
		}
		return false
	}
	return visit(b.index)
}
