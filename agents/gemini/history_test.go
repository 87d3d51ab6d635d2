package gemini

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

func TestHistory(t *testing.T) { golden.RunHistory(t, Adapter{}, "testdata/sessions") }

func FuzzHistory(f *testing.F) { golden.FuzzHistory(f, Adapter{}, "testdata/sessions") }

// TestHistoryOf tells sessions of older versions, and ones that are hard to have recorded.
func TestHistoryOf(t *testing.T) {
	const (
		head   = `{"sessionId":"S","startTime":"2026-11-21T19:19:24.811Z"}` + "\n"
		prompt = head + `{"id":"1","type":"user","content":[{"text":"Go."}]}` + "\n"
	)
	for name, c := range map[string]struct {
		session string
		want    []string
		status  agents.SessionStatus
	}{
		"a file of an older version": {
			`{"sessionId":"S","startTime":"2026-11-21T19:19:24.811Z","messages":[{"id":"1","type":"user","content":"Go."},{"id":"2","type":"gemini","content":"Yes.","thoughts":[{"subject":"A","description":"b"}]}]}`,
			[]string{"user: Go.", "reasoning: A\nb", "assistant: Yes."},
			agents.SessionCompleted,
		},
		"a message that is replaced": {
			prompt + `{"id":"2","type":"gemini","content":"Ye"}` + "\n" + `{"id":"2","type":"gemini","content":"Yes."}`,
			[]string{"user: Go.", "assistant: Yes."},
			agents.SessionCompleted,
		},
		"messages that are taken back": {
			prompt + `{"id":"2","type":"gemini","content":"Yes."}` + "\n" + `{"id":"3","type":"user","content":"No."}` + "\n" + `{"$rewindTo":"2"}`,
			[]string{"user: Go."},
			agents.SessionUnfinished,
		},
		"messages that a resume wrote anew": {
			prompt + `{"id":"2","type":"gemini","content":"Yes.","thoughts":[{"subject":"A"}],"tokens":{"total":3}}
{"$set":{"messages":[{"id":"1","type":"user","content":[{"text":"Go."}]},{"id":"2","type":"gemini","content":[{"text":"Yes."}]}]}}`,
			[]string{"user: Go.", "reasoning: A", "assistant: Yes."},
			agents.SessionCompleted,
		},
		"a call that was denied, and one under way": {
			prompt + `{"id":"2","type":"gemini","content":"","toolCalls":[{"id":"a","name":"run_shell_command","args":{"command":"ls"},"status":"error","result":[{"functionResponse":{"response":{"error":"Tool execution denied by policy."}}}]},{"id":"b","name":"glob","args":{"pattern":"*"},"status":"executing"}]}`,
			[]string{
				"user: Go.", "shell: run_shell_command ls", "declined: Tool execution denied by policy.", "find_files: glob *",
				"failed: no result in the session",
			},
			agents.SessionUnfinished,
		},
		"a result that is told twice, and one of nothing": {
			prompt + `{"id":"2","type":"gemini","content":[{"functionCall":{"id":"a","name":"read_file","args":{"file_path":"x"}}}]}
{"id":"3","type":"user","content":[{"functionResponse":{"id":"a","response":{"output":"text"}}}]}
{"id":"4","type":"user","content":[{"functionResponse":{"id":"a","response":{"output":"text"}}},{"functionResponse":{"id":"z","response":{}}}]}`,
			[]string{"user: Go.", "read_file: read_file x", `done: "text"`},
			agents.SessionUnfinished,
		},
		"what is not known": {
			prompt + `{"id":"2","type":"new"}` + "\n" + `{"id":"3","type":"info","content":"By the way."}`,
			[]string{"user: Go.", "unknown: new", "info: By the way."},
			agents.SessionUnfinished,
		},
		"a torn line": {prompt + `{"id":"2","ty`, []string{"malformed", "user: Go."}, agents.SessionUnfinished},
	} {
		t.Run(name, func(t *testing.T) {
			got, summary := golden.Told(t, Adapter{}, c.session)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if summary.Status != c.status || summary.ID != "S" || summary.Title != "Go." || summary.Created.IsZero() {
				t.Errorf("the summary is %+v", summary)
			}
		})
	}
}

func TestSessionFiles(t *testing.T) {
	files := Adapter{}.Sessions()
	env := map[string]string{"HOME": "/h"}
	getenv := func(name string) string { return env[name] }
	if dir := files.Dir(getenv); dir != "/h/.gemini" {
		t.Errorf("the store is %q", dir)
	}
	env["GEMINI_CLI_HOME"] = "/g"
	if dir := files.Dir(getenv); dir != "/g/.gemini" {
		t.Errorf("with GEMINI_CLI_HOME the store is %q", dir)
	}
	const name = "tmp/repo/chats/session-2026-11-21T19-19-11111111.jsonl"
	if id, marker := files.ID(name), files.Marker(name); id != "11111111" || marker != "tmp/repo/.project_root" {
		t.Errorf("of %s the id is %q and the marker %q", name, id, marker)
	}
}
