package simulate

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// askUser is the tool with which the model asks the user to choose.
const askUser = "AskUserQuestion"

// A claudeAsk is a request to the client that waits for its answer. The methods of a nil
// one do nothing: an answer to nothing is ignored.
type claudeAsk struct {
	id       string
	answered chan struct{}
	response json.RawMessage // what the client says
	problem  string          // or why it says nothing
}

// take takes the answer, if it is the one to this request.
func (a *claudeAsk) take(response json.RawMessage) {
	var r struct {
		Subtype   string          `json:"subtype"`
		RequestID string          `json:"request_id"`
		Response  json.RawMessage `json:"response"`
		Error     string          `json:"error"`
	}
	if a == nil || json.Unmarshal(response, &r) != nil || r.RequestID != a.id {
		return
	}
	a.response = r.Response
	if r.Subtype == "error" {
		a.fail("Error: " + r.Error)
		return
	}
	a.end()
}

// fail ends the wait without an answer.
func (a *claudeAsk) fail(problem string) {
	if a != nil && !a.over() {
		a.problem = problem
		a.end()
	}
}

func (a *claudeAsk) end() {
	if !a.over() {
		close(a.answered)
	}
}

func (a *claudeAsk) over() bool {
	select {
	case <-a.answered:
		return true
	default:
		return false
	}
}

// ask sends a request to the client and waits for the answer. The turn may have been
// interrupted when it returns.
func (k *claudeTalk) ask(request object) *claudeAsk {
	a := &claudeAsk{id: uuid.NewString(), answered: make(chan struct{})}
	if k.odd.id0 {
		a.id = strconv.Itoa(k.requested)
	}
	k.requested++
	k.asked = a
	line := object{"type": "control_request", "request_id": a.id, "request": request}
	k.send(line)
	if k.odd.duplicate {
		k.send(line)
	}
	switch {
	case k.odd.dies:
		crash(syscall.SIGSEGV)
	case k.odd.withdraws:
		k.withdraw()
	case k.closed():
		k.heard(nil)
	}
	k.attend(k.ctx, a.answered)
	if k.interrupted() != nil {
		k.withdraw()
	}
	k.asked = nil
	return a
}

// withdraw takes back the request that waits.
func (k *claudeTalk) withdraw() {
	if k.asked != nil && !k.asked.over() {
		k.put(object{"type": "control_cancel_request", "request_id": k.asked.id})
		k.asked.fail("AbortError: the request was taken back")
	}
}

// A hookVerdict is what the client's hooks say of a call.
type hookVerdict struct {
	Decision string          `json:"permissionDecision"` // allow, deny, ask or ""
	Reason   string          `json:"permissionDecisionReason"`
	Input    json.RawMessage `json:"updatedInput"`
}

// permit asks the client about a call whose beginning is printed: its hooks first, and
// then, if these or the flags want that, whether the tool may be used.
func (k *claudeTalk) permit(x call) (call, bool) {
	v := k.hooked(k.claudeCall(x))
	if k.interrupted() != nil {
		return x, false
	}
	x = k.adopt(x, v.Input)
	r := k.rule(x)
	switch {
	case v.Decision == "deny":
		name, _ := k.claudeCall(x)
		k.deny(x, "PreToolUse:"+name+" hook error: "+v.Reason, object{"source": "hook", "reason_type": "hook"})
		return x, false
	case r.firm:
		k.refuse(x, r)
		return x, false
	case v.Decision == "allow" && !k.odd.asks:
		k.consent = object{"decision": "accept", "source": "hook", "reason_type": "hook"}
		return x, true
	case r.why == "" && v.Decision != "ask" && !k.odd.asks:
		return x, true
	case k.interactive() && (r.asks || v.Decision == "ask" || k.odd.asks):
		return k.canUse(x, k.reasons(x, v))
	}
	if r.why == "" {
		r.why = "This command requires approval"
	}
	k.refuse(x, r)
	return x, false
}

// hooked asks the client's hooks about a call of a tool. A denial is the last word.
func (k *claudeTalk) hooked(name string, input object) hookVerdict {
	var out hookVerdict
	for _, h := range k.hooks {
		if !h.covers(name) {
			continue
		}
		for _, id := range h.IDs {
			v := k.callback(id, name, input)
			if v.Decision != "" || v.Input != nil {
				out = v
			}
			if v.Decision == "deny" || k.interrupted() != nil {
				return v
			}
		}
	}
	return out
}

// callback asks one hook.
func (k *claudeTalk) callback(id, name string, input object) hookVerdict {
	a := k.ask(object{"subtype": "hook_callback", "callback_id": id, "tool_use_id": k.pending, "input": object{
		"session_id": k.session.ID, "transcript_path": k.store.path(k.session.ID), "cwd": k.dir, "prompt_id": uuid.NewString(),
		"permission_mode": k.args.mode, "effort": object{"level": "medium"}, "hook_event_name": "PreToolUse",
		"tool_name": name, "tool_input": input, "tool_use_id": k.pending,
	}})
	var answer struct {
		Output hookVerdict `json:"hookSpecificOutput"`
	}
	if json.Unmarshal(a.response, &answer) != nil {
		return hookVerdict{} // no opinion
	}
	return answer.Output
}

