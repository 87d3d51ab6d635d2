package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

const (
	childID   = "01a1fe5e-278d-7840-a704-dc9109beef57"
	started   = `{"type":"thread.started","thread_id":"` + parentID + `"}`
	turn      = `{"type":"turn.started"}`
	hello     = `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"hello"}}`
	completed = `{"type":"turn.completed","usage":{"input_tokens":300,"cached_input_tokens":100,"output_tokens":30,"reasoning_output_tokens":10}}`
	reconnect = `{"type":"error","message":"Reconnecting... 2/5 (stream disconnected before completion: stream closed)"}`
)

// play translates the lines of one process and its end.
func play(t *testing.T, r agents.Request, exit agents.Exit, lines ...string) ([]agents.Event, agents.Outcome) {
	t.Helper()
	var events []agents.Event
	tr := agents.NewTranslator(Adapter{}.Dialog(r), agents.Envelope{Agent: "codex"}, time.Now,
		func(e agents.Event) { events = append(events, e) })
	for _, line := range lines {
		tr.Stdout([]byte(line), agents.Native{})
	}
	for line := range strings.Lines(exit.Stderr) {
		tr.Stderr([]byte(strings.TrimSuffix(line, "\n")), agents.Native{})
	}
	out := tr.End(exit)
	golden.Check(t, events, out)
	return events, out
}

// find returns the bodies of type B.
func find[B agents.Body](events []agents.Event) []B {
	var found []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			found = append(found, b)
		}
	}
	return found
}

