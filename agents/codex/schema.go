package codex

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents/internal/native"
)

// The limits of OpenAI's strict structured outputs.
const (
	maxSchemaBytes  = 120_000
	maxSchemaDepth  = 10
	maxSchemaFields = 5000
	maxSchemaEnum   = 1000
)

// strict reports whether OpenAI's strict mode accepts schema; codex knows no other
// mode. The provider refuses the whole request for one keyword it does not take
// (https://platform.openai.com/docs/guides/structured-outputs), so what is not known
// to be accepted counts as refused. A schema is never rewritten to fit: adding
// `required` or `additionalProperties` would change what it means.
func strict(schema json.RawMessage) bool {
	if len(schema) > maxSchemaBytes || !json.Valid(schema) {
		return false
	}
	var parser fastjson.Parser
	root, err := parser.ParseBytes(schema)
	if err != nil || native.String(root, "type") != "object" || root.Exists("anyOf") {
		return false
	}
	var w strictWalk
	return w.schema(root, 1) && w.fields <= maxSchemaFields && w.values <= maxSchemaEnum
}

// strictWalk counts what the limits are about.
type strictWalk struct{ fields, values int }

// schema judges one schema, depth levels down.
func (w *strictWalk) schema(v *fastjson.Value, depth int) bool {
	o, err := v.Object()
	if err != nil || depth > maxSchemaDepth {
		return false
	}
	ok := true
	o.Visit(func(key []byte, value *fastjson.Value) {
		ok = ok && w.keyword(string(key), value, depth)
	})
	switch {
	case !ok:
		return false
	case o.Get("$ref") != nil:
		return o.Len() == 1
	case o.Get("type") == nil:
		return o.Get("anyOf") != nil
	}
	types := typesOf(v)
	return (!slices.Contains(types, "object") || closed(v)) && (!slices.Contains(types, "array") || v.Exists("items"))
}

// keyword judges one keyword of a schema with its value.
func (w *strictWalk) keyword(key string, v *fastjson.Value, depth int) bool {
	switch key {
	case "title", "description", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems":
		return true
	case "$schema":
		return depth == 1
	case "$ref":
		return strings.HasPrefix(native.String(v), "#")
	case "type":
		return knownTypes(v)
	case "enum":
		w.values += len(v.GetArray())
		return v.Type() == fastjson.TypeArray
	case "pattern":
		return v.Type() == fastjson.TypeString && !strings.Contains(native.String(v), "(?") // no lookaround
	case "format":
		return slices.Contains([]string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}, native.String(v))
	case "required":
		return v.Type() == fastjson.TypeArray // closed compares it
	case "additionalProperties":
		return v.Type() == fastjson.TypeFalse
	case "properties", "$defs", "definitions":
		return w.schemas(v, depth)
	case "items":
		return w.schema(v, depth+1)
	case "anyOf":
		return w.alternatives(v, depth)
	default:
		return false
	}
}

// schemas judges an object whose values are schemas.
func (w *strictWalk) schemas(v *fastjson.Value, depth int) bool {
	o, err := v.Object()
	if err != nil {
		return false
	}
	w.fields += o.Len()
	ok := true
	o.Visit(func(_ []byte, value *fastjson.Value) { ok = ok && w.schema(value, depth+1) })
	return ok
}

func (w *strictWalk) alternatives(v *fastjson.Value, depth int) bool {
	items := v.GetArray()
	return len(items) > 0 && !slices.ContainsFunc(items, func(item *fastjson.Value) bool { return !w.schema(item, depth+1) })
}

// closed reports whether an object schema allows its properties and no others, and
// requires them all.
func closed(v *fastjson.Value) bool {
	properties := v.GetObject("properties")
	if properties == nil || v.Get("additionalProperties") == nil {
		return false
	}
	var required []string
	for _, item := range v.GetArray("required") {
		required = append(required, native.String(item))
	}
	ok := true
	properties.Visit(func(key []byte, _ *fastjson.Value) { ok = ok && slices.Contains(required, string(key)) })
	return ok
}

func typesOf(v *fastjson.Value) []string {
	t := v.Get("type")
	if t.Type() == fastjson.TypeString {
		return []string{native.String(t)}
	}
	var types []string
	for _, item := range t.GetArray() {
		types = append(types, native.String(item))
	}
	return types
}

func knownTypes(t *fastjson.Value) bool {
	if t.Type() == fastjson.TypeString {
		return knownType(t)
	}
	items := t.GetArray()
	return len(items) > 0 && !slices.ContainsFunc(items, func(item *fastjson.Value) bool { return !knownType(item) })
}

func knownType(t *fastjson.Value) bool {
	return slices.Contains([]string{"string", "number", "integer", "boolean", "object", "array", "null"}, native.String(t))
}
