package pipeline_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

const inputsYAML = `
inputs:
  s: {type: string, default: 1.10}
  i: {type: integer, minimum: 1, maximum: 20}
  n: {type: number, default: 3}
  b: {type: boolean, default: false}
  a: {type: array, items: {type: integer}, default: []}
  o: {type: object, default: {k: 1}, properties: {k: {type: integer}}}
steps:
  x: {run: "echo {{ json .inputs }}"}
`

func parse(tb testing.TB, src string) *pipeline.Plan {
	tb.Helper()
	p, _, err := pipeline.Parse("p.yaml", []byte(src), options())
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestBindInputs(t *testing.T) {
	p := parse(t, inputsYAML)
	got, err := p.BindInputs(map[string]string{"i": "7", "a": "[1, 2]"}, map[string]json.RawMessage{"b": json.RawMessage("true"), "i": json.RawMessage("3.0")})
	want := map[string]any{"s": "1.10", "i": int64(7), "n": 3.0, "b": true, "a": []any{int64(1), int64(2)}, "o": map[string]any{"k": int64(1)}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if got, err := p.BindInputs(nil, map[string]json.RawMessage{"i": json.RawMessage("3.0")}); err != nil || got["i"] != int64(3) {
		t.Errorf("3.0 for an integer: %v, %v", got["i"], err)
	}
}

func TestBindInputsErrors(t *testing.T) {
	p := parse(t, inputsYAML)
	cases := []struct{ name, value, want string }{
		{"i", "x", `"x" is not a whole number`},
		{"i", "1.5", "is not a whole number"},
		{"i", "007", "is not a whole number"},
		{"i", "99999999999999999999", "is not a whole number"},
		{"i", "21", "maximum"},
		{"n", "NaN", "is not a number"},
		{"b", "yes", "is not true or false"},
		{"a", "[1", "is not a JSON array"},
		{"a", `["x"]`, "/0: want integer, got string"},
		{"o", `[]`, "want object, got array"},
		{"ii", "1", "no input `ii`"},
	}
	for _, c := range cases {
		flags := map[string]string{"i": "1"}
		flags[c.name] = c.value
		_, err := p.BindInputs(flags, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}

func TestBindInputsReportsAll(t *testing.T) {
	_, err := parse(t, inputsYAML).BindInputs(map[string]string{"b": "maybe", "pth": "."}, map[string]json.RawMessage{"n": json.RawMessage(`"x"`)})
	var errs pipeline.Errors
	if !errors.As(err, &errs) || len(errs) != 4 { // b, pth, n, and i is missing
		t.Errorf("want 4 errors, got %v", err)
	}
}

func TestValidateJSON(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["approved","comments"],"properties":{"approved":{"type":"boolean"},"comments":{"type":"string"},"n":{"minimum":3}},"additionalProperties":false}`)
	cases := []struct{ value, want string }{
		{`{"approved":true,"comments":""}`, ""},
		{`{"approved":"yes","x":1}`, "/approved: want boolean, got string; /comments: missing; unknown x"},
		{`{"approved":true,"comments":"","n":1}`, "/n: minimum: got 1, want 3"},
		{`[]`, "want object, got array"},
		{`{`, "not JSON"},
	}
	for _, c := range cases {
		err := pipeline.ValidateJSON(schema, json.RawMessage(c.value))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.value, err, c.want)
		}
	}
	if err := pipeline.ValidateJSON(json.RawMessage(`{"$ref":"file:///etc/passwd"}`), json.RawMessage("1")); err == nil {
		t.Error("a reference to a file is followed")
	}
}
