package claude_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/claude"
)

// end plays lines and ends the process.
func end(exit agents.Exit, lines ...string) agents.Outcome {
	d := claude.Adapter{}.Dialog(agents.Request{})
	play(d, lines...)
	return d.End(exit)
}

// What a process's end means: our own doing first, then a signal, then the last
// result, and the exit status last. It proves nothing alone.
func TestEnd(t *testing.T) {
	failed := `{"type":"result","subtype":"success","is_error":true,"num_turns":1,"api_error_status":401,"result":"Invalid API key"}`
	subagentFailed := `{"type":"assistant","parent_tool_use_id":"t","error":"rate_limit","is_api_error_message":true,"message":{"model":"<synthetic>","content":[{"type":"text","text":"slow down"}]}}`
	odd := `{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":2,"errors":["odd",{}]}`
	aborted := `{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":2,"terminal_reason":"aborted_streaming","errors":["[ede_diagnostic] x"]}`
	for _, tt := range []struct {
		name   string
		exit   agents.Exit
		lines  []string
		reason agents.Reason
		cause  agents.Cause
		text   string // in the message
	}{
		{"success", agents.Exit{}, []string{initLine, successLine}, agents.Completed, "", ""},
		{"exit 0 without a result", agents.Exit{}, []string{initLine}, agents.Failed, agents.CauseIncomplete, "without a result"},
		{"exit 0 without a word", agents.Exit{}, nil, agents.Failed, agents.CauseIncomplete, "without a result"},
		{"exit 1 without a word", agents.Exit{Code: 1}, nil, agents.Failed, agents.CauseIncomplete, "exit status 1"},
		{"success, exit 3", agents.Exit{Code: 3}, []string{initLine, successLine}, agents.Failed, agents.CauseProtocol, "success, but the exit status is 3"},
		{"the last turn counts, an error", agents.Exit{Code: 1}, []string{initLine, successLine, initLine, failed}, agents.Failed, agents.CauseAuth, "Invalid API key"},
		{"the last turn counts, a success", agents.Exit{}, []string{initLine, failed, initLine, successLine}, agents.Completed, "", ""},
		{"the first end of a turn counts, an error", agents.Exit{}, []string{initLine, failed, successLine}, agents.Failed, agents.CauseAuth, "Invalid API key"},
		{"the first end of a turn counts, a success", agents.Exit{}, []string{initLine, successLine, failed}, agents.Completed, "", ""},
		{"interrupted, exit 0", agents.Exit{}, []string{initLine, aborted}, agents.Cancelled, agents.CauseCancelled, "interrupted"},
		{"cancelled by us", agents.Exit{Intent: agents.IntentCancel}, []string{initLine, aborted}, agents.Cancelled, agents.CauseCancelled, "cancelled"},
		{"timed out", agents.Exit{Code: -1, Signal: "KILL", Intent: agents.IntentTimeout}, []string{initLine}, agents.TimedOut, agents.CauseTimeout, "timed out"},
		{"idle", agents.Exit{Code: 143, Intent: agents.IntentIdle}, []string{initLine}, agents.TimedOut, agents.CauseTimeout, "idle"},
		{"policy", agents.Exit{Intent: agents.IntentPolicy}, []string{initLine, aborted}, agents.Failed, agents.CausePermission, "policy"},
		{"ended by us, after the answer", agents.Exit{Code: 143, Intent: agents.IntentIdle}, []string{initLine, successLine}, agents.Completed, "", ""},
		{"terminated by others", agents.Exit{Code: 143}, []string{initLine}, agents.Cancelled, agents.CauseCancelled, "killed by SIGTERM"},
		{"failed, then terminated", agents.Exit{Code: 143}, []string{initLine, failed}, agents.Failed, agents.CauseAuth, "Invalid API key"},
		{"failed, and so had a subagent", agents.Exit{Code: 1}, []string{initLine, subagentFailed, odd}, agents.Failed, agents.CauseUnknown, "odd"},
		{"hung up", agents.Exit{Code: -1, Signal: "HUP"}, []string{initLine}, agents.Cancelled, agents.CauseCancelled, "killed by SIGHUP"},
		{"crashed", agents.Exit{Code: -1, Signal: "SEGV", Stderr: "panic: oh\n"}, []string{initLine}, agents.Failed, agents.CauseCrash, "killed by SIGSEGV: panic: oh"},
		{"not started", agents.Exit{Code: -1, Err: errors.New("no such file")}, nil, agents.Failed, agents.CauseSpawn, "no such file"},
		{
			"a background task's turn was killed, after the answer",
			agents.Exit{Code: 143},
			[]string{initLine, successLine},
			agents.Cancelled, agents.CauseCancelled, "killed by SIGTERM",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := end(tt.exit, tt.lines...)
			if out.Reason != tt.reason {
				t.Errorf("reason %s, want %s", out.Reason, tt.reason)
			}
			if tt.cause == "" {
				if out.Problem != nil {
					t.Errorf("problem %+v", out.Problem)
				}
				return
			}
			if p := out.Problem; p == nil || p.Cause != tt.cause || !strings.Contains(p.Message, tt.text) || p.Agent != "claude" {
				t.Errorf("problem %+v, want %s: …%s…", p, tt.cause, tt.text)
			}
		})
	}
}

