package pipeline

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

func validText(data []byte) bool { return utf8.Valid(data) && !slices.Contains(data, 0) }

// report adds a mistake at a place known to it.
type report func(hint, format string, args ...any)

func (l *loader) at(pos Pos) report {
	return func(hint, format string, args ...any) { l.fail(pos, hint, format, args...) }
}

// resolve checks all templates and names, and orders the steps, once everything is
// decoded.
func (l *loader) resolve() {
	l.tmpl = newChecker()
	l.layAgents()
	l.defaultTimeouts(l.root)
	for _, v := range l.plan.Env {
		l.checkText(v.Value, site{secrets: true, what: "the `env` of the pipeline"})
	}
	for _, name := range slices.Sorted(maps.Keys(l.plan.Agents)) {
		for _, v := range l.plan.Agents[name].Env {
			l.checkText(v.Value, site{secrets: true, env: true, what: "the `env` of an agent"})
		}
	}
	for _, n := range l.plan.Notify {
		l.scriptText(n.Run, site{env: true, what: "the `notify` of the pipeline"}, "")
	}
	if l.root == nil {
		return
	}
	l.scopeSteps(l.root, groupKeys{})
	l.bindFallbacks()
	l.sessions(l.root)
	l.order(l.root)
	for _, v := range l.plan.Outputs {
		l.checkText(v.Value, site{what: "`outputs`", env: true})
	}
}

// scopeSteps checks the steps of a scope. outer is what the groups around hand down.
func (l *loader) scopeSteps(sc *scope, outer groupKeys) {
	for _, nd := range sc.steps {
		l.handDown(nd, outer)
		l.explicitNeeds(nd)
		l.condition(nd)
		l.leafTexts(nd)
		l.controls(nd)
		if nd.inner != nil {
			l.scopeSteps(nd.inner, nd.group)
			continue
		}
		l.stepTexts(nd)
		if nd.step.Kind == KindPrompt || nd.step.Kind == "" && nd.agent.name != "" {
			if nd.step.Contest == nil {
				l.chooseAgent(nd)
			}
			l.bindSession(nd)
			l.cacheFits(nd)
		}
	}
}

// handDown gives a step the `env` and `cwd` of the groups around it, its own first;
// a group keeps none of them.
func (l *loader) handDown(nd *node, outer groupKeys) {
	st := nd.step
	for _, v := range outer.env {
		if !slices.ContainsFunc(st.Env, func(own Var) bool { return own.Name == v.Name }) {
			st.Env = append(st.Env, v)
		}
	}
	if st.Cwd == nil {
		st.Cwd = outer.cwd
	}
	if nd.inner != nil {
		nd.group = groupKeys{env: st.Env, cwd: st.Cwd}
	}
	if nd.inner != nil || st.Kind == KindCall { // a called pipeline sees its inputs only
		st.Env, st.Cwd = nil, nil
	}
}

func (l *loader) explicitNeeds(nd *node) {
	for _, n := range nd.needs {
		switch target := nd.in.names[n.name]; {
		case target == nd:
			l.fail(n.pos, "remove it", "step `%s` needs itself", n.name)
		case target != nil:
			nd.link(target)
		case l.visible(nd, n.name) != nil:
			group := l.ancestorIn(nd, l.visible(nd, n.name).in)
			l.fail(n.pos, "add `needs: ["+n.name+"]` to `"+group.step.ID+"`", "`needs` names siblings; `%s` is outside of the group", n.name)
		default:
			l.unknownStep(nd, n.name, l.at(n.pos))
		}
	}
}

func (nd *node) link(target *node) {
	if nd.links == nil {
		nd.links = map[int]bool{}
	}
	nd.links[target.index] = true
}

// ref notes that a template of nd names a step; always says that it is another one than
// that of the list.
func (nd *node) ref(id string, always bool) {
	if nd.refs == nil {
		nd.refs = map[string]bool{}
	}
	nd.refs[id] = nd.refs[id] || always
}

