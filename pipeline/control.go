package pipeline

import "slices"

// A control is what only the checks need to know of the keys that make a step run
// otherwise than once by itself.
type control struct {
	parallel int // `max-parallel`
	item     shape
	itemDone bool   // item was looked for: a list may be made of the step itself
	values   *shape // of a `set`

	callee *callee // nil: it could not be read
	with   []entry

	from       []named // of a merge
	mergeAgent named
	candidates []named // of a contest
	judge      named

	mode string // of the isolation
}

// controlKey decodes the keys of loops, calls, contests, questions, merges and workspaces.
func (l *loader) controlKey(nd *node, k entry) bool {
	what := "`" + k.key + "`"
	switch k.key {
	case "foreach":
		l.foreach(nd, k.val)
	case "max-parallel":
		nd.ctl.parallel = l.integer(k.val, what, 1, maxConcurrency)
	case "repeat":
		l.repeat(nd, k.val)
	case "pipeline":
		l.call(nd, k.val)
	case "with":
		nd.ctl.with = l.entries(k.val, what, MaxKeys)
	case "ask":
		nd.step.Ask = l.nonEmpty(k.val, what)
	case "set":
		nd.step.Set = l.typedVars(k.val, what)
	case "merge":
		l.merge(nd, k.val)
	case "race":
		l.race(nd, k)
	case "vote":
		l.vote(nd, k)
	case "isolation":
		nd.ctl.mode = l.oneOf(k.val, what, isolations())
	case "worktree":
		l.worktree(nd, k.val)
	default:
		return false
	}
	return true
}

// settle checks what the keys of a step say together.
func (l *loader) settle(nd *node, entries []entry) {
	if nd.step.Kind == "" {
		return
	}
	l.settleForeach(nd)
	l.settleIsolation(nd)
	l.settleContest(nd)
	if nd.step.Kind == KindAsk {
		l.settleAsk(nd)
	}
	if nd.step.Kind == KindMerge {
		l.settleMerge(nd)
	}
	for _, k := range entries {
		if hint := misfit(nd.step, k.key); hint != "" {
			l.failNode(k.at, hint, "`%s` has no meaning for a step with `%s`", k.key, nd.step.Kind)
		}
	}
}

// misfit says what to do instead of a key that has no meaning for a step's kind, or "".
func misfit(st *Step, key string) string {
	is := func(kinds ...Kind) bool { return slices.Contains(kinds, st.Kind) }
	switch key {
	case "with":
		if !is(KindCall) {
			return "it gives the inputs of a `pipeline` step"
		}
	case "env", "cwd":
		switch {
		case is(KindCall):
			return "a called pipeline sees its inputs only: pass the value by `with`"
		case is(KindAsk, KindSet) && key == "cwd":
			return "no process is started; remove it"
		}
	case "foreach", "repeat":
		if is(KindMerge) {
			return "it takes all branches one after the other; remove it, or put it on a group around the step"
		}
	case "race", "vote":
		if !is(KindPrompt) {
			return "it belongs to a `prompt` step"
		}
	case "isolation", "worktree":
		if !is(KindPrompt, KindRun, KindGroup, KindCall) {
			return "set it on the steps that change files"
		}
	case "fail-fast":
		if !is(KindGroup) && st.Foreach == nil {
			return "it belongs to a `steps` step, or to one with `foreach`"
		}
	}
	return ""
}

// controls checks the templates and names of these keys, once all names are known.
func (l *loader) controls(nd *node) {
	st := nd.step
	l.checkForeach(nd)
	l.checkRepeat(nd)
	l.checkIsolation(nd)
	if st.Ask != nil {
		l.checkText(*st.Ask, site{node: nd, env: true, what: "a question"})
	}
	for _, v := range st.Set {
		l.checkText(v.Value, site{node: nd, env: true, what: "`set`"})
	}
	if st.Kind == KindMerge {
		l.checkMerge(nd)
	}
	if st.Kind == KindCall {
		l.checkCall(nd)
	}
	if st.Contest != nil {
		l.checkContest(nd)
	}
}
