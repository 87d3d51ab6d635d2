package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// paramsOf says which definition of the schema the parameters of a request are.
var paramsOf = map[string]string{
	"initialize": "InitializeParams", "thread/start": "ThreadStartParams", "thread/resume": "ThreadResumeParams",
	"thread/fork": "ThreadForkParams", "turn/start": "TurnStartParams", "turn/steer": "TurnSteerParams",
	"turn/interrupt": "TurnInterruptParams", "review/start": "ReviewStartParams", "thread/list": "ThreadListParams",
	"thread/read": "ThreadReadParams", "thread/archive": "ThreadArchiveParams", "model/list": "ModelListParams",
	"thread/backgroundTerminals/clean": "ThreadBackgroundTerminalsCleanParams",
}

// A schema is codex's own of the protocol.
type schema struct {
	compiler    *jsonschema.Compiler
	Definitions map[string]map[string]any `json:"definitions"`
}

func readSchema(t testing.TB) *schema {
	t.Helper()
	data, err := os.ReadFile("testdata/server/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{compiler: jsonschema.NewCompiler()}
	if err := errors.Join(s.compiler.AddResource("codex.json", doc), json.Unmarshal(data, s)); err != nil {
		t.Fatal(err)
	}
	return s
}

// validate holds JSON against a definition of the schema. It also demands that each key
// is known: codex drops those it does not know without a word.
func (s *schema) validate(t testing.TB, definition string, text []byte) {
	t.Helper()
	compiled, err := s.compiler.Compile("codex.json#/definitions/" + definition)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%s: %v\n%s", definition, err, text)
	}
	known, _ := s.Definitions[definition]["properties"].(map[string]any)
	for key := range value.(map[string]any) {
		if known[key] == nil {
			t.Errorf("%s has no %q", definition, key)
		}
	}
}

// sent holds the requests and answers that flow wrote against the schema. Answers
// are those to commands and patches, which are the same.
func (s *schema) sent(t testing.TB, lines [][]byte) {
	t.Helper()
	for _, line := range lines {
		var m struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case m.Method == "initialized":
		case m.Method != "":
			if paramsOf[m.Method] == "" {
				t.Fatalf("what is %s?", line)
			}
			s.validate(t, paramsOf[m.Method], m.Params)
		case strings.Contains(string(m.Result), `"action"`):
			s.validate(t, "McpServerElicitationRequestResponse", m.Result)
		default:
			s.validate(t, "CommandExecutionRequestApprovalResponse", m.Result)
			s.validate(t, "FileChangeRequestApprovalResponse", m.Result)
		}
	}
}
