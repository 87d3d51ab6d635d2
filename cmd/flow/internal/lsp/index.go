package lsp

import (
	"encoding/json"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// An index is what a document declares, right or wrong.
type index struct {
	inputs, agents, env []entry
	secrets             []string
	steps               []*step
}

// An entry is one key of a mapping.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// A step is one of the document, in its group.
type step struct {
	entry
	parent *step
	inner  []*step
}

// maxGroups is how deep groups are looked into; the language allows no more.
const maxGroups = 100

func newIndex(root *yaml.Node) *index {
	x := &index{inputs: entries(child(root, "inputs")), agents: entries(child(root, "agents")), env: entries(child(root, "env"))}
	if list := child(root, "secrets"); list != nil {
		for _, n := range append([]*yaml.Node{list}, list.Content...) {
			if n.Kind == yaml.ScalarNode {
				x.secrets = append(x.secrets, n.Value)
			}
		}
	}
	x.steps = stepsOf(child(root, "steps"), nil, 0)
	return x
}

// stepsOf does not follow aliases: they could go round.
func stepsOf(n *yaml.Node, parent *step, depth int) []*step {
	var all []*step
	if depth > maxGroups {
		return nil
	}
	for _, e := range entries(n) {
		s := &step{entry: e, parent: parent}
		s.inner = stepsOf(child(e.value, "steps"), s, depth+1)
		all = append(all, s)
	}
	return all
}

// entries are the keys of a mapping, none for anything else.
func entries(n *yaml.Node) []entry {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var all []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode {
			all = append(all, entry{key.Value, key, n.Content[i+1]})
		}
	}
	return all
}

// child is the value of a key, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for _, e := range entries(n) {
		if e.name == key {
			return e.value
		}
	}
	return nil
}

// scalar is the text of a key's value, or "".
func scalar(n *yaml.Node, key string) string {
	if v := child(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

func named(all []*step, id string) *step {
	i := slices.IndexFunc(all, func(s *step) bool { return s.name == id })
	if i < 0 {
		return nil
	}
	return all[i]
}

// within is the step that a path of keys leads into, or nil.
func (x *index) within(path []string) *step {
	var at *step
	all := x.steps
	for len(path) >= 2 && path[0] == "steps" {
		s := named(all, path[1])
		if s == nil {
			break
		}
		at, all, path = s, s.inner, path[2:]
	}
	return at
}

// scope are the steps beside at; those of the pipeline for nil.
func (x *index) scope(at *step) []*step {
	if at == nil || at.parent == nil {
		return x.steps
	}
	return at.parent.inner
}

// visible are the steps that at can name, the nearest first.
func (x *index) visible(at *step) []*step {
	var all []*step
	for {
		for _, s := range x.scope(at) {
			if s != at && named(all, s.name) == nil {
				all = append(all, s)
			}
		}
		if at == nil || at.parent == nil {
			return all
		}
		at = at.parent
	}
}

// kind is the key that says what a step does.
func (s *step) kind() string {
	for _, k := range []string{"prompt", "prompt-file", "run", "steps", "pipeline", "ask", "merge", "set"} {
		if child(s.value, k) != nil {
			return k
		}
	}
	return ""
}

// output is the schema of the step's output, or nil.
func (s *step) output() *schema {
	if set := child(s.value, "set"); set != nil {
		out := &schema{Type: "object", Properties: map[string]*schema{}}
		for _, e := range entries(set) {
			out.Properties[e.name] = &schema{}
		}
		return out
	}
	return schemaOf(child(s.value, "output"))
}

// schemaOf is the JSON Schema that a node holds, or nil.
func schemaOf(n *yaml.Node) *schema {
	var v any
	if n == nil || n.Decode(&v) != nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	s, err := readSchema(data)
	if err != nil {
		return nil
	}
	return s
}

// enclosing is the nearest step from at outwards that has a key.
func enclosing(at *step, key string) *step {
	for ; at != nil; at = at.parent {
		if child(at.value, key) != nil {
			return at
		}
	}
	return nil
}

// item is the schema of what `.item` is inside of at, as far as the list's step says.
func (x *index) item(at *step) *schema {
	loop := enclosing(at, "foreach")
	if loop == nil {
		return nil
	}
	list := strings.Trim(scalar(loop.value, "foreach"), "{} -")
	path := strings.Split(strings.TrimPrefix(list, "."), ".")
	if len(path) < 3 || path[0] != "steps" || path[2] != "output" {
		return nil
	}
	source := named(x.visible(loop), path[1])
	if source == nil {
		return nil
	}
	s := source.output()
	for _, key := range append(path[3:], "[]") {
		if s = s.descend(key); s == nil {
			return nil
		}
	}
	return s
}

// descend is the schema of a property or element, or nil.
func (s *schema) descend(key string) *schema {
	if s == nil || s.closed {
		return nil
	}
	return s.child(key)
}
