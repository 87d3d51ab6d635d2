package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// awaited reports whether somebody waits for what a line of a two-way protocol says, or for
// the answer to it, of which only the beginning is known: it is a request, a response or the
// end of a turn. Without having read it the conversation cannot go on.
//
// Those lines have their id, or their type, in front of the members that can be long.
func awaited(head []byte) bool {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for {
		key, err := d.Token()
		if err != nil || key == json.Delim('}') {
			return false
		}
		if key == "id" {
			return true
		}
		value, err := d.Token()
		if err != nil {
			return false
		}
		if key == "type" {
			text, _ := value.(string)
			return slices.Contains([]string{"control_request", "control_response", "result"}, text)
		}
		if _, nested := value.(json.Delim); nested {
			return false
		}
	}
}

// Stuck reports whether the conversation cannot go on, because a line was too long to be
// read that one side waits for. The process is then to be ended; [Translator.End] says why.
func (t *Translator) Stuck() bool { return t.stuck > 0 }

// untold is the problem of a conversation that is stuck.
func (t *Translator) untold(agent string) *Problem {
	return &Problem{
		Agent: agent, Cause: CauseProtocol,
		Message: fmt.Sprintf("it said %d bytes in one line that wants an answer, or is one, and so long a line is not read", t.stuck),
		Hint:    "ask for less at once; what is that long belongs in a file",
	}
}
