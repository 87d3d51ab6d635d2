package gemini

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

const (
	lineInit      = `{"type":"init","timestamp":"2026-11-20T23:37:46.225Z","session_id":"s1","model":"auto"}`
	lineText      = `{"type":"message","role":"assistant","content":"Done.","delta":true}`
	lineCall      = `{"type":"tool_use","tool_name":"read_file","tool_id":"t1","parameters":{"file_path":"a.go"}}`
	lineRead      = `{"type":"tool_result","tool_id":"t1","status":"success","output":""}`
	lineWarning   = `{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}`
	lineSuccess   = `{"type":"result","status":"success","stats":{"total_tokens":30,"input_tokens":20,"output_tokens":4,"cached":5,"duration_ms":1500,"models":{"small":{"total_tokens":9},"big":{"total_tokens":21}}}}`
	lineEmpty     = `{"type":"result","status":"success","stats":{"total_tokens":0,"models":{}}}`
	lineCancelled = `{"type":"result","status":"error","error":{"type":"FatalCancellationError","message":"Operation cancelled."}}`
	lineFailure   = `{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: terminated]"}}`
)

// play gives a dialog lines of standard output and returns the bodies of its events.
func play(d agents.Dialog, lines ...string) []agents.Body {
	var bodies []agents.Body
	for _, line := range lines {
		for _, e := range d.Line([]byte(line)) {
			bodies = append(bodies, e.Body)
		}
	}
	return bodies
}

func end(r agents.Request, exit agents.Exit, lines ...string) agents.Outcome {
	d := Adapter{}.Dialog(r)
	play(d, lines...)
	return d.End(exit)
}

