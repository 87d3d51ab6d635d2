package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flow/agents"
	"flow/agents/codex"
	"flow/cmd/flow/internal/scriptmodel"
)

// A partner is a real codex app-server, spoken with as flow does, a line at a time.
type partner struct {
	*codex.Conversation
	t      *testing.T
	in     io.WriteCloser
	out    *bufio.Reader
	cmd    *exec.Cmd
	events []agents.Event
}

// talkTo starts codex in a lab for a request.
func talkTo(t *testing.T, l *lab, r agents.Request) *partner {
	t.Helper()
	r.Dir, r.Scratch, r.Transport = l.work, l.dir, "app-server"
	c, err := codex.Adapter{}.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &partner{Conversation: codex.Adapter{}.Dialog(r).(*codex.Conversation), t: t}
	path, _, _ := strings.Cut(strings.TrimPrefix(l.env[0], "PATH="), string(os.PathListSeparator))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // after which it is killed, and until fails
	t.Cleanup(cancel)
	p.cmd = exec.CommandContext(ctx, filepath.Join(path, "codex"), c.Args...)
	p.cmd.Dir, p.cmd.Env = c.Dir, l.env
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	l.net.do(func() { err = p.cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	p.Open()
	return p
}

// until goes on until done, which is asked after every line.
func (p *partner) until(done func() bool) {
	p.t.Helper()
	for !done() {
		for _, line := range p.Take() {
			if _, err := p.in.Write(append(line, '\n')); err != nil {
				p.t.Fatal(err)
			}
		}
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("codex is gone: %v; it said %+v", err, p.events)
		}
		p.events = append(p.events, p.Line(line)...)
	}
}

// reply makes a call and returns what codex answers.
func (p *partner) reply(id int64) codex.Reply {
	p.t.Helper()
	var replies []codex.Reply
	p.until(func() bool { replies = append(replies, p.Replies()...); return len(replies) > 0 })
	if replies[0].ID != id || replies[0].Error != "" {
		p.t.Errorf("call %d was answered %+v", id, replies[0])
	}
	return replies[0]
}

// close ends codex and returns the outcome.
func (p *partner) close() agents.Outcome {
	p.t.Helper()
	if err := p.in.Close(); err != nil {
		p.t.Error(err)
	}
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
	return p.End(agents.Exit{})
}

// scripted are the arguments of a profile whose provider is the lab's model.
func (l *lab) scripted() []string {
	return []string{
		"-c", "model_provider=scripted",
		"-c", `model_providers.scripted={name="scripted",base_url="` + l.url + `/v1",wire_api="responses",env_key="CODEX_API_KEY"}`,
	}
}

// TestRealCodexConversation steers a turn, goes on in the same process, has a review made,
// and makes the calls that codex has beside turns.
func TestRealCodexConversation(t *testing.T) {
	script := func(r scriptmodel.Request) scriptmodel.Turn {
		last := r.Items[len(r.Items)-1]
		switch {
		case r.Contains("Hurry!") && last.Text != "And now?" && !r.Contains("review"):
			return final("", "I hurried.")
		case last.Text == "And now?":
			return final("", "Now this.")
		case results(r) == 0 && r.Contains("Take your time."):
			return scriptmodel.Turn{Calls: []scriptmodel.ToolCall{bash("touch begun; sleep 1")}}
		}
		return final("", `{"findings":[],"overall_correctness":"patch is correct","overall_explanation":"All is well.","overall_confidence_score":1}`)
	}
	l := newLab(t, realCLIs(t), buildFlow(t), scriptmodel.New(script, nil))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		git := exec.Command("git", args...)
		git.Dir, git.Env = l.work, l.env
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	p := talkTo(t, l, agents.Request{Prompt: "Take your time.", Model: "gpt-5.5", Args: l.scripted()})
	p.until(func() bool { return has[agents.ToolStarted](p.events) })
	if !p.Say("Hurry!") {
		t.Error("the turn does not listen")
	}
	p.until(p.Ended)
	thread := p.SessionID()
	if !p.Say("And now?") {
		t.Error("there is no next turn")
	}
	p.until(p.Ended)
	if !strings.Contains(said(p.events), "I hurried.") || !strings.Contains(said(p.events), "Now this.") {
		t.Errorf("the model said %q", said(p.events))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(p.reply(p.ListThreads(l.work, 5)).Result, &list); err != nil || len(list.Data) != 1 || list.Data[0].ID != thread {
		t.Errorf("threads: %+v, %v", list, err)
	}
	for _, call := range []func() int64{func() int64 { return p.ReadThread(thread) }, p.ListModels, p.CleanTerminals} {
		p.reply(call())
	}
	if !p.Review(codex.ReviewTarget{Type: "uncommittedChanges"}) {
		t.Error("there is no review")
	}
	p.until(p.Ended)
	p.reply(p.ArchiveThread(thread))
	if out := p.close(); out.Reason != agents.Completed || !strings.Contains(out.Text, "All is well.") {
		t.Errorf("%+v", out)
	}
}

// TestRealCodexKey demands that a key in the environment logs app-server in, and that it is
// not stored.
func TestRealCodexKey(t *testing.T) {
	l := newLab(t, realCLIs(t), buildFlow(t), scriptmodel.New(func(scriptmodel.Request) scriptmodel.Turn { return final("", "Hello.") }, nil))
	p := talkTo(t, l, agents.Request{
		Prompt: "Say hello.", Model: "gpt-5.5", Key: "CODEX_API_KEY", RuleDefault: "deny", Args: []string{"-c", "openai_base_url=" + l.url + "/v1"},
	})
	p.until(p.Ended)
	if out := p.close(); out.Text != "Hello." {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "codex", "auth.json")); !os.IsNotExist(err) {
		t.Errorf("auth.json: %v", err)
	}
}

func has[B agents.Body](events []agents.Event) bool {
	for _, e := range events {
		if _, ok := e.Body.(B); ok {
			return true
		}
	}
	return false
}

func said(events []agents.Event) string {
	var b strings.Builder
	for _, e := range events {
		if chunk, ok := e.Body.(agents.TextChunk); ok {
			b.WriteString(chunk.Content)
		}
	}
	return b.String()
}
