package pipeline

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// Outcomes are the values of `notify.on`: how a step or a run has ended, and
// `waiting` for a person.
func Outcomes() []string {
	return []string{"succeeded", "failed", "cancelled", "skipped", "waiting"}
}

func notifyTable() []key {
	return []key{
		{"run", "The script, through sh -eu. FLOW_STATUS, FLOW_STEP, FLOW_ERROR and FLOW_RUN_ID tell it what happened.", text()},
		{"on", "After which outcomes; default: failed.", oneOrMore(choice(Outcomes()...))},
	}
}

func notifySchema() schema { return oneOrMore(closed(notifyTable(), "run")) }

// notify decodes {run, on} or a list of these.
func (l *loader) notify(n *yaml.Node) []Notify {
	switch {
	case isScalar(n):
		l.failNode(n, "write notify: {run: …, on: [failed]}", "`notify` must be a mapping or a list of mappings, got %s", describe(n))
		return nil
	case n.Kind != yaml.SequenceNode:
		return []Notify{l.notifyOne(n)}
	case len(n.Content) == 0:
		l.failNode(n, "leave the key out", "`notify` is an empty list")
	}
	out := make([]Notify, len(n.Content))
	for i, item := range n.Content {
		out[i] = l.notifyOne(deref(item))
	}
	return out
}

func (l *loader) notifyOne(n *yaml.Node) Notify {
	var out Notify
	found := l.fields(n, "`notify`", notifyTable(), func(e entry) {
		switch e.key {
		case "run":
			if t := l.nonEmpty(e.val, "`notify.run`"); t != nil {
				out.Run = *t
			}
		case "on":
			out.On = l.outcomes(e.val)
		}
	})
	l.wants(n, found, "`notify`", "run", `add run: a script, which reads "$FLOW_STATUS" and "$FLOW_ERROR"`)
	if _, given := found["on"]; !given {
		out.On = []string{"failed"}
	}
	return out
}

func (l *loader) outcomes(n *yaml.Node) []string {
	var out []string
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		l.failNode(n, "leave the key out for [failed]", "`notify.on` is empty")
	}
	for _, item := range l.items(n, "`notify.on`") {
		switch s := l.oneOf(item, "`notify.on`", Outcomes()); {
		case slices.Contains(out, s) && s != "":
			l.failNode(item, "", "`%s` stands twice in `notify.on`", s)
		case s != "":
			out = append(out, s)
		}
	}
	return out
}
