package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validate reports what is wrong with a value by a schema, or the schema itself.
func validate(schema string, value []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(schema)))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		return err
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return compiled.Validate(v)
}

// instances are schemas with what is made for them; "" asks for no particular value.
func instances() [][2]string {
	return [][2]string{
		{`true`, `"value 1"`},
		{`{}`, `"value 1"`},
		{`{"type":"boolean"}`, `true`},
		{`{"type":"null"}`, `null`},
		{`{"type":"string"}`, `"value 1"`},
		{`{"type":"string","minLength":12}`, `"value 1....."`},
		{`{"type":"string","maxLength":3}`, `"e 1"`},
		{`{"type":"string","default":"given"}`, `"given"`},
		{`{"type":"string","default":"given","minLength":9}`, `"value 1.."`},
		{`{"enum":["b","a"]}`, `"b"`},
		{`{"enum":[3,4]}`, `3`},
		{`{"const":{"a":1}}`, `{"a":1}`},
		{`{"type":"integer"}`, `0`},
		{`{"type":"integer","minimum":2.5}`, `3`},
		{`{"type":"integer","minimum":-7}`, `-7`},
		{`{"type":"integer","exclusiveMinimum":4}`, `5`},
		{`{"type":"integer","maximum":-3}`, `-3`},
		{`{"type":"integer","exclusiveMaximum":0}`, `-1`},
		{`{"type":"integer","minimum":10,"multipleOf":7}`, `14`},
		{`{"type":"integer","minimum":1,"multipleOf":1.5}`, `3`},
		{`{"type":"number","minimum":0.25}`, `0.25`},
		{`{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, `0.5`},
		{`{"type":"number","exclusiveMinimum":0.2,"multipleOf":0.1}`, `0.3`},
		{`{"type":"number","minimum":9007199254740993}`, `9007199254740993`},
		{`{"type":"number","maximum":-0.5,"multipleOf":0.2}`, `-0.6`},
		{`{"type":["null","integer"]}`, `0`},
		{`{"type":["string","null"]}`, `"value 1"`},
		{`{"type":"string","format":"date"}`, `"2026-01-01"`},
		{`{"type":"string","format":"date-time"}`, ``},
		{`{"type":"string","format":"time"}`, ``},
		{`{"type":"string","format":"email"}`, ``},
		{`{"type":"string","format":"uri"}`, ``},
		{`{"type":"string","format":"uuid"}`, ``},
		{`{"type":"string","format":"ipv4"}`, ``},
		{`{"type":"string","format":"ipv6"}`, ``},
		{`{"type":"string","format":"hostname"}`, ``},
		{`{"type":"string","format":"duration"}`, ``},
		{`{"type":"array","items":{"type":"string","format":"uuid"},"minItems":3,"uniqueItems":true}`, ``},
		{`{"type":"string","pattern":"^[A-Z]{3}-[0-9]{2,4}$"}`, `"AAA-00"`},
		{`{"type":"string","pattern":"^v\\d+\\.\\d+(-rc\\d)?$"}`, `"v0.0"`},
		{`{"type":"string","pattern":"^(low|high)$"}`, `"low"`},
		{`{"type":"string","pattern":"^[a-z]+$","minLength":6}`, `"aaaaaa"`},
		{`{"type":"array"}`, `["value 1","value 2"]`},
		{`{"type":"array","items":{"type":"integer"}}`, `[0,0]`},
		{`{"type":"array","items":{"type":"integer","minimum":5},"uniqueItems":true}`, `[5,6]`},
		{`{"type":"array","items":{"type":"string"},"minItems":4}`, `["value 1","value 2","value 3","value 4"]`},
		{`{"type":"array","items":{"type":"string"},"maxItems":1}`, `["value 1"]`},
		{`{"type":"array","items":{"enum":["x","y","z"]},"uniqueItems":true,"minItems":3}`, `["x","y","z"]`},
		{`{"type":"array","items":{"type":"boolean"},"uniqueItems":true}`, `[true,false]`},
		{`{"type":"array","items":{"const":1},"uniqueItems":true}`, `[1]`},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, `["value 1",0]`},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"null"},"minItems":3}`, `["value 1",null,null]`},
		{`{"type":"array","contains":{"const":7}}`, `[7,7]`},
		{`{"type":"array","contains":{"type":"integer"},"minContains":3}`, `[0,0,0]`},
		{`{"type":"object","properties":{"title":{"type":"string"},"ok":{"type":"boolean"}}}`, `{"ok":true,"title":"title 1"}`},
		{`{"type":"object","required":["x"],"additionalProperties":{"type":"integer"}}`, `{"x":0}`},
		{`{"type":"object","minProperties":2}`, `{"property 1":"property 1 1","property 2":"property 2 1"}`},
		{`{"properties":{"a":{"type":"integer"},"never":false}}`, `{"a":0}`},
		{
			`{"type":"object","properties":{"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer","minimum":1}},"required":["path","line"],"additionalProperties":false}}},"required":["files"],"additionalProperties":false}`,
			`{"files":[{"line":1,"path":"path 1"},{"line":1,"path":"path 2"}]}`,
		},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer","minimum":3}}}`, `3`},
		{`{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"const":"x"}}}`, `"x"`},
		{`{"definitions":{"p":{"type":"object","properties":{"n":{"type":"integer"}}}},"properties":{"p":{"$ref":"#/definitions/p"}}}`, `{"p":{"n":0}}`},
		{`{"$ref":"#here","$defs":{"x":{"$anchor":"here","type":"boolean"}}}`, `true`},
		{`{"anyOf":[{"type":"null"},{"type":"integer"}]}`, `0`},
		{`{"anyOf":[{"type":"string","maxLength":2},{"type":"integer"}]}`, `" 1"`},
		{`{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"}},"required":["kind"]},{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}]}`, `{"kind":"a"}`},
		{`{"allOf":[{"type":"integer","minimum":2},{"minimum":5},{"maximum":9}]}`, `5`},
		{`{"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"},"a":{"minimum":2}},"required":["b"]}]}`, `{"a":2,"b":"b 1"}`},
		{`{"allOf":[{"enum":[1,2,3]},{"enum":[3,2]}]}`, `2`},
		{`{"type":["number","string"],"allOf":[{"type":"integer"}]}`, `0`},
		{`{"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"properties":{"a":{"type":"integer"},"b":{"type":"string"}}}`, `{"a":1,"b":"b 1"}`},
		{`{"properties":{"a":{"type":"integer"}},"dependentSchemas":{"a":{"properties":{"b":{"type":"boolean"}},"required":["b"]}}}`, `{"a":0,"b":true}`},
		{`{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name"]}`, ``},
		{`{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`, ``},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"integer","exclusiveMinimum":1}`, `2`},
	}
}

func TestInstancesAreValid(t *testing.T) {
	for _, tt := range instances() {
		schema, want := tt[0], tt[1]
		t.Run(schema, func(t *testing.T) {
			got, err := Instance(json.RawMessage(schema))
			if err != nil {
				t.Fatal(err)
			}
			if want != "" && string(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if err := validate(schema, got); err != nil {
				t.Errorf("%s is not valid: %v", got, err)
			}
		})
	}
}

func TestMismatchesAreInvalid(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"type":"array"}`, `{"type":"string"}`, `{"type":"integer"}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`, `{"type":["array","null"]}`,
	} {
		if got := mismatch(json.RawMessage(schema)); validate(schema, got) == nil {
			t.Errorf("%s satisfies %s", got, schema)
		}
	}
}

