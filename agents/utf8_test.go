package agents_test

import (
	"bytes"
	"testing"
	"time"

	"flow/agents"
)

// echo is a dialog that takes every line for a text.
type echo struct{}

func (echo) Line(line []byte) []agents.Event {
	return []agents.Event{{Body: agents.TextChunk{Content: string(line), Role: "assistant"}}}
}
func (echo) Stderr([]byte) []agents.Event { return nil }
func (echo) End(agents.Exit) agents.Outcome {
	return agents.Outcome{Reason: agents.Completed, Text: "done"}
}

// A line that is no UTF-8 keeps its event, and its bytes are kept beside it.
func TestNoUTF8(t *testing.T) {
	var got []agents.Event
	tr := agents.NewTranslator(echo{}, agents.Envelope{}, time.Now, func(e agents.Event) { got = append(got, e) })
	line := []byte("caf\xe9\x00")
	tr.Stdout(line, agents.Native{Length: int64(len(line))})
	tr.Stdout([]byte("plain\x00"), agents.Native{})
	tr.End(agents.Exit{})
	types := []string{"malformed", "textChunk", "textChunk", "system", "sessionEnded"}
	if len(got) != len(types) {
		t.Fatalf("%d events, want %d", len(got), len(types))
	}
	for i, want := range types {
		if got[i].Type != want {
			t.Errorf("event %d is %s, want %s", i, got[i].Type, want)
		}
	}
	if m := got[0].Body.(agents.Malformed); !bytes.Equal(m.Raw, line) || m.Truncated {
		t.Errorf("kept %q", m.Raw)
	}
}
