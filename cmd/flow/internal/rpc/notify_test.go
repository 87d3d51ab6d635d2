package rpc_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/cmd/flow/internal/rpc"
)

var update = flag.Bool("update", false, "write the golden files anew")

// bodies are one event of each type, and some more where the notification differs.
func bodies() []agents.Body {
	code, cost := 3, 0.25
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	use := &agents.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}
	return []agents.Body{
		agents.SessionStarted{Model: "m", Version: "1", Cwd: "/w", Tools: []string{"Bash"}},
		agents.TurnStarted{},
		agents.TextChunk{Content: "Hel", IsPartial: true, Role: "assistant", MessageID: "m1"},
		agents.TextChunk{Content: "<whole>", Role: "user"},
		agents.Reasoning{Content: "hm"},
		agents.ToolStarted{ToolID: "t1", ToolName: agents.ToolShell, NativeName: "Bash", Target: "go test\n./...", Risk: agents.RiskHigh, Arguments: json.RawMessage(`{"command":"go test ./..."}`)},
		agents.ToolStarted{ToolID: "t2", ToolName: agents.ToolReadFile, NativeName: "Read", Target: "a.go", Risk: agents.RiskLow, ParentID: "t1"},
		agents.ToolStarted{ToolID: "t3", ToolName: agents.ToolOther, NativeName: "Odd", Risk: agents.RiskHigh},
		agents.ToolProgress{ToolID: "t1", Output: "ok", ElapsedMS: 5},
		agents.ToolCompleted{ToolID: "t1", Success: true, Result: json.RawMessage(`"ok"`), ExitCode: &code},
		agents.ToolCompleted{ToolID: "t2", Error: "no", Declined: true},
		agents.FileChanged{FilePath: "a.go", ChangeType: agents.Modified, Diff: "@@", ToolID: "t2"},
		agents.TodoList{Items: []agents.TodoItem{{Text: "a", Status: "pending"}}},
		agents.TurnCompleted{Usage: use, DurationMS: 7},
		agents.UsageReport{Usage: *use, CostUSD: &cost},
		agents.Retry{Attempt: 1, MaxRetries: 3, Cause: agents.CauseOverloaded, Message: "busy"},
		agents.RateLimit{Status: "warning", Limit: "five_hour", ResetsAt: &at, Used: 0.5},
		agents.PermissionRequested{RequestID: "r1", ToolID: "t1", ToolName: agents.ToolShell, NativeName: "Bash", Target: "ls", Risk: agents.RiskHigh},
		agents.PermissionDecided{RequestID: "r1", ToolID: "t1", Decision: "deny", By: "policy", Message: "no", Rule: "deny shell(ls)", Where: "a.yaml:1:2"},
		agents.Subagent{SubagentID: "s1", Status: "started"},
		agents.System{Subtype: "compacted", Message: "short"},
		agents.Error{Message: "odd", Cause: agents.CauseServer},
		agents.Log{Stream: "stdout", Text: "x"},
		agents.Malformed{Error: "no JSON", Raw: []byte("x")},
		agents.Unknown{NativeType: "new", Raw: json.RawMessage(`{}`)},
		agents.SessionEnded{Reason: agents.Completed, Model: "m", Text: "done", Output: json.RawMessage(`{"ok":true}`), FinalUsage: use, CostUSD: &cost, DurationMS: 9},
		agents.SessionEnded{Reason: agents.Failed, Cause: agents.CauseRateLimit, Error: "slow down", Hint: "wait", RetryAfter: &at},
		agents.SessionEnded{Reason: agents.Cancelled, Cause: agents.CauseCancelled, Error: "cancelled"},
	}
}

func TestTranslate(t *testing.T) {
	var got bytes.Buffer
	for i, body := range bodies() {
		e := agents.Event{
			Type: body.Type(), SessionID: "s", Time: time.Date(2026, 11, 21, 20, 0, i, 0, time.UTC), AgentType: "claude", Run: "r", Step: "a.b", Attempt: 1,
			Body: body, Native: &agents.Native{File: "attempts/a.stdout", Length: 3},
		}
		n, told, err := rpc.Translate(e.Numbered(int64(i + 1)).AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !told {
			got.WriteString(body.Type() + ": run_event only\n")
			continue
		}
		if n.Cursor != int64(i+1) {
			t.Errorf("the cursor of %s is %d", body.Type(), n.Cursor)
		}
		params, err := json.MarshalIndent(n.Params, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(body.Type() + ": " + n.Method + " " + string(params) + "\n")
	}
	golden(t, "notifications.golden", got.Bytes())
}

// TestEveryEventIsTranslated holds the list of bodies against that of all.
func TestEveryEventIsTranslated(t *testing.T) {
	for _, b := range agents.Bodies() {
		if !slices.ContainsFunc(bodies(), func(o agents.Body) bool { return o.Type() == b.Type() }) {
			t.Errorf("no test of %s", b.Type())
		}
	}
}

func TestTranslateBroken(t *testing.T) {
	for _, line := range []string{"", "x", `{"seq":"a"}`, `{"type":"system","timestamp":5}`} {
		if _, _, err := rpc.Translate([]byte(line)); err == nil {
			t.Errorf("%q has no error", line)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", name, diff)
	}
}
