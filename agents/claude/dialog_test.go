package claude_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/claude"
)

// The tests of this file are about rules of the protocol that no recording in
// testdata shows.

const (
	initLine    = `{"type":"system","subtype":"init","session_id":"s1","cwd":"/w","tools":["Read","Edit"],"model":"m","claude_code_version":"2.1.197"}`
	successLine = `{"type":"result","subtype":"success","is_error":false,"num_turns":1,"session_id":"s1","result":"done","total_cost_usd":0.5}`
)

// play returns the bodies of the events that lines become.
func play(d agents.Dialog, lines ...string) []agents.Body {
	var bodies []agents.Body
	for _, l := range lines {
		for _, e := range d.Line([]byte(l)) {
			bodies = append(bodies, e.Body)
		}
	}
	return bodies
}

func assistant(id, block string) string {
	return `{"type":"assistant","message":{"id":"` + id + `","model":"m","content":[` + block + `]}}`
}

func text(s string) string { return `{"type":"text","text":"` + s + `"}` }

func delta(s string) string {
	return `{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}}`
}

func streamStart(id string) []string {
	return []string{
		`{"type":"stream_event","event":{"type":"message_start","message":{"id":"` + id + `"}}}`,
		`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`,
	}
}

const (
	streamStop = `{"type":"stream_event","event":{"type":"message_stop"}}`
	streamCut  = `{"type":"stream_event","event":{"type":"message_stop"},"abandoned_blocks":{"from_block_index":0}}`
)

// Text comes in deltas, whole, or both, and streams break; the chunks joined give
// each text once, and the answer is right in any case.
func TestTextOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lines  []string
		joined string
		answer string
	}{
		{"whole only", []string{assistant("m1", text("abc"))}, "abc", "abc"},
		{"deltas, then whole", append(streamStart("m1"), delta("a"), delta("bc"), assistant("m1", text("abc")), streamStop), "abc", "abc"},
		{"whole has more than the deltas", append(streamStart("m1"), delta("a"), assistant("m1", text("abc")), streamStop), "abc", "abc"},
		{"no delta came", append(streamStart("m1"), assistant("m1", text("abc")), streamStop), "abc", "abc"},
		{"deltas of another message", append(streamStart("m1"), delta("a"), assistant("m2", text("b"))), "ab", "b"},
		{
			"two blocks of one message",
			append(streamStart("m1"), delta("a"), assistant("m1", text("a")), assistant("m1", text("b")), streamStop), "ab", "ab",
		},
		{
			"broken stream, repeated in deltas",
			append(append(append(streamStart("m1"), delta("one two"), streamCut), streamStart("m2")...),
				delta("one"), delta(" two thr"), delta("ee"), assistant("m2", text("one two three")), streamStop),
			"one two three", "one two three",
		},
		{
			"broken again while it repeats",
			append(append(append(append(append(streamStart("m1"), delta("one two"), streamCut), streamStart("m2")...), delta("one"), streamCut), streamStart("m3")...),
				delta("one"), delta(" two three"), assistant("m3", text("one two three")), streamStop),
			"one two three", "one two three",
		},
		{
			"broken again before a word",
			append(append(append(append(append(streamStart("m1"), delta("one two"), streamCut), streamStart("m2")...), streamCut), streamStart("m3")...),
				delta("one two three"), assistant("m3", text("one two three")), streamStop),
			"one two three", "one two three",
		},
		{
			"broken stream, repeated whole",
			append(append(streamStart("m1"), delta("one t"), streamCut), assistant("m2", text("one two"))), "one two", "one two",
		},
		{
			"broken stream, then other words",
			append(append(append(streamStart("m1"), delta("one two"), streamCut), streamStart("m2")...),
				delta("one"), delta(" too"), assistant("m2", text("one too")), streamStop),
			"one twoone too", "one too",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := claude.Adapter{}.Dialog(agents.Request{})
			var joined strings.Builder
			for _, b := range play(d, tt.lines...) {
				if c, ok := b.(agents.TextChunk); ok && c.Role == "assistant" {
					joined.WriteString(c.Content)
				}
			}
			if joined.String() != tt.joined {
				t.Errorf("chunks joined: %q, want %q", joined.String(), tt.joined)
			}
			if out := d.End(agents.Exit{}); out.Text != tt.answer {
				t.Errorf("answer %q, want %q", out.Text, tt.answer)
			}
		})
	}
}