// An answer by schema is told as it came, also by a turn that failed after it.
func TestOutputOfFailure(t *testing.T) {
	out := end(agents.Exit{Code: 1}, initLine,
		`{"type":"result","subtype":"error_max_budget_usd","is_error":true,"num_turns":2,"structured_output":{"ok":true}}`)
	if out.Reason != agents.Failed || out.Problem.Cause != agents.CauseBudget || string(out.Output) != `{"ok":true}` {
		t.Errorf("%s, %v, output %s", out.Reason, out.Problem, out.Output)
	}
}

// A missing executable and a missing login name the way out; so does root.
func TestHints(t *testing.T) {
	info := claude.Adapter{}.Info()
	for _, tt := range []struct {
		exit agents.Exit
		want string
	}{
		{agents.Exit{Code: -1, Err: errors.New("not found")}, info.Install},
		{agents.Exit{Code: 1, Stderr: "Not logged in · Please run /login\n"}, info.Login},
		{agents.Exit{Code: 1, Stderr: "--dangerously-skip-permissions cannot be used with root/sudo privileges\n"}, "IS_SANDBOX=1"},
		{agents.Exit{Code: 1, Stderr: "error: unknown option '--system-prompt-snapshot'\n"}, "2.1.329"},
	} {
		if p := end(tt.exit).Problem; !strings.Contains(p.Hint, tt.want) {
			t.Errorf("%+v: hint %q, want …%s…", tt.exit, p.Hint, tt.want)
		}
	}
}

// Standard error is quoted in whole lines, the last ones, at most 2 KiB.
func TestStartFailureMessage(t *testing.T) {
	long := strings.Repeat("noise\n", 1000) + "Error: the end\n\nWarning: ignore me\n"
	p := end(agents.Exit{Code: 1, Stderr: long}).Problem
	if p.Cause != agents.CauseConfig || len(p.Message) > 2<<10 ||
		!strings.HasPrefix(p.Message, "noise\n") || !strings.HasSuffix(p.Message, "\nError: the end") {
		t.Errorf("%s: %d bytes, …%q", p.Cause, len(p.Message), p.Message[max(0, len(p.Message)-40):])
	}
	if p := end(agents.Exit{Code: 139, Stderr: "thread panicked at x"}).Problem; p.Cause != agents.CauseCrash {
		t.Errorf("a panic at the start is %s", p.Cause)
	}
}

