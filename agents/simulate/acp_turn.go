package simulate

import (
	"encoding/json"
	"errors"
	"time"

	"flow/agents"
)

// An acpTurn is one prompt: the voice of ACP, as far as all dialects share it.
type acpTurn struct {
	*turn
	acpVoice
	agent *acpAgent
	on    *acpSession
	id    json.RawMessage // of the prompt
	began time.Time
}

func (t *acpTurn) open() {}

// tell sends news of the session.
func (t *acpTurn) tell(update object) {
	t.send(t.agent.message(object{"method": "session/update", "params": object{"sessionId": t.session.ID, "update": update}}))
}

func (t *acpTurn) say(text string) { t.tell(chunk("agent_message_chunk", text)) }

func (t *acpTurn) answer(a answer) int {
	for _, piece := range chunks(a.text) {
		t.say(piece)
	}
	t.conclude("end_turn")
	return 0
}

// conclude answers the prompt.
func (t *acpTurn) conclude(reason string) {
	t.send(t.agent.message(object{"id": t.id, "result": t.result(reason)}))
}

func (t *acpTurn) fail(cause agents.Cause) int {
	switch problem := t.problem(cause).(type) {
	case string:
		t.conclude(problem)
	default:
		t.send(t.agent.message(object{"id": t.id, "error": problem}))
	}
	return 0
}

// interrupt ends a turn that the client or a signal stopped. Of a client that is gone
// nobody takes leave.
func (t *acpTurn) interrupt(cause error) int {
	if !errors.Is(cause, errStopped) {
		return 0
	}
	t.reopen()
	t.stopped()
	t.send(t.agent.message(object{"id": t.id, "result": object{"stopReason": "cancelled"}}))
	return 0
}

// consult asks the client about a call and returns the option that it chose, "" if it
// chose none.
func (t *acpTurn) consult(toolCall object, options []object) string {
	c := t.agent.call(t.odd, "session/request_permission", object{
		"sessionId": t.session.ID, "options": options, "toolCall": toolCall,
	}, t.withdraw)
	var answer struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	if c.err != nil || json.Unmarshal(c.result, &answer) != nil || answer.Outcome.Outcome != "selected" {
		return ""
	}
	return answer.Outcome.OptionID
}

// withdraw takes a request back. The protocol has a notification for that only as a draft.
func (t *acpTurn) withdraw(c *rpcCall) {
	t.send(t.agent.message(object{"method": "$/cancel_request", "params": object{"requestId": c.id}}))
}

// question asks the user through the client, as the draft of the protocol has it.
func (t *acpTurn) question() {
	c := t.agent.call(t.odd, "elicitation/create", object{
		"sessionId": t.session.ID, "mode": "form", "message": simulatedQuestion, "requestedSchema": object{
			"type": "object", "properties": object{"choice": object{"type": "string", "enum": []string{"A", "B"}}},
		},
	}, t.withdraw)
	var answer struct {
		Action  string `json:"action"`
		Content struct {
			Choice string `json:"choice"`
		} `json:"content"`
	}
	switch {
	case t.interrupted() != nil:
	case c.err != nil || json.Unmarshal(c.result, &answer) != nil || answer.Action != "accept":
		t.say("The question was not answered.")
	default:
		t.say("The question was answered: " + answer.Content.Choice)
	}
}

// unknown sends a request of a method that nobody knows.
func (t *acpTurn) unknown() {
	c := t.agent.call(t.odd, "simulated/request", object{"sessionId": t.session.ID}, t.withdraw)
	if t.interrupted() != nil {
		return
	}
	problem := ""
	if c.err != nil {
		problem = c.err.Message
	}
	t.say(unknownAnswered(problem))
}