func TestOutcomeOfSuccess(t *testing.T) {
	got := end(agents.Request{}, agents.Exit{}, lineInit, lineText, lineCall, lineRead, lineText, lineSuccess)
	want := agents.Outcome{
		Reason: agents.Completed, SessionID: "s1", Model: "big", Began: true, Text: "Done.",
		Usage:    &agents.Usage{InputTokens: 20, OutputTokens: 4, CachedTokens: 5, ReasoningTokens: 6, TotalTokens: 30},
		Duration: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestVerdict holds the rule of success against every way to miss it.
func TestVerdict(t *testing.T) {
	good := []string{lineInit, lineText, lineSuccess}
	tests := []struct {
		name  string
		exit  agents.Exit
		lines []string
		want  agents.Reason
		cause agents.Cause
		says  string // a part of the message
	}{
		{"good", agents.Exit{}, good, agents.Completed, "", ""},
		{"a result that came before a cancel", agents.Exit{Code: -1, Signal: "KILL", Intent: agents.IntentCancel}, good, agents.Completed, "", ""},
		{"the words stand before the last tool", agents.Exit{}, []string{lineInit, lineText, lineCall, lineRead, lineSuccess}, agents.Completed, "", ""},
		{"the first result counts, a success", agents.Exit{}, append(good[:3:3], lineFailure), agents.Completed, "", ""},
		{"the first result counts, a failure", agents.Exit{}, []string{lineInit, lineText, lineFailure, lineSuccess}, agents.Failed, agents.CauseNetwork, "terminated"},
		{"not started", agents.Exit{Code: -1, Err: errors.New("no such file")}, nil, agents.Failed, agents.CauseSpawn, "no such file"},
		{"cancelled", agents.Exit{Intent: agents.IntentCancel}, good[:2], agents.Cancelled, agents.CauseCancelled, "cancelled"},
		{"timeout", agents.Exit{Intent: agents.IntentTimeout}, good[:2], agents.TimedOut, agents.CauseTimeout, "timed out"},
		{"idle", agents.Exit{Intent: agents.IntentIdle}, nil, agents.TimedOut, agents.CauseTimeout, "idle"},
		{"policy", agents.Exit{Intent: agents.IntentPolicy}, good[:2], agents.Failed, agents.CausePermission, "policy"},
		{"terminated by someone", agents.Exit{Code: -1, Signal: "TERM"}, good[:2], agents.Cancelled, agents.CauseCancelled, "SIGTERM"},
		{"crashed", agents.Exit{Code: -1, Signal: "SEGV"}, good[:2], agents.Failed, agents.CauseCrash, "SIGSEGV"},
		{"no result", agents.Exit{}, good[:2], agents.Failed, agents.CauseIncomplete, "without a result"},
		{"nothing at all", agents.Exit{}, nil, agents.Failed, agents.CauseIncomplete, "without a result"},
		{"a wordless start-up failure", agents.Exit{Code: 1}, nil, agents.Failed, agents.CauseConfig, "exit status 1"},
		{"a wordless failure after init", agents.Exit{Code: 1}, good[:1], agents.Failed, agents.CauseIncomplete, "exit status 1"},
		{"success and a bad exit status", agents.Exit{Code: 7, Stderr: "boom"}, good, agents.Failed, agents.CauseProtocol, "7: boom"},
		{"success and the exit status of a refused key", agents.Exit{Code: 145}, good, agents.Failed, agents.CauseAuth, "the exit status is 145"},
		{"cancelled by the CLI itself", agents.Exit{Code: 130}, []string{lineInit, lineCancelled}, agents.Cancelled, agents.CauseCancelled, "Operation cancelled"},
		{"success after a loop", agents.Exit{}, []string{lineInit, lineText, lineWarning, lineSuccess}, agents.Failed, agents.CauseMaxTurns, "Loop"},
		{"success without text", agents.Exit{}, []string{lineInit, lineSuccess}, agents.Failed, agents.CauseIncomplete, "no text"},
		{"success without a model call", agents.Exit{}, []string{lineInit, lineEmpty}, agents.Failed, agents.CauseContext, "never called"},
		{"failure and exit status 0", agents.Exit{}, []string{lineInit, lineFailure}, agents.Failed, agents.CauseNetwork, "API error: terminated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := end(agents.Request{}, tt.exit, tt.lines...)
			p := got.Problem
			if p == nil {
				p = &agents.Problem{}
			} else if p.Agent != Name {
				t.Errorf("the problem is %q's", p.Agent)
			}
			if got.Reason != tt.want || p.Cause != tt.cause || !strings.Contains(p.Message, tt.says) {
				t.Errorf("got %s, %s, %q", got.Reason, p.Cause, p.Message)
			}
		})
	}
}

// The turn limit stands in a file that the CLI may choose not to read. It says so
// on standard error alone, and goes on without a limit.
func TestTurnLimitNotInForce(t *testing.T) {
	warning := "Security Warning: Skipping system settings file '/scratch/gemini-settings.json': not owned by root"
	for _, limit := range []int{0, 3} {
		d := Adapter{}.Dialog(agents.Request{MaxTurns: limit})
		events := append(d.Stderr([]byte(warning)), d.Stderr([]byte(warning))...)
		if len(events) != 1 || events[0].Body.Type() != "system" {
			t.Errorf("the warning became %v", events)
		}
		play(d, lineInit, lineText, lineSuccess)
		out := d.End(agents.Exit{})
		if failed := out.Reason == agents.Failed; failed != (limit > 0) {
			t.Errorf("limit %d: %s, %v", limit, out.Reason, out.Problem)
		}
	}
}

// In a home of the run's own the CLI has the limit from there, and what it makes of
// the system's file is no news.
func TestTurnLimitFromHome(t *testing.T) {
	warning := "Security Warning: Skipping system settings file '/scratch/gemini-settings.json': not owned by root"
	for _, inherit := range []bool{false, true} {
		d := Adapter{}.Dialog(agents.Request{MaxTurns: 3, Home: "/home", Inherit: inherit})
		news := len(d.Stderr([]byte(warning))) > 0
		play(d, lineInit, lineText, lineSuccess)
		out := d.End(agents.Exit{})
		if failed := out.Reason == agents.Failed; news != inherit || failed != inherit {
			t.Errorf("inherit %t: told of it %t; %s, %v", inherit, news, out.Reason, out.Problem)
		}
	}
}

func TestToolEvents(t *testing.T) {
	tests := []struct {
		name, use, result string
		want              []agents.Body // but for the arguments of the first
		denied            []string
	}{
		{
			"an outside path",
			`{"type":"tool_use","tool_name":"write_file","tool_id":"t","parameters":{"file_path":"/etc/x"}}`,
			`{"type":"tool_result","tool_id":"t","status":"error","error":{"type":"invalid_tool_params","message":"Path not in workspace: no"}}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolWriteFile, NativeName: "write_file", Target: "/etc/x", Risk: agents.RiskHigh},
				agents.ToolCompleted{ToolID: "t", Error: "Path not in workspace: no", Declined: true},
			},
			[]string{"write_file: /etc/x"},
		},
		{
			"a call of a tool that does not exist was not made, and not refused",
			`{"type":"tool_use","tool_name":"str_replace","tool_id":"t","parameters":{}}`,
			`{"type":"tool_result","tool_id":"t","status":"error","error":{"type":"tool_not_registered","message":"not found"}}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolOther, NativeName: "str_replace", Risk: agents.RiskHigh},
				agents.ToolCompleted{ToolID: "t", Error: "not found", Declined: true},
			},
			nil,
		},
		{
			"replacing nothing makes a file",
			`{"type":"tool_use","tool_name":"replace","tool_id":"t","parameters":{"file_path":"/repo/a","old_string":"","new_string":"x"}}`,
			`{"type":"tool_result","tool_id":"t","status":"success"}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolEditFile, NativeName: "replace", Target: "/repo/a", Risk: agents.RiskMedium},
				agents.ToolCompleted{ToolID: "t", Success: true},
				agents.FileChanged{FilePath: "/repo/a", ChangeType: agents.Created, ToolID: "t"},
			},
			nil,
		},
		{
			"a command in another directory",
			`{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t","parameters":{"command":"tee pre-commit","dir_path":".git/hooks"}}`,
			`{"type":"tool_result","tool_id":"t","status":"success"}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolShell, NativeName: "run_shell_command", Target: "cd '/repo/.git/hooks' && tee pre-commit", Risk: agents.RiskHigh},
				agents.ToolCompleted{ToolID: "t", Success: true},
			},
			nil,
		},
		{
			"a plan",
			`{"type":"tool_use","tool_name":"write_todos","tool_id":"t","parameters":{"todos":[{"description":"a","status":"completed"},{"description":"b","status":"blocked"},{"description":"c","status":"cancelled"}]}}`,
			`{"type":"tool_result","tool_id":"t","status":"success"}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolTodo, NativeName: "write_todos", Risk: agents.RiskLow},
				agents.ToolCompleted{ToolID: "t", Success: true},
				agents.TodoList{Items: []agents.TodoItem{{Text: "a", Status: "completed"}, {Text: "b", Status: "pending"}}},
			},
			nil,
		},
		{
			"many files",
			`{"type":"tool_use","tool_name":"read_many_files","tool_id":"t","parameters":{"include":["a","b"]}}`,
			`{"type":"tool_result","tool_id":"t","status":"error"}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolReadFile, NativeName: "read_many_files", Target: "a b", Risk: agents.RiskLow},
				agents.ToolCompleted{ToolID: "t", Error: "the tool failed"},
			},
			nil,
		},
		{
			"a tool of an MCP server",
			`{"type":"tool_use","tool_name":"mcp_github_search","tool_id":"t"}`,
			`{"type":"tool_result","tool_id":"t","status":"success"}`,
			[]agents.Body{
				agents.ToolStarted{ToolID: "t", ToolName: agents.ToolMCP, NativeName: "mcp_github_search", Risk: agents.RiskHigh},
				agents.ToolCompleted{ToolID: "t", Success: true},
			},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Adapter{}.Dialog(agents.Request{Dir: "/repo"})
			got := play(d, tt.use, tt.result)
			started := got[0].(agents.ToolStarted)
			started.Arguments = nil
			got[0] = started
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.denied, d.End(agents.Exit{}).Denied); diff != "" {
				t.Errorf("denied, -want +got:\n%s", diff)
			}
		})
	}
}

// Each result ends one call, whether its start was told before it, after it or not
// at all; what is told twice ends nothing twice.
func TestResultWithoutCall(t *testing.T) {
	const use = `{"type":"tool_use","tool_name":"glob","tool_id":"glob__glob_1_0","parameters":{"pattern":"*"}}`
	const result = `{"type":"tool_result","tool_id":"glob__glob_1_0","status":"success"}`
	started := agents.ToolStarted{ToolID: "glob__glob_1_0", ToolName: agents.ToolFindFiles, NativeName: "glob", Risk: agents.RiskLow}
	completed := agents.ToolCompleted{ToolID: "glob__glob_1_0", Success: true}
	told := started
	told.Target, told.Arguments = "*", []byte(`{"pattern":"*"}`)
	for name, tt := range map[string]struct {
		lines []string
		want  []agents.Body
	}{
		"never told":       {[]string{result}, []agents.Body{started, completed}},
		"told too late":    {[]string{result, use}, []agents.Body{started, completed, agents.Unknown{NativeType: "tool_use", Raw: []byte(use)}}},
		"two results":      {[]string{use, result, result}, []agents.Body{told, completed, agents.Unknown{NativeType: "tool_result", Raw: []byte(result)}}},
		"an id used again": {[]string{use, result, use, result}, []agents.Body{told, completed, told, completed}},
	} {
		got := play(Adapter{}.Dialog(agents.Request{}), tt.lines...)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// Text counts once, whatever mix of deltas and whole messages a later version sends.
func TestTextOnce(t *testing.T) {
	delta := func(s string) string {
		return `{"type":"message","role":"assistant","delta":true,"content":"` + s + `"}`
	}
	whole := func(s string) string { return `{"type":"message","role":"assistant","content":"` + s + `"}` }
	for _, lines := range [][]string{
		{delta("a "), delta("b")},
		{whole("a b")},
		{delta("a "), delta("b"), whole("a b")},
		{delta("a "), whole("a b")},
	} {
		d := Adapter{}.Dialog(agents.Request{})
		var text strings.Builder
		for _, b := range play(d, lines...) {
			text.WriteString(b.(agents.TextChunk).Content)
		}
		if out := d.End(agents.Exit{}); text.String() != "a b" || out.Text != "a b" {
			t.Errorf("%q: chunks %q, answer %q", lines, text.String(), out.Text)
		}
	}
}

// What the adapter does not understand is kept, and breaks nothing.
func TestStrangeLines(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"thought","content":"hm"}`:                "unknown",
		`{"no":"type"}`:                                    "unknown",
		`{"type":"message","role":"system","content":"x"}`: "unknown",
		`{"type":"tool_use","tool_name":"glob"}`:           "unknown",
		`{"type":"tool_result","status":"success"}`:        "unknown",
		`{"type":"result","stats":"none"}`:                 "turnCompleted",
		`{"type":"init"`:                                   "malformed",
		`Memory is currently empty.`:                       "log",
	} {
		d := Adapter{}.Dialog(agents.Request{})
		got := play(d, line)
		if len(got) != 1 || got[0].Type() != want {
			t.Errorf("%s became %v, want %s", line, got, want)
		}
	}
}

func TestEventTime(t *testing.T) {
	d := Adapter{}.Dialog(agents.Request{})
	events := d.Line([]byte(lineInit))
	if want := time.Date(2026, 11, 20, 23, 37, 46, 225e6, time.UTC); !events[0].Time.Equal(want) {
		t.Errorf("the event's time is %s, want %s", events[0].Time, want)
	}
	if events = d.Line([]byte(lineText)); !events[0].Time.IsZero() {
		t.Errorf("a line without a time became an event of %s", events[0].Time)
	}
}
