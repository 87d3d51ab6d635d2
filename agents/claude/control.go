package claude

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

const preToolUse = "PreToolUse"

// A request is one of the CLI's that waits for a verdict on a tool call. Before every
// call comes that of the hook; where its answer leaves the call open, and always where
// the CLI itself wants a person to be asked (its protected paths), can_use_tool follows.
type request struct {
	id     string          // as text
	native json.RawMessage // as it came: mostly a string
	hook   bool
	toolID string
}

// asked is a request of the CLI. One that is not known is refused, for the CLI waits for
// an answer. One whose id was there before is not answered: a second answer would be
// taken for one to the first.
func (c *conversation) asked(v *fastjson.Value) []agents.Event {
	body := v.Get("request")
	r := &request{native: native.Raw(v, "request_id")}
	subtype := native.String(body, "subtype")
	if r.native == nil { // nobody waits for an answer
		return native.Unknown("control_request/"+subtype, v)
	}
	if r.id = native.String(v, "request_id"); r.native[0] != '"' {
		r.id = string(r.native)
	}
	if c.seen[r.id] {
		return system("duplicate_request", strings.TrimSpace(subtype+" "+r.id))
	}
	c.seen[r.id] = true
	switch subtype {
	case "can_use_tool":
		return c.permission(r, body, native.String(body, "tool_name"), body.Get("input"))
	case "hook_callback":
		r.hook = true
		return c.hooked(r, body)
	default:
		c.reply(r, reply{Subtype: "error", Error: "flow does not answer requests of the subtype " + subtype})
		return system("control_request", subtype+" refused")
	}
}

// hooked is a callback. Only that before a tool call was asked for.
func (c *conversation) hooked(r *request, body *fastjson.Value) []agents.Event {
	input := body.Get("input")
	if event := native.String(input, "hook_event_name"); event != preToolUse {
		c.respond(r, &opinion{})
		return system("hook_callback", event)
	}
	return c.permission(r, body, native.String(input, "tool_name"), input.Get("tool_input"))
}

// permission is a tool call that waits for a verdict.
func (c *conversation) permission(r *request, body *fastjson.Value, tool string, input *fastjson.Value) []agents.Event {
	r.toolID = native.String(body, "tool_use_id")
	c.consulted[r.toolID] = true
	if interactive(tool) || body.GetBool("requires_user_interaction") {
		c.respond(r, r.opinion(agents.Verdict{Effect: agents.EffectDeny, Message: nobody}))
		return decided(r, agents.EffectDeny, "default", nobody)
	}
	c.pending = append(c.pending, r)
	asked := c.permissionOf(newCall(tool, input), input)
	asked.RequestID, asked.ToolID, asked.Preliminary = r.id, r.toolID, r.hook
	asked.Reason = native.String(body, "decision_reason")
	return []agents.Event{{Body: asked}}
}

// nobody is the answer to what only a person at the terminal could do.
const nobody = "Nobody is here to answer. Decide yourself, go on, and say in the end what you decided."

// interactive reports whether a tool is of use only with a person at the terminal. The
// CLI offers these tools only when they are asked for by name.
func interactive(tool string) bool {
	return tool == "AskUserQuestion" || tool == "EnterPlanMode" || tool == "ExitPlanMode"
}

// Decide answers the request of that id.
func (c *conversation) Decide(id string, v agents.Verdict) bool {
	r := c.take(id)
	if r == nil {
		return false
	}
	denied := c.respond(r, r.opinion(v))
	if r.hook && denied && v.Interrupt { // the callback's own `continue: false` would make the turn a success
		c.Interrupt()
	}
	return true
}

