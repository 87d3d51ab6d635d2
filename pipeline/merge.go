package pipeline

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// mergeOutput describes `.steps.ID.output` of a merge.
const mergeOutput = `{"type":"object","properties":{` +
	`"merged":{"type":"array","items":{"type":"string"}},"conflicts":{"type":"array","items":{"type":"string"}},"resolved":{"type":"boolean"}}}`

func mergeTable() []key {
	return []key{
		{"from", "The isolated steps whose branches are brought in.", oneOrMore(text())},
		{"on-conflict", "fail (the default), or agent: one resolves it.", choice("fail", "agent")},
		{"agent", "The agent that does.", text()},
		{"prompt", "What it is told besides. A template.", text()},
	}
}

// merge decodes STEP, a list of steps, or {from, on-conflict, agent, prompt}.
func (l *loader) merge(nd *node, n *yaml.Node) {
	m := &Merge{OnConflict: "fail"}
	nd.step.Merge = m
	if n.Kind != yaml.MappingNode {
		nd.ctl.from = l.sources(n)
		return
	}
	found := l.fields(n, "`merge`", mergeTable(), func(e entry) {
		switch e.key {
		case "from":
			nd.ctl.from = l.sources(e.val)
		case "on-conflict":
			m.OnConflict = l.oneOf(e.val, "`merge.on-conflict`", []string{"fail", "agent"})
		case "agent":
			nd.ctl.mergeAgent = named{l.plain(e.val, "`merge.agent`"), place(e.val)}
		case "prompt":
			nd.step.Prompt = l.nonEmpty(e.val, "`merge.prompt`")
		}
	})
	if _, ok := found["from"]; !ok {
		l.failNode(n, "add from: STEP", "`merge` does not say from where")
	}
}

func (l *loader) sources(n *yaml.Node) []named {
	var out []named
	for _, item := range l.items(n, "`merge`") {
		name := l.plain(item, "`merge`")
		switch {
		case name == "":
		case slices.ContainsFunc(out, func(o named) bool { return o.name == name }):
			l.failNode(item, "", "`%s` stands twice in `merge`", name)
		default:
			out = append(out, named{name, place(item)})
		}
	}
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		l.failNode(n, "name a step with `isolation: worktree`", "`merge` names no step")
	}
	return out
}

// settleMerge brings together what may stand in the mapping or on the step.
func (l *loader) settleMerge(nd *node) {
	m, inside := nd.step.Merge, nd.ctl.mergeAgent
	if m == nil {
		return
	}
	switch {
	case inside.name != "" && nd.agent.name != "":
		l.fail(inside.pos, "keep one of the two", "`agent` is given twice; first on line %d", nd.agent.pos.Line)
	case inside.name != "":
		nd.agent = inside
	}
	if m.OnConflict == "fail" && (nd.agent.name != "" || nd.step.Prompt != nil) {
		l.fail(nd.keys["merge"], "add on-conflict: agent", "`merge` has an agent and nothing for it to do")
	}
}

// checkMerge finds the steps whose branches are merged.
func (l *loader) checkMerge(nd *node) {
	if nd.step.Merge == nil {
		return
	}
	for _, from := range nd.ctl.from {
		target := l.reference(from.name, site{node: nd}, l.at(from.pos))
		if target == nil {
			continue
		}
		nd.step.Merge.From = append(nd.step.Merge.From, from.name)
		switch mode := target.ctl.mode; {
		case mode == "copy":
			l.fail(from.pos, "write `isolation: worktree` there", "step `%s` works in a copy, which has no branch to merge", from.name)
		case mode != "worktree":
			l.fail(from.pos, "add `isolation: worktree` to `"+from.name+"`", "step `%s` has no branch to merge", from.name)
		}
	}
	if nd.step.Merge.OnConflict == "agent" {
		l.chooseAgent(nd)
	}
}
