package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"flow/agents"
	"flow/state"
)

// recordedEvents calls line for every event of the session that runs recorded: those of the
// latest run that had part in it, which has what it took over from others too.
func (a *app) recordedEvents(s *session, line func([]byte) error) error {
	v, err := a.view(s.Steps[len(s.Steps)-1].Run)
	if err != nil {
		return err
	}
	r := recall{view: v, session: s.ID, line: line}
	id := agents.AppendString(nil, s.ID)
	return v.Events(func(line []byte) error {
		if !bytes.Contains(line, id) {
			return nil // cheaper than reading it
		}
		return r.event(line)
	})
}

// A recall picks the events of one session from those of a run, and adds the prompts. Most
// agents do not repeat these, and then they stand in no event.
type recall struct {
	view    *state.View
	session string
	line    func([]byte) error
	prompt  agents.Event // of the process that just began, until something is said
}

func (r *recall) event(text []byte) error {
	var e struct {
		Session string         `json:"sessionId"`
		Type    string         `json:"type"`
		Role    string         `json:"role"`
		Native  *agents.Native `json:"native"`
	}
	if err := json.Unmarshal(text, &e); err != nil || e.Session != r.session {
		return err
	}
	switch {
	case e.Type == "sessionStarted" && e.Native != nil:
		if err := r.line(text); err != nil {
			return err
		}
		return r.began(text, e.Native.File)
	case e.Type == "textChunk" && e.Role == "user":
		r.prompt.Body = nil // the agent repeats it
	case e.Type == "textChunk", e.Type == "reasoning", e.Type == "toolStarted", e.Type == "sessionEnded":
		if err := r.say(); err != nil {
			return err
		}
	}
	return r.line(text)
}

// began keeps the prompt of the process that wrote the file output.
func (r *recall) began(started []byte, output string) error {
	prompt, err := r.view.File(strings.TrimSuffix(output, ".stdout") + ".prompt")
	if err != nil {
		return nil //nolint:nilerr // it may have been removed; what was said is still to be told
	}
	if err := json.Unmarshal(started, &r.prompt); err != nil {
		return err
	}
	body := agents.TextChunk{Content: string(prompt), Role: "user"}
	r.prompt.ID += ".prompt"
	r.prompt.Type, r.prompt.Native, r.prompt.Body = body.Type(), nil, body
	return nil
}

// say tells the prompt, if the agent has not.
func (r *recall) say() error {
	if r.prompt.Body == nil {
		return nil
	}
	text := r.prompt.AppendJSON(nil)
	r.prompt.Body = nil
	return r.line(text)
}
