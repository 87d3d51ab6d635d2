package simulate

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// flatten returns one schema object in the place of references and combinations:
// what $ref and allOf demand is merged in, and the first branch of anyOf and oneOf
// that can be met.
func (g *generator) flatten(schema any, depth int) map[string]any {
	s, ok := schema.(map[string]any)
	if g.flattened++; !ok || depth > maxDepth || g.flattened > maxFlattened {
		return map[string]any{}
	}
	out := map[string]any{}
	for k, v := range s {
		if !slices.Contains([]string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else"}, k) {
			out[k] = v
		}
	}
	for _, part := range g.parts(s) {
		out = merge(out, g.flatten(part, depth+1))
	}
	return g.dependents(out, depth)
}

// parts are the schemas that hold together with s itself.
func (g *generator) parts(s map[string]any) []any {
	var out []any
	for _, k := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := s[k].(string); ok {
			out = append(out, g.resolve(ref))
		}
	}
	all, _ := s["allOf"].([]any)
	out = append(out, all...)
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := s[k].([]any); ok {
			out = append(out, g.branch(list))
		}
	}
	if condition, ok := s["if"]; ok {
		out = append(out, condition, s["then"])
	}
	return out
}

// branch is the first alternative with values other than null, or the first.
func (g *generator) branch(list []any) any {
	for _, one := range list {
		if one != false && g.typeOf(g.flatten(one, maxDepth)) != "null" {
			return one
		}
	}
	if len(list) > 0 {
		return list[0]
	}
	return nil
}

// dependents merges what the presence of properties demands; they all are present.
func (g *generator) dependents(s map[string]any, depth int) map[string]any {
	schemas, _ := s["dependentSchemas"].(map[string]any)
	delete(s, "dependentSchemas")
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s = merge(s, g.flatten(schemas[name], depth+1))
	}
	return s
}

// resolve follows a reference inside the document: "#", "#/$defs/name", "#anchor".
func (g *generator) resolve(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	if pointer != "" && pointer[0] != '/' {
		return anchored(g.root, pointer)
	}
	at := g.root
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		at = step(at, token)
	}
	return at
}

// step follows one token of a JSON pointer in a URI fragment (RFC 6901).
func step(at any, token string) any {
	if plain, err := url.PathUnescape(token); err == nil {
		token = plain
	}
	token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	switch x := at.(type) {
	case map[string]any:
		return x[token]
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(x) {
			return x[i]
		}
	}
	return nil
}

// anchored finds the schema with that $anchor.
func anchored(at any, name string) any {
	switch x := at.(type) {
	case map[string]any:
		if x["$anchor"] == name || x["$dynamicAnchor"] == name {
			return x
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if found := anchored(x[k], name); found != nil {
				return found
			}
		}
	case []any:
		for _, v := range x {
			if found := anchored(v, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// merge returns a schema that demands what both demand, as far as keywords can say.
func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		if old, ok := out[k]; ok {
			v = both(k, old, v)
		}
		out[k] = v
	}
	return out
}

// both is the value of keyword k that satisfies x and y.
func both(k string, x, y any) any {
	switch k {
	case "properties", "$defs", "definitions":
		return mergeSchemas(x, y)
	case "required":
		return append(slices.Clone(anySlice(x)), anySlice(y)...)
	case "enum":
		return common(anySlice(x), anySlice(y))
	case "type":
		if list := common(asList(x), asList(y)); len(list) > 0 {
			return list
		}
	case "items", "additionalProperties", "contains":
		if x != false && y != false {
			return map[string]any{"allOf": []any{x, y}}
		}
		return false
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		return pick(x, y, +1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		return pick(x, y, -1)
	}
	return y
}

func mergeSchemas(x, y any) any {
	a, _ := x.(map[string]any)
	b, _ := y.(map[string]any)
	out := maps.Clone(a)
	for name, schema := range b {
		if old, ok := out[name]; ok {
			schema = map[string]any{"allOf": []any{old, schema}}
		}
		out[name] = schema
	}
	return out
}

// pick returns the greater number for sign +1 and the smaller for -1.
func pick(x, y any, sign int) any {
	a, b := ratOf(x), ratOf(y)
	if a != nil && (b == nil || a.Cmp(b) == sign) {
		return x
	}
	return y
}

func common(x, y []any) []any {
	var out []any
	for _, v := range x {
		if slices.ContainsFunc(y, func(w any) bool { return same(v, w) || v == "number" && w == "integer" }) {
			out = append(out, v)
		}
	}
	for _, w := range y {
		if w == "integer" && slices.Contains(x, any("number")) && !slices.Contains(x, any("integer")) {
			out = []any{w}
		}
	}
	return out
}

func anySlice(v any) []any {
	list, _ := v.([]any)
	return list
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}
