package pipeline

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

func sessionTable() []key {
	return []key{
		{string(SessionContinue), "The step in whose native session to go on.", text()},
		{string(SessionFork), "The step whose native session to branch.", text()},
	}
}

func sessionSchema() schema {
	mapping := closed(sessionTable())
	mapping["minProperties"], mapping["maxProperties"] = 1, 1
	return schema{"anyOf": []schema{choice("new", string(SessionContinue)), mapping}}
}

// session decodes `new`, `continue` and {continue: STEP} or {fork: STEP}.
func (l *loader) session(nd *node, n *yaml.Node) {
	nd.sessAt = place(n)
	if n.Kind == yaml.ScalarNode {
		switch s, _ := l.text(n, "`session`"); s {
		case "new":
		case "continue":
			nd.step.Session = Session{Mode: SessionContinue, Step: nd.step.ID}
		case "fork":
			l.failNode(n, "name the step: session: {fork: STEP}", "`session: fork` needs a step")
		case "":
		default:
			l.failNode(n, "write new, continue, {continue: STEP} or {fork: STEP}", "unknown `session` %q", shorten(s))
		}
		return
	}
	found := l.fields(n, "`session`", sessionTable(), func(e entry) {
		if step := l.plain(e.val, "`session."+e.key+"`"); step != "" {
			nd.step.Session = Session{Mode: SessionMode(e.key), Step: step}
			nd.sessAt = place(e.val)
		}
	})
	if found != nil && len(n.Content) != 2 {
		l.failNode(n, "write {continue: STEP} or {fork: STEP}", "`session` must name one step")
	}
}

// bindSession finds the step whose session nd continues or forks, and makes nd need it.
func (l *loader) bindSession(nd *node) {
	s := nd.step.Session
	if s.Mode == SessionNew || nd.step.Contest != nil {
		return // a contest with a session was reported
	}
	target := l.visible(nd, s.Step)
	switch {
	case target == nil:
		l.unknownStep(nd, s.Step, l.at(nd.sessAt))
		return
	case target == nd && s.Mode == SessionContinue:
		l.ownSession(nd)
		return
	case target == nd:
		l.fail(nd.sessAt, "", "step `%s` cannot %s its own session", nd.step.ID, s.Mode)
		return
	case target.step.Kind != KindPrompt:
		l.fail(nd.sessAt, "name a step with `prompt`", "step `%s` has no session", s.Step)
		return
	case target.step.Foreach != nil:
		l.fail(nd.sessAt, "hand over the texts: {{ range .steps."+s.Step+".items }}{{ .text }}{{ end }}", "every item of `%s` has a session of its own", s.Step)
		return
	case target.step.Contest != nil:
		l.fail(nd.sessAt, "hand over by .steps."+s.Step+".text", "step `%s` has several agents: whose session it leaves is not known before the run", s.Step)
		return
	}
	nd.target = target
	l.need(nd, target, l.at(nd.sessAt))
	nd.ref(s.Step, true)
}

// ownSession is `session: continue`: from one round to the next a step goes on in its
// own session. Between the step and the loop there must be no `foreach`, whose items
// would have one each.
func (l *loader) ownSession(nd *node) {
	for o := nd; o != nil && nd.step.Session.Root == ""; o = o.in.owner {
		switch {
		case o.step.Repeat != nil:
			nd.step.Session.Root, nd.step.Previous = nd.path, true
		case o.step.Foreach != nil:
			l.fail(nd.sessAt, "put `repeat` inside of the `foreach`", "step `%s` cannot continue its own session: `%s` begins new items in every round", nd.step.ID, o.step.ID)
			return
		}
	}
	info, known := l.o.Agents[l.plan.Agents[nd.step.Agent].Use]
	switch {
	case nd.step.Session.Root == "":
		l.fail(nd.sessAt, "name another step, session: {continue: STEP}, or add `repeat`", "step `%s` cannot continue its own session: it runs once", nd.step.ID)
	case known && !info.Resume:
		l.fail(nd.sessAt, l.able(SessionContinue), "%s cannot continue a session", l.plan.Agents[nd.step.Agent].Use)
	}
}

// sessions checks the agents of every session and finds where each began.
func (l *loader) sessions(sc *scope) {
	for _, nd := range sc.steps {
		if nd.inner != nil {
			l.sessions(nd.inner)
		}
		if nd.target == nil {
			continue
		}
		l.sessionAgent(nd)
		nd.step.Session.Root = began(nd.target)
	}
}

// began returns the path of the step that began the session which nd works in. A
// fork begins a session of its own.
func began(nd *node) string {
	for i := 0; nd.target != nil && nd.step.Session.Mode == SessionContinue && i <= MaxSteps; i++ {
		nd = nd.target
	}
	return nd.path
}

func (l *loader) sessionAgent(nd *node) {
	mine, theirs := l.plan.Agents[nd.step.Agent].Use, l.plan.Agents[nd.target.step.Agent].Use
	s := nd.step.Session
	if mine == "" || theirs == "" {
		return // reported as an unknown agent
	}
	if mine != theirs {
		l.fail(nd.sessAt, "use the same agent, or hand over by {{ transcript \""+s.Step+"\" }}", "step `%s` uses %s, but the session of `%s` belongs to %s", nd.step.ID, mine, s.Step, theirs)
		return
	}
	info := l.o.Agents[mine]
	if s.Mode == SessionContinue && !info.Resume || s.Mode == SessionFork && !info.Fork {
		l.fail(nd.sessAt, l.able(s.Mode), "%s cannot %s a session", mine, s.Mode)
	}
}

// able lists the agents that have a session mode.
func (l *loader) able(mode SessionMode) string {
	var can []string
	for _, name := range slices.Sorted(maps.Keys(l.o.Agents)) {
		if info := l.o.Agents[name]; mode == SessionContinue && info.Resume || mode == SessionFork && info.Fork {
			can = append(can, name)
		}
	}
	if len(can) == 0 {
		return "no agent can; hand over by {{ transcript \"STEP\" }}"
	}
	return "agents that can: " + strings.Join(can, ", ")
}
