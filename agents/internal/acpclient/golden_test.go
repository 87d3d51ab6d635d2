package acpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"flow/agents"
	"flow/agents/internal/golden"
)

// A frame is one message of a recorded conversation.
type frame struct {
	Dir string          `json:"dir"` // <- from the agent, -> to it
	Msg json.RawMessage `json:"msg"`
}

func frames(t *testing.T, file string) []frame {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []frame
	for line := range bytes.Lines(data) {
		var f frame
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// wanted is what the clients of the recordings wanted beyond a new session.
func wanted(name string) Options {
	o := Options{
		Agent: "acp", Title: "the agent", Login: "log in", Prompt: "do it",
		Request: agents.Request{Dir: "/home/dev/project"},
	}
	switch name {
	case "20-acp-load-3":
		o.Request.Session = agents.Session{Mode: agents.SessionResume, ID: "d3da8cbd-91f3-4245-b830-1502b1463e64"}
	case "20-acp-setmode":
		o.Mode = "yolo"
	}
	return o
}

// TestRecorded reads the recordings as `flow translate` does, in both directions.
func TestRecorded(t *testing.T) {
	eachRecording(t, func(t *testing.T, name string, all []frame) {
		var events []agents.Event
		tr := translator(New(Options{Agent: "acp", Title: "the agent", Login: "log in"}), &events)
		for _, f := range all {
			if f.Dir == "->" {
				tr.Sent(f.Msg, agents.Native{})
			} else {
				tr.Stdout(f.Msg, agents.Native{})
			}
		}
		golden.Check(t, events, tr.End(agents.Exit{}))
		golden.File(t, "testdata/"+name+".golden", lines(events))
	})
}

// TestSpoken holds the conversations of the recordings with the agents' part alone: what
// the client writes stands in the files, between the lines that it answers. The lines of
// the process alone, read again without an answer to anything, come to the same outcome.
func TestSpoken(t *testing.T) {
	eachRecording(t, func(t *testing.T, name string, all []frame) {
		c, again := New(wanted(name)), New(wanted(name))
		var events, replayed []agents.Event
		tr, tr2 := translator(c, &events), translator(again, &replayed)
		var wire bytes.Buffer
		say := func() {
			for _, line := range c.Take() {
				fmt.Fprintf(&wire, "-> %s\n", line)
			}
		}
		c.Open()
		again.Open()
		say()
		prompts := 0
		for _, f := range all {
			if f.Dir == "->" {
				prompts += act(c, f.Msg, prompts)
			} else {
				fmt.Fprintf(&wire, "<- %s\n", summary(f.Msg))
				tr.Stdout(f.Msg, agents.Native{})
				tr2.Stdout(f.Msg, agents.Native{})
			}
			say()
		}
		golden.File(t, "testdata/"+name+".wire", wire.Bytes())
		out, out2 := tr.End(agents.Exit{Intent: agents.IntentDone}), tr2.End(agents.Exit{Intent: agents.IntentDone})
		golden.Check(t, events, out)
		golden.Check(t, replayed, out2)
		if diff := cmp.Diff(out, out2, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("read again, the lines come to another outcome (-live +again):\n%s", diff)
		}
	})
}

// wire is what the tests read of a message.
type wire struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		Prompt []struct {
			Text string `json:"text"`
		} `json:"prompt"`
		Update struct {
			Kind string `json:"sessionUpdate"`
		} `json:"update"`
	} `json:"params"`
	Result struct {
		Outcome struct {
			Option string `json:"optionId"`
		} `json:"outcome"`
	} `json:"result"`
}

// act lets the client do what the recorded one did, and returns how many prompts that were.
func act(c *Client, line []byte, prompts int) int {
	var m wire
	_ = json.Unmarshal(line, &m)
	switch {
	case m.Method == "session/prompt" && prompts > 0:
		c.Say(m.Params.Prompt[0].Text)
		return 1
	case m.Method == "session/prompt":
		return 1
	case m.Method == "session/cancel":
		c.Interrupt()
	case m.Method == "":
		v := agents.Verdict{Effect: agents.EffectDeny}
		if strings.Contains(m.Result.Outcome.Option, "once") {
			v.Effect = agents.EffectAllow
		}
		c.Decide(string(m.ID), v)
	}
	return 0
}

func summary(line []byte) string {
	var m wire
	_ = json.Unmarshal(line, &m)
	text := m.Method + " " + m.Params.Update.Kind
	switch {
	case m.Method == "" && len(m.Error) > 0:
		text = "error"
	case m.Method == "":
		text = "result"
	}
	if len(m.ID) > 0 {
		text += " " + string(m.ID)
	}
	return strings.TrimSpace(text)
}

func eachRecording(t *testing.T, run func(*testing.T, string, []frame)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) { run(t, name, frames(t, file)) })
	}
}

func translator(c *Client, events *[]agents.Event) *agents.Translator {
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return agents.NewTranslator(c, agents.Envelope{Agent: "acp"}, func() time.Time { return clock },
		func(e agents.Event) { *events = append(*events, e) })
}

func lines(events []agents.Event) []byte {
	var b []byte
	for _, e := range events {
		b = append(e.AppendJSON(b), '\n')
	}
	return b
}

// FuzzClient lets an agent say anything, answers whatever it asks, and interrupts it.
func FuzzClient(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.jsonl")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var in []byte
		for line := range bytes.Lines(data) {
			var r frame
			if json.Unmarshal(line, &r) == nil && r.Dir == "<-" {
				in = append(append(in, r.Msg...), '\n')
			}
		}
		f.Add(in, uint8(0))
	}
	f.Fuzz(func(t *testing.T, in []byte, answers uint8) {
		c := New(wanted("new"))
		var events []agents.Event
		tr := translator(c, &events)
		c.Open()
		told := 0
		for line := range bytes.Lines(in) {
			tr.Stdout(bytes.TrimSuffix(line, []byte("\n")), agents.Native{})
			for _, e := range events[told:] {
				if p, ok := e.Body.(agents.PermissionRequested); ok && answers&1 == 0 {
					effect := []string{agents.EffectAllow, agents.EffectDeny}[answers>>1&1]
					c.Decide(p.RequestID, agents.Verdict{Effect: effect, Interrupt: answers&4 != 0})
				}
			}
			told = len(events)
			for _, said := range c.Take() {
				if !json.Valid(said) || bytes.ContainsRune(said, '\n') {
					t.Fatalf("the client wrote %q", said)
				}
			}
		}
		golden.Check(t, events, tr.End(agents.Exit{}))
	})
}
