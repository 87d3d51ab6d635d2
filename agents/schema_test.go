package agents

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	generator "github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the generated files anew")

// generateSchema derives the schema of events from the Go types: one definition
// for each body, with the envelope's properties in all of them.
func generateSchema(t *testing.T) []byte {
	t.Helper()
	r := &generator.Reflector{ExpandedStruct: true, AllowAdditionalProperties: true}
	if err := r.AddGoComments("flow/agents", "./", generator.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	envelope := r.Reflect(&Event{})
	defs := envelope.Definitions
	root := &generator.Schema{
		Version: generator.Version, ID: "https://flow.invalid/event.schema.json", Title: "flow event",
		Description: "One event of an agent's session, as `flow events -o json` and `flow translate` print it.",
		Definitions: defs,
	}
	for _, body := range Bodies() {
		s := r.Reflect(body)
		maps.Copy(defs, s.Definitions)
		s.Version, s.ID, s.Definitions = "", "", nil
		s.Title = body.Type()
		for p := envelope.Properties.Oldest(); p != nil; p = p.Next() {
			if _, taken := s.Properties.Get(p.Key); !taken {
				s.Properties.Set(p.Key, p.Value)
			}
		}
		s.Properties.Set("type", &generator.Schema{Const: body.Type()})
		s.Required = append(append([]string{}, envelope.Required...), s.Required...)
		defs[body.Type()] = s
		root.OneOf = append(root.OneOf, &generator.Schema{Ref: "#/$defs/" + body.Type()})
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestSchemaIsGenerated(t *testing.T) {
	want := generateSchema(t)
	if *update {
		if err := os.WriteFile("event.schema.json", want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(EventSchema)); diff != "" {
		t.Errorf("event.schema.json is not what the types say; go test ./agents -run Schema -update\n%s", diff)
	}
}

// full is one event of each kind with every field set.
func full() []Event {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	code, cost, raw := 3, 0.25, json.RawMessage(`{"a":[1,"x"]}`)
	use := Usage{InputTokens: 5, OutputTokens: 4, CachedTokens: 3, CacheWriteTokens: 2, ReasoningTokens: 1, TotalTokens: 9}
	bodies := []Body{
		SessionStarted{Model: "m", Version: "1", Cwd: "/w", Tools: []string{"A", "B"}},
		TurnStarted{},
		TextChunk{Content: "a\"b\\c\n\x01\u2028é\xff", IsPartial: true, Role: "assistant", MessageID: "1"},
		Reasoning{Content: "hm", IsPartial: true},
		ToolStarted{ToolID: "t", ToolName: ToolShell, NativeName: "Bash", Target: "ls", Risk: RiskHigh, Arguments: raw, ParentID: "p"},
		ToolProgress{ToolID: "t", Output: "o", ElapsedMS: 5, Progress: 0.5},
		ToolCompleted{ToolID: "t", Success: true, Result: raw, Error: "e", ExitCode: &code, Declined: true},
		FileChanged{FilePath: "f", ChangeType: Created, Diff: "+", ToolID: "t"},
		TodoList{Items: []TodoItem{{Text: "x", Status: "pending"}, {Text: "y", Status: "completed"}}},
		TurnCompleted{Usage: &use, DurationMS: 7},
		UsageReport{Usage: use, CostUSD: &cost},
		Retry{Attempt: 1, MaxRetries: 2, DelayMS: 3, Status: 500, Cause: CauseServer, Message: "m"},
		RateLimit{Status: "rejected", Limit: "5h", ResetsAt: &now, Used: 1},
		PermissionRequested{RequestID: "r", ToolID: "t", ToolName: ToolShell, NativeName: "Bash", Target: "ls", Risk: RiskHigh, Arguments: raw, Preliminary: true, Reason: "w"},
		PermissionDecided{RequestID: "r", ToolID: "t", Decision: "deny", By: "policy", Message: "m", Rule: "deny shell", Where: "p.yaml:1:2"},
		Subagent{SubagentID: "s", Status: "started", ParentID: "p", Message: "m"},
		System{Subtype: "compaction", Message: "m"},
		Error{Message: "m", Cause: CauseServer},
		Log{Stream: "stdout", Text: "t"},
		Malformed{Error: "e", Raw: []byte{0, 1}, Truncated: true},
		Unknown{NativeType: "x", Raw: raw},
		SessionEnded{
			Reason: Failed, Cause: CauseAuth, Error: "e", Hint: "h", Model: "m", Text: "t", Output: raw, FinalUsage: &use,
			CostUSD: &cost, DurationMS: 9, RetryAfter: &now, ExitCode: &code, Signal: "KILL",
		},
	}
	var events []Event
	for _, b := range bodies {
		events = append(events, Event{
			Type: b.Type(), SessionID: "s", Time: now, AgentType: "claude", Run: "r", Step: "a.b", Attempt: 2,
			Native: &Native{File: "f", Offset: 1, Length: 2}, Body: b,
		}.Numbered(7))
	}
	return events
}

// TestEncodingAgreesWithEncodingJSON holds the hand-written encoder against the
// reflection of the same structs.
func TestEncodingAgreesWithEncodingJSON(t *testing.T) {
	if got, want := len(full()), len(Bodies()); got != want {
		t.Fatalf("%d sample events for %d kinds", got, want)
	}
	for _, e := range full() {
		for _, e := range []Event{e, {Type: e.Type, Body: zero(e.Body)}} {
			want := merged(t, e)
			var got map[string]any
			if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
				t.Fatalf("%s: %v in %s", e.Type, err, e.AppendJSON(nil))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-reflection +encoder):\n%s", e.Type, diff)
			}
		}
	}
}

func zero(b Body) Body {
	for _, z := range Bodies() {
		if z.Type() == b.Type() {
			return z
		}
	}
	return nil
}

// merged is the envelope and the body as encoding/json writes them, in one object.
func merged(t *testing.T, e Event) map[string]any {
	t.Helper()
	type envelope Event // without MarshalJSON
	out := map[string]any{}
	for _, part := range []any{envelope(e), e.Body} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range out {
		if value == nil && key != "raw" && key != "items" {
			delete(out, key)
		}
	}
	if items, ok := out["items"]; ok && items == nil {
		out["items"] = []any{} // the encoder never writes null for a list
	}
	return out
}

func TestEventsMatchTheSchema(t *testing.T) {
	schema := compile(t)
	for _, e := range full() {
		if err := schema.Validate(parse(t, e.AppendJSON(nil))); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
	}
	bad := bytes.Replace(full()[4].AppendJSON(nil), []byte(`"toolId":"t",`), nil, 1)
	if schema.Validate(parse(t, bad)) == nil {
		t.Error("a toolStarted without toolId passes the schema")
	}
}

func compile(t *testing.T) *validator.Schema {
	t.Helper()
	c := validator.NewCompiler()
	if err := c.AddResource("event.json", parse(t, EventSchema)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("event.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	v, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestBoundedCutsWhatIsStored(t *testing.T) {
	long := string(bytes.Repeat([]byte("é"), 100))
	for _, e := range full() {
		if text := e.Bounded(10).AppendJSON(nil); !json.Valid(text) {
			t.Errorf("%s: cut to invalid JSON: %s", e.Type, text)
		}
	}
	e := Event{Body: TextChunk{Content: long}}.Bounded(11)
	if got, want := e.Body.(TextChunk).Content, "ééééé… [cut: 200 bytes in all]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRiskOf(t *testing.T) {
	for _, test := range []struct {
		tool        Tool
		target, dir string
		want        Risk
	}{
		{ToolReadFile, "a/b.go", "/w", RiskLow},
		{ToolReadFile, "/w/a", "/w", RiskLow},
		{ToolReadFile, "/w/../etc/passwd", "/w", RiskHigh},
		{ToolReadFile, "/etc/passwd", "/w", RiskHigh},
		{ToolReadFile, "/w2/a", "/w", RiskHigh},
		{ToolReadFile, "/w/a", "", RiskHigh},
		{ToolEditFile, "../x", "/w", RiskHigh},
		{ToolEditFile, "x", "/w", RiskMedium},
		{ToolWebFetch, "https://x", "/w", RiskMedium},
		{ToolShell, "ls", "/w", RiskHigh},
		{ToolMCP, "", "/w", RiskHigh},
		{ToolOther, "", "/w", RiskHigh},
		{ToolTodo, "", "", RiskLow},
	} {
		if got := RiskOf(test.tool, test.target, test.dir); got != test.want {
			t.Errorf("RiskOf(%s, %q, %q) = %s, want %s", test.tool, test.target, test.dir, got, test.want)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"a": 1}`, `{"a":1}`},
		{"Here it is:\n```json\n{\"a\": 1}\n```\nDone.", `{"a":1}`},
		{"```\n[1,\n2]\n```", `[1,2]`},
		{"first ```{\"old\":1}``` then\n```json\n{\"new\":1}\n```", `{"new":1}`},
		{"The answer is {\"a\": {\"b\": []}} as you see.", `{"a":{"b":[]}}`},
		{"true", "true"},
		{"no JSON at all", ""},
		{"{broken", ""},
		{"", ""},
	} {
		got, err := ParseAnswer(test.text)
		if (err != nil) != (test.want == "") || string(got) != test.want {
			t.Errorf("ParseAnswer(%q) = %s, %v; want %s", test.text, got, err, test.want)
		}
	}
}

func TestSchemaInPromptRoundTrip(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	if got := SchemaOf(WithSchema("Do it.\n", schema)); string(got) != string(schema) {
		t.Errorf("got %s", got)
	}
	if SchemaOf("no schema") != nil || WithSchema("x", nil) != "x" {
		t.Error("a schema out of nothing")
	}
}
