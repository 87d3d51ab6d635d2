package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

func inputTypes() []string {
	return []string{"string", "integer", "number", "boolean", "array", "object"}
}

// inputKeywords are the words of JSON Schema that an input may have.
func inputKeywords() []string {
	return []string{
		"enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"format", "items", "minItems", "maxItems", "uniqueItems", "properties", "required", "additionalProperties",
	}
}

func (l *loader) inputs(n *yaml.Node) []Input {
	l.places["inputs"] = map[string]Pos{}
	var out []Input
	for _, e := range l.entries(n, "`inputs`", MaxKeys) {
		if _, ok := l.id(e.at, "input name"); !ok {
			continue
		}
		l.places["inputs"][e.key] = place(e.at)
		if in, ok := l.input(e); ok {
			out = append(out, in)
		}
	}
	return out
}

func (l *loader) input(e entry) (Input, bool) {
	in := Input{Name: e.key, Required: true, Pos: place(e.at)}
	if e.val.Kind == yaml.ScalarNode {
		l.failNode(e.val, "write "+e.key+": {type: string}", "input `%s` must be a mapping, got %s", e.key, describe(e.val))
		return in, false
	}
	before := len(l.errs)
	in.Type = l.inputType(e)
	var fallback *yaml.Node
	var schema bytes.Buffer
	schema.WriteString(`{"type":` + strconv.Quote(in.Type))
	for _, k := range l.entries(e.val, "input `"+e.key+"`", MaxKeys) {
		switch {
		case k.key == "type":
		case k.key == "description":
			in.Description, _ = l.text(k.val, "`description`")
		case k.key == "default":
			fallback = k.val
		case k.key == "required" && k.val.Kind == yaml.ScalarNode:
			l.required(k, e)
		case slices.Contains(inputKeywords(), k.key):
			schema.WriteString("," + strconv.Quote(k.key) + ":" + string(l.jsonValue(k.val, "`"+k.key+"`")))
		default:
			l.unknownKey(k.at, "an input", slices.Concat([]string{"type", "description", "default"}, inputKeywords()))
		}
	}
	schema.WriteByte('}')
	if len(l.errs) > before {
		return in, true // its name is known, so that templates may use it
	}
	in.Schema = schema.Bytes()
	if l.compiles(e.val, in.Schema, "input `"+e.key+"`") && fallback != nil {
		in.Required = false
		in.Default = l.defaultValue(fallback, in)
	}
	return in, true
}

func (l *loader) inputType(e entry) string {
	for _, k := range l.entries(e.val, "input `"+e.key+"`", MaxKeys) {
		if k.key == "type" {
			return l.oneOf(k.val, "`type`", inputTypes())
		}
	}
	if e.val.Kind == yaml.MappingNode {
		l.failNode(e.at, "add type: "+strings.Join(inputTypes(), ", "), "input `%s` has no `type`", e.key)
	}
	return ""
}

// required: true is what an input without a default is anyhow.
func (l *loader) required(k, e entry) {
	if want, given := l.boolean(k.val, "`required`"), has(e.val, "default"); want == given {
		l.failNode(k.at, "an input is required when it has no `default`; remove `required`", "`required: %t` contradicts the `default`", want)
	}
}

func (l *loader) defaultValue(n *yaml.Node, in Input) json.RawMessage {
	var raw json.RawMessage
	if in.Type == "string" && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		var b bytes.Buffer
		writeString(&b, n.Value) // `no` and 1.10 stay as they were written
		raw = b.Bytes()
	} else if raw = l.jsonValue(n, "`default`"); raw == nil {
		return nil
	}
	if err := in.Validate(raw); err != nil {
		l.failNode(n, "", "the default of input `%s` does not fit: %s", in.Name, err)
		return nil
	}
	return raw
}

// BindInputs returns the value of every input. flags are texts, as `-i name=value`
// gives them, and are read by the input's type: JSON for an array or object. values
// are JSON. A flag goes before a value, a value before the default. Whole numbers
// are int64, others float64. The error is an Errors with all mistakes.
func (p *Plan) BindInputs(flags map[string]string, values map[string]json.RawMessage) (map[string]any, error) {
	b := binder{plan: p, out: make(map[string]any, len(p.Inputs))}
	b.unknown(slices.Sorted(maps.Keys(flags)))
	b.unknown(slices.Sorted(maps.Keys(values)))
	for _, in := range p.Inputs {
		if err := b.bind(in, flags, values); err != nil {
			b.fail(in.Pos, "", "input `%s`: %s", in.Name, err)
		}
	}
	if errs := sorted(b.errs); len(errs) > 0 {
		return nil, errs
	}
	return b.out, nil
}

type binder struct {
	plan *Plan
	out  map[string]any
	errs Errors
}

func (b *binder) fail(pos Pos, hint, format string, args ...any) {
	b.errs = append(b.errs, Error{File: b.plan.File, Pos: pos, Hint: hint, Msg: fmt.Sprintf(format, args...)})
}

func (b *binder) unknown(names []string) {
	var known []string
	for _, in := range b.plan.Inputs {
		known = append(known, in.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			b.fail(Pos{}, orList(suggest(name, known), "the inputs are ", known), "the pipeline has no input `%s`", shorten(name))
		}
	}
}

func (b *binder) bind(in Input, flags map[string]string, values map[string]json.RawMessage) error {
	raw := in.Default
	if v, ok := values[in.Name]; ok {
		raw = v
	}
	if text, ok := flags[in.Name]; ok {
		var err error
		if raw, err = readFlag(in.Type, text); err != nil {
			return err
		}
	}
	if raw == nil {
		b.fail(in.Pos, "give it: -i "+in.Name+"=…", "input `%s` is required", in.Name)
		return nil
	}
	if err := in.Validate(raw); err != nil {
		return err
	}
	v, err := typed(in.Type, raw)
	b.out[in.Name] = v
	return err
}

// readFlag turns the text of a flag into JSON.
func readFlag(kind, text string) (json.RawMessage, error) {
	var ok bool
	switch kind {
	case "string":
		return json.Marshal(text)
	case "integer":
		_, err := strconv.ParseInt(text, 10, 64)
		ok = err == nil && jsonNumber(text)
	case "number":
		ok = jsonNumber(text)
	case "boolean":
		ok = text == "true" || text == "false"
	default:
		ok = json.Valid([]byte(text))
	}
	if !ok {
		return nil, fmt.Errorf("%q is not %s", shorten(text), map[string]string{
			"integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a JSON array", "object": "a JSON object",
		}[kind])
	}
	return json.RawMessage(text), nil
}

// typed decodes a valid value so that its type depends on the input alone: 3.0 for
// an integer is 3, and 3 for a number is 3.0.
func typed(kind string, raw json.RawMessage) (any, error) {
	v, err := DecodeJSON(raw)
	switch x := v.(type) {
	case int64:
		if kind == "number" {
			return float64(x), err
		}
	case float64:
		if kind != "integer" {
			break
		}
		if math.Abs(x) >= 1<<63 {
			return nil, errOverflow
		}
		return int64(x), err
	}
	return v, err
}
