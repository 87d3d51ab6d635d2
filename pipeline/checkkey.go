package pipeline

import "gopkg.in/yaml.v3"

const (
	maxChecks     = 10
	defaultChecks = 2
)

func checkTable() []key {
	return []key{
		{"run", "The script, through sh -eu. A template; its values reach the shell as quoted variables.", text()},
		{"max", "How often its failure goes back to the agent; default 2.", number(0, maxChecks)},
		{"timeout", "How long it may take.", def("duration")},
	}
}

func checkSchema() schema {
	return schema{"anyOf": []schema{text(), closed(checkTable(), "run")}}
}

// check decodes `check: SCRIPT` and {run, max, timeout}.
func (l *loader) check(n *yaml.Node) *Check {
	c := Check{Max: defaultChecks}
	if isScalar(n) {
		if t := l.nonEmpty(n, "`check`"); t != nil {
			c.Run = *t
		}
		return &c
	}
	found := l.fields(n, "`check`", checkTable(), func(e entry) {
		switch e.key {
		case "run":
			if t := l.nonEmpty(e.val, "`check.run`"); t != nil {
				c.Run = *t
			}
		case "max":
			c.Max = l.integer(e.val, "`check.max`", 0, maxChecks)
		case "timeout":
			c.Timeout = l.duration(e.val, "`check.timeout`")
		}
	})
	l.wants(n, found, "`check`", "run", "add run: go test ./...")
	return &c
}

// wants reports a key that a mapping, decoded by fields, does not have.
func (l *loader) wants(n *yaml.Node, found map[string]Pos, what, key, hint string) {
	if _, ok := found[key]; !ok && found != nil {
		l.failNode(n, hint, "%s has no `%s`", what, key)
	}
}
