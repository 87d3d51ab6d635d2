package claude

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

func TestHistory(t *testing.T) { golden.RunHistory(t, Adapter{}, "testdata/sessions") }

func FuzzHistory(f *testing.F) { golden.FuzzHistory(f, Adapter{}, "testdata/sessions") }

// TestHistoryOf tells sessions that are hard to have recorded.
func TestHistoryOf(t *testing.T) {
	const prompt = `{"type":"user","uuid":"1","sessionId":"S","cwd":"/p","message":{"role":"user","content":"Go."}}` + "\n"
	for name, c := range map[string]struct {
		session string
		want    []string
		status  agents.SessionStatus
	}{
		"a prompt without an answer": {prompt, []string{"user: Go."}, agents.SessionUnfinished},
		"a thought": {
			prompt + `{"type":"assistant","uuid":"2","message":{"model":"m","stop_reason":"end_turn","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"Yes."}]}}`,
			[]string{"user: Go.", "reasoning: Hm.", "assistant: Yes."},
			agents.SessionCompleted,
		},
		"a line that is there twice": {prompt + prompt, []string{"user: Go."}, agents.SessionUnfinished},
		"an interruption": {
			prompt + `{"type":"user","uuid":"2","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}`,
			[]string{"user: Go.", "interrupted: [Request interrupted by user]"},
			agents.SessionCancelled,
		},
		"an error of the API": {
			prompt + `{"type":"assistant","uuid":"2","isApiErrorMessage":true,"error":"rate_limit","message":{"model":"<synthetic>","content":[{"type":"text","text":"API Error: 429"}]}}`,
			[]string{"user: Go.", "rate_limit: API Error: 429"},
			agents.SessionFailed,
		},
		"a call that a person refused, and one without an end": {
			prompt + `{"type":"assistant","uuid":"2","message":{"model":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}},{"type":"tool_use","id":"t2","name":"Glob","input":{"pattern":"*"}}]}}
{"type":"user","uuid":"3","permissionDecision":{"decision":"reject"},"message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"No."}]}}`,
			[]string{"user: Go.", "shell: Bash ls", "find_files: Glob *", "declined: No.", "failed: no result in the session"},
			agents.SessionUnfinished,
		},
		"a subagent in the same file": {
			prompt + `{"type":"user","uuid":"2","isSidechain":true,"agentId":"a","message":{"content":"Look."}}
{"type":"assistant","uuid":"3","isSidechain":true,"agentId":"a","message":{"model":"m","content":[{"type":"text","text":"I looked."}]}}`,
			[]string{"user: Go.", "a: I looked."},
			agents.SessionUnfinished,
		},
		"an answer by schema": {
			prompt + `{"type":"assistant","uuid":"2","message":{"model":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"StructuredOutput","input":{}}]}}
{"type":"user","uuid":"3","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}`,
			[]string{"user: Go.", "other: StructuredOutput", `done: "ok"`},
			agents.SessionCompleted,
		},
		"what only the CLI has use for": {`{"type":"api-request","id":"x","body":{}}` + "\n" + prompt, []string{"user: Go."}, agents.SessionUnfinished},
		"what is not known":             {prompt + `{"type":"new","uuid":"2"}`, []string{"user: Go.", "unknown: new"}, agents.SessionUnfinished},
		"a torn line":                   {prompt + `{"type":"assi`, []string{"user: Go.", "malformed"}, agents.SessionUnfinished},
	} {
		t.Run(name, func(t *testing.T) {
			got, summary := golden.Told(t, Adapter{}, c.session)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if summary.Status != c.status || summary.ID != "S" || summary.Dir != "/p" || summary.Title != "Go." {
				t.Errorf("the summary is %+v", summary)
			}
		})
	}
}

func TestSessionFiles(t *testing.T) {
	files := Adapter{}.Sessions()
	env := map[string]string{"HOME": "/h"}
	getenv := func(name string) string { return env[name] }
	if dir := files.Dir(getenv); dir != "/h/.claude" {
		t.Errorf("the store is %q", dir)
	}
	env["CLAUDE_CONFIG_DIR"] = "/c"
	if dir := files.Dir(getenv); dir != "/c" {
		t.Errorf("with CLAUDE_CONFIG_DIR the store is %q", dir)
	}
	if dir := files.Dir(func(string) string { return "" }); dir != "" {
		t.Errorf("without an environment the store is %q", dir)
	}
	for name, want := range map[string]string{
		"projects/p/11111111-2222-4333-8444-555555555555.jsonl": "11111111-2222-4333-8444-555555555555",
		"projects/p/agent-1234.jsonl":                           "",
	} {
		if got := files.ID(name); got != want {
			t.Errorf("the id of %s is %q, want %q", name, got, want)
		}
	}
}
