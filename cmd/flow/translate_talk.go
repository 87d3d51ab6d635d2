package main

import (
	"encoding/json"

	"flow/agents"
)

// A message is one line of a recorded conversation with an agent: who wrote it, and what.
type message struct {
	Dir string          `json:"dir"` // in or <-: from the agent; out or ->: to it
	Msg json.RawMessage `json:"msg"` // text that is no JSON is a JSON string
}

// recorded returns what takes the lines of a conversation that was recorded in both
// directions. A line without a direction is the agent's.
func recorded(tr *agents.Translator) func([]byte, agents.Native) {
	return func(line []byte, at agents.Native) {
		var m message
		if json.Unmarshal(line, &m) != nil || m.Msg == nil {
			tr.Stdout(line, at)
			return
		}
		var text string
		if json.Unmarshal(m.Msg, &text) == nil {
			m.Msg = json.RawMessage(text)
		}
		if m.Dir == "out" || m.Dir == "->" {
			tr.Sent(m.Msg, at)
			return
		}
		tr.Stdout(m.Msg, at)
	}
}
