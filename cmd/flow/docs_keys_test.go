package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"flow/pipeline"
)

// A keySchema is what the page of keys reads of the language's schema.
type keySchema struct {
	Description string               `json:"description"`
	Type        any                  `json:"type"`
	Enum        []any                `json:"enum"`
	Ref         string               `json:"$ref"`
	Minimum     *float64             `json:"minimum"`
	Maximum     *float64             `json:"maximum"`
	AnyOf       []keySchema          `json:"anyOf"`
	OneOf       []keySchema          `json:"oneOf"`
	Items       *keySchema           `json:"items"`
	Properties  map[string]keySchema `json:"properties"`
	Names       any                  `json:"propertyNames"` // of a mapping, whose values are Values
	Values      json.RawMessage      `json:"additionalProperties"`
	Defs        map[string]keySchema `json:"$defs"`
}

// keysPage lists every key of the language from the schema that editors use.
func keysPage(t *testing.T) string {
	t.Helper()
	root := readKeys(t, pipeline.LanguageSchema)
	var b strings.Builder
	b.WriteString("# All keys\n\n" + generated + "\nWhat [the language](language.md) has, as `flow schema` prints it for editors, and at the end what [configurations](config.md) have. A template is text with `{{ … }}` in it.\n")
	writeKeys(&b, "A pipeline", root)
	for _, name := range slices.Sorted(maps.Keys(root.Defs)) {
		if len(root.Defs[name].Properties) > 0 {
			writeKeys(&b, "`"+name+"`", root.Defs[name])
		}
	}
	writeKeys(&b, "A configuration", readKeys(t, pipeline.ConfigSchema))
	return b.String()
}

func readKeys(t *testing.T, schema func() ([]byte, error)) (root keySchema) {
	t.Helper()
	text, err := schema()
	if err == nil {
		err = json.Unmarshal(text, &root)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func writeKeys(b *strings.Builder, title string, s keySchema) {
	fmt.Fprintf(b, "\n## %s\n\n| key | value | |\n|---|---|---|\n", title)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, strings.ReplaceAll(p.value(), "|", `\|`), p.Description)
	}
}

// value says in words what a schema allows.
func (s keySchema) value() string {
	switch {
	case s.Ref != "":
		return words(strings.TrimPrefix(s.Ref, "#/$defs/"))
	case len(s.Enum) > 0:
		var words []string
		for _, v := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(words, ", ")
	case len(s.AnyOf)+len(s.OneOf) > 0:
		return alternatives(slices.Concat(s.AnyOf, s.OneOf))
	case s.Items != nil:
		return "list of " + s.Items.value()
	case s.Names != nil:
		var of keySchema
		if err := json.Unmarshal(s.Values, &of); err != nil {
			panic(err) // the schema of the language is at fault
		}
		return "mapping of names to " + of.value()
	case len(s.Properties) > 0:
		return "{" + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ") + "}"
	}
	return s.plain()
}

// words says what a definition is that has no section of its own, and links to the others.
func words(def string) string {
	switch def {
	case "duration":
		return "duration: `90s`, `30m`, `1h30m`"
	case "value":
		return "template"
	case "values":
		return "mapping of names to templates, or any values"
	case "variables":
		return "mapping of names to templates"
	case "notify":
		return "{on, run}, or a list of these"
	}
	return fmt.Sprintf("[%s](#%s)", def, def)
}

func alternatives(all []keySchema) string {
	var words []string
	for _, s := range all {
		if w := s.value(); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", or ")
}

// plain is the name of a type, with its range.
func (s keySchema) plain() string {
	kind := ""
	switch v := s.Type.(type) {
	case string:
		kind = v
	case []any:
		var words []string
		for _, w := range v {
			words = append(words, fmt.Sprint(w))
		}
		kind = strings.Join(words, ", ")
	}
	kind = strings.NewReplacer("string", "text", "boolean", "true or false", "object", "mapping").Replace(kind)
	switch {
	case kind == "":
		return "any value"
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s, %v to %v", kind, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%s, at least %v", kind, *s.Minimum)
	}
	return kind
}
