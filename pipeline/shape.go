package pipeline

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
)

// A shape is what is known of a value before there is one. The zero shape is that of
// a value which may be anything.
type shape struct {
	step   *node            // a step, as it is seen from layer
	layer  layer            // of step
	scope  *scope           // steps by their ids
	fields map[string]shape // these and no others
	list   *shape           // a list, and what its elements are
	schema json.RawMessage  // a value that fits this JSON Schema
}

// A layer says which of the many that a step is are meant.
type layer byte

const (
	layerStep  layer = iota // the step as others see it
	layerItem               // one item of its `foreach`
	layerRound              // one round of its `repeat`
)

func jsonShape(schema string) shape { return shape{schema: json.RawMessage(schema)} }

// known are the parts of a JSON Schema that say what a template can name.
type known struct {
	Type       types                      `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Items      json.RawMessage            `json:"items"`
	Enum       []json.RawMessage          `json:"enum"` // says the type where Type does not
}

// types are the values of `type`, which is one text or a list of them.
type types []string

func (t *types) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

func readSchema(raw json.RawMessage) known {
	var k known
	if len(raw) == 0 || json.Unmarshal(raw, &k) != nil {
		return known{} // `true` is a schema too
	}
	if len(k.Type) == 0 {
		k.Type = kindsOf(k.Enum)
	}
	return k
}

// kindsOf are the JSON types of values, each once.
func kindsOf(values []json.RawMessage) []string {
	var kinds []string
	for _, v := range values {
		kind := "number"
		switch bytes.TrimSpace(v)[0] { // it has been read: it is not empty
		case '"':
			kind = "string"
		case '{':
			kind = "object"
		case '[':
			kind = "array"
		case 't', 'f':
			kind = "boolean"
		case 'n':
			kind = "null"
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// kinds are the JSON types that the value can have; nil when that is not known.
func (sh shape) kinds() []string {
	switch {
	case sh.step != nil, sh.scope != nil, sh.fields != nil: // a dict
		return []string{"object"}
	case sh.list != nil:
		return []string{"array"}
	}
	return readSchema(sh.schema).Type
}

// unless is "" when the value can have the JSON type want, and else says what it is.
func (sh shape) unless(want string) string {
	kinds := sh.kinds()
	if len(kinds) == 0 || slices.Contains(kinds, want) || want == "integer" && slices.Contains(kinds, "number") {
		return ""
	}
	var words []string
	for _, kind := range kinds {
		words = append(words, typeWord(kind))
	}
	return strings.Join(words, " or ")
}

// typeWord is how messages call a JSON type.
func typeWord(kind string) string {
	switch kind {
	case "string":
		return "text"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "boolean":
		return "true or false"
	case "integer":
		return "a whole number"
	case "null":
		return "null"
	}
	return "a " + kind
}

// element is the shape of one element of a list.
func (sh shape) element() shape {
	if sh.list != nil {
		return *sh.list
	}
	return shape{schema: readSchema(sh.schema).Items}
}

// The parts of a path that are no names.
const (
	anElement = "[]"  // an element of a list
	aValue    = "[?]" // an element of a list or value of a dict, by a computed key
)

func quiet(string, string, ...any) {}

// follow returns the shape of what a path leads to from its element i on, and reports
// the first name in it that cannot be.
func (l *loader) follow(sh shape, path ref, i int, complain report) shape {
	for ; i < len(path); i++ {
		var ok bool
		if sh, ok = l.part(sh, path, i, complain); !ok {
			return shape{}
		}
	}
	return sh
}

// part is the shape of one name of a value.
func (l *loader) part(sh shape, path ref, i int, complain report) (shape, bool) {
	name := path[i]
	switch element := name == anElement || name == aValue; {
	case sh.step != nil:
		return l.stepField(sh, path, i, complain)
	case element:
		return sh.element(), true
	case sh.scope != nil:
		return l.innerStep(sh.scope, path, i, complain)
	case sh.list != nil:
		complain("take each by range, or one by index … 0", "`%s` is a list and has no `%s`", written(path[:i]), name)
		return shape{}, false
	case sh.fields != nil:
		return sh.fields[name], among(path, i, "`"+written(path[:i])+"`", slices.Sorted(maps.Keys(sh.fields)), complain)
	}
	return property(sh.schema, path, i, complain)
}

// written is a path as a template has it.
func written(path ref) string {
	text := "." + strings.Join(path, ".")
	return strings.ReplaceAll(strings.ReplaceAll(text, "."+anElement, anElement), "."+aValue, anElement)
}

// among reports a name that is not one of names.
func among(path ref, i int, of string, names []string, complain report) bool {
	if slices.Contains(names, path[i]) {
		return true
	}
	complain(orList(suggest(path[i], names), "it has ", names), "%s has no `%s`", of, path[i])
	return false
}

// property checks a name against a JSON Schema, as far as that declares properties.
func property(schema json.RawMessage, path ref, i int, complain report) (shape, bool) {
	k := readSchema(schema)
	if len(k.Properties) > 0 {
		of := "`" + written(path[:i]) + "`"
		return shape{schema: k.Properties[path[i]]}, among(path, i, of, slices.Sorted(maps.Keys(k.Properties)), complain)
	}
	if len(k.Type) == 1 && slices.Contains([]string{"string", "integer", "number", "boolean", "array"}, k.Type[0]) {
		complain("", "`%s` is %s and has no `%s`", written(path[:i]), typeWord(k.Type[0]), path[i])
		return shape{}, false
	}
	return shape{}, true
}

// expression is what is known of the value of a template that is one action.
func (l *loader) expression(t Text, parse parser, s site) shape {
	p, err := parse(t, l.tmpl.conditions)
	if err != nil {
		return shape{} // reported where it is checked
	}
	action := onlyAction(p.tree)
	if action == nil {
		return shape{}
	}
	if value, ok := constant(action.Pipe); ok {
		return value
	}
	return l.named(readUses(p).result, s)
}

// valueOf is what is known of a template in `set`, `with` and `outputs`: one action keeps
// its type, anything else is text.
func (l *loader) valueOf(t Text, s site) shape {
	switch {
	case t.JSON:
		return shape{schema: literalSchema(json.RawMessage(t.Src))}
	case literal(t.Src):
		return jsonShape(`{"type":"string"}`)
	}
	p, err := parseText(t, l.tmpl.functions)
	if err != nil {
		return shape{}
	}
	if onlyAction(p.tree) == nil || len(p.tree.Root.Nodes) != 1 {
		return jsonShape(`{"type":"string"}`)
	}
	return l.expression(t, parseText, s)
}

// constant is the shape of an action that is a literal.
func constant(pipe *parse.PipeNode) (shape, bool) {
	if len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 1 {
		return shape{}, false
	}
	switch x := pipe.Cmds[0].Args[0].(type) {
	case *parse.StringNode:
		return jsonShape(`{"type":"string"}`), true
	case *parse.BoolNode:
		return jsonShape(`{"type":"boolean"}`), true
	case *parse.NumberNode:
		if x.IsInt {
			return jsonShape(`{"type":"integer"}`), true
		}
		return jsonShape(`{"type":"number"}`), true
	}
	return shape{}, false
}

// named is what is known of the value at a path.
func (l *loader) named(path ref, s site) shape {
	if len(path) == 0 {
		return shape{}
	}
	switch path[0] {
	case "inputs":
		if len(path) > 1 {
			return l.follow(jsonShape(string(l.inputSchema(path[1]))), path, 2, quiet)
		}
	case "steps":
		if len(path) > 1 {
			if sh, ok := l.stepNamed(path[1], s); ok {
				return l.follow(sh, path, 2, quiet)
			}
		}
	case "item", "index", "iteration", "previous":
		return l.follow(l.loopValue(path[0], s), path, 1, quiet)
	case "env", "run":
		if len(path) == 2 {
			return jsonShape(`{"type":"string"}`)
		}
	}
	return shape{}
}

func (l *loader) inputSchema(name string) json.RawMessage {
	for _, in := range l.plan.Inputs {
		if in.Name == name {
			return in.Schema
		}
	}
	return nil
}
