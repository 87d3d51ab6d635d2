package pipeline

import (
	"strings"

	"gopkg.in/yaml.v3"
)

func repeatTable() []key {
	return []key{
		{"until", "The condition that ends it. A template that gives true or false.", schema{"type": []string{"string", "boolean"}}},
		{"max", "Rounds at most; default 10.", number(1, MaxRounds)},
		{"on-max", "What it means that the condition does not hold after the last one; default fail.", choice("fail", "continue")},
	}
}

// repeat decodes {until, max, on-max}.
func (l *loader) repeat(nd *node, n *yaml.Node) {
	r := &Repeat{Max: usualRounds}
	nd.step.Repeat = r
	if n.Kind == yaml.ScalarNode {
		l.failNode(n, "write repeat: {until: CONDITION, max: 3}", "`repeat` must be a mapping, got %s", describe(n))
		return
	}
	found := l.fields(n, "`repeat`", repeatTable(), func(e entry) {
		switch e.key {
		case "until":
			if t := l.nonEmpty(e.val, "`repeat.until`"); t != nil {
				r.Until = *t
			}
		case "max":
			r.Max = l.integer(e.val, "`repeat.max`", 1, MaxRounds)
		case "on-max":
			r.GoOn = l.oneOf(e.val, "`repeat.on-max`", []string{"fail", "continue"}) == "continue"
		}
	})
	if _, ok := found["until"]; !ok && found != nil {
		l.failNode(n, "add until: .steps.review.output.approved; for every item of a list write `foreach`", "`repeat` does not say until when")
	}
}

// checkRepeat checks the condition that ends a loop.
func (l *loader) checkRepeat(nd *node) {
	if nd.step.Repeat == nil || strings.TrimSpace(nd.step.Repeat.Until.Src) == "" {
		return
	}
	t := nd.step.Repeat.Until
	s := site{node: nd, env: true, stand: afterRound, what: "`until`"}
	before := len(l.errs)
	if l.checkTemplate(t, s, parseUntil, l.tmpl.functions); len(l.errs) > before {
		return
	}
	l.mustBeBoolean(t, l.expression(t, parseUntil, s), "`until`")
	switch strings.Trim(t.Src, "{} \n") {
	case "false":
		l.warn(t.Pos, "name what the rounds work for, such as .steps.review.output.approved", "`until` never holds: step `%s` takes %d rounds", nd.step.ID, nd.step.Repeat.Max)
	case "true":
		l.warn(t.Pos, "remove `repeat`, or make the condition depend on the round", "`until` always holds: step `%s` takes one round", nd.step.ID)
	}
}

// mustBeBoolean refuses a condition that can be evaluated only to something else.
func (l *loader) mustBeBoolean(t Text, value shape, what string) {
	if found := value.unless("boolean"); found != "" {
		l.fail(t.Pos, "compare it: eq … \"…\", gt … 0, not (empty …)", "%s is %s, not true or false", what, found)
	}
}
