package lsp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"flow/pipeline"
)

// A member is something that can stand behind a dot.
type member struct {
	name, detail, doc string
	node              *yaml.Node // where it is declared, or nil
}

// members are what a template inside of step at can name below a path: what may be
// written behind it.
func (x *index) members(at *step, path []string) []member {
	if len(path) == 0 {
		return fields(pipeline.Roots())
	}
	rest := path[1:]
	switch path[0] {
	case "inputs":
		return x.inputMembers(rest)
	case "secrets":
		return x.secretMembers(rest)
	case "env":
		return x.envMembers(at, rest)
	case "run":
		return leaves(rest, fields(pipeline.RunFields()))
	case "steps":
		return stepMembers(x.visible(at), rest)
	case "item":
		return properties(x.item(at), rest)
	case "previous":
		return x.previousMembers(at, rest)
	}
	return nil
}

// leaves are members that have none themselves.
func leaves(rest []string, all []member) []member {
	if len(rest) > 0 {
		return nil
	}
	return all
}

func fields(all []pipeline.Field) []member {
	out := make([]member, len(all))
	for i, f := range all {
		out[i] = member{name: f.Name, doc: f.Doc}
	}
	return out
}

func (x *index) inputMembers(rest []string) []member {
	if len(rest) > 0 {
		for _, e := range x.inputs {
			if e.name == rest[0] {
				return properties(schemaOf(e.value), rest[1:])
			}
		}
		return nil
	}
	var out []member
	for _, e := range x.inputs {
		m := member{name: e.name, detail: scalar(e.value, "type"), doc: scalar(e.value, "description"), node: e.key}
		if d := child(e.value, "default"); d != nil && d.Kind == yaml.ScalarNode {
			m.detail += ", default " + d.Value
		}
		out = append(out, m)
	}
	return out
}

func (x *index) secretMembers(rest []string) []member {
	var out []member
	for _, name := range x.secrets {
		out = append(out, member{name: name, detail: "secret"})
	}
	return leaves(rest, out)
}

func (x *index) envMembers(at *step, rest []string) []member {
	all := slices.Clone(x.env)
	if at != nil {
		all = append(all, entries(child(at.value, "env"))...)
	}
	var out []member
	for _, e := range all {
		out = append(out, member{name: e.name, detail: e.value.Value, node: e.key})
	}
	return leaves(rest, out)
}

// stepMembers are steps, or what is below one of them.
func stepMembers(all []*step, rest []string) []member {
	if len(rest) == 0 {
		var out []member
		for _, s := range all {
			out = append(out, member{name: s.name, detail: s.detail(), doc: s.summary(), node: s.key})
		}
		return out
	}
	s := named(all, rest[0])
	if s == nil {
		return nil
	}
	return s.members(rest[1:])
}

// members are what is below one step.
func (s *step) members(rest []string) []member {
	switch {
	case len(rest) == 0:
		return fields(pipeline.StepFields())
	case rest[0] == "output":
		return properties(s.output(), rest[1:])
	case rest[0] == "steps":
		return stepMembers(s.inner, rest[1:])
	}
	return nil
}

// previousMembers are what the round before left: the steps of a group, or the step.
func (x *index) previousMembers(at *step, rest []string) []member {
	loop := enclosing(at, "repeat")
	switch {
	case loop == nil:
		return nil
	case len(loop.inner) > 0:
		return stepMembers(loop.inner, rest)
	}
	return loop.members(rest)
}

// properties are those that a schema declares below a path.
func properties(s *schema, path []string) []member {
	for _, key := range path {
		s = s.descend(key)
	}
	if s == nil {
		return nil
	}
	var out []member
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if p := s.Properties[name]; p != nil {
			out = append(out, member{name: name, detail: p.describe(), doc: p.Description})
		}
	}
	return out
}

// resolve is the member that a whole path names, or nil.
func (x *index) resolve(at *step, path []string) *member {
	if len(path) == 0 {
		return nil
	}
	last := len(path) - 1
	for _, m := range x.members(at, path[:last]) {
		if m.name == path[last] {
			return &m
		}
	}
	return nil
}

// detail is a step in a few words.
func (s *step) detail() string {
	kind := s.kind()
	if agent := scalar(s.value, "agent"); agent != "" {
		return kind + " (" + agent + ")"
	}
	return kind
}

const maxSummary = 200 // characters of a step's text

// summary is a step in a few lines of Markdown.
func (s *step) summary() string {
	var b strings.Builder
	for _, key := range []string{"if", "foreach", "agent", "needs"} {
		if v := scalar(s.value, key); v != "" {
			fmt.Fprintf(&b, "- %s: `%s`\n", key, v)
		}
	}
	text := []rune(strings.TrimSpace(scalar(s.value, s.kind())))
	if len(text) > maxSummary {
		text = append(text[:maxSummary-1], '…')
	}
	if len(text) > 0 {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.ReplaceAll(string(text), "```", "'''"))
	}
	if out := s.output(); out != nil {
		names := slices.Sorted(maps.Keys(out.Properties))
		fmt.Fprintf(&b, "\noutput: %s\n", strings.Join(names, ", "))
	}
	return b.String()
}