// Versions before 2.1.329 have no model_usage_since_last_result: their totals run
// over the process, and the last one counts. Newer ones run over the session.
func TestCostAndUsage(t *testing.T) {
	const old1 = `{"type":"result","is_error":false,"num_turns":1,"total_cost_usd":0.5,"modelUsage":{"m":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":4,"cacheCreationInputTokens":8,"costUSD":0.5}},"usage":{"input_tokens":1,"output_tokens":1}}`
	const old2 = `{"type":"result","is_error":false,"num_turns":1,"total_cost_usd":0.75,"modelUsage":{"m":{"inputTokens":10,"outputTokens":20,"costUSD":0.5},"n":{"inputTokens":1,"outputTokens":2,"costUSD":0.25}}}`
	const bare = `{"type":"result","is_error":false,"num_turns":1,"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":3}}`
	const new1 = `{"type":"result","is_error":false,"num_turns":1,"total_cost_usd":9,"modelUsage":{"m":{"inputTokens":900}},"model_usage_since_last_result":{"m":{"inputTokens":10,"outputTokens":1,"costUSD":0.25},"n":{"inputTokens":5,"costUSD":0.5}}}`
	const empty = `{"type":"result","is_error":false,"num_turns":1,"total_cost_usd":9,"model_usage_since_last_result":{}}`
	for _, tt := range []struct {
		name  string
		lines []string
		usage agents.Usage
		cost  float64
	}{
		{"old", []string{old1}, agents.Usage{InputTokens: 13, OutputTokens: 2, CachedTokens: 4, CacheWriteTokens: 8, TotalTokens: 15}, 0.5},
		{"old, two results", []string{old1, old2}, agents.Usage{InputTokens: 11, OutputTokens: 22, TotalTokens: 33}, 0.75},
		{"plain usage only", []string{bare}, agents.Usage{InputTokens: 17, OutputTokens: 3, CachedTokens: 5, CacheWriteTokens: 2, TotalTokens: 20}, 0},
		{"new, resumed session", []string{new1}, agents.Usage{InputTokens: 15, OutputTokens: 1, TotalTokens: 16}, 0.75},
		{"new, two results and nothing in the third", []string{new1, new1, empty}, agents.Usage{InputTokens: 30, OutputTokens: 2, TotalTokens: 32}, 1.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := end(agents.Exit{}, tt.lines...)
			if out.Usage == nil || out.CostUSD == nil {
				t.Fatalf("usage %v, cost %v", out.Usage, out.CostUSD)
			}
			if diff := cmp.Diff(tt.usage, *out.Usage); diff != "" || *out.CostUSD != tt.cost {
				t.Errorf("cost %v, want %v; usage (-want +got):\n%s", *out.CostUSD, tt.cost, diff)
			}
		})
	}
}

// A turn that is killed has no result; what its messages used is known all the
// same when they were streamed.
func TestUsageOfKilledTurn(t *testing.T) {
	const spent = `{"type":"stream_event","event":{"type":"message_delta","usage":{"input_tokens":100,"output_tokens":20}}}`
	const next = `{"type":"stream_event","event":{"type":"message_start","message":{"id":"m2"}}}`
	out := end(agents.Exit{Code: -1, Signal: "KILL"}, initLine, spent, next, spent)
	want := &agents.Usage{InputTokens: 200, OutputTokens: 40, TotalTokens: 240}
	if diff := cmp.Diff(want, out.Usage); diff != "" || out.CostUSD != nil {
		t.Errorf("cost %v; usage (-want +got):\n%s", out.CostUSD, diff)
	}
	if out := end(agents.Exit{Code: -1, Signal: "KILL"}, initLine); out.Usage != nil {
		t.Errorf("usage %v out of nothing", out.Usage)
	}
}

// The error fields, each alone, as 2.1.197 and the SDK's types have them.
func TestCauses(t *testing.T) {
	synthetic := func(class string) string {
		return `{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"x"}]},"is_api_error_message":true,"error":"` + class + `"}`
	}
	failed := func(fields string) string {
		return `{"type":"result","subtype":"success","is_error":true,"num_turns":1` + fields + `}`
	}
	const limited = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795300000}}`
	for _, tt := range []struct {
		lines []string
		want  agents.Cause
	}{
		{[]string{failed(`,"api_error_status":403`)}, agents.CauseAuth},
		{[]string{failed(`,"api_error_status":429`)}, agents.CauseRateLimit},
		{[]string{limited, failed(`,"api_error_status":429`)}, agents.CauseUsageLimit},
		{[]string{failed(`,"api_error_status":503`)}, agents.CauseServer},
		{[]string{failed(`,"api_error_status":400,"result":"Prompt is too long"`)}, agents.CauseContext},
		{[]string{failed(`,"api_error_status":422`)}, agents.CauseInvalidRequest},
		{[]string{synthetic("cloud_credential_error"), failed("")}, agents.CauseAuth},
		{[]string{synthetic("overloaded"), failed("")}, agents.CauseOverloaded},
		{[]string{synthetic("max_output_tokens"), failed("")}, agents.CauseMaxOutput},
		{[]string{synthetic("server_error"), failed(`,"result":"API Error: Connection refused (ECONNREFUSED)"`)}, agents.CauseNetwork},
		{[]string{synthetic("server_error"), failed("")}, agents.CauseServer},
		{[]string{synthetic("brand_new"), failed("")}, agents.CauseUnknown},
		{[]string{synthetic("rate_limit"), successLine, initLine, failed("")}, agents.CauseUnknown}, // that class was the turn's before
		{[]string{`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (2)"]}`}, agents.CauseMaxTurns},
		{
			[]string{
				`{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}`,
				`{"type":"result","subtype":"error_during_execution","is_error":true}`,
			}, agents.CauseCancelled,
		},
	} {
		out := end(agents.Exit{Code: 1}, tt.lines...)
		if out.Problem == nil || out.Problem.Cause != tt.want || out.Problem.Message == "" {
			t.Errorf("%s: %+v, want %s", tt.lines, out.Problem, tt.want)
		}
		if tt.want == agents.CauseUsageLimit && !out.Problem.RetryAfter.Equal(time.Unix(1795300000, 0)) {
			t.Errorf("retry after %v", out.Problem.RetryAfter)
		}
	}
}

