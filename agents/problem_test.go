package agents_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"flow/agents"
	"flow/agents/claude"
)

// A shortage is an error that says what is to be done.
type shortage struct{ error }

func (shortage) Hint() string { return "make room" }

// What every agent's end may mean is told in one place, whatever its dialog makes of it.
func TestEndsThatAreNoAgents(t *testing.T) {
	tests := map[string]struct {
		exit       agents.Exit
		cause      agents.Cause
		text, hint string
	}{
		"printed too much":             {agents.Exit{Code: -1, Signal: "KILL", Overflow: true}, agents.CauseOutputLimit, "output limit", "file"},
		"no room":                      {agents.Exit{Code: -1, Err: fmt.Errorf("cannot start: %w", shortage{errors.New("no memory")})}, agents.CauseSpawn, "no memory", "make room"},
		"not there, with its own hint": {agents.Exit{Code: -1, Err: errors.New("not found")}, agents.CauseSpawn, "not found", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := claude.Adapter{}
			var last agents.Event
			tr := agents.NewTranslator(a.Dialog(agents.Request{}), agents.Envelope{Agent: "claude"}, time.Now, func(e agents.Event) { last = e })
			out := tr.End(tt.exit)
			ended, ok := last.Body.(agents.SessionEnded)
			if !ok || ended.Cause != tt.cause || !strings.Contains(ended.Error, tt.text) || !strings.Contains(ended.Hint, tt.hint) {
				t.Errorf("the event: %+v", last.Body)
			}
			if (out.Problem == nil) != (tt.cause == "") || out.Problem != nil && out.Problem.Cause != tt.cause {
				t.Errorf("the outcome: %+v", out.Problem)
			}
		})
	}
}
