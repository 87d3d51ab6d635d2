package pipeline

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

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
