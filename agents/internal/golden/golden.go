// Package golden tests an adapter on recorded streams of its real CLI: the events
// they become stand in files beside them, and what must hold for any stream holds
// for each.
package golden

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
	"github.com/valyala/fastjson"

	"flow/agents"
)

var update = flag.Bool("update", false, "write the golden files anew") //nolint:gochecknoglobals // a test flag

// Meta is what a recording's NAME.meta.json says of the process.
type Meta struct {
	Argv   []string        `json:"argv"`
	Exit   *int            `json:"exit"`   // negative: killed by that signal
	Signal json.RawMessage `json:"signal"` // name or number of the signal sent, or null
	Stderr string          `json:"stderr"`
}

// AsExit is the process's end as a Dialog is told of it.
func (m Meta) AsExit() agents.Exit {
	e := agents.Exit{Stderr: m.Stderr}
	switch {
	case m.Exit != nil && *m.Exit >= 0:
		e.Code = *m.Exit
	case m.Exit != nil:
		e.Code, e.Signal = -1, agents.SignalName(-*m.Exit)
	default:
		var name string
		if json.Unmarshal(m.Signal, &name) == nil && name != "" {
			e.Code, e.Signal = -1, strings.TrimPrefix(name, "SIG")
		}
	}
	return e
}

// Run translates every NAME.jsonl under dir and holds the events against
// NAME.golden; with -update it writes them instead.
func Run(t *testing.T, a agents.Adapter, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s (%v)", dir, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".jsonl")
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := Translate(t, a, read(t, file), meta(t, name+".meta.json"))
			if *update {
				if err := os.WriteFile(name+".golden", got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(read(t, name+".golden")), string(got)); diff != "" {
				t.Errorf("events differ (-want +got); after a look, go test -update:\n%s", diff)
			}
		})
	}
}

// Translate returns the events of one recorded stream as JSON Lines, having
// checked what must hold for every stream.
func Translate(t testing.TB, a agents.Adapter, stdout []byte, m Meta) []byte {
	t.Helper()
	text, _ := translate(t, a, stdout, m)
	return text
}

// translate is Translate, with how the process came out.
func translate(t testing.TB, a agents.Adapter, stdout []byte, m Meta) ([]byte, agents.Outcome) {
	t.Helper()
	var events []agents.Event
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tr := agents.NewTranslator(a.Dialog(agents.Request{}), agents.Envelope{Agent: a.Info().Name},
		func() time.Time { return clock },
		func(e agents.Event) { events = append(events, e) })
	feed(tr.Stdout, stdout)
	feed(tr.Stderr, []byte(m.Stderr))
	out := tr.End(m.AsExit())
	Check(t, events, out)
	var b []byte
	for _, e := range events {
		b = append(e.AppendJSON(b), '\n')
	}
	return b, out
}

func feed(line func([]byte, agents.Native), data []byte) {
	var offset int64
	for l := range bytes.Lines(data) {
		text := bytes.TrimSuffix(l, []byte("\n"))
		line(text, agents.Native{Offset: offset, Length: int64(len(text))})
		offset += int64(len(l))
	}
}

// Check holds what is true of every stream, hostile ones included: every event is
// one line of valid JSON, each tool starts once and ends once, SessionEnded stands
// once and last, and what is not completed says why.
func Check(t testing.TB, events []agents.Event, out agents.Outcome) {
	t.Helper()
	open := map[string]bool{}
	for i, e := range events {
		if text := e.AppendJSON(nil); !json.Valid(text) || bytes.ContainsRune(text, '\n') {
			t.Fatalf("event %d is no line of JSON: %s", i, text)
		}
		switch b := e.Body.(type) {
		case agents.ToolStarted:
			open[b.ToolID] = true
		case agents.ToolCompleted:
			if !open[b.ToolID] {
				t.Errorf("tool %q ends without a start", b.ToolID)
			}
			delete(open, b.ToolID)
		case agents.SessionEnded:
			if i != len(events)-1 {
				t.Errorf("sessionEnded is event %d of %d", i+1, len(events))
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("tools left open: %v", open)
	}
	if n := len(events); n == 0 || events[n-1].Type != "sessionEnded" {
		t.Error("no sessionEnded at the end")
	}
	if (out.Reason == agents.Completed) != (out.Problem == nil) {
		t.Errorf("reason %q with problem %v", out.Reason, out.Problem)
	}
	if out.Problem != nil && (out.Problem.Cause == "" || out.Problem.Message == "") {
		t.Errorf("a problem without cause or message: %+v", out.Problem)
	}
}

// Fuzz feeds arbitrary bytes to the adapter's dialog, seeded with the recordings. Without a
// line of the type terminal, which ends a turn, nothing is a success.
func Fuzz(f *testing.F, a agents.Adapter, dir, terminal string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && len(data) < 64<<10 {
			f.Add(data, 0)
		}
	}
	f.Fuzz(func(t *testing.T, stdout []byte, exit int) {
		_, out := translate(t, a, stdout, Meta{Exit: &exit})
		if out.Problem == nil && !hasLine(stdout, terminal) {
			t.Errorf("a success without a line of type %s", terminal)
		}
	})
}

// hasLine says whether a line of stdout is an object of that type. It reads as leniently as
// the adapters, which take numbers, control characters and white space that encoding/json refuses.
func hasLine(stdout []byte, typ string) bool {
	for line := range bytes.Lines(stdout) {
		if v, err := fastjson.ParseBytes(bytes.TrimSpace(line)); err == nil && string(v.GetStringBytes("type")) == typ {
			return true
		}
	}
	return false
}

func meta(t testing.TB, file string) Meta {
	t.Helper()
	var m Meta
	if err := json.Unmarshal(read(t, file), &m); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
