package pipeline

import (
	"encoding/json"
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
	for _, v := range l.plan.Env {
		l.checkText(v.Value, site{secrets: true, what: "the `env` of the pipeline"})
	}
	for _, name := range slices.Sorted(maps.Keys(l.plan.Agents)) {
		for _, v := range l.plan.Agents[name].Env {
			l.checkText(v.Value, site{secrets: true, env: true, what: "the `env` of an agent"})
		}
	}
	if l.root == nil {
		return
	}
	l.scopeSteps(l.root, groupKeys{})
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
		if nd.inner != nil {
			l.scopeSteps(nd.inner, nd.group)
			continue
		}
		l.stepTexts(nd)
		if nd.step.Kind == KindPrompt {
			l.chooseAgent(nd)
			l.bindSession(nd)
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
		st.Env, st.Cwd = nil, nil
	}
}

func (l *loader) explicitNeeds(nd *node) {
	for _, n := range nd.needs {
		switch target := nd.in.names[n.name]; {
		case target == nd:
			l.fail(n.pos, "", "step `%s` needs itself", n.name)
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

func (nd *node) ref(id string) {
	if nd.refs == nil {
		nd.refs = map[string]bool{}
	}
	nd.refs[id] = true
}

// condition checks `if` and finds out whether it handles failures.
func (l *loader) condition(nd *node) {
	t := nd.step.If
	if t == nil || strings.TrimSpace(t.Src) == "" {
		return
	}
	p, err := parseCondition(*t, l.tmpl.conditions)
	if l.checkParsed(p, err, site{node: nd, env: true, what: "`if`"}) != nil {
		nd.step.Handles = handles(p)
	}
}

func (l *loader) stepTexts(nd *node) {
	st := nd.step
	if st.Prompt != nil {
		l.checkText(*st.Prompt, site{node: nd, env: true, what: "a prompt"})
	}
	if st.Run != nil {
		if r := l.checkText(*st.Run, site{node: nd, env: true, what: "`run`"}); r != nil {
			l.script(nd, r.p)
		}
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
func (l *loader) reference(id string, nd *node, complain report) *node {
	target := l.visible(nd, id)
	if target == nil {
		l.unknownStep(nd, id, complain)
		return nil
	}
	if !l.need(nd, target, complain) {
		return nil
	}
	nd.ref(id)
	return target
}

// unknownStep says how to reach a step of another group, or what was meant.
func (l *loader) unknownStep(nd *node, id string, complain report) {
	if elsewhere := l.search(l.root, id); elsewhere != nil {
		path := ".steps." + strings.ReplaceAll(elsewhere.path, ".", ".steps.")
		complain("a template reaches it as "+path, "step `%s` is inside of the group `%s`", id, elsewhere.in.owner.path)
		return
	}
	var ids []string
	for sc := l.scopeOf(nd); sc != nil; sc = sc.outer() {
		for _, n := range sc.steps {
			if n != nd {
				ids = append(ids, n.step.ID)
			}
		}
	}
	complain(orList(suggest(id, ids), "the steps are ", ids), "there is no step `%s`", id)
}

func (l *loader) scopeOf(nd *node) *scope {
	if nd == nil {
		return l.root
	}
	return nd.in
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

func stepFields() []string {
	return []string{
		"status", "text", "output", "error", "session", "agent", "model", "usage", "cost", "duration", "exit", "stdout", "stderr", "steps", "attempts",
	}
}

// useStep checks `.steps.x…` and makes x a need.
func (l *loader) useStep(t Text, u use, s site) {
	complain := func(hint, format string, args ...any) { l.failText(t, u.offset, hint, format, args...) }
	if s.node == nil && s.what != "`outputs`" {
		complain("", "`.steps` cannot be used in %s", s.what)
		return
	}
	if len(u.path) == 1 || u.path[1] == "[]" {
		l.anyStep(s, complain)
		return
	}
	id := u.path[1]
	if s.node != nil {
		if target := l.reference(id, s.node, complain); target != nil {
			l.stepField(t, u, 2, target)
		}
	} else if target := l.root.names[id]; target != nil {
		l.stepField(t, u, 2, target)
	} else {
		l.unknownStep(nil, id, complain)
	}
}

// anyStep is a reference that cannot be followed: every explicit need may be meant.
func (l *loader) anyStep(s site, complain report) {
	if s.node == nil {
		complain("name each step: .steps.ID", "this reference to `.steps` cannot be followed")
		return
	}
	if len(s.node.needs) == 0 {
		complain("name the step as .steps.ID, or list every step it may be in `needs`", "this reference to `.steps` cannot be followed")
	}
	for _, n := range s.node.needs {
		if s.node.in.names[n.name] != nil {
			s.node.ref(n.name)
		}
	}
}

// stepField checks what is named of a step: path element i and on.
func (l *loader) stepField(t Text, u use, i int, target *node) {
	if !l.member(t, u, i, "step `"+target.step.ID+"`", stepFields()) || len(u.path) <= i {
		return
	}
	switch field := u.path[i]; {
	case field == "steps" && target.inner == nil:
		l.failText(t, u.offset, "", "step `%s` is not a group", target.step.ID)
	case field == "steps" && len(u.path) > i+1 && u.path[i+1] != "[]":
		l.innerStep(t, u, i+1, target)
	case field == "output" && len(target.step.Output) == 0 && !target.broken():
		l.failText(t, u.offset, "add `output` to `"+target.step.ID+"`, or use .text or .stdout", "step `%s` declares no `output`", target.step.ID)
	case field == "output":
		l.property(t, u, i+1, target.step.Output)
	}
}

// broken says that the step's output was declared wrongly and reported.
func (nd *node) broken() bool {
	_, declared := nd.keys["output"]
	return declared
}

func (l *loader) innerStep(t Text, u use, i int, group *node) {
	child := group.inner.names[u.path[i]]
	if child == nil {
		var ids []string
		for _, n := range group.inner.steps {
			ids = append(ids, n.step.ID)
		}
		l.failText(t, u.offset, orList(suggest(u.path[i], ids), "its steps are ", ids), "group `%s` has no step `%s`", group.step.ID, u.path[i])
		return
	}
	l.stepField(t, u, i+1, child)
}

// property checks the path from element i on against a JSON Schema, as far as that
// declares properties.
func (l *loader) property(t Text, u use, i int, schema json.RawMessage) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Items      json.RawMessage            `json:"items"`
	}
	if len(u.path) <= i || len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return
	}
	if u.path[i] == "[]" {
		l.property(t, u, i+1, s.Items)
		return
	}
	if len(s.Properties) == 0 {
		return
	}
	of := "`." + strings.ReplaceAll(strings.Join(u.path[:i], "."), ".[]", "[]") + "`"
	if l.member(t, u, i, of, slices.Sorted(maps.Keys(s.Properties))) {
		l.property(t, u, i+1, s.Properties[u.path[i]])
	}
}

// chooseAgent sets the profile of an agent step: the one it names, or the only one.
func (l *loader) chooseAgent(nd *node) {
	name, pos := nd.agent.name, nd.agent.pos
	if name == "" {
		if _, given := nd.keys["agent"]; given {
			return // reported
		}
		if len(l.places["agents"]) != 1 {
			l.fail(nd.step.Pos, "add `agent: …`: "+strings.Join(l.agentChoices(), ", "), "step `%s` does not say which agent", nd.step.ID)
			return
		}
		for only := range l.places["agents"] {
			name = only
		}
	}
	if _, ok := l.plan.Agents[name]; !ok {
		if !l.builtin(name) {
			choices := l.agentChoices()
			l.fail(pos, orList(suggest(name, choices), "the agents are ", choices), "unknown agent `%s`", name)
			return
		}
		l.addBuiltin(name, pos)
	}
	nd.step.Agent = name
	l.mark("agents", name)
}

// addBuiltin makes a profile of a built-in agent that a step names directly.
func (l *loader) addBuiltin(name string, pos Pos) {
	if l.plan.Agents == nil {
		l.plan.Agents = map[string]Profile{}
	}
	l.plan.Agents[name] = Profile{Name: name, Use: name, Pos: pos}
}

// agentChoices lists profiles and built-in agents.
func (l *loader) agentChoices() []string {
	names := slices.Collect(maps.Keys(l.plan.Agents))
	names = slices.AppendSeq(names, maps.Keys(l.o.Agents))
	slices.Sort(names)
	return slices.Compact(names)
}

// order writes the needs of every step of a scope in the order of the file, and
// refuses cycles.
func (l *loader) order(sc *scope) {
	for _, nd := range sc.steps {
		for _, i := range slices.Sorted(maps.Keys(nd.links)) {
			nd.step.Needs = append(nd.step.Needs, sc.steps[i].step.ID)
		}
		nd.step.Refs = sortedRefs(nd)
		if nd.inner != nil {
			l.order(nd.inner)
		}
	}
	l.cycles(sc)
}

func sortedRefs(nd *node) []string { return slices.Sorted(maps.Keys(nd.refs)) }

// cycles reports each circle of needs once, at its first step in the file.
func (l *loader) cycles(sc *scope) {
	c := cycleSearch{l: l, sc: sc, state: make([]byte, len(sc.steps))}
	for i := range sc.steps {
		c.visit(i)
	}
}

type cycleSearch struct {
	l     *loader
	sc    *scope
	state []byte // 0 new, 1 on the way, 2 done
	way   []int
}

func (c *cycleSearch) visit(i int) {
	if c.state[i] != 0 {
		return
	}
	c.state[i] = 1
	c.way = append(c.way, i)
	for _, next := range slices.Sorted(maps.Keys(c.sc.steps[i].links)) {
		if c.state[next] == 1 {
			c.found(next)
		} else {
			c.visit(next)
		}
	}
	c.way = c.way[:len(c.way)-1]
	c.state[i] = 2
}

func (c *cycleSearch) found(start int) {
	circle := c.way[slices.Index(c.way, start):]
	first := slices.Index(circle, slices.Min(circle))
	circle = append(slices.Clone(circle[first:]), circle[:first+1]...)
	names := make([]string, len(circle))
	for i, n := range circle {
		names[i] = c.sc.steps[n].step.ID
	}
	c.l.fail(c.sc.steps[circle[0]].step.Pos, "a step waits for every step that its templates or `needs` name; remove one", "steps wait for each other: %s", strings.Join(names, " → "))
}