// The verdict rests on what codex said, on the exit, and on who ended it.
func TestOutcome(t *testing.T) {
	ok := []string{started, turn, hello, completed}
	open := []string{started, turn, hello}
	failed := []string{started, turn, `{"type":"turn.failed","error":{"message":"Selected model is at capacity. Please try a different model."}}`}
	tests := map[string]struct {
		lines  []string
		exit   agents.Exit
		reason agents.Reason
		cause  agents.Cause
		says   string
	}{
		"success":                      {ok, agents.Exit{}, agents.Completed, "", ""},
		"success, then ended by us":    {ok, agents.Exit{Code: -1, Signal: "KILL", Intent: agents.IntentCancel}, agents.Completed, "", ""},
		"success, then a wrong status": {ok, agents.Exit{Code: 101}, agents.Failed, agents.CauseProtocol, "completed, but exited with status 101"},
		"success, then a crash":        {ok, agents.Exit{Code: -1, Signal: "SEGV"}, agents.Failed, agents.CauseCrash, "SIGSEGV, after the turn was completed"},
		"no answer":                    {[]string{started, turn, completed}, agents.Exit{}, agents.Failed, agents.CauseIncomplete, "without an answer"},
		"no end":                       {open, agents.Exit{}, agents.Failed, agents.CauseIncomplete, "status 0 before the turn ended"},
		"interrupted by someone":       {open, agents.Exit{Code: 1}, agents.Failed, agents.CauseIncomplete, "status 1 before the turn ended"},
		"nothing at all":               {nil, agents.Exit{}, agents.Failed, agents.CauseIncomplete, "without a turn"},
		"nothing, with a status":       {nil, agents.Exit{Code: 1}, agents.Failed, agents.CauseUnknown, "status 1 and said nothing"},
		"failed":                       {failed, agents.Exit{Code: 1}, agents.Failed, agents.CauseOverloaded, "at capacity"},
		"failed, yet status 0":         {failed, agents.Exit{}, agents.Failed, agents.CauseOverloaded, "at capacity"},
		"failed, then killed":          {failed, agents.Exit{Code: -1, Signal: "KILL"}, agents.Failed, agents.CauseOverloaded, "at capacity"},
		"failed without words":         {[]string{started, turn, `{"type":"turn.failed"}`}, agents.Exit{Code: 1}, agents.Failed, agents.CauseUnknown, "not why"},
		"an error line, then nothing": {
			[]string{started, turn, `{"type":"error","message":"Quota exceeded. Check your plan and billing details."}`},
			agents.Exit{Code: 1},
			agents.Failed, agents.CauseUsageLimit, "Quota exceeded",
		},
		"an error line before all else": {
			[]string{`{"type":"error","message":"Missing environment variable: ` + "`X`" + `."}`}, agents.Exit{Code: 1}, agents.Failed, agents.CauseAuth, "Missing environment",
		},
		"an odd error line, then nothing": {
			[]string{started, turn, `{"type":"error","message":"odd"}`}, agents.Exit{Code: 1}, agents.Failed, agents.CauseIncomplete, "odd",
		},
		"a retry that helped": {[]string{started, turn, reconnect, hello, completed}, agents.Exit{}, agents.Completed, "", ""},
		"panic":               {open, agents.Exit{Code: 101, Stderr: "thread 'main' panicked"}, agents.Failed, agents.CauseCrash, "panicked"},
		"bad arguments":       {nil, agents.Exit{Code: 2, Stderr: "error: unexpected argument '-a' found"}, agents.Failed, agents.CauseConfig, "unexpected argument"},
		"only log lines": {
			nil,
			agents.Exit{Code: 1, Stderr: "2026-11-21T00:03:14.5Z ERROR codex_core: thread-store conflict: thread x already has an active writer"},
			agents.Failed, agents.CauseSessionInUse, "active writer",
		},
		"not started": {
			nil, agents.Exit{Code: -1, Err: errors.New("no such file")}, agents.Failed, agents.CauseSpawn, "could not be started: no such file",
		},
		"cancelled":     {open, agents.Exit{Code: 1, Intent: agents.IntentCancel}, agents.Cancelled, agents.CauseCancelled, "cancelled"},
		"timeout":       {open, agents.Exit{Code: 1, Intent: agents.IntentTimeout}, agents.TimedOut, agents.CauseTimeout, "timed out"},
		"idle":          {open, agents.Exit{Code: 1, Intent: agents.IntentIdle}, agents.TimedOut, agents.CauseTimeout, "no event within the idle timeout"},
		"policy":        {open, agents.Exit{Code: 1, Intent: agents.IntentPolicy}, agents.Failed, agents.CausePermission, "broke the policy"},
		"idle, retries": {append(open, reconnect), agents.Exit{Code: 1, Intent: agents.IntentIdle}, agents.TimedOut, agents.CauseTimeout, "amid: Reconnecting... 2/5"},
		"trouble over": {
			[]string{started, turn, reconnect, hello}, agents.Exit{Code: 1, Intent: agents.IntentTimeout}, agents.TimedOut, agents.CauseTimeout, "timed out",
		},
		"terminated by someone":     {open, agents.Exit{Code: -1, Signal: "TERM"}, agents.Cancelled, agents.CauseCancelled, "killed by SIGTERM"},
		"killed by someone":         {open, agents.Exit{Code: -1, Signal: "KILL"}, agents.Failed, agents.CauseCrash, "killed by SIGKILL"},
		"a second turn counts":      {append(failed[:3:3], turn, hello, completed), agents.Exit{}, agents.Completed, "", ""},
		"a second turn without end": {append(ok[:4:4], turn), agents.Exit{}, agents.Failed, agents.CauseIncomplete, "before the turn ended"},
		"second end contradicts":    {append(failed, completed), agents.Exit{}, agents.Failed, agents.CauseOverloaded, "at capacity"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, out := play(t, agents.Request{}, tt.exit, tt.lines...)
			if out.Reason != tt.reason {
				t.Fatalf("reason %q, want %q (%v)", out.Reason, tt.reason, out.Problem)
			}
			if tt.reason == agents.Completed {
				if out.Text != "hello" || !out.Began {
					t.Errorf("text %q, began %v", out.Text, out.Began)
				}
				return
			}
			if p := out.Problem; p.Cause != tt.cause || !strings.Contains(p.Message, tt.says) || p.Agent != "codex" {
				t.Errorf("problem %+v, want %s with %q", p, tt.cause, tt.says)
			}
			if out.Text != "" {
				t.Errorf("text %q of a turn that did not succeed", out.Text)
			}
		})
	}
}

func TestSpawnFailureSaysHowToInstall(t *testing.T) {
	_, out := play(t, agents.Request{}, agents.Exit{Code: -1, Err: errors.New("not found")})
	if !strings.Contains(out.Problem.Hint, "npm install") {
		t.Errorf("hint %q", out.Problem.Hint)
	}
}

