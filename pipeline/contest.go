package pipeline

import (
	"encoding/json"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// judgeOutput is what a judge answers: the number of the best candidate, from 0.
const judgeOutput = `{"type":"object","additionalProperties":false,"required":["winner","reason"],` +
	`"properties":{"winner":{"type":"integer","minimum":0},"reason":{"type":"string"}}}`

// race decodes a list of agents.
func (l *loader) race(nd *node, k entry) {
	if nd.step.Contest != nil {
		l.failNode(k.at, "keep one of the two", "a step cannot have both `race` and `vote`")
		return
	}
	nd.step.Contest = &Contest{Race: true, Pos: place(k.at)}
	if k.val.Kind != yaml.SequenceNode {
		l.failNode(k.val, "write race: [claude, codex]", "`race` must be a list of agents, got %s", describe(k.val))
		return
	}
	l.candidates(nd, k.val, "`race`")
}

func voteTable() []key {
	return []key{
		{"agents", "Those that are given the prompt; a name may stand twice.", agentList()},
		{"by", "The field of the output whose most frequent value wins.", text()},
		{"judge", "The agent that decides.", schema{"anyOf": []schema{text(), closed(judgeTable(), "agent")}}},
	}
}

func judgeTable() []key {
	return []key{
		{"agent", "The agent that decides.", text()},
		{"prompt", "What it is told besides. A template.", text()},
	}
}

func agentList() schema {
	return schema{"type": "array", "items": text(), "minItems": 2, "maxItems": MaxCandidates}
}

// vote decodes {agents, by} or {agents, judge}.
func (l *loader) vote(nd *node, k entry) {
	if nd.step.Contest != nil {
		l.failNode(k.at, "keep one of the two", "a step cannot have both `race` and `vote`")
		return
	}
	c := &Contest{Pos: place(k.at)}
	nd.step.Contest = c
	if k.val.Kind != yaml.MappingNode {
		l.failNode(k.val, "write vote: {agents: [claude, codex, gemini], by: FIELD}", "`vote` must be a mapping, got %s", describe(k.val))
		return
	}
	l.fields(k.val, "`vote`", voteTable(), func(e entry) {
		switch e.key {
		case "agents":
			l.candidates(nd, e.val, "`vote.agents`")
		case "by":
			c.By = l.plain(e.val, "`vote.by`")
		case "judge":
			l.judge(nd, e.val)
		}
	})
	l.settleVote(k)
}

// settleVote checks that a vote has candidates and one way to decide.
func (l *loader) settleVote(k entry) {
	by, judge := has(k.val, "by"), has(k.val, "judge")
	switch {
	case by && judge:
		l.failNode(k.val, "keep one: `by` counts the values of a field, `judge` asks an agent", "`vote` has both `by` and `judge`")
	case !by && !judge:
		l.failNode(k.val, "add by: FIELD of `output`, or judge: AGENT", "`vote` does not say how it is decided")
	}
	if !has(k.val, "agents") {
		l.failNode(k.val, "add agents: [claude, codex, gemini]", "`vote` has no `agents`")
	}
}

func (l *loader) candidates(nd *node, n *yaml.Node, what string) {
	items := l.items(n, what)
	for _, item := range items {
		nd.ctl.candidates = append(nd.ctl.candidates, named{l.plain(item, what), place(item)})
	}
	if len(items) < 2 || len(items) > MaxCandidates {
		l.failNode(n, "a name may stand twice; for one write `agent`", "%s must name 2 to %d agents, got %d", what, MaxCandidates, len(items))
	}
}

// judge decodes an agent or {agent, prompt}.
func (l *loader) judge(nd *node, n *yaml.Node) {
	j := &Step{ID: "judge", Kind: KindPrompt, Pos: place(n), Output: json.RawMessage(judgeOutput)}
	nd.step.Contest.Judge = j
	if n.Kind != yaml.MappingNode {
		nd.ctl.judge = named{l.plain(n, "`vote.judge`"), place(n)}
		return
	}
	l.fields(n, "`vote.judge`", judgeTable(), func(e entry) {
		switch e.key {
		case "agent":
			nd.ctl.judge = named{l.plain(e.val, "`vote.judge.agent`"), place(e.val)}
		case "prompt":
			j.Prompt = l.nonEmpty(e.val, "`vote.judge.prompt`")
		}
	})
	if !has(n, "agent") {
		l.failNode(n, "add agent: NAME", "`vote.judge` does not say which agent")
	}
}

// settleContest refuses what a step with several agents cannot have.
func (l *loader) settleContest(nd *node) {
	if nd.step.Contest == nil {
		return
	}
	if nd.declared("agent") {
		l.fail(nd.keys["agent"], "remove it: the agents are those of `race` or `vote`", "step `%s` names its agents twice", nd.step.ID)
	}
	if nd.step.Session.Mode != SessionNew {
		l.fail(nd.keys["session"], "hand over by {{ transcript \"STEP\" }}", "several agents cannot go on in one session")
	}
	if nd.step.Contest.Judge != nil {
		nd.step.Contest.Judge.Timeout, nd.step.Contest.Judge.IdleTimeout = nd.step.Timeout, nd.step.IdleTimeout
	}
}

// checkContest finds the agents, and the field that decides.
func (l *loader) checkContest(nd *node) {
	c := nd.step.Contest
	for _, candidate := range nd.ctl.candidates {
		if candidate.name != "" && l.knownAgent(candidate) {
			l.mark("agents", candidate.name)
			c.Agents = append(c.Agents, candidate.name)
		}
	}
	if c.Judge != nil {
		l.checkJudge(nd, c.Judge)
	}
	if c.By != "" {
		l.checkBy(nd, c)
	}
}

func (l *loader) checkJudge(nd *node, judge *Step) {
	if nd.ctl.judge.name != "" && l.knownAgent(nd.ctl.judge) {
		l.mark("agents", nd.ctl.judge.name)
		judge.Agent = nd.ctl.judge.name
	}
	judge.Env, judge.Cwd = nd.step.Env, nd.step.Cwd
	if judge.Prompt != nil {
		l.checkText(*judge.Prompt, site{node: nd, env: true, what: "a prompt"})
	}
}

// checkBy checks that the field which decides is a plain value of the output.
func (l *loader) checkBy(nd *node, c *Contest) {
	if len(nd.step.Output) == 0 {
		if !nd.declared("output") {
			l.fail(c.Pos, "add output: {type: object, properties: …}", "`vote.by` names a field, and step `%s` declares no `output`", nd.step.ID)
		}
		return
	}
	path := append(ref{"steps", nd.step.ID, "output"}, strings.Split(c.By, ".")...)
	failed := false
	field := l.follow(shape{schema: nd.step.Output}, path, 3, func(hint, format string, args ...any) {
		failed = true
		l.fail(c.Pos, hint, format, args...)
	})
	scalar := []string{"string", "integer", "number", "boolean", "null"}
	kinds := field.kinds()
	if !failed && (len(kinds) == 0 || slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(scalar, k) })) {
		l.fail(c.Pos, "name a property with a type such as string, integer or boolean", "`vote.by` counts equal values, and `%s` is not declared as a plain value", c.By)
	}
}
