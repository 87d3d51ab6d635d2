package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"flow/agents"
)

// openACP is an agent of the other kind, as OpenCode is one: it tells what a tool is
// called with and what comes of it, asks about every effect, and knows what it costs.
type openACP struct {
	turn *acpTurn
	id   string // of the tool call under way
	tool object // the call as it is told of
}

const (
	openCodeVersion = "1.18.33"
	openCodeModel   = "google/gemini-2.5-flash" // unless another is asked for
)

// runACP is the process of any agent that speaks ACP. What it needs for that on its
// command line differs, so it may say anything.
func runACP(p *process) (int, error) {
	if slices.Contains(p.args, "--version") {
		_, err := fmt.Fprintln(p.stdout, openCodeVersion)
		return 0, err
	}
	return talkACP(p, &openACP{})
}

func (o *openACP) initialized() object {
	return object{
		"protocolVersion": 1, "agentInfo": object{"name": "OpenCode", "version": openCodeVersion},
		"authMethods": []object{{"id": "opencode-login", "name": "Login with opencode", "description": "Run `opencode auth login` in the terminal"}},
		"agentCapabilities": object{
			"loadSession": true, "mcpCapabilities": object{"http": true, "sse": true},
			"promptCapabilities":  object{"embeddedContext": true, "image": true},
			"sessionCapabilities": object{"close": object{}, "fork": object{}, "list": object{}, "resume": object{}},
		},
	}
}

func (o *openACP) newID() string { return "ses_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:26] }

func (o *openACP) opened(s *acpSession) object {
	if s.session.Model == "" {
		s.session.Model = openCodeModel
	}
	if s.consent == "" {
		s.consent = "build"
	}
	models := []object{{"value": s.session.Model, "name": s.session.Model}}
	if s.session.Model != openCodeModel {
		models = append(models, object{"value": openCodeModel, "name": openCodeModel})
	}
	return object{"configOptions": []object{
		{"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": s.session.Model, "options": models},
		{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": s.consent, "options": []object{
			{"value": "build", "name": "build"}, {"value": "plan", "name": "plan"},
		}},
	}}
}

func (o *openACP) serves(method string) bool { return method != "session/set_model" }

func (o *openACP) notFound(id string) *rpcError {
	e := rpcErrorf(rpcNotFound, "Resource not found")
	e.Data = object{"details": "Session not found: " + id}
	return e
}

// load repeats the session and answers then.
func (o *openACP) load(a *acpAgent, s *acpSession, answer func()) {
	for _, say := range a.repeat(s) {
		say()
	}
	answer()
}

func (o *openACP) moded(a *acpAgent, s *acpSession) {
	a.update(s, object{"sessionUpdate": "current_mode_update", "currentModeId": s.consent})
}

func (o *openACP) voice(t *acpTurn) acpVoice { return &openACP{turn: t} }

// begin tells of a call, asks about it, and tells if it is rejected.
func (o *openACP) begin(x call) (call, bool) {
	o.id = fmt.Sprintf("call%d_%d", o.turn.session.turn(), o.turn.requests)
	name, input := openTool(x)
	o.tool = object{"kind": "edit", "title": name, "locations": []object{{"path": x.target}}, "rawInput": input}
	first := object{"kind": "edit", "title": name, "locations": []object{}, "rawInput": object{}}
	if x.command != "" {
		o.tool["kind"], o.tool["title"], o.tool["locations"] = "execute", x.command, []object{{"path": o.turn.dir}}
		first["kind"] = "execute"
	}
	o.update("tool_call", "pending", first)
	o.update("tool_call_update", "in_progress", o.tool)
	if why := o.refuses(x); why != "" {
		o.update("tool_call_update", "failed", object{"rawOutput": object{"error": why}, "content": textContent(why)})
		return x, false
	}
	return x, o.turn.interrupted() == nil
}

// openTool is a call in OpenCode's words.
func openTool(x call) (name string, input object) {
	switch {
	case x.command != "":
		return "bash", object{"command": x.command, "description": "Run a command"}
	case x.exists:
		return "edit", object{"filePath": x.target, "oldString": x.before, "newString": x.after}
	default:
		return "write", object{"filePath": x.target, "content": x.after}
	}
}

