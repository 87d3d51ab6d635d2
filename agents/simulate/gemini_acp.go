package simulate

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"flow/agents"
)

// geminiACP is Gemini CLI with --acp: poorer in what it tells of tools than its own
// stream, and richer in errors.
type geminiACP struct {
	args geminiArgs
	turn *acpTurn
	call object // the tool call under way, or nil
}

func (g *geminiACP) initialized() object {
	return object{
		"protocolVersion": 1, "authMethods": []object{{"id": "gemini-api-key", "name": "Gemini API key", "description": "Use an API key with Gemini Developer API"}},
		"agentInfo": object{"name": "gemini-cli", "title": "Gemini CLI", "version": geminiVersion},
		"agentCapabilities": object{
			"loadSession":        true,
			"promptCapabilities": object{"image": true, "audio": true, "embeddedContext": true},
			"mcpCapabilities":    object{"http": true, "sse": true},
		},
	}
}

func (g *geminiACP) newID() string { return uuid.NewString() }

func (g *geminiACP) opened(s *acpSession) object {
	if s.consent == "" {
		s.consent = map[string]string{"auto_edit": "autoEdit"}[g.args.approval]
	}
	if s.consent == "" {
		s.consent = g.args.approval
	}
	if s.session.Model == "" {
		s.session.Model = g.model()
	}
	modes := []object{
		{"id": "default", "name": "Default", "description": "Prompts for approval"},
		{"id": "autoEdit", "name": "Auto Edit", "description": "Auto-approves edit tools"},
		{"id": "yolo", "name": "YOLO", "description": "Auto-approves all tools"},
		{"id": "plan", "name": "Plan", "description": "Read-only mode"},
	}
	models := []object{{"modelId": "auto", "name": "Auto", "description": "Let Gemini CLI decide"}, {"modelId": s.session.Model, "name": s.session.Model}}
	return object{
		"modes":  object{"availableModes": modes, "currentModeId": s.consent},
		"models": object{"availableModels": models, "currentModelId": s.session.Model},
	}
}

func (g *geminiACP) model() string {
	if m := g.args.last("--model"); m != "" {
		return m
	}
	return "auto"
}

// serves lists no sessions, and neither resumes without repeating nor forks.
func (g *geminiACP) serves(method string) bool {
	switch method {
	case "session/list", "session/resume", "session/fork", "session/close", "session/set_config_option":
		return false
	}
	return true
}

func (g *geminiACP) notFound(id string) *rpcError {
	e := rpcErrorf(rpcInternal, "Internal error")
	e.Data = object{"details": fmt.Sprintf("Invalid session identifier %q.", id)}
	return e
}

// load answers after the first message that it repeats, and repeats the rest then.
func (g *geminiACP) load(a *acpAgent, s *acpSession, answer func()) {
	a.update(s, chunk("user_message_chunk", "<session_context>\nThis is the simulated Gemini CLI.\n</session_context>"))
	answer()
	for _, say := range a.repeat(s) {
		say()
	}
}

func (g *geminiACP) moded(a *acpAgent, s *acpSession) {
	a.update(s, chunk("agent_message_chunk", "[MODE_UPDATE] "+s.consent))
}

func (g *geminiACP) voice(t *acpTurn) acpVoice { return &geminiACP{args: g.args, turn: t} }

// flags are Gemini's own, with the mode that the session has now.
func (g *geminiACP) flags() *gemini {
	own := &gemini{turn: g.turn.turn, args: g.args}
	own.args.approval = map[string]string{"autoEdit": "auto_edit"}[g.turn.on.consent]
	if own.args.approval == "" {
		own.args.approval = g.turn.on.consent
	}
	return own
}

// verdict is what the flags and policies say of a call: why it is forbidden, or whether
// it is asked.
func (g *geminiACP) verdict(x call) (why string, ask bool) {
	name, _ := geminiCall(x)
	flags := g.flags()
	for _, r := range flags.args.rules {
		switch {
		case !r.covers(name, x):
			continue
		case r.decision == "deny":
			return fmt.Sprintf("Tool execution for %q denied by policy.", geminiTitle(x)), false
		}
		return "", r.decision == "ask_user" && !g.turn.on.granted[name]
	}
	switch mode := flags.args.approval; {
	case x.command == "" && !within(flags.abs(x.path), append(flags.included(), flags.dir)...), mode == "plan":
		return flags.forbids(x), false
	case mode == "yolo", mode == "auto_edit" && x.command == "":
		return "", false
	}
	return "", !g.turn.on.granted[name]
}

// begin asks where it must. Of a call that is asked about nothing is told before, and
// nothing at all if it is rejected.
func (g *geminiACP) begin(x call) (call, bool) {
	g.call = g.tool(x)
	why, ask := g.verdict(x)
	switch {
	case why != "": // and not what was to be done
		delete(g.call, "title")
		delete(g.call, "locations")
		g.update("tool_call_update", "failed", object{"content": textContent(why)})
		g.call = nil
		return x, false
	case ask || g.turn.odd.asks:
		return x, g.ask(x)
	}
	g.update("tool_call", "in_progress", object{"content": g.before(x)})
	return x, true
}