// The answer is the last message; errors that the CLI words like one are not.
func TestAnswer(t *testing.T) {
	const api = `{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]},"is_api_error_message":true,"error":"server_error"}`
	const failed = `{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"API Error"}`
	sub := strings.Replace(assistant("m9", text("not the answer")), `{"type"`, `{"parent_tool_use_id":"t","agent_id":"a","type"`, 1)
	if out := end(agents.Exit{Code: 1}, initLine, assistant("m1", text("so far")), api, failed); out.Text != "so far" {
		t.Errorf("answer of a failed turn: %q", out.Text)
	}
	if out := end(agents.Exit{}, initLine, assistant("m1", text("done")), sub, successLine); out.Text != "done" {
		t.Errorf("answer beside a subagent's: %q", out.Text)
	}
	if out := end(agents.Exit{}, initLine, assistant("m1", text("other")), successLine); out.Text != "done" {
		t.Errorf("the result's word is lost: %q", out.Text)
	}
}

// An answer by schema survives a later turn that a background task opens.
func TestOutputIsKept(t *testing.T) {
	const structured = `{"type":"result","is_error":false,"num_turns":1,"result":"{\"a\":1}","structured_output":{"a":1}}`
	if out := end(agents.Exit{}, structured, successLine); string(out.Output) != `{"a":1}` {
		t.Errorf("output %s", out.Output)
	}
	if out := end(agents.Exit{}, successLine); out.Output != nil || out.Reason != agents.Completed {
		t.Errorf("no output, as the model chose: %s, %s", out.Reason, out.Output)
	}
}

// Began decides whether a retry repeats the prompt: only the model's own work
// counts, not what the CLI says in its place.
func TestBegan(t *testing.T) {
	const api = `{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"API Error"}]},"error":"server_error"}`
	for _, tt := range []struct {
		line string
		want bool
	}{
		{initLine, false},
		{api, false},
		{delta("x"), true},
		{assistant("m1", `{"type":"thinking","thinking":"hm"}`), true},
		{assistant("m1", `{"type":"tool_use","id":"t","name":"Read","input":{}}`), true},
	} {
		if out := end(agents.Exit{}, tt.line); out.Began != tt.want {
			t.Errorf("began %v after %s", out.Began, tt.line)
		}
	}
}

// Refused calls are told when they happen and in the result; each stands once.
func TestDenied(t *testing.T) {
	data, err := os.ReadFile("testdata/03a_default_write_denied.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	out := end(agents.Exit{}, strings.Split(strings.TrimSpace(string(data)), "\n")...)
	want := []string{"Write: /home/dev/project/a.txt", "Bash: touch b.txt"}
	if diff := cmp.Diff(want, out.Denied); diff != "" || out.Reason != agents.Completed {
		t.Errorf("%s; denied (-want +got):\n%s", out.Reason, diff)
	}
}

// The process may be ended when its turn has ended and nothing works on in the background:
// a further turn may come of that.
func TestEnded(t *testing.T) {
	d := claude.Adapter{}.Dialog(agents.Request{})
	tasks := func(list string) string {
		return `{"type":"system","subtype":"background_tasks_changed","tasks":[` + list + `]}`
	}
	for i, step := range []struct {
		line  string
		ended bool
	}{
		{initLine, false}, {tasks(`{"task_id":"a"}`), false}, {successLine, false}, {tasks(""), true}, {initLine, false}, {successLine, true},
	} {
		d.Line([]byte(step.line))
		if got := d.(agents.Ender).Ended(); got != step.ended {
			t.Errorf("after line %d it has ended: %v", i, got)
		}
	}
}
