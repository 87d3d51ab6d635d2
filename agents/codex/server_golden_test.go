package codex

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

// recordedLine is a line of testdata/server: who wrote it, and what.
type recordedLine struct {
	Dir string          `json:"dir"` // in: from codex; out: to it
	Msg json.RawMessage `json:"msg"`
}

func recording(t testing.TB, file string) []recordedLine {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []recordedLine
	for line := range bytes.Lines(data) {
		var l recordedLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func recordings(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/server/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	return files
}

// TestServerRecordings holds the events of every recorded conversation against
// NAME.golden.
func TestServerRecordings(t *testing.T) {
	for _, file := range recordings(t) {
		name := strings.TrimSuffix(file, ".jsonl")
		t.Run(filepath.Base(name), func(t *testing.T) {
			var meta golden.Meta
			if data, err := os.ReadFile(name + ".meta.json"); err != nil || json.Unmarshal(data, &meta) != nil {
				t.Fatal(err)
			}
			compare(t, name+".golden", translated(t, recording(t, file), meta))
		})
	}
}

// translated are the events of a conversation that another client had.
func translated(t testing.TB, lines []recordedLine, meta golden.Meta) []byte {
	t.Helper()
	var events []agents.Event
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tr := agents.NewTranslator(Adapter{}.Dialog(agents.Request{Transport: transportServer}), agents.Envelope{Agent: "codex"},
		func() time.Time { return clock }, func(e agents.Event) { events = append(events, e) })
	for _, l := range lines {
		if l.Dir == "out" {
			tr.Sent(l.Msg, agents.Native{})
		} else {
			tr.Stdout(l.Msg, agents.Native{})
		}
	}
	for line := range strings.Lines(meta.Stderr) {
		tr.Stderr([]byte(strings.TrimSuffix(line, "\n")), agents.Native{})
	}
	golden.Check(t, events, tr.End(meta.AsExit()))
	var b []byte
	for _, e := range events {
		e.Native = nil
		b = append(e.AppendJSON(b), '\n')
	}
	return b
}

// TestServerSpeaks holds what flow writes, when codex says what was recorded and people
// decide as they did then, against NAME.sent and against codex's own schema.
func TestServerSpeaks(t *testing.T) {
	schema := readSchema(t)
	for _, file := range recordings(t) {
		name := strings.TrimSuffix(file, ".jsonl")
		t.Run(filepath.Base(name), func(t *testing.T) {
			sent := conversed(recording(t, file))
			schema.sent(t, sent)
			compare(t, name+".sent", append(bytes.Join(sent, []byte("\n")), '\n'))
		})
	}
}

// conversed returns what a conversation writes in the place of the recorded client.
func conversed(lines []recordedLine) [][]byte {
	r := agents.Request{Prompt: "Do it.", Dir: "/home/dev/project", Transport: transportServer}
	c := Adapter{}.Dialog(r).(*Conversation)
	c.Open()
	sent := c.Take()
	turns := 0
	for _, l := range lines {
		if l.Dir == "in" {
			c.Line(l.Msg)
		} else {
			turns += stand(c, l.Msg, turns)
		}
		sent = append(sent, c.Take()...)
	}
	return sent
}

// stand does what a line of the recorded client did, and returns how many turns it began.
func stand(c *Conversation, line []byte, turns int) int {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Input []textInput `json:"input"`
		} `json:"params"`
		Result struct {
			Decision any    `json:"decision"`
			Action   string `json:"action"`
		} `json:"result"`
	}
	_ = json.Unmarshal(line, &m) // what is no JSON was no message of the client either
	switch {
	case m.Method == "turn/interrupt":
		c.Interrupt()
	case m.Method == "turn/start" && turns > 0:
		c.Say(m.Params.Input[0].Text)
		return 1
	case m.Method == "turn/start":
		return 1
	case m.Method == "" && m.ID != nil:
		yes := m.Result.Action == accept || m.Result.Decision != decline && m.Result.Decision != cancel && m.Result.Action == ""
		v := agents.Verdict{Effect: agents.EffectDeny, Interrupt: m.Result.Decision == cancel}
		if yes {
			v = agents.Verdict{Effect: agents.EffectAllow}
		}
		c.Decide(string(m.ID), v)
	}
	return 0
}

// compare holds got against a file; -update writes it instead.
func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); after a look, go test -update:\n%s", file, diff)
	}
}

// FuzzConversation feeds arbitrary lines to a conversation whose turn asks, decides what
// it is asked, and demands what holds for every stream.
func FuzzConversation(f *testing.F) {
	for _, file := range recordings(f) {
		var stdout []byte
		for _, l := range recording(f, file) {
			if l.Dir == "in" {
				stdout = append(append(stdout, l.Msg...), '\n')
			}
		}
		f.Add(stdout, true)
	}
	f.Fuzz(func(t *testing.T, stdout []byte, allow bool) {
		var events []agents.Event
		r := agents.Request{Prompt: "Do it.", Dir: "/w", Transport: transportServer, RuleDefault: agents.EffectAsk}
		c := Adapter{}.Dialog(r).(*Conversation)
		c.Open()
		tr := agents.NewTranslator(c, agents.Envelope{Agent: "codex"}, time.Now, func(e agents.Event) { events = append(events, e) })
		effect := agents.EffectDeny
		if allow {
			effect = agents.EffectAllow
		}
		for line := range bytes.Lines(stdout) {
			tr.Stdout(bytes.TrimSuffix(line, []byte("\n")), agents.Native{})
			tr.Stderr(bytes.TrimSuffix(line, []byte("\n")), agents.Native{})
			for len(c.pending) > 0 {
				c.Decide(string(c.pending[0].id), agents.Verdict{Effect: effect})
			}
			for _, sent := range c.Take() {
				if !json.Valid(sent) || bytes.ContainsRune(sent, '\n') {
					t.Fatalf("flow wrote %q", sent)
				}
			}
		}
		golden.Check(t, events, tr.End(agents.Exit{}))
	})
}
