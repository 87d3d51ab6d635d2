package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"flow/cmd/flow/internal/rpc"
)

// longTurn is an agent that says much, and stops in the middle until it may go on.
func (r crashRun) longTurn() rpc.RunOptions {
	return asked("text=" + strings.Repeat("word ", 200) + "; run=touch permitted")
}

// numbers are 1 to n.
func numbers(n int64) []int64 {
	var all []int64
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// TestServeReconnect: clients that come and go with a cursor hear everything once.
func TestServeReconnect(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "reconnect")
	s := r.serve(t)
	keeper := s.dial(t).answering(t)
	begun, err := keeper.Run(t.Context(), rpc.RunParams{Prompt: "Talk.", Type: "claude", Options: r.longTurn()})
	if err != nil {
		t.Fatal(err)
	}
	question := keeper.await(t, method(rpc.AgentPermission, begun.Run)).Params
	var got []int64
	after := int64(0)
	for i := range 4 {
		p := s.dial(t)
		if _, err := p.Events(t.Context(), rpc.EventsParams{Run: begun.Run, After: after, Subscribe: true, RunEvents: true}); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if _, err := keeper.Respond(t.Context(), rpc.RespondParams{Run: begun.Run, ID: question["permission_id"].(string), Decision: "allow"}); err != nil {
				t.Fatal(err)
			}
		}
		switch event := method(rpc.RunEvent, begun.Run); i {
		case 3:
			p.await(t, method(rpc.RunComplete, begun.Run))
		case 2:
			p.await(t, event)
		default: // the client before may have heard all there is before the question
			p.await(t, func(n note) bool { return event(n) || n.Method == rpc.AgentPermission })
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		<-p.Ended()
		if seqs := p.heard.seqs(); len(seqs) > 0 {
			got, after = append(got, seqs...), seqs[len(seqs)-1]
		}
		if i == 1 { // all that there is so far was heard
			for done := false; !done; {
				page, err := keeper.Events(t.Context(), rpc.EventsParams{Run: begun.Run, After: after, Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				for range page.Events {
					got = append(got, page.Next)
				}
				after, done = page.Next, !page.More
			}
		}
	}
	if !slices.Equal(got, numbers(after)) {
		t.Errorf("heard %v", got)
	}
	if data, err := os.ReadFile(filepath.Join(r.state(), "runs", begun.Run, "events.jsonl")); err != nil || int64(bytes.Count(data, []byte("\n"))) != after {
		t.Errorf("%d events were heard of %d (%v)", after, bytes.Count(data, []byte("\n")), err)
	}
}

// TestServeSubscribers: many clients hear the same, and one that does not read holds up none.
func TestServeSubscribers(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "subscribers")
	s := r.serve(t)
	keeper := s.dial(t).answering(t)
	begun, err := keeper.Run(t.Context(), rpc.RunParams{Prompt: "Talk.", Type: "claude", Options: r.longTurn()})
	if err != nil {
		t.Fatal(err)
	}
	question := keeper.await(t, method(rpc.AgentPermission, begun.Run)).Params
	idle, err := net.Dial("tcp", strings.TrimPrefix(s.address, "http://")) // it asks, and never reads
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	fmt.Fprintf(idle, "GET /events?run=%s&run_events=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", begun.Run, s.token)
	const many = 200
	peers := make([]peer, many)
	for i := range peers {
		peers[i] = s.dial(t)
		if _, err := peers[i].Events(t.Context(), rpc.EventsParams{Run: begun.Run, Subscribe: true, RunEvents: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keeper.Respond(t.Context(), rpc.RespondParams{Run: begun.Run, ID: question["permission_id"].(string), Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	for i, p := range peers {
		end := p.await(t, method(rpc.RunComplete, begun.Run))
		if want := numbers(int64(end.Params["seq"].(float64))); !slices.Equal(p.heard.seqs(), want) {
			t.Fatalf("client %d heard %v", i, p.heard.seqs())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestServeClientVanishes: a client that vanishes with a question before it has denied it,
// and the run goes on.
func TestServeClientVanishes(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "vanish")
	s := r.serve(t)
	watcher := s.dial(t)
	p := s.dial(t).answering(t)
	begun, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Touch.", Type: "claude", Options: asked("run=touch permitted")})
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, method(rpc.AgentPermission, begun.Run))
	if _, err := watcher.Events(t.Context(), rpc.EventsParams{Run: begun.Run, Subscribe: true}); err != nil {
		t.Fatal(err)
	}
	watcher.await(t, method(rpc.AgentPermission, begun.Run)) // who only watches is told too
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if end := watcher.await(t, method(rpc.RunComplete, begun.Run)); end.Params["status"] != "succeeded" {
		t.Errorf("the end: %v", end.Params)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "permitted")); err == nil {
		t.Error("what nobody permitted has happened")
	}
	audit, err := os.ReadFile(filepath.Join(r.state(), "runs", begun.Run, "audit.jsonl"))
	if err != nil || !strings.Contains(string(audit), "nobody is there any more") {
		t.Errorf("the audit log: %s, %v", audit, err)
	}
}

// TestServeAnswerWithoutConnection: with time to answer, a permission waits for a POST, or for
// flow approve, although nobody is connected.
func TestServeAnswerWithoutConnection(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "post")
	s := r.serve(t)
	o := asked("run=touch permitted")
	o.Permissions = json.RawMessage(`{"default":"ask","ask-timeout":"1h"}`)
	var begun rpc.Started
	s.post(t, "agent/run", rpc.RunParams{Prompt: "Touch.", Type: "claude", Options: o}, &begun)
	var shown rpc.ShowResult
	if !eventually(func() bool {
		s.post(t, "run/show", rpc.RunRef{Run: begun.Run}, &shown)
		return len(shown.Questions) == 1
	}) {
		t.Fatal("it never asked")
	}
	q := shown.Questions[0]
	if q.Permission == nil || q.Permission.Deadline.IsZero() {
		t.Errorf("the question: %+v", q)
	}
	s.post(t, "agent/respond", rpc.RespondParams{Run: begun.Run, ID: q.QuestionID, Decision: "allow"}, nil)
	if !eventually(func() bool { _, err := os.Stat(filepath.Join(r.dir, "permitted")); return err == nil }) {
		t.Error("what was permitted never happened")
	}
}

// post calls a method over HTTP.
func (s *served) post(t *testing.T, method string, params, result any) {
	t.Helper()
	body := jsonText(t, map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address+"/rpc", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *rpc.Error      `json:"error"`
	}
	if err == nil {
		err = json.Unmarshal(text, &reply)
	}
	if err != nil || reply.Error != nil {
		t.Fatalf("%s: %v %s", method, err, text)
	}
	if result != nil {
		if err := json.Unmarshal(reply.Result, result); err != nil {
			t.Fatal(err)
		}
	}
}

const waitingPipeline = "steps: {one: {run: echo one}, wait: {needs: [one], run: 'touch begun; test -e go || sleep 600'}}"

// TestServeEnds: a server that is killed, or stopped, leaves runs that go on.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, "ends")
			s := r.serve(t)
			p := s.dial(t)
			if _, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{Text: waitingPipeline}, RunID: r.id}); err != nil {
				t.Fatal(err)
			}
			if !eventually(func() bool { _, err := os.Stat(filepath.Join(r.dir, "begun")); return err == nil }) {
				t.Fatal("it never began")
			}
			s.stop(sig)
			if sig == syscall.SIGTERM {
				if end := p.await(t, method(rpc.RunComplete, r.id)); end.Params["status"] != "cancelled" || s.cmd.ProcessState.ExitCode() != 0 {
					t.Errorf("the end: %v, %v\n%s", end.Params, s.cmd.ProcessState, &s.said)
				}
			}
			write(t, r.dir, "go")
			again := r.serve(t)
			c := again.dial(t)
			if _, err := c.Resume(t.Context(), rpc.ResumeParams{Run: r.id}); err != nil {
				t.Fatal(err)
			}
			if end := c.await(t, method(rpc.RunComplete, r.id)); end.Params["status"] != "succeeded" {
				t.Errorf("the end: %v", end.Params)
			}
			if left := processesOf(r.id, r.home()); len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
		})
	}
}