// condition checks `if` and finds out whether it handles failures.
func (l *loader) condition(nd *node) {
	t := nd.step.If
	if t == nil || strings.TrimSpace(t.Src) == "" {
		return
	}
	s := site{node: nd, env: true, stand: asCondition, what: "`if`"}
	before := len(l.errs)
	if r := l.checkTemplate(*t, s, parseCondition, l.tmpl.conditions); r != nil && len(l.errs) == before {
		nd.step.Handles = handles(r.p)
		nd.fixed = len(r.uses)+len(r.transcripts)+len(r.files) == 0
		l.mustBeBoolean(*t, l.expression(*t, parseCondition, s), "`if`")
	}
}

func (l *loader) stepTexts(nd *node) {
	st := nd.step
	if st.Prompt != nil {
		l.checkText(*st.Prompt, site{node: nd, env: true, what: "a prompt"})
	}
	if st.Run != nil {
		l.scriptText(*st.Run, site{node: nd, env: true, what: "`run`"}, st.Shell)
	}
	if st.Cwd != nil {
		l.checkText(*st.Cwd, site{node: nd, env: true, what: "`cwd`"})
	}
	for _, v := range st.Env {
		l.checkText(v.Value, site{node: nd, env: true, secrets: true, what: "`env`"})
	}
}

// visible returns the step that an id means inside nd: the nearest scope counts.
func (l *loader) visible(nd *node, id string) *node {
	for sc := nd.in; sc != nil; sc = sc.outer() {
		if found := sc.names[id]; found != nil {
			return found
		}
	}
	return nil
}

func (sc *scope) outer() *scope {
	if sc.owner == nil {
		return nil
	}
	return sc.owner.in
}

// ancestorIn returns nd or the group around it that stands in scope sc.
func (l *loader) ancestorIn(nd *node, sc *scope) *node {
	for nd.in != sc {
		nd = nd.in.owner
	}
	return nd
}

// need makes nd, or the group around it that is a sibling of target, wait for target.
func (l *loader) need(nd, target *node, complain report) bool {
	waiting := l.ancestorIn(nd, target.in)
	switch {
	case waiting != target:
		waiting.link(target)
		return true
	case nd == target:
		complain("", "step `%s` refers to itself", target.step.ID)
	default:
		complain("name a step inside of it, as .steps.ID", "step `%s` is inside of `%s` and cannot refer to it", nd.step.ID, target.step.ID)
	}
	return false
}

// reference finds the step that a template names and makes it a need.
func (l *loader) reference(id string, s site, complain report) *node {
	nd := s.node
	target := l.visible(nd, id)
	if target == nil {
		l.unknownStep(nd, id, complain)
		return nil
	}
	if !l.need(nd, target, complain) {
		return nil
	}
	nd.ref(id, s.stand != beforeItems)
	return target
}

// maxHinted bounds the search for what was meant, which compares with every step.
const maxHinted = 50

// unknownStep says how to reach a step of another group, or what was meant.
func (l *loader) unknownStep(nd *node, id string, complain report) {
	if len(l.errs) >= maxErrors {
		return // the search takes its time
	}
	if elsewhere := l.search(l.root, id); elsewhere != nil {
		complain(reach(elsewhere), "step `%s` is inside of the group `%s`", id, elsewhere.in.owner.path)
		return
	}
	hint := ""
	if group, _, inner := strings.Cut(id, "."); inner && nd != nil && l.visible(nd, group) != nil {
		hint = "a step needs the whole group: write " + group
	} else if len(l.errs) < maxHinted {
		ids := l.visibleIDs(nd)
		hint = orList(suggest(id, ids), "the steps are ", ids)
	}
	complain(hint, "there is no step `%s`", id)
}

// visibleIDs lists the steps that nd, or with nil the pipeline's outputs, can name.
func (l *loader) visibleIDs(nd *node) []string {
	sc := l.root
	if nd != nil {
		sc = nd.in
	}
	var ids []string
	for ; sc != nil; sc = sc.outer() {
		for _, n := range sc.steps {
			if n != nd {
				ids = append(ids, n.step.ID)
			}
		}
	}
	return ids
}

// search finds a step inside of a group, in any scope.
func (l *loader) search(sc *scope, id string) *node {
	for _, nd := range sc.steps {
		if nd.inner == nil {
			continue
		}
		if found := nd.inner.names[id]; found != nil {
			return found
		}
		if found := l.search(nd.inner, id); found != nil {
			return found
		}
	}
	return nil
}
