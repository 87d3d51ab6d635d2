package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A field is one member of an object of the protocol.
type field struct {
	name     string
	typ      reflect.Type
	required bool
	doc      string
	enum     []string
}

// fields are the members of a struct type as its tags tell: `json`, `doc`, and `enum` with
// the words that are allowed. What may be omitted is not required.
func fields(t reflect.Type) []field {
	var all []field
	for f := range t.Fields() {
		if f.Anonymous {
			all = append(all, fields(f.Type)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		one := field{name: name, typ: f.Type, required: !strings.Contains(options, "omit"), doc: f.Tag.Get("doc")}
		if enum := f.Tag.Get("enum"); enum != "" {
			one.enum = strings.Split(enum, ",")
		}
		all = append(all, one)
	}
	return all
}

// decode reads params into v, a pointer to a struct. The error has all that is wrong.
func decode(params json.RawMessage, v any) *Error {
	if len(params) == 0 || string(params) == null {
		params = json.RawMessage("{}")
	}
	if text := bytes.TrimLeft(params, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return InvalidParam("params", "is a list", "give the parameters by name, in an object")
	}
	var given any
	if err := json.Unmarshal(params, &given); err != nil {
		return InvalidParam("params", err.Error(), "")
	}
	if problems := check("params", reflect.TypeOf(v).Elem(), nil, given); len(problems) > 0 {
		return InvalidParams(problems...)
	}
	if err := json.Unmarshal(params, v); err != nil { // a number that is too large, say
		return InvalidParam("params", err.Error(), "")
	}
	return nil
}

// check finds all that is wrong with a value that is to be of a type.
func check(path string, t reflect.Type, enum []string, v any) []Problem {
	for t.Kind() == reflect.Pointer {
		if v == nil {
			return nil
		}
		t = t.Elem()
	}
	kind := kindOf(t)
	if kind == "" {
		return nil
	}
	if !hasKind(v, kind) {
		return []Problem{{Param: path, Message: "is " + sort(v), Hint: "it is " + article(kind)}}
	}
	switch v := v.(type) {
	case string:
		if len(enum) > 0 && !slices.Contains(enum, v) {
			return []Problem{{Param: path, Message: fmt.Sprintf("%q is unknown", v), Hint: "one of " + strings.Join(enum, ", ")}}
		}
		return nil
	case []any:
		var all []Problem
		for i, item := range v {
			all = append(all, check(fmt.Sprintf("%s[%d]", path, i), t.Elem(), enum, item)...)
		}
		return all
	case map[string]any:
		return checkObject(path, t, v)
	}
	return nil
}

// checkObject checks the members of an object: a struct has those of its fields, a map has
// any.
func checkObject(path string, t reflect.Type, v map[string]any) []Problem {
	var all []Problem
	if t.Kind() == reflect.Map {
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, check(path+"."+name, t.Elem(), nil, v[name])...)
		}
		return all
	}
	known := fields(t)
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !slices.ContainsFunc(known, func(f field) bool { return f.name == name }) {
			all = append(all, Problem{Param: path + "." + name, Message: "is unknown", Hint: "there are " + names(known)})
		}
	}
	for _, f := range known {
		value, given := v[f.name]
		switch {
		case given && (value != nil || f.required):
			all = append(all, check(path+"."+f.name, f.typ, f.enum, value)...)
		case f.required:
			all = append(all, Problem{Param: path + "." + f.name, Message: "is missing", Hint: f.doc})
		}
	}
	return all
}

func names(all []field) string {
	if len(all) == 0 {
		return "none"
	}
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = f.name
	}
	return strings.Join(words, ", ")
}

// kindOf is the type of JSON that a Go type is written as, "" for any.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return ""
	case reflect.TypeFor[time.Time]():
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	default:
		return ""
	}
}

// sort is what a JSON value is, in words.
func sort(v any) string {
	switch v := v.(type) {
	case nil:
		return null
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case float64:
		if v == float64(int64(v)) {
			return "an integer"
		}
		return "a number"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aio") {
		return "an " + kind
	}
	return "a " + kind
}

func hasKind(v any, kind string) bool {
	return sort(v) == article(kind) || kind == "number" && sort(v) == "an integer"
}