// Schemas that recurse without end, or demand too much, end all the same.
func TestInstancesOfHostileSchemas(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`, `{"$ref":"#/no/such"}`, `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"anyOf":[]}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"required":["a","b"]}`, `{"type":"array","items":{"$ref":"#"},"minItems":2}`,
		`{"type":"integer","minimum":1e999999999}`, `{"enum":[]}`, `{"type":7,"minLength":-1,"maxLength":-2,"items":3}`,
		`{"type":"string","pattern":"(?=x)"}`, `{"type":"string","pattern":"^[^\\x00-\\x{10FFFF}]$"}`, `null`, `7`, `[]`,
		`{"type":"array","minItems":1000000000000}`, `{"type":"object","minProperties":1000000000000}`, `{"type":"string","minLength":1000000000000}`,
	} {
		got, err := Instance(json.RawMessage(schema))
		if err != nil || !json.Valid(got) {
			t.Errorf("%s: %s, %v", schema, got, err)
		}
	}
	if _, err := Instance(json.RawMessage(`{`)); err == nil {
		t.Error("what is no JSON is no error")
	}
}

func FuzzInstance(f *testing.F) {
	for _, tt := range instances() {
		f.Add(tt[0])
	}
	f.Fuzz(func(t *testing.T, schema string) {
		got, err := Instance(json.RawMessage(schema))
		if err == nil && !json.Valid(got) {
			t.Errorf("%s: %s", schema, got)
		}
	})
}

func ExampleInstance() {
	value, err := Instance(json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"score":{"type":"integer","minimum":1}}}`))
	fmt.Println(string(value), err)
	// Output: {"score":1,"title":"title 1"} <nil>
}
