package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"gopkg.in/yaml.v3"
)

// schema decodes a JSON Schema that is written in YAML, and compiles it.
func (l *loader) schema(n *yaml.Node, what string) json.RawMessage {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		l.failNode(n, "begin with {type: object, properties: …}", "%s must be a JSON Schema, got %s", what, describe(n))
		return nil
	}
	raw := l.jsonValue(n, what)
	if raw == nil || !l.compiles(n, raw, what) {
		return nil
	}
	return raw
}

func (l *loader) compiles(n *yaml.Node, raw json.RawMessage, what string) bool {
	err, done := l.schemas[string(raw)]
	if !done {
		_, err = compileSchema(raw, false)
		l.schemas[string(raw)] = err
	}
	if err != nil {
		l.failNode(n, "", "%s is not a valid JSON Schema: %s", what, schemaProblem(err))
	}
	return err == nil
}

// schemaURL is the name of every compiled schema. Nothing is looked up by it.
const schemaURL = "flow:schema"

var errRemote = errors.New("references outside of the schema are not followed")

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// compileSchema compiles a schema, whose `format` is enforced or only a note.
func compileSchema(raw json.RawMessage, formats bool) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if formats {
		c.AssertFormat()
	}
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// schemaProblem is the reason why a schema does not compile, without its made-up name.
func schemaProblem(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var details *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &details) {
		return strings.Join(violations(details), "; ")
	}
	return strings.ReplaceAll(err.Error(), schemaURL, "")
}

// ValidateJSON checks a JSON value against a JSON Schema. The error names every
// violation: "/approved: want boolean, got string; /comments: missing". What is said of
// the value as a whole has no place before it.
func ValidateJSON(schema, value json.RawMessage) error { return validateJSON(schema, value, false) }

// Validate checks a value, as ValidateJSON does, against what the input declares. Here
// `format` is enforced: nothing else does, as an agent would that is given a schema.
func (in Input) Validate(value json.RawMessage) error { return validateJSON(in.Schema, value, true) }

func validateJSON(schema, value json.RawMessage, formats bool) error {
	s, err := compileSchema(schema, formats)
	if err != nil {
		return fmt.Errorf("the schema is not valid: %s", schemaProblem(err))
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return validate(s, v)
}

func validate(s *jsonschema.Schema, v any) error {
	err := s.Validate(v)
	if details, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.New(strings.Join(violations(details), "; "))
	}
	return err
}

// violations lists what is wrong at the leaves of an error, each once, by place.
func violations(e *jsonschema.ValidationError) []string {
	var out []string
	collect(e, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

func collect(e *jsonschema.ValidationError, out *[]string) {
	for _, c := range e.Causes {
		collect(c, out)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := ""
	if len(e.InstanceLocation) > 0 {
		at = "/" + strings.Join(e.InstanceLocation, "/") + ": "
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*out = append(*out, strings.TrimSuffix(at, ": ")+"/"+name+": missing")
		}
	case *kind.Type:
		*out = append(*out, at+"want "+strings.Join(k.Want, " or ")+", got "+k.Got)
	case *kind.AdditionalProperties:
		*out = append(*out, at+"unknown "+strings.Join(k.Properties, ", "))
	default:
		*out = append(*out, at+sentence(e))
	}
}

// sentence is the library's own text for a violation, without its place.
func sentence(e *jsonschema.ValidationError) string {
	leaf := &jsonschema.ValidationError{SchemaURL: schemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind}
	return leaf.BasicOutput().Error.String()
}
