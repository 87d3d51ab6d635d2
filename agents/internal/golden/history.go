package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// RunHistory reads every session NAME.jsonl under dir and holds its events and its summary
// against NAME.golden; with -update it writes them instead.
func RunHistory(t *testing.T, k agents.SessionKeeper, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions in %s (%v)", dir, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".jsonl")
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := Recall(t, k, read(t, file))
			if *update {
				if err := os.WriteFile(name+".golden", []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(read(t, name+".golden")), got); diff != "" {
				t.Errorf("events differ (-want +got); after a look, go test -update:\n%s", diff)
			}
		})
	}
}

// Recall returns the events of a stored session and its summary as JSON Lines, having
// checked what must hold for every session: each event is one line of valid JSON, and each
// tool starts once and ends once.
func Recall(t testing.TB, k agents.SessionKeeper, data []byte) string {
	t.Helper()
	var b strings.Builder
	open, told := map[string]bool{}, map[string]bool{}
	r := agents.NewHistoryReader(k.History(), "agent", func(e agents.Event) {
		text := string(e.AppendJSON(nil))
		if !json.Valid([]byte(text)) || strings.Contains(text, "\n") {
			t.Fatalf("no line of JSON: %s", text)
		}
		b.WriteString(text + "\n")
		switch body := e.Body.(type) {
		case agents.ToolStarted:
			if told[body.ToolID] {
				t.Errorf("tool %q starts twice", body.ToolID)
			}
			open[body.ToolID], told[body.ToolID] = true, true
		case agents.ToolCompleted:
			if !open[body.ToolID] {
				t.Errorf("tool %q ends without a start", body.ToolID)
			}
			delete(open, body.ToolID)
		case agents.SessionEnded:
			t.Error("a stored session has no end")
		}
	})
	feed(r.Line, data)
	summary := r.End()
	if len(open) > 0 {
		t.Errorf("tools left open: %v", open)
	}
	text, err := json.Marshal(summary)
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + string(text) + "\n"
}

// Told reads a session and returns each of its events as a short line, but for the
// sessionStarted and the counts of tokens; and its summary.
func Told(t testing.TB, k agents.SessionKeeper, session string) ([]string, agents.SessionSummary) {
	t.Helper()
	Recall(t, k, []byte(session))
	var told []string
	r := agents.NewHistoryReader(k.History(), "agent", func(e agents.Event) {
		if line := brief(e.Body); line != "" {
			told = append(told, line)
		}
	})
	feed(r.Line, []byte(session))
	return told, r.End()
}

func brief(b agents.Body) string {
	switch b := b.(type) {
	case agents.SessionStarted, agents.UsageReport, agents.TurnStarted, agents.TurnCompleted:
		return ""
	case agents.TextChunk:
		return b.Role + ": " + b.Content
	case agents.Reasoning:
		return "reasoning: " + b.Content
	case agents.ToolStarted:
		return strings.TrimSpace(string(b.ToolName) + ": " + b.NativeName + " " + b.Target)
	case agents.ToolCompleted:
		switch {
		case b.Success:
			return "done: " + string(b.Result)
		case b.Declined:
			return "declined: " + b.Error
		}
		return "failed: " + b.Error
	case agents.FileChanged:
		return string(b.ChangeType) + ": " + b.FilePath
	case agents.System:
		return strings.TrimSpace(b.Subtype + ": " + b.Message)
	case agents.Error:
		return string(b.Cause) + ": " + b.Message
	case agents.Subagent:
		return b.SubagentID + ": " + b.Message
	case agents.Unknown:
		return "unknown: " + b.NativeType
	}
	return b.Type()
}

// FuzzHistory reads arbitrary bytes as a session, seeded with those under dir.
func FuzzHistory(f *testing.F, k agents.SessionKeeper, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { Recall(t, k, data) })
}