// tool is a call as all messages about it show it.
func (g *geminiACP) tool(x call) object {
	name, _ := geminiCall(x)
	id := fmt.Sprintf("%s__%s_%d_0", name, name, time.Now().UnixNano()/1e6+int64(g.turn.requests))
	if x.command != "" {
		return object{"toolCallId": id, "title": x.command, "locations": []object{}, "kind": "execute"}
	}
	title := "Writing to " + filepath.Base(x.target)
	if x.exists {
		title = fmt.Sprintf("%s: %s => %s", filepath.Base(x.target), firstLine(x.before), firstLine(x.after[len(x.before):]))
	}
	return object{"toolCallId": id, "title": title, "locations": []object{{"path": x.target}}, "kind": "edit"}
}

// geminiTitle is what people are shown for a tool's name.
func geminiTitle(x call) string {
	switch {
	case x.command != "":
		return "Shell"
	case x.exists:
		return "Edit"
	default:
		return "WriteFile"
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// before is the content of a call that is not made yet: where a command would run.
func (g *geminiACP) before(x call) []object {
	if x.command == "" {
		return []object{}
	}
	return textContent("[current working directory " + g.turn.dir + "]")
}

func textContent(text string) []object {
	return []object{{"type": "content", "content": object{"type": "text", "text": text}}}
}

// diff is the content of an edit.
func diff(x call) []object {
	kind := "add"
	if x.exists {
		kind = "modify"
	}
	return []object{{"type": "diff", "path": x.target, "oldText": x.before, "newText": x.after, "_meta": object{"kind": kind}}}
}

// update tells of the call under way.
func (g *geminiACP) update(kind, status string, more object) {
	update := object{"sessionUpdate": kind, "status": status}
	maps.Copy(update, g.call)
	maps.Copy(update, more)
	g.turn.tell(update)
}

// ask asks the client, and reports whether the call is to be made.
func (g *geminiACP) ask(x call) bool {
	content := g.before(x)
	if x.command == "" {
		content = diff(x)
	}
	request := object{"status": "pending", "content": content}
	maps.Copy(request, g.call)
	chosen := g.turn.consult(request, []object{
		{"optionId": "proceed_always", "name": "Allow for this session", "kind": "allow_always"},
		{"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
		{"optionId": "cancel", "name": "Reject", "kind": "reject_once"},
	})
	if chosen == "proceed_always" {
		name, _ := geminiCall(x)
		g.turn.on.granted[name] = true
	}
	made := chosen == "proceed_always" || chosen == "proceed_once"
	if !made {
		g.call = nil
	}
	return made
}

// end tells nothing of what a command printed, nor of its status: so does the real one.
func (g *geminiACP) end(x call, r result) {
	content, status := []object{}, "completed"
	switch {
	case r.err != nil:
		content, status = textContent(r.err.Error()), "failed"
	case x.command == "":
		content = diff(x)
	}
	g.update("tool_call_update", status, object{"content": content})
	g.call = nil
}

func (g *geminiACP) stopped() {
	if g.call != nil && g.call["kind"] == "execute" {
		g.update("tool_call_update", "completed", object{"content": textContent("Command cancelled by user.")})
	}
}

func (g *geminiACP) result(reason string) object {
	count := object{"input_tokens": g.turn.spent.InputTokens, "output_tokens": g.turn.spent.OutputTokens}
	return object{"stopReason": reason, "_meta": object{"quota": object{
		"token_count": count, "model_usage": []object{{"model": g.turn.session.Model, "token_count": count}},
	}}}
}

func (g *geminiACP) fails(cause agents.Cause) error { return (&gemini{}).fails(cause) }

// problem is how the cause ends a prompt. What the model would not finish ends it as if
// it had.
func (g *geminiACP) problem(cause agents.Cause) any {
	switch cause {
	case agents.CauseMaxTurns:
		return "max_turn_requests"
	case agents.CauseMaxOutput:
		g.turn.say("Simulated answer that was cut")
		return "end_turn"
	case agents.CauseRefusal:
		return "end_turn"
	default:
		message := geminiFailures(g.turn.session.Model)[cause].message
		message = strings.TrimSuffix(strings.TrimPrefix(message, "[API Error: "), "]")
		return rpcErrorf(geminiStatus(cause), "%s", message)
	}
}

// geminiStatus is the HTTP status of a failure, which errors have for their code. Where no
// server answered there is none.
func geminiStatus(cause agents.Cause) int {
	switch cause {
	case agents.CauseAuth:
		return 401
	case agents.CauseBilling:
		return 403
	case agents.CauseModelNotFound:
		return 404
	case agents.CauseRateLimit, agents.CauseUsageLimit:
		return 429
	case agents.CauseOverloaded:
		return 503
	case agents.CauseContext, agents.CauseInvalidRequest:
		return 400
	case agents.CauseNetwork:
		return rpcInternal
	default:
		return 500
	}
}