// Codex begins a new thread when it cannot find the one to resume, and exits with 0.
func TestWrongThread(t *testing.T) {
	resume := agents.Session{Mode: agents.SessionResume, ID: childID}
	tests := map[string]struct {
		session agents.Session
		cause   agents.Cause
	}{
		"new":                {agents.Session{}, ""},
		"resumed":            {agents.Session{Mode: agents.SessionResume, ID: strings.ToUpper(parentID)}, ""},
		"another resumed":    {resume, agents.CauseSessionNotFound},
		"forked":             {agents.Session{Mode: agents.SessionFork, Parent: childID}, ""},
		"parent, not a fork": {agents.Session{Mode: agents.SessionFork, Parent: parentID}, agents.CauseProtocol},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			events, out := play(t, agents.Request{Session: tt.session}, agents.Exit{}, started, turn, hello, completed)
			if out.SessionID != parentID {
				t.Errorf("session %q", out.SessionID)
			}
			errs := find[agents.Error](events)
			if tt.cause == "" {
				if out.Reason != agents.Completed || len(errs) > 0 {
					t.Errorf("%v, errors %v", out.Problem, errs)
				}
				return
			}
			if out.Problem == nil || out.Problem.Cause != tt.cause {
				t.Errorf("problem %+v, want %s", out.Problem, tt.cause)
			}
			if len(errs) != 1 || events[1].Type != "error" {
				t.Errorf("not reported as soon as it was known: %v", errs)
			}
		})
	}
	// Who cancels such a turn is told that it was cancelled.
	_, out := play(t, agents.Request{Session: resume}, agents.Exit{Code: 1, Intent: agents.IntentCancel}, started, turn)
	if out.Reason != agents.Cancelled {
		t.Errorf("reason %q", out.Reason)
	}
}

// Codex counts over the whole thread: what was spent before is taken off.
func TestUsage(t *testing.T) {
	total := &agents.Usage{InputTokens: 300, OutputTokens: 30, CachedTokens: 100, ReasoningTokens: 10, TotalTokens: 330}
	spent := &agents.Usage{InputTokens: 200, OutputTokens: 20, CachedTokens: 100, TotalTokens: 220}
	rest := &agents.Usage{InputTokens: 100, OutputTokens: 10, ReasoningTokens: 10, TotalTokens: 110}
	tests := map[string]struct {
		session agents.Session
		want    *agents.Usage
	}{
		"new":                        {agents.Session{}, total},
		"resumed":                    {agents.Session{Mode: agents.SessionResume, ID: parentID, Spent: spent}, rest},
		"forked":                     {agents.Session{Mode: agents.SessionFork, Parent: childID, Spent: spent}, rest},
		"nothing known":              {agents.Session{Mode: agents.SessionResume, ID: parentID}, total},
		"a new thread instead":       {agents.Session{Mode: agents.SessionResume, ID: childID, Spent: spent}, total},
		"the count began anew":       {agents.Session{Mode: agents.SessionResume, ID: parentID, Spent: &agents.Usage{TotalTokens: 9999}}, total},
		"spent is not for a new one": {agents.Session{Spent: spent}, total},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			events, out := play(t, agents.Request{Session: tt.session}, agents.Exit{}, started, turn, hello, completed)
			if diff := cmp.Diff(tt.want, out.Usage); diff != "" {
				t.Errorf("of the turn (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(total, out.SessionUsage); diff != "" {
				t.Errorf("of the session (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, find[agents.TurnCompleted](events)[0].Usage); diff != "" {
				t.Errorf("in the event (-want +got):\n%s", diff)
			}
		})
	}
	_, out := play(t, agents.Request{}, agents.Exit{}, started, turn, hello)
	_, null := play(t, agents.Request{}, agents.Exit{}, started, turn, hello, `{"type":"turn.completed","usage":null}`)
	if out.Usage != nil || out.SessionUsage != nil || null.Usage != nil {
		t.Error("usage of a turn that told none")
	}
}

func TestOutput(t *testing.T) {
	message := func(text string) string {
		quoted, _ := json.Marshal(text)
		return `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":` + string(quoted) + `}}`
	}
	schema := json.RawMessage(answer)
	tests := map[string]struct {
		schema json.RawMessage
		text   string
		want   string
	}{
		"as asked":        {schema, "{\n  \"ok\": true\n}", `{"ok":true}`},
		"no schema":       {nil, `{"ok":true}`, ""},
		"not JSON":        {schema, "it is fine", ""},
		"JSON and a word": {schema, `{"ok":true} done`, ""},
		"not validated":   {schema, `[1]`, `[1]`},
		"nothing":         {schema, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, out := play(t, agents.Request{Schema: tt.schema}, agents.Exit{}, started, turn, hello, message(tt.text), completed)
			if string(out.Output) != tt.want || out.Text != tt.text {
				t.Errorf("output %q, text %q", out.Output, out.Text)
			}
		})
	}
}

// A message is told when it is whole, in one piece, however it came.
func TestMessagesAreToldOnce(t *testing.T) {
	item := func(phase, typ, text string) string {
		return fmt.Sprintf(`{"type":"item.%s","item":{"id":"item_0","type":%q,"text":%q}}`, phase, typ, text)
	}
	events, _ := play(t, agents.Request{}, agents.Exit{}, started, turn,
		item("completed", "reasoning", "hm"), item("started", "agent_message", "he"), item("updated", "agent_message", "hell"),
		item("completed", "agent_message", "hello"), completed)
	want := []agents.TextChunk{{Content: "hello", Role: "assistant"}}
	if diff := cmp.Diff(want, find[agents.TextChunk](events)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]agents.Reasoning{{Content: "hm"}}, find[agents.Reasoning](events)); diff != "" {
		t.Error(diff)
	}
}