// take removes the pending request of that id, and returns nil when there is none.
func (c *conversation) take(id string) *request {
	i := slices.IndexFunc(c.pending, func(r *request) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	r := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	return r
}

// withdrawn is the CLI's word that it no longer waits for an answer.
func (c *conversation) withdrawn(v *fastjson.Value) []agents.Event {
	id := native.String(v, "request_id")
	if r := c.take(id); r != nil {
		return decided(r, agents.EffectDeny, "agent", "withdrawn")
	}
	return system("control_cancel_request", id)
}

// abandon ends what is pending when the turn has ended: no answer would be heard.
func (c *conversation) abandon() []agents.Event {
	var events []agents.Event
	for _, r := range c.pending {
		events = append(events, decided(r, agents.EffectDeny, "agent", "the turn ended before it was decided")...)
	}
	c.pending = nil
	return events
}

func decided(r *request, effect, by, message string) []agents.Event {
	return []agents.Event{{Body: agents.PermissionDecided{
		RequestID: r.id, ToolID: r.toolID, Decision: effect, By: by, Message: message,
	}}}
}

// A reply is the inner part of a control_response.
type reply struct {
	Subtype  string          `json:"subtype"`
	ID       json.RawMessage `json:"request_id"`
	Response *opinion        `json:"response,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// An opinion answers can_use_tool, or in Hook a callback. The zero opinion is none. It
// never has updatedPermissions, with which the CLI would decide the next call by itself
// and, for some, write its settings into the repository.
type opinion struct {
	Behavior     string          `json:"behavior,omitempty"`
	Message      string          `json:"message,omitempty"`
	Interrupt    bool            `json:"interrupt,omitempty"`
	UpdatedInput json.RawMessage `json:"updatedInput,omitempty"`
	Hook         *hookOutput     `json:"hookSpecificOutput,omitempty"`
}

type hookOutput struct {
	Event        string          `json:"hookEventName"`
	Decision     string          `json:"permissionDecision"`
	Reason       string          `json:"permissionDecisionReason,omitempty"`
	UpdatedInput json.RawMessage `json:"updatedInput,omitempty"`
}

func (o *opinion) denies() bool {
	return o.Behavior == agents.EffectDeny || o.Hook != nil && o.Hook.Decision == agents.EffectDeny
}

// respond gives r an opinion, and reports whether that denies a call. Older versions do
// not say of the call's result that it was denied.
func (c *conversation) respond(r *request, o *opinion) (denied bool) {
	c.reply(r, reply{Subtype: "success", Response: o})
	denied = o.denies()
	if call, ok := c.calls[r.toolID]; ok && denied {
		call.declined = true
		c.calls[r.toolID] = call
	}
	return denied
}

func (c *conversation) reply(r *request, answer reply) {
	answer.ID = r.native
	c.out = append(c.out, line{Type: "control_response", Response: &answer}.encode())
}

// opinion is a verdict in the CLI's words. What is no clear verdict denies: the CLI would
// take an error, or an answer that it cannot read, for no opinion.
func (r *request) opinion(v agents.Verdict) *opinion {
	switch {
	case v.Effect == agents.EffectAllow && v.Input != nil && !isObject(v.Input):
		v = agents.Verdict{Message: "The call was to be changed into one whose input is no JSON object."}
	case r.hook && v.Effect == agents.EffectNone:
		return &opinion{}
	case r.hook && v.Effect == agents.EffectAsk: // why comes back with can_use_tool
		return r.worded(agents.Verdict{Effect: v.Effect, Message: v.Message})
	case v.Effect == agents.EffectAllow:
		return r.worded(agents.Verdict{Effect: v.Effect, Input: v.Input})
	case v.Effect != agents.EffectDeny:
		v.Message = "Nobody decided on it."
	}
	message := cmp.Or(strings.TrimSpace(v.Message), "The policy of this run forbids it.")
	return r.worded(agents.Verdict{Effect: agents.EffectDeny, Message: message, Interrupt: v.Interrupt})
}

// worded puts a verdict where the kind of request has it.
func (r *request) worded(v agents.Verdict) *opinion {
	if r.hook {
		return &opinion{Hook: &hookOutput{Event: preToolUse, Decision: v.Effect, Reason: v.Message, UpdatedInput: v.Input}}
	}
	return &opinion{Behavior: v.Effect, Message: v.Message, Interrupt: v.Interrupt, UpdatedInput: v.Input}
}

// decidedElsewhere is the answer that another client gave to a request.
func (c *conversation) decidedElsewhere(response *fastjson.Value) []agents.Event {
	r := c.take(native.String(response, "request_id"))
	if r == nil {
		return nil
	}
	effect := native.String(response, "response", "behavior")
	if r.hook {
		effect = native.String(response, "response", "hookSpecificOutput", "permissionDecision")
	}
	if effect != agents.EffectAllow && effect != agents.EffectDeny {
		return nil // left open, or an error, which the CLI takes for that
	}
	return decided(r, effect, "person", native.String(response, "response", "message"))
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

func isObject(v json.RawMessage) bool {
	return json.Valid(v) && strings.HasPrefix(strings.TrimSpace(string(v)), "{")
}
