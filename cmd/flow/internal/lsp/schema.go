package lsp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A schema is a JSON Schema, as far as an editor needs it.
type schema struct {
	Description          string             `json:"description"`
	Type                 any                `json:"type"` // a name or several
	Enum                 []any              `json:"enum"`
	Properties           map[string]*schema `json:"properties"`
	PatternProperties    map[string]*schema `json:"patternProperties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	AnyOf                []*schema          `json:"anyOf"`
	Ref                  string             `json:"$ref"`
	Defs                 map[string]*schema `json:"$defs"`

	closed bool // the schema `false`
}

// UnmarshalJSON reads a schema; true and false are schemas too.
func (s *schema) UnmarshalJSON(data []byte) error {
	if string(data) == "true" || string(data) == "false" {
		s.closed = data[0] == 'f'
		return nil
	}
	type plain schema
	return json.Unmarshal(data, (*plain)(s))
}

// readLanguage reads a schema as package pipeline gives it.
func readLanguage(text []byte, err error) (*schema, error) {
	if err != nil {
		return nil, err
	}
	return readSchema(text)
}

func readSchema(text []byte) (*schema, error) {
	var s schema
	return &s, json.Unmarshal(text, &s)
}

// variants are the schemas that a value may follow instead of s: references and
// alternatives followed.
func (s *schema) variants(root *schema) []*schema {
	if s == nil || s.closed {
		return nil
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return root.Defs[name].variants(root)
	}
	all := []*schema{s}
	for _, v := range s.AnyOf {
		all = append(all, v.variants(root)...)
	}
	return all
}

// find returns the schemas of the value at a path.
func (s *schema) find(path []string) []*schema {
	at := s.variants(s)
	for _, key := range path {
		var next []*schema
		for _, v := range at {
			next = append(next, v.child(key).variants(s)...)
		}
		at = next
	}
	return at
}

func (s *schema) child(key string) *schema {
	if key == "[]" {
		return s.Items
	}
	if p := s.Properties[key]; p != nil {
		return p
	}
	if patterns := slices.Sorted(maps.Keys(s.PatternProperties)); len(patterns) > 0 {
		return s.PatternProperties[patterns[0]] // the language has one at most, and reports a name that breaks it
	}
	return s.AdditionalProperties
}

// describe is what a schema says of itself, in one line: its type and choices.
func (s *schema) describe() string {
	var parts []string
	switch t := s.Type.(type) {
	case string:
		parts = append(parts, t)
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				parts = append(parts, name)
			}
		}
	}
	text := strings.Join(parts, " or ")
	if values := s.values(); len(values) > 0 {
		text = "one of " + strings.Join(values, ", ")
	}
	return text
}

// values are the choices of a schema, as they are written.
func (s *schema) values() []string {
	var out []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			out = append(out, text)
		} else if data, err := json.Marshal(v); err == nil {
			out = append(out, string(data))
		}
	}
	if s.Type == "boolean" && len(out) == 0 {
		out = []string{"true", "false"}
	}
	return out
}