// The CLI drops a tool that it does not have without a word; whoever asked for it
// is told. A recording is played without a request: nobody asked.
func TestToolsMissing(t *testing.T) {
	d := claude.Adapter{}.Dialog(agents.Request{Dir: "/w", Sandbox: agents.SandboxWorkspaceWrite})
	want := []agents.Body{
		agents.SessionStarted{Model: "m", Version: "2.1.197", Cwd: "/w", Tools: []string{"Read", "Edit"}},
		agents.System{Subtype: "tools_missing", Message: "not granted: Grep, Glob, Write"},
		agents.TurnStarted{},
	}
	if diff := cmp.Diff(want, play(d, initLine)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]agents.Body{agents.TurnStarted{}}, play(d, initLine)); diff != "" {
		t.Errorf("the second init of one session begins a turn only:\n%s", diff)
	}
	if got := play(claude.Adapter{}.Dialog(agents.Request{}), initLine); len(got) != 2 {
		t.Errorf("events without a request: %v", got)
	}
}

// A subagent's calls have neither structured results nor metadata, and notebooks
// name their file differently.
func TestFileChanged(t *testing.T) {
	for _, tt := range []struct {
		name, tool, input, result string
		want                      agents.Body
	}{
		{
			"subagent creates", "Write", `{"file_path":"/w/a"}`, `File created successfully at: /w/a`,
			agents.FileChanged{FilePath: "/w/a", ChangeType: agents.Created, ToolID: "t"},
		},
		{
			"subagent overwrites", "Write", `{"file_path":"/w/a"}`, `The file /w/a has been updated successfully.`,
			agents.FileChanged{FilePath: "/w/a", ChangeType: agents.Modified, ToolID: "t"},
		},
		{
			"notebook", "NotebookEdit", `{"notebook_path":"/w/n.ipynb"}`, `Updated cell`,
			agents.FileChanged{FilePath: "/w/n.ipynb", ChangeType: agents.Modified, ToolID: "t"},
		},
		{"reading changes nothing", "Read", `{"file_path":"/w/a"}`, `File created successfully at: /w/a`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := claude.Adapter{}.Dialog(agents.Request{Dir: "/w"})
			bodies := play(d,
				assistant("m1", `{"type":"tool_use","id":"t","name":"`+tt.tool+`","input":`+tt.input+`}`),
				`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"`+tt.result+`"}]}}`)
			var got agents.Body
			for _, b := range bodies {
				if c, ok := b.(agents.FileChanged); ok {
					got = c
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Risk depends on where a target lies: in the request's directory, else in the one
// that init names.
func TestToolRisk(t *testing.T) {
	for _, tt := range []struct {
		tool, input string
		name        agents.Tool
		target      string
		risk        agents.Risk
	}{
		{"Bash", `{"command":"ls"}`, agents.ToolShell, "ls", agents.RiskHigh},
		{"Read", `{"file_path":"/w/a"}`, agents.ToolReadFile, "/w/a", agents.RiskLow},
		{"Read", `{"file_path":"/etc/passwd"}`, agents.ToolReadFile, "/etc/passwd", agents.RiskHigh},
		{"Edit", `{"file_path":"/w/a"}`, agents.ToolEditFile, "/w/a", agents.RiskMedium},
		{"Write", `{"file_path":"/w/../a"}`, agents.ToolWriteFile, "/w/../a", agents.RiskHigh},
		{"Grep", `{"pattern":"x","path":"/w"}`, agents.ToolSearchContent, "x", agents.RiskLow},
		{"Glob", `{"pattern":"*.go"}`, agents.ToolFindFiles, "*.go", agents.RiskLow},
		{"WebFetch", `{"url":"https://x"}`, agents.ToolWebFetch, "https://x", agents.RiskMedium},
		{"WebSearch", `{"query":"x"}`, agents.ToolWebSearch, "x", agents.RiskMedium},
		{"Agent", `{"description":"look"}`, agents.ToolSubagent, "look", agents.RiskHigh},
		{"mcp__lab__echo", `{"file_path":"/w/a"}`, agents.ToolMCP, "", agents.RiskHigh},
		{"SendMessage", `{}`, agents.ToolOther, "", agents.RiskHigh},
		{"StructuredOutput", `{}`, agents.ToolOther, "", agents.RiskLow},
	} {
		d := claude.Adapter{}.Dialog(agents.Request{})
		bodies := play(d, initLine, assistant("m1", `{"type":"tool_use","id":"t","name":"`+tt.tool+`","input":`+tt.input+`}`))
		got := bodies[len(bodies)-1].(agents.ToolStarted)
		if got.ToolName != tt.name || got.Target != tt.target || got.Risk != tt.risk {
			t.Errorf("%s %s: %s %q %s, want %s %q %s", tt.tool, tt.input, got.ToolName, got.Target, got.Risk, tt.name, tt.target, tt.risk)
		}
	}
}

// The tokens of a message are told as a running total; those of messages add up.
func TestUsageSoFar(t *testing.T) {
	used := func(n string) string {
		return `{"type":"stream_event","event":{"type":"message_delta","usage":{"input_tokens":10,"output_tokens":` + n + `}}}`
	}
	d := claude.Adapter{}.Dialog(agents.Request{})
	var totals []int64
	for _, b := range play(d, append(append(streamStart("m1"), used("1"), used("5")), append(streamStart("m2"), used("2"))...)...) {
		totals = append(totals, b.(agents.UsageReport).Usage.TotalTokens)
	}
	if diff := cmp.Diff([]int64{11, 15, 27}, totals); diff != "" {
		t.Error(diff)
	}
	if out := d.End(agents.Exit{Code: 143}); out.Usage == nil || out.Usage.TotalTokens != 27 {
		t.Errorf("usage of a turn without a result: %v", out.Usage)
	}
}

// A null stands for an absent field: no block was abandoned, nothing was used.
func TestNullIsAbsent(t *testing.T) {
	d := claude.Adapter{}.Dialog(agents.Request{})
	lines := append(streamStart("m1"), delta("a"),
		`{"type":"stream_event","event":{"type":"message_delta","usage":null}}`,
		`{"type":"stream_event","event":{"type":"message_stop"},"abandoned_blocks":null}`)
	want := []agents.Body{agents.TextChunk{Content: "a", IsPartial: true, Role: "assistant", MessageID: "m1"}}
	if diff := cmp.Diff(want, play(d, lines...)); diff != "" {
		t.Error(diff)
	}
}

// Older versions keep their plan with TodoWrite.
func TestTodoList(t *testing.T) {
	bodies := play(claude.Adapter{}.Dialog(agents.Request{}), assistant("m1",
		`{"type":"tool_use","id":"t","name":"TodoWrite","input":{"todos":[{"content":"read","status":"completed"},{"content":"write","status":"pending"}]}}`))
	want := agents.TodoList{Items: []agents.TodoItem{{Text: "read", Status: "completed"}, {Text: "write", Status: "pending"}}}
	if diff := cmp.Diff(agents.Body(want), bodies[len(bodies)-1]); diff != "" {
		t.Error(diff)
	}
}

// What flow does not know, a newer version says: it is kept whole.
func TestUnknownIsKept(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"prompt_suggestion","x":[1]}`:                                                 "prompt_suggestion",
		`{"type":"system","subtype":"brand_new","x":1}`:                                        "system/brand_new",
		`{"type":"stream_event","event":{"type":"brand_new"}}`:                                 "stream_event/brand_new",
		assistant("m1", `{"type":"brand_new"}`):                                                "assistant/brand_new",
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"never"}]}}`: "user/tool_result",
		`{"type":"assistant","message":{"model":"m","content":[{"a":1}]}}`:                     "assistant/",
	} {
		bodies := play(claude.Adapter{}.Dialog(agents.Request{}), line)
		if len(bodies) != 1 {
			t.Errorf("%s becomes %v", line, bodies)
			continue
		}
		if u, ok := bodies[0].(agents.Unknown); !ok || u.NativeType != want || len(u.Raw) == 0 {
			t.Errorf("%s becomes %+v, want Unknown %q", line, bodies[0], want)
		}
	}
}

// An effort level that the CLI does not know is ignored; only a warning says so.
func TestStderr(t *testing.T) {
	d := claude.Adapter{}.Dialog(agents.Request{})
	got := d.Stderr([]byte("Warning: unknown effort \"huge\""))
	if len(got) != 1 || got[0].Body != agents.Body(agents.System{Subtype: "warning", Message: `unknown effort "huge"`}) {
		t.Errorf("a warning becomes %v", got)
	}
	if got := d.Stderr([]byte("anything else")); got != nil {
		t.Errorf("other lines become %v", got)
	}
}

func BenchmarkDialog(b *testing.B) {
	data, err := os.ReadFile("testdata/04_partial.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		d := claude.Adapter{}.Dialog(agents.Request{})
		for _, l := range lines {
			d.Line(l)
		}
		d.End(agents.Exit{})
	}
}
