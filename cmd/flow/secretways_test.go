package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/cmd/flow/internal/rpc"
)

// leakAsking is what a fake does that asks for leave to run commands with a secret in them,
// spelt in several ways, and tells of them.
func leakAsking(f *fake) int {
	f.listen()
	f.say(f.begin...)
	said, _ := leakSpellings(os.Getenv("LEAK_TOKEN"))
	for i, at := range []int{0, 4, 7, 11} { // as it is, percents, hexadecimal, base64
		quoted, _ := json.Marshal(said[at])
		text := string(quoted[1 : len(quoted)-1])
		id := fmt.Sprint(i)
		f.say(strings.NewReplacer("rTEXT", "r"+id, "cTEXT", "c"+id, "TEXT", text).Replace(f.ask))
		if !f.answered(1) {
			return 1
		}
		f.speak("did echo " + text)
	}
	quoted, _ := json.Marshal("it was " + said[0])
	f.say(strings.ReplaceAll(f.well, `"done"`, string(quoted)))
	return f.leave()
}

// askers are the protocols in which an agent can ask, by the names of their steps.
func askers() map[string]string {
	all := map[string]string{}
	for p, v := range voices() {
		if v.ask != "" && v.hears != nil && p != "acp" {
			use, _, _ := strings.Cut(p, "/")
			all[use] = p
		}
	}
	return all
}

// leakAsks is a pipeline whose agents ask with secrets in their questions.
func leakAsks() string {
	agents, all := strings.Builder{}, strings.Builder{}
	for _, use := range slices.Sorted(maps.Keys(askers())) {
		_, transport, _ := strings.Cut(askers()[use], "/")
		fmt.Fprintf(&agents, "  asking-%s: {use: %s, transport: %s, command: [fakeagent, %s, leak-asking]}\n", use, use, transport, askers()[use])
		fmt.Fprintf(&all, "  %s: {agent: asking-%s, prompt: Ask., timeout: 2m}\n", use, use)
	}
	return fmt.Sprintf(`
secrets: LEAK_TOKEN
env: {LEAK_TOKEN: "{{ .secrets.LEAK_TOKEN }}"}
permissions: {default: ask}
agents:
%ssteps:
%s`, &agents, &all)
}

// TestNoSecretIsTold: agents say secrets to programs that drive flow and to a person that is
// to permit what they do, in a chat and in a replay, and nothing of it is found in what flow
// tells, prints or stores.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	r := newLeakRun(t, "told", "")
	putText(t, filepath.Join(r.dir, r.pipeline), leakAsks())
	seen := map[string][]byte{}
	p := r.rpc(t).answering(t)
	r.permitted(t, p, seen)
	seen["rpc"] = told(t, p, r.id)
	s := r.serve(t)
	dialled := s.dial(t)
	dialled.follow(t, r.id)
	seen["serve /ws"], seen["serve /events"] = told(t, dialled, r.id), s.streamed(t, r.id)
	seen["chat"] = r.says("chat", r.id, "claude", "And now?")
	seen["replay"] = r.says("run", "--replay", r.id, "--run-id", "again", "-o", "json")
	seen["audit of the replay"] = r.says("audit", "again", "-o", "json")
	for name, want := range map[string]string{
		"rpc": `"content":"did echo ***"`, "serve /ws": `"content":"did echo ***"`, "serve /events": "did echo ***", "question": "echo ***",
		"chat": "it was ***", "replay": "echo ***", "audit of the replay": "echo ***",
	} {
		if !bytes.Contains(seen[name], []byte(want)) {
			t.Errorf("%s: %s is missing in:\n%s", name, want, seen[name])
		}
	}
	r.checkTold(t, seen)
}

// permitted runs the pipeline, and permits what is asked with the secret as the reason. What
// others see of the first question comes into seen.
func (r crashRun) permitted(t *testing.T, p peer, seen map[string][]byte) {
	t.Helper()
	if _, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{File: r.pipeline}, RunID: r.id}); err != nil {
		t.Fatal(err)
	}
	p.follow(t, r.id)
	answered := map[any]bool{}
	for {
		n := p.await(t, func(n note) bool {
			return n.Method == rpc.RunComplete || n.Method == rpc.AgentPermission && !answered[n.Params["permission_id"]]
		})
		if n.Method == rpc.RunComplete {
			break
		}
		if len(answered) == 0 {
			seen["question"], seen["question in JSON"] = r.says("show", r.id), r.says("show", r.id, "-o", "json")
		}
		id := n.Params["permission_id"]
		answered[id] = true
		if _, err := p.Respond(t.Context(), rpc.RespondParams{Run: r.id, ID: id.(string), Decision: "allow", Message: leakKeys()["LEAK_TOKEN"]}); err != nil {
			t.Fatal(err)
		}
	}
	if want := 4 * len(askers()); len(answered) != want {
		t.Errorf("%d questions were asked, not %d", len(answered), want)
	}
}

// follow has the client hear of all that a run did.
func (p peer) follow(t *testing.T, run string) {
	t.Helper()
	if _, err := p.Events(t.Context(), rpc.EventsParams{Run: run, Subscribe: true, RunEvents: true}); err != nil {
		t.Fatal(err)
	}
}

// told is all that a client has heard of a run when it has ended, and what it is answered.
func told(t *testing.T, p peer, run string) []byte {
	t.Helper()
	p.await(t, method(rpc.RunComplete, run))
	shown, err := p.Show(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	events, err := p.Events(t.Context(), rpc.EventsParams{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(jsonText(t, shown) + "\n" + jsonText(t, events) + "\n")
	p.heard.mu.Lock()
	defer p.heard.mu.Unlock()
	for _, n := range p.heard.all {
		text = append(append(text, n.Raw...), '\n')
	}
	return text
}

// streamed is what GET /events has of a run.
func (s *served) streamed(t *testing.T, run string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address+"/events?run_events=1&run="+run, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(text, []byte("data: "), nil)
}

// checkTold searches what was seen, what flow prints of the run, and all that is stored.
func (r crashRun) checkTold(t *testing.T, seen map[string][]byte) {
	t.Helper()
	audit := r.says("audit", r.id, "-o", "json")
	if n := bytes.Count(audit, []byte("echo ***")); n < 4*len(askers()) {
		t.Errorf("the audit log has %d masked calls:\n%s", n, audit)
	}
	seen["audit in a table"] = r.says("audit", r.id)
	r.checkLeaks(t, seen)
}

// TestNoSecretIsCached: a result that is taken from the cache has no secret either, and nor
// has the cache.
func TestNoSecretIsCached(t *testing.T) {
	t.Parallel()
	r := newLeakRun(t, "first", "")
	putText(t, filepath.Join(r.dir, r.pipeline), `
secrets: LEAK_TOKEN
env: {LEAK_TOKEN: "{{ .secrets.LEAK_TOKEN }}"}
agents: {leaking: {use: claude, command: [fakeagent, claude/print, leak], sandbox: read-only}}
steps: {said: {agent: leaking, prompt: Say it., timeout: 1m, cache: true}}
outputs: {said: "{{ .steps.said.text }}"}
`)
	seen := map[string][]byte{"first": r.says("run", r.pipeline, "--run-id", r.id, "-o", "json")}
	r.id = "second"
	seen["second"] = r.says("run", r.pipeline, "--run-id", r.id, "-o", "json")
	if !bytes.Contains(seen["second"], []byte(`"cached": true`)) || !bytes.Contains(seen["second"], []byte(`"said": "***`)) {
		t.Errorf("the second run:\n%s", seen["second"])
	}
	r.checkLeaks(t, seen)
}