// TestServeForeignRun: a run of another process is shown and followed, and not stopped.
func TestServeForeignRun(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "foreign")
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(askingPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	other := r.rpc(t).answering(t)
	if _, err := other.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{File: r.pipeline}, RunID: r.id}); err != nil {
		t.Fatal(err)
	}
	p := r.serve(t).dial(t)
	if _, err := p.Events(t.Context(), rpc.EventsParams{Run: r.id, Subscribe: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Cancel(t.Context(), r.id); err == nil || !strings.Contains(err.Error(), "is in use by process") {
		t.Errorf("it is stopped from elsewhere: %v", err)
	}
	for step, answer := range map[string]string{"sure": "", "form": `"there"`} {
		p.await(t, func(n note) bool { return n.Method == rpc.RunQuestion && n.Params["step"] == step })
		if got, err := p.Approve(t.Context(), rpc.ApproveParams{Run: r.id, Step: step, Answer: json.RawMessage(answer)}); err != nil || got.Status != "running" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if end := p.await(t, method(rpc.RunComplete, r.id)); end.Params["status"] != "succeeded" {
		t.Errorf("the end: %v", end.Params)
	}
}

// TestServeManyRuns: clients begin runs at the same time.
func TestServeManyRuns(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "many")
	s := r.serve(t)
	var all sync.WaitGroup
	for i := range 8 {
		p := s.dial(t)
		all.Go(func() {
			begun, err := p.Run(context.Background(), rpc.RunParams{Prompt: fmt.Sprint("Number ", i), Type: "claude", Options: simulated("")})
			if err != nil {
				t.Error(err)
				return
			}
			if done := p.await(t, method(rpc.AgentComplete, begun.Run)); done.Params["text"] != fmt.Sprint("Simulated claude answer to: Number ", i) {
				t.Errorf("run %d: %v", i, done.Params)
			}
			p.await(t, method(rpc.RunComplete, begun.Run))
		})
	}
	all.Wait()
}

// TestServeFlags: what is refused before anything is listened to.
func TestServeFlags(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "flags")
	for name, mode := range map[string]os.FileMode{"open": 0o644, "short": 0o600} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte("short\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--listen 0.0.0.0:0", "can be reached from other machines"},
		{"--listen [::]:0", "can be reached from other machines"},
		{"--listen :0", "can be reached from other machines"},
		{"--listen example.com:80", "can be reached from other machines"},
		{"--listen 127.0.0.1", "hint: HOST:PORT"},
		{"--listen 127.0.0.1:99999", "hint: another port"},
		{"--token-file open", "can be read by others"},
		{"--token-file short", "has no token"},
	} {
		out, err := r.command(append([]string{"serve"}, strings.Fields(c.args)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %s, %v", c.args, out, err)
		}
	}
}