// refuses asks about a call, and returns why it is not to be made, or "".
func (o *openACP) refuses(x call) string {
	if o.turn.on.consent == "plan" {
		return "The plan agent may not use this tool."
	}
	name, _ := openTool(x)
	if o.turn.on.granted[name] && !o.turn.odd.asks {
		return ""
	}
	request := maps.Clone(o.tool)
	request["toolCallId"], request["status"], request["rawInput"] = o.id, "pending", object{"command": x.command}
	if x.command == "" {
		request["title"] = x.target
		request["rawInput"] = object{"filepath": x.target, "diff": hunk(x)}
		request["content"] = []object{{"type": "diff", "path": x.target, "oldText": x.before, "newText": x.after}}
	}
	switch o.turn.consult(request, []object{
		{"optionId": "once", "kind": "allow_once", "name": "Allow once"},
		{"optionId": "always", "kind": "allow_always", "name": "Always allow"},
		{"optionId": "reject", "kind": "reject_once", "name": "Reject"},
	}) {
	case "always":
		o.turn.on.granted[name] = true
	case "once":
	default:
		return "The user rejected permission to use this specific tool call."
	}
	if x.command == "" { // it lets the client write as well, although that has not offered to
		o.turn.agent.call(oddities{}, "fs/write_text_file", object{
			"sessionId": o.turn.session.ID, "path": x.target, "content": x.after,
		}, o.turn.withdraw)
	}
	return ""
}

// update tells of the call under way.
func (o *openACP) update(kind, status string, more object) {
	update := object{"sessionUpdate": kind, "toolCallId": o.id, "status": status}
	maps.Copy(update, more)
	o.turn.tell(update)
}

func (o *openACP) end(x call, r result) {
	switch {
	case r.err != nil:
		o.update("tool_call_update", "failed", object{"rawOutput": object{"error": r.err.Error()}, "content": textContent(r.err.Error())})
	case x.command == "":
		const wrote = "Wrote file successfully."
		o.update("tool_call_update", "completed", object{
			"title": x.path, "content": textContent(wrote),
			"rawOutput": object{"output": wrote, "metadata": object{"filepath": x.target, "exists": x.exists, "truncated": false}},
		})
	default:
		o.update("tool_call_update", "completed", object{
			"title": x.command, "content": textContent(r.output),
			"rawOutput": object{"output": r.output, "metadata": object{"output": r.output, "exit": r.status, "truncated": false}},
		})
	}
	o.tool = nil
}

func (o *openACP) stopped() {
	if o.tool != nil {
		o.update("tool_call_update", "failed", object{"rawOutput": object{"error": "Tool execution aborted"}})
	}
}

// result reports the tokens of the turn, and before it the cost of the session.
func (o *openACP) result(reason string) object {
	spent, all := o.turn.spent, o.turn.session.Usage
	o.turn.tell(object{
		"sessionUpdate": "usage_update", "used": spent.TotalTokens, "size": 1 << 20,
		"cost": object{"amount": (float64(all.InputTokens)*0.3 + float64(all.OutputTokens)*2.5) / 1e6, "currency": "USD"},
	})
	return object{"stopReason": reason, "_meta": object{}, "usage": object{
		"inputTokens": spent.InputTokens, "outputTokens": spent.OutputTokens, "totalTokens": spent.TotalTokens,
	}}
}

// openFailures are errors in the words of providers: the protocol has no codes for them.
func openFailures() map[agents.Cause]string {
	return map[agents.Cause]string{
		agents.CauseAuth:           "Authentication required: invalid API key",
		agents.CauseBilling:        "Payment required: your credit balance is too low",
		agents.CauseRateLimit:      "Too Many Requests: rate limit exceeded",
		agents.CauseUsageLimit:     "You have reached your usage limit",
		agents.CauseOverloaded:     "The model is overloaded",
		agents.CauseNetwork:        "Unable to connect: ECONNREFUSED",
		agents.CauseServer:         "Internal server error",
		agents.CauseContext:        "prompt is too long: the context window is exceeded",
		agents.CauseModelNotFound:  "Model not found",
		agents.CauseInvalidRequest: "messages.1: bad",
	}
}

func (o *openACP) fails(cause agents.Cause) error {
	_, ok := openFailures()[cause]
	if ok || cause == agents.CauseMaxTurns || cause == agents.CauseMaxOutput || cause == agents.CauseRefusal {
		return nil
	}
	return fmt.Errorf("flow simulate: this agent has no failure %q; see the causes in\n%s", cause, Help)
}

// problem is how the cause ends a prompt: as a stop reason where there is one.
func (o *openACP) problem(cause agents.Cause) any {
	switch cause {
	case agents.CauseMaxTurns:
		return "max_turn_requests"
	case agents.CauseMaxOutput:
		o.turn.say("Simulated answer that was cut")
		return "max_tokens"
	case agents.CauseRefusal:
		return "refusal"
	case agents.CauseServer:
		return &rpcError{Code: 500, Message: openFailures()[cause]}
	case agents.CauseInvalidRequest:
		return &rpcError{Code: rpcInvalidParams, Message: openFailures()[cause]}
	default:
		return &rpcError{Code: rpcInternal, Message: openFailures()[cause]}
	}
}
