package gemini

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// A session as Gemini CLI 0.61.0 writes it, over two turns with tools and a resume in
// between, cut short by a kill.
const chatText = `{"sessionId":"` + uuid + `","startTime":"t0","kind":"main"}
{"$set":{"messages":[{"id":"m0","type":"user","content":[{"text":"<session_context>"}]}],"lastUpdated":"t1"}}
{"id":"m1","type":"user","content":[{"text":"hello"}]}
{"id":"m2","type":"gemini","content":""}
{"id":"m2","type":"gemini","content":"","toolCalls":[{"id":"c1","result":[{"functionResponse":{"id":"c1"}}]}]}
{"id":"m3","type":"user","content":[{"functionResponse":{"id":"c1"}}]}
{"id":"m4","type":"gemini","content":"First."}
{"sessionId":"` + uuid + `","startTime":"t2","kind":"main"}
{"$set":{"sessionId":"` + uuid + `"}}
{"$set":{"messages":[{"id":"m1","type":"user","content":[{"text":"hello"}]},{"id":"m2","type":"gemini","content":[{"functionCall":{"id":"c1"}}]},{"id":"m2_response","type":"user","content":[{"functionResponse":{"id":"c1"}}]},{"id":"m3","type":"user","content":[{"functionResponse":{"id":"c1"}}]},{"id":"m4","type":"gemini","content":[{"text":"First."}]}]}}
{"id":"m5","type":"user","content":"again"}
{"id":"m6","type":"gemini","content":"wrong"}
{"$rewindTo":"m6"}
{"id":"m7","type":"gemini","toolCalls":[{"id":"c2","result":"ok"},{"id":"c3","result":null}]}
{"id":"m8","type":"user","content":[{"functionResponse":{"id":"c2"}},{"functionResponse":{"id":"c3"}}]}
{"id":"m9","type":"user","conte`

const mended = `{"kind":"main","lastUpdated":"t1","sessionId":"` + other + `","startTime":"t2"}
{"content":[{"text":"hello"}],"id":"m1","type":"user"}
{"content":[{"functionCall":{"id":"c1"}}],"id":"m2","type":"gemini"}
{"content":[{"functionResponse":{"id":"c1"}}],"id":"m2_response","type":"user"}
{"content":[{"text":"First."}],"id":"m4","type":"gemini"}
{"content":"again","id":"m5","type":"user"}
{"id":"m7","toolCalls":[{"id":"c2","result":"ok"},{"id":"c3","result":null}],"type":"gemini"}
{"content":[{"functionResponse":{"id":"c3"}}],"id":"m8","type":"user"}
`

func TestMend(t *testing.T) {
	got := string(mend([]byte(chatText), other))
	if diff := cmp.Diff(mended, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if again := string(mend([]byte(got), other)); again != got {
		t.Errorf("mended again:\n%s", cmp.Diff(got, again))
	}
}

// FuzzMend: whatever the file holds, mending does not fail, and mending again changes
// nothing.
func FuzzMend(f *testing.F) {
	f.Add([]byte(chatText))
	f.Add([]byte(`{"$set":{"messages":[null,{"content":[null,1,"x",{"functionResponse":null}]}]},"sessionId":null}`))
	f.Add([]byte("null\n[]\n\n{}\n\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		once := mend(data, uuid)
		if again := mend(once, uuid); string(again) != string(once) {
			t.Errorf("once:\n%s\nagain:\n%s", once, again)
		}
	})
}

func TestPreparation(t *testing.T) {
	const home = "/home/.gemini/tmp/"
	here := home + project("/repo") + "/chats/"
	head := func(id string) string { return `{"sessionId":"` + id + `"}` + "\n" }
	long := head(uuid) + `{"content":"x","id":"m1"}` + "\n"
	in := []agents.File{
		{Path: home + "repo/chats/session-2026-11-21T16-38-11111111.jsonl", Data: []byte(long)},
		{Path: home + "repo/chats/session-2026-11-21T16-39-11111111.jsonl", Data: []byte(head(uuid))},
		{Path: home + "repo/chats/session-2026-11-21T16-40-11111111.jsonl", Data: []byte(head("11111111-other"))},
	}
	tests := []struct {
		name    string
		session agents.Session
		want    map[string]string
	}{
		{"resume: one file of the session, where this turn looks", agents.Session{Mode: agents.SessionResume, ID: uuid}, map[string]string{
			here + "session-2026-11-21T16-38-11111111.jsonl": long,
			in[2].Path: head("11111111-other"),
		}},
		{"fork: a copy, and all the others as they were", agents.Session{Mode: agents.SessionFork, ID: other, Parent: uuid}, map[string]string{
			here + "session-2026-11-21T16-38-99999999.jsonl": strings.Replace(string(mend([]byte(long), uuid)), uuid, other, 1),
			in[0].Path: long, in[1].Path: head(uuid), in[2].Path: head("11111111-other"),
		}},
		{"a session that is not there", agents.Session{Mode: agents.SessionResume, ID: "11111111-2222-4333-8444-000000000000"}, map[string]string{
			in[0].Path: long, in[1].Path: head(uuid), in[2].Path: head("11111111-other"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := command(t, request(func(r *agents.Request) { r.Home, r.Session = "/home", tt.session })).Prepare
			if p.Read != ".gemini/tmp/*/chats/session-*-11111111.jsonl" {
				t.Errorf("reads %s", p.Read)
			}
			got := map[string]string{}
			for _, f := range p.Make(append([]agents.File(nil), in...)) {
				got[f.Path] = string(f.Data)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for name, r := range map[string]agents.Request{
		"a new session":        request(func(r *agents.Request) { r.Home = "/home" }),
		"without an own home":  request(func(r *agents.Request) { r.Session = agents.Session{Mode: agents.SessionResume, ID: uuid} }),
		"with the user's home": request(func(r *agents.Request) { r.Home, r.Inherit = "/home", true; r.Session.ID = uuid }),
	} {
		if command(t, r).Prepare != nil {
			t.Errorf("%s: prepares something", name)
		}
	}
}