func TestBegan(t *testing.T) {
	tests := map[string]struct {
		line string
		want bool
	}{
		"nothing":   {turn, false},
		"a retry":   {reconnect, false},
		"a warning": {`{"type":"item.completed","item":{"id":"item_0","type":"error","message":"ignored setting"}}`, false},
		"a tool":    {`{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"ls","status":"in_progress"}}`, true},
		"reasoning": {`{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"hm"}}`, true},
		"a plan":    {`{"type":"item.started","item":{"id":"item_0","type":"todo_list","items":[]}}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, out := play(t, agents.Request{}, agents.Exit{Code: 1}, started, turn, tt.line); out.Began != tt.want {
				t.Errorf("began %v", out.Began)
			}
		})
	}
}

// What a later version may print is kept as it came.
func TestUnknownIsKept(t *testing.T) {
	for _, line := range []string{
		`{"type":"turn.paused","why":"x"}`,
		`{"type":"item.completed","item":{"id":"item_9","type":"hologram","size":3}}`,
		`{"type":"item.completed"}`,
		`{"type":"item.completed","item":{"type":"command_execution","command":"no id"}}`,
		`{"no":"type"}`,
		`{"type":"thread.started","thread_id":"` + childID + `"}`,
		completed,
	} {
		events, _ := play(t, agents.Request{}, agents.Exit{}, started, turn, hello, completed, line)
		unknown := find[agents.Unknown](events)
		if len(unknown) != 1 || string(unknown[0].Raw) != line {
			t.Errorf("%s: %s", line, unknown)
		}
	}
}

// Some refusals leave a log line and nothing else.
func TestRefusalsOnStderr(t *testing.T) {
	log := "2026-11-20T23:32:18.598849Z ERROR codex_core::tools::router: error="
	stderr := strings.Join([]string{
		"Reading additional input from stdin...",
		log + "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings",
		log + "exec_command failed: CreateProcess { message: \"Rejected(`rm -rf x` rejected)\" }",
		log + "approval policy is Never; reject command — you cannot ask for escalated permissions",
		log + "unsupported call: no_such_tool",
		"2026-11-20T23:32:18.598849Z ERROR codex_core::session: something else",
	}, "\n")
	events, out := play(t, agents.Request{}, agents.Exit{Stderr: stderr}, started, turn, hello, completed)
	if out.Reason != agents.Completed {
		t.Fatalf("a refused call is no failed turn: %v", out.Problem)
	}
	var causes []agents.Cause
	for _, e := range find[agents.Error](events) {
		causes = append(causes, e.Cause)
	}
	if diff := cmp.Diff([]agents.Cause{"permission", "permission", "permission", ""}, causes); diff != "" {
		t.Error(diff)
	}
	var tools []string
	for _, d := range out.Denied {
		tool, _, _ := strings.Cut(d, ": ")
		tools = append(tools, tool)
	}
	if diff := cmp.Diff([]string{"edit_file", "shell", "shell"}, tools); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkDialog is a long turn of small items.
func BenchmarkDialog(b *testing.B) {
	var lines [][]byte
	for i := range 1000 {
		for _, phase := range []string{"started", "completed"} {
			lines = append(lines, fmt.Appendf(nil, `{"type":"item.%s","item":{"id":"item_%d","type":"command_execution",`+
				`"command":"/bin/bash -lc 'go test ./...'","aggregated_output":"ok\n","exit_code":0,"status":"completed"}}`, phase, i))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		d := Adapter{}.Dialog(agents.Request{})
		for _, line := range lines {
			d.Line(line)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lines)), "ns/line")
}

// A turn that says twice how it ended has ended the first time, and the step is told.
func TestTheFirstEndCounts(t *testing.T) {
	events, out := play(t, agents.Request{}, agents.Exit{}, started, turn, hello, completed, `{"type":"turn.failed","error":{"message":"it broke"}}`)
	if out.Reason != agents.Completed || out.Problem != nil {
		t.Errorf("%s %v", out.Reason, out.Problem)
	}
	warnings := 0
	for _, e := range events {
		if s, ok := e.Body.(agents.System); ok && s.Subtype == "warning" && strings.Contains(s.Message, "the first end counts") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings in %v", warnings, events)
	}
}
