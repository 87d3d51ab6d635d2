package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

const (
	optionalDepth = 6       // below it, only what is required is generated
	maxDepth      = 64      // a schema that requires its own recursion ends here
	leanValues    = 5_000   // beyond them, only what is required is generated
	maxValues     = 50_000  // and beyond these, nothing
	maxFlattened  = 200_000 // schemas that combine themselves end here
	maxLength     = 1_000   // items of a list and properties of an object, whatever is demanded
)

// Instance returns a value that matches schema: booleans are true, numbers at their
// minimum, strings named after their property, lists have two items. It follows the
// first branch of alternatives and needs no knowledge outside the schema. For what
// it cannot honour (not, propertyNames, look-around in patterns) it does its best:
// whoever asked for the answer validates it. The error says that schema is no JSON.
func Instance(schema json.RawMessage) (json.RawMessage, error) {
	root, err := decode(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	g := &generator{root: root}
	return json.Marshal(g.value(root, place{name: "value"}))
}

// refusal is Instance with every boolean turned round, or nil if the value has none.
func refusal(schema json.RawMessage) (json.RawMessage, error) {
	root, err := decode(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	g := &generator{root: root, refuses: true}
	value := g.value(root, place{name: "value"})
	if g.booleans == 0 {
		return nil, nil
	}
	return json.Marshal(value)
}

// mismatch returns a value that is against the schema by its type.
func mismatch(schema json.RawMessage) json.RawMessage {
	root, err := decode(schema)
	if err != nil {
		return json.RawMessage("null")
	}
	g := &generator{root: root}
	if g.typeOf(g.flatten(root, 0)) == "array" {
		return json.RawMessage(`{"against":"the schema"}`)
	}
	return json.RawMessage(`["against the schema"]`)
}

func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// A generator makes values of one schema.
type generator struct {
	root      any
	values    int // made so far
	flattened int // schemas looked at
	booleans  int // made so far
	refuses   bool
}

// A place is where in the result a value stands.
type place struct {
	name     string // of the property it belongs to
	index    int    // in the list it belongs to
	distinct bool   // it must differ from its neighbours
	depth    int
}

func (p place) child(name string) place {
	p.name, p.depth = name, p.depth+1
	return p
}

func (p place) item(i int, distinct bool) place {
	p.index, p.depth, p.distinct = i, p.depth+1, p.distinct || distinct
	return p
}

// value makes a value for a schema, which is an object or a boolean.
func (g *generator) value(schema any, p place) any {
	s := g.flatten(schema, 0)
	g.values++
	if p.depth > maxDepth || g.values > maxValues {
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		if p.distinct {
			return list[p.index%len(list)]
		}
		return list[0]
	}
	switch g.typeOf(s) {
	case "object":
		return g.object(s, p)
	case "array":
		return g.array(s, p)
	case "boolean":
		g.booleans++
		return (!p.distinct || p.index%2 == 0) != g.refuses
	case "integer":
		return number(s, true, p)
	case "number":
		return number(s, false, p)
	case "null":
		return nil
	default:
		return text(s, p)
	}
}

// lean says that optional parts are to be left out here.
func (g *generator) lean(p place) bool { return p.depth >= optionalDepth || g.values > leanValues }

// typeOf is the type of the values to make: the first that is not null.
func (g *generator) typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && (name != "null" || len(t) == 1) {
				return name
			}
		}
	}
	return impliedType(s)
}

// impliedType is the type that the keywords of a schema without one speak of.
func impliedType(s map[string]any) string {
	for _, of := range []struct {
		typ      string
		keywords []string
	}{
		{"object", []string{"properties", "required", "additionalProperties", "patternProperties", "minProperties"}},
		{"array", []string{"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"}},
		{"number", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
	} {
		for _, k := range of.keywords {
			if _, ok := s[k]; ok {
				return of.typ
			}
		}
	}
	return "string"
}

func (g *generator) object(s map[string]any, p place) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required := stringsOf(s["required"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		needed := slices.Contains(required, name)
		if properties[name] == false || (g.lean(p) && !needed) {
			continue
		}
		out[name] = g.value(properties[name], p.child(name))
	}
	for _, name := range required {
		if _, ok := out[name]; !ok {
			out[name] = g.value(s["additionalProperties"], p.child(name))
		}
	}
	g.pad(out, s, p)
	return out
}

// pad adds properties of our own naming until there are minProperties.
func (g *generator) pad(out, s map[string]any, p place) {
	least, _ := intOf(s["minProperties"])
	for i := 1; len(out) < min(least, maxLength) && i <= maxLength; i++ {
		name := "property " + strconv.Itoa(i)
		out[name] = g.value(s["additionalProperties"], p.child(name))
	}
}

func (g *generator) array(s map[string]any, p place) any {
	unique := s["uniqueItems"] == true
	prefix, _ := s["prefixItems"].([]any)
	out := []any{}
	for i := range g.length(s, len(prefix), p) {
		schema := s["items"]
		if i < len(prefix) {
			schema = prefix[i]
		}
		if contains, ok := s["contains"]; ok {
			schema = map[string]any{"allOf": []any{schema, contains}}
		}
		v := g.value(schema, p.item(i, unique))
		if unique && slices.ContainsFunc(out, func(x any) bool { return same(x, v) }) {
			break // the schema has no more values than these
		}
		out = append(out, v)
	}
	return out
}

// length is how many items a list gets: two, within its bounds.
func (g *generator) length(s map[string]any, prefix int, p place) int {
	n := max(2, prefix)
	if g.lean(p) {
		n = 0
	}
	if s["items"] == false {
		n = prefix
	}
	for _, keyword := range []string{"minItems", "minContains"} {
		if least, ok := intOf(s[keyword]); ok {
			n = max(n, least)
		}
	}
	if _, ok := s["contains"]; ok {
		n = max(n, 1)
	}
	for _, keyword := range []string{"maxItems", "maxContains"} {
		if most, ok := intOf(s[keyword]); ok {
			n = min(n, most)
		}
	}
	return min(n, maxLength)
}

func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

func stringsOf(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// intOf is a keyword's whole number, which may be written as 2.0.
func intOf(v any) (int, bool) {
	r := ratOf(v)
	if r == nil || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return int(r.Num().Int64()), true
}
