package simulate

import (
	"encoding/json"
	"fmt"
	"os"
)

// A journalLine is one line of FLOW_SIMULATE_LOG. Every turn that begins writes
// one, and every turn that is completed a second one with Done set, once its
// result is printed.
type journalLine struct {
	Agent   string   `json:"agent"`
	Session string   `json:"session"`
	Mode    string   `json:"mode"` // new, resume or fork
	Turn    int      `json:"turn"` // of the session, from 1
	Prompt  string   `json:"prompt"`
	Args    []string `json:"args"`
	Done    bool     `json:"done,omitempty"`
}

// note appends a line to the log, if there is one, in a single write.
func (t *turn) note(done bool) error {
	file := t.env(EnvLog)
	if file == "" {
		return nil
	}
	line, err := json.Marshal(journalLine{
		Agent: t.name, Session: t.session.ID, Mode: t.mode, Turn: t.session.turn(),
		Prompt: t.prompt, Args: t.args, Done: done,
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("flow simulate: cannot write %s: %w", EnvLog, err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
