package codex

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

func TestHistory(t *testing.T) { golden.RunHistory(t, Adapter{}, "testdata/sessions") }

func FuzzHistory(f *testing.F) { golden.FuzzHistory(f, Adapter{}, "testdata/sessions") }

// TestHistoryOf tells threads of older versions, and ones that are hard to have recorded.
func TestHistoryOf(t *testing.T) {
	const (
		meta   = `{"timestamp":"2026-11-21T19:19:02.577Z","type":"session_meta","payload":{"id":"S","cwd":"/p"}}` + "\n"
		prompt = meta + `{"type":"event_msg","payload":{"type":"user_message","message":"Go."}}` + "\n"
	)
	for name, c := range map[string]struct {
		session string
		want    []string
		status  agents.SessionStatus
	}{
		"a thread of an older version": {
			prompt + `{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}}
{"type":"event_msg","payload":{"type":"agent_reasoning","text":"Hm."}}
{"type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"command\":[\"bash\",\"-lc\",\"ls -l\"]}"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"\"}"}}
{"type":"event_msg","payload":{"type":"agent_message","message":"Yes."}}
{"type":"event_msg","payload":{"type":"task_complete"}}`,
			[]string{"user: Go.", "reasoning: Hm.", "shell: shell ls -l", `done: "{\"output\":\"\"}"`, "assistant: Yes."},
			agents.SessionCompleted,
		},
		"a thread in both dialects": {
			prompt + `{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"Go."}]}}}`,
			[]string{"user: Go."},
			agents.SessionUnfinished,
		},
		"an interruption in the middle of a call": {
			prompt + `{"type":"response_item","payload":{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"}}
{"type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}`,
			[]string{"user: Go.", "edit_file: apply_patch a.txt", "turn_aborted: interrupted", "failed: no result in the session"},
			agents.SessionCancelled,
		},
		"a failure": {
			prompt + `{"type":"event_msg","payload":{"type":"error","message":"unexpected status 401 Unauthorized: no"}}
{"type":"event_msg","payload":{"type":"task_complete"}}`,
			[]string{"user: Go.", "auth: unexpected status 401 Unauthorized: no"},
			agents.SessionFailed,
		},
		"a plan": {
			prompt + `{"type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"update_plan","arguments":"{\"plan\":[{\"step\":\"a\",\"status\":\"pending\"}]}"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"Plan updated"}}`,
			[]string{"user: Go.", "todo: update_plan", "todoList", `done: "Plan updated"`},
			agents.SessionUnfinished,
		},
		"a tool of an MCP server, and a refused patch": {
			prompt + `{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"McpToolCall","id":"m1","server":"s","tool":"t","status":"completed","result":{"content":[]}}}}
{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"FileChange","id":"f1","status":"declined","changes":{"/p/a":{"type":"add","content":"x"}}}}}`,
			[]string{"user: Go.", "mcp: McpToolCall s.t", `done: {"content":[]}`, "edit_file: FileChange /p/a", "declined: refused: codex exec asks nobody"},
			agents.SessionUnfinished,
		},
		"calls without a use": {
			prompt + `{"type":"response_item","payload":{"type":"function_call","call_id":"c1","name":"mcp__s__t","arguments":"no json"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"unsupported call: mcp__s__t"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c2","output":"an answer to nothing"}}`,
			[]string{"user: Go.", "mcp: mcp__s__t s.t", "failed: unsupported call: mcp__s__t"},
			agents.SessionUnfinished,
		},
		"what is not known": {
			prompt + `{"type":"new","payload":{}}` + "\n" + `{"type":"response_item","payload":{"type":"newer"}}`,
			[]string{"user: Go.", "unknown: new", "unknown: response_item newer"},
			agents.SessionUnfinished,
		},
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
	if dir := files.Dir(getenv); dir != "/h/.codex" {
		t.Errorf("the store is %q", dir)
	}
	env["CODEX_HOME"] = "/c"
	if dir := files.Dir(getenv); dir != "/c" {
		t.Errorf("with CODEX_HOME the store is %q", dir)
	}
	for name, want := range map[string]string{
		"sessions/2026/11/21/rollout-2026-11-21T19-19-02-01a1ff8c-3a9a-78c3-aa02-6ae44fc4fd59.jsonl": "01a1ff8c-3a9a-78c3-aa02-6ae44fc4fd59",
		"sessions/2026/11/21/rollout-x.jsonl":                                                        "",
	} {
		if got := files.ID(name); got != want {
			t.Errorf("the id of %s is %q, want %q", name, got, want)
		}
	}
}
