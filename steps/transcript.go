package steps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// transcript is the template function of that name: what a step's agent said and did, as
// text that another vendor's agent can read.
func (a *attempt) transcript(id string) (string, error) {
	step, err := instance(a.task.Inputs[id])
	if err != nil {
		return "", err
	}
	return a.transcriptOf(step)
}

// transcriptOf is the transcript of the attempts of one node, without those by a plan that
// the run no longer follows.
func (a *attempt) transcriptOf(step string) (string, error) {
	span, ok := a.x.recorder.span(step)
	if !ok {
		return "", nil
	}
	t := transcript{step: step, from: a.x.ledger.get(step).first, last: span.last}
	err := a.x.Events(span.first-1, func(line []byte) error {
		if !bytes.Contains(line, []byte(step)) {
			return nil // cheaper than reading it
		}
		return t.event(line)
	})
	if errors.Is(err, errTold) {
		err = nil
	}
	return strings.TrimSpace(t.text.String()), err
}

// errTold ends the reading of events: none of those that follow is the step's.
var errTold = errors.New("all is told")

// instance is the path of the attempts that an input's result is of: those of the last
// round of a loop, of the winner of a contest.
func instance(in dag.Input) (string, error) {
	r, err := DecodeResult(in.Result)
	if err != nil {
		return "", err
	}
	path := in.Path
	if in.Rounds > 0 {
		path += "." + strconv.Itoa(in.Rounds)
	}
	if r.Winner != nil {
		path += "." + strconv.Itoa(*r.Winner)
	}
	return path, nil
}

type transcript struct {
	step string
	from int   // attempts before this one do not count
	last int64 // the number of its last event
	text strings.Builder
}

// A toldEvent is what a transcript tells of an event.
type toldEvent struct {
	Seq        int64  `json:"seq"`
	Step       string `json:"step"`
	Attempt    int    `json:"attempt"`
	Type       string `json:"type"`
	Content    string `json:"content"`
	IsPartial  bool   `json:"isPartial"`
	Role       string `json:"role"`
	NativeName string `json:"nativeName"`
	Target     string `json:"target"`
	Error      string `json:"error"`
	FilePath   string `json:"filePath"`
	ChangeType string `json:"changeType"`
}

// event adds what an event says, if it is the step's.
func (t *transcript) event(line []byte) error {
	var e toldEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("an event cannot be read: %w", err)
	}
	if e.Step == t.step && e.Attempt >= t.from {
		if err := t.tell(e); err != nil {
			return err
		}
	}
	if e.Seq >= t.last {
		return errTold
	}
	return nil
}

func (t *transcript) tell(e toldEvent) error {
	switch e.Type {
	case "textChunk":
		if e.Role == "assistant" {
			t.text.WriteString(e.Content)
			if !e.IsPartial {
				t.text.WriteByte('\n')
			}
		}
	case "toolStarted":
		fmt.Fprintf(&t.text, "\n[%s %s]\n", e.NativeName, e.Target)
	case "toolCompleted":
		if e.Error != "" {
			fmt.Fprintf(&t.text, "[failed: %s]\n", e.Error)
		}
	case "fileChanged":
		fmt.Fprintf(&t.text, "[%s %s]\n", e.ChangeType, e.FilePath)
	}
	if t.text.Len() > pipeline.MaxRenderedBytes {
		return fmt.Errorf("the transcript of %s is longer than %d MiB; use .steps.%s.text", t.step, pipeline.MaxRenderedBytes>>20, t.step)
	}
	return nil
}
