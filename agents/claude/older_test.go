package claude_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// A wrapper of an older CLI may speak the protocol of its days: other names, ids at
// other places, keys with underscores. It is understood, and is answered as a CLI is.
func TestOlderProtocol(t *testing.T) {
	c := talking(t)
	bodies := play(c,
		`{"type":"control_response","request_id":"u1","response":{"commands":[{"name":"/help"}]}}`,
		`{"type":"session.created","session_id":"s1"}`,
		`{"type":"system","subtype":"init","session_id":"s1","tools":[{"name":"Bash","description":"x"}],"mcp_servers":[]}`,
		`{"type":"assistant","uuid":"a1","session_id":"s1","message":{"type":"message","content":[{"type":"text","text":"Let me look."}]},"model":"sonnet"}`,
		`{"type":"callback.request","request_id":"cb-1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t1","permission_suggestions":[],"blocked_path":null}}`,
		`{"type":"assistant","uuid":"a2","session_id":"s1","message":{"type":"message","content":[{"type":"text","text":"Done."}]},"model":"sonnet"}`,
	)
	want := []agents.Body{
		agents.System{Subtype: "control_response", Message: "u1"},
		agents.System{Subtype: "session.created", Message: "s1"},
		agents.SessionStarted{Tools: []string{"Bash"}},
		agents.System{Subtype: "tools_missing", Message: "not granted: Read, Grep, Glob, Edit, Write"},
		agents.TurnStarted{},
		agents.TextChunk{Content: "Let me look.", Role: "assistant", MessageID: "a1"},
		agents.PermissionRequested{
			RequestID: "cb-1", ToolID: "t1", ToolName: agents.ToolShell, NativeName: "Bash", Target: "ls",
			Risk: agents.RiskHigh, Arguments: json.RawMessage(`{"command":"ls"}`),
		},
		agents.TextChunk{Content: "Done.", Role: "assistant", MessageID: "a2"},
	}
	if diff := cmp.Diff(want, bodies); diff != "" {
		t.Error(diff)
	}
	c.Decide("cb-1", agents.Verdict{Effect: "allow"})
	if diff := cmp.Diff([]string{answered(`"cb-1"`, `{"behavior":"allow"}`)}, written(c)); diff != "" {
		t.Error(diff)
	}
	play(c, `{"type":"result","subtype":"success","session_id":"s1","turn_count":1,"duration_seconds":5.2,"usage":{"input_tokens":100,"output_tokens":50}}`)
	out := c.End(agents.Exit{})
	if out.Reason != agents.Completed || out.Text != "Done." || out.Model != "sonnet" || out.SessionID != "s1" || out.Usage.TotalTokens != 150 {
		t.Errorf("it ends as %+v", out)
	}
}

// Its failures stand in the subtype and on lines of their own.
func TestOlderFailures(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		exit       int
		cause      agents.Cause
		message    string
	}{
		{"a result", `{"type":"result","subtype":"error_max_turns","session_id":"s1","error":"Maximum turns exceeded"}`, 0, agents.CauseMaxTurns, "Maximum turns exceeded"},
		{"no result", `{"type":"error","error":{"code":"SESSION_NOT_FOUND","message":"Session not found"}}`, 1, agents.CauseSessionNotFound, "ended without a result (exit status 1): SESSION_NOT_FOUND Session not found"},
		{"only a code", `{"type":"error","error":{"code":"BROKEN"}}`, 1, agents.CauseIncomplete, "ended without a result (exit status 1): BROKEN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := end(agents.Exit{Code: tt.exit}, tt.line).Problem
			if p == nil || p.Cause != tt.cause || p.Message != tt.message {
				t.Errorf("got %+v", p)
			}
		})
	}
}