// reasons are the parts of can_use_tool that say why it is asked.
func (k *claudeTalk) reasons(x call, v hookVerdict) object {
	if v.Decision == "ask" {
		return object{
			"decision_reason": v.Reason, "decision_reason_type": "hook", "decision_reason_hook_event": "PreToolUse",
			"decision_reason_hook_source": "settings",
		}
	}
	mode := object{"type": "setMode", "mode": "acceptEdits", "destination": "session"}
	if x.command == "" {
		return object{"permission_suggestions": []object{mode}}
	}
	rule := object{
		"type": "addRules", "rules": []object{{"toolName": "Bash", "ruleContent": x.command}},
		"behavior": "allow", "destination": "localSettings",
	}
	return object{"permission_suggestions": []object{rule, mode}}
}

// canUse asks whether a tool may be used for a call, and with what.
func (k *claudeTalk) canUse(x call, more object) (call, bool) {
	name, input := k.claudeCall(x)
	description := input["description"]
	if x.command == "" {
		description = filepath.Base(x.path)
	}
	more["description"] = description
	answer, ok := k.consult(name, input, more)
	if !ok {
		if k.interrupted() != nil {
			k.denied(x)
			return x, false
		}
		k.deny(x, answer.Message, answer.by)
		return x, false
	}
	k.consent = object{"decision": "accept", "source": "user_temporary"}
	return k.adopt(x, answer.Input), true
}

// A claudePermit is the client's answer to can_use_tool.
type claudePermit struct {
	Behavior  string          `json:"behavior"`
	Input     json.RawMessage `json:"updatedInput"`
	Message   string          `json:"message"`
	Interrupt bool            `json:"interrupt"`
	by        object          // who denied it
}

// consult sends can_use_tool. A denial may interrupt the turn.
func (k *claudeTalk) consult(name string, input, more object) (claudePermit, bool) {
	more["subtype"], more["tool_name"], more["display_name"] = "can_use_tool", name, name
	more["input"], more["tool_use_id"] = input, k.pending
	a := k.ask(more)
	out := claudePermit{by: object{"source": "user_reject"}}
	switch err := json.Unmarshal(a.response, &out); {
	case a.problem != "":
		out.Message = "Tool permission request failed: " + a.problem
	case err != nil || out.Behavior != "allow" && out.Behavior != "deny":
		out.Message = "Tool permission request failed: ZodError: Invalid input"
	case out.Behavior == "allow":
		return out, k.interrupted() == nil
	default:
		if out.Interrupt {
			k.cancel(errStopped)
		}
		return out, false
	}
	out.by = object{"source": "config", "reason_type": "other"}
	return out, false
}

// deny prints that a call was denied, and by whom.
func (k *claudeTalk) deny(x call, message string, by object) {
	k.denied(x)
	k.settle(refused(message, by))
}

func refused(message string, by object) toolResult {
	by["decision"] = "reject"
	return toolResult{content: message, failed: true, meta: object{"non_execution_kind": "permission-rule", "permission_decision": by}}
}

// adopt is the call with the input that the client wants it to have.
func (k *claudeTalk) adopt(x call, input json.RawMessage) call {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
		Content string `json:"content"`
		Old     string `json:"old_string"`
		New     string `json:"new_string"`
	}
	if len(input) == 0 || json.Unmarshal(input, &in) != nil {
		return x
	}
	if x.command != "" {
		if in.Command != "" {
			x.command = in.Command
		}
		return x
	}
	if path := k.abs(in.Path); in.Path != "" && path != x.target {
		x.path, x.exists, x.before = path, false, ""
		_ = k.look(&x) // what cannot be read cannot be written either: the call will say so
	}
	if name, _ := k.claudeCall(x); name == "Write" {
		x.after = in.Content
	} else {
		x.after = strings.Replace(x.before, in.Old, in.New, 1)
	}
	return x
}

// question asks the user through the client.
func (k *claudeTalk) question() {
	input := object{"questions": []object{{
		"question": simulatedQuestion, "header": "Choice", "multiSelect": false,
		"options": []object{{"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}},
	}}}
	k.pending = k.use(askUser, input)
	k.turns++
	if !k.interactive() {
		k.refuse(call{}, ruling{absent: true, why: "No such tool available: " + askUser + "."})
		return
	}
	if v := k.hooked(askUser, input); v.Decision == "deny" {
		k.settle(refused("PreToolUse:"+askUser+" hook error: "+v.Reason, object{"source": "hook", "reason_type": "hook"}))
		return
	}
	if k.interrupted() != nil {
		return
	}
	answer, ok := k.consult(askUser, input, object{"requires_user_interaction": true})
	switch {
	case k.interrupted() != nil:
		return
	case !ok:
		k.settle(refused(answer.Message, answer.by))
		return
	}
	var chosen struct {
		Answers map[string]string `json:"answers"`
	}
	if json.Unmarshal(answer.Input, &chosen) != nil || chosen.Answers == nil {
		chosen.Answers = map[string]string{} // an empty answer, which the CLI takes
	}
	k.consent = object{"decision": "accept", "source": "user_temporary"}
	k.settle(toolResult{
		content: `Your questions have been answered: "` + simulatedQuestion + `"="` + chosen.Answers[simulatedQuestion] + `". You can now continue with these answers in mind.`,
		detail:  object{"questions": input["questions"], "answers": chosen.Answers},
	})
}

// unknown sends a request of a subtype that nobody knows.
func (k *claudeTalk) unknown() {
	a := k.ask(object{"subtype": "simulated_request"})
	if k.interrupted() == nil {
		k.say(unknownAnswered(a.problem))
	}
}
