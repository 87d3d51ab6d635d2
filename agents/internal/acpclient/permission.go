package acpclient

import (
	"maps"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A request is one for a permission that waits for its answer.
type request struct {
	id            string // as the agent wrote it
	tool          *call
	allow, reject string   // the options for this once, "" if there is none
	allows        []string // all options that allow
	replied       bool     // it was answered as cancelled, and waits for the end of the turn
}

// onPermission takes in that a call waits for a decision.
func (c *Client) onPermission(id string, v *fastjson.Value) []agents.Event {
	key, k := requestKey(id), c.callOf(v.Get("params", "toolCall"))
	if k != nil && k.ended { // another call under an old id
		delete(c.calls, k.id)
		k = c.callOf(v.Get("params", "toolCall"))
	}
	switch {
	case k == nil:
		c.refuse(id, invalidRequest, "the request names no tool call")
		return native.Unknown(permissionMethod, v)
	case c.requests[key] != nil: // two that one answer would be for
		c.refuse(id, invalidRequest, "a request with this id waits for its answer already")
		return c.withdraw(key, "a second request with the same id")
	case !c.recorded && (!c.turn.sent || c.turn.ended || c.turn.cancelled):
		c.reply(id, outcome("cancelled", ""))
		return native.Unknown(permissionMethod, v)
	}
	if !k.asked {
		c.judged = append(c.judged, k)
	}
	k.asked, k.ran, k.verdict = true, false, ""
	c.turn.text.cut()
	c.began = true
	c.requests[key] = newRequest(id, k, v.GetArray("params", "options"))
	target, _ := k.target()
	events := one(agents.PermissionRequested{
		RequestID: key, ToolID: k.id, ToolName: k.tool(), NativeName: k.nativeName(), Target: target,
		Risk: agents.RiskOf(k.tool(), target, c.dir), Arguments: k.arguments(), Reason: k.reason(),
	})
	if c.requests[key].allow == "" && !c.recorded {
		c.Decide(key, agents.Verdict{Effect: agents.EffectDeny})
		events = append(events, one(agents.PermissionDecided{
			RequestID: key, ToolID: k.id, Decision: agents.EffectDeny, By: "default",
			Message: "the agent offers no way to allow this call alone",
		})...)
	}
	return events
}

// reason is what a call says of itself beyond its target.
func (k *call) reason() string {
	if target, _ := k.target(); k.title != target {
		return k.title
	}
	return ""
}

// requestKey is the id of a request without the quotes of a text. A number and the same
// digits as a text are one id to flow.
func requestKey(id string) string {
	v, err := fastjson.Parse(id)
	if err != nil || v.Type() != fastjson.TypeString {
		return id
	}
	return native.String(v)
}

// newRequest reads the options of a request. Those that would hold for later calls too are
// never taken: the next call is judged anew.
func newRequest(id string, k *call, options []*fastjson.Value) *request {
	r := &request{id: id, tool: k}
	for _, o := range options {
		option := native.String(o, "optionId")
		switch kind := native.String(o, "kind"); {
		case kind == "allow_once" && r.allow == "":
			r.allow = option
		case kind == "reject_once" && r.reject == "":
			r.reject = option
		}
		if strings.HasPrefix(native.String(o, "kind"), "allow") {
			r.allows = append(r.allows, option)
		}
	}
	return r
}

// Decide answers a request. A call that was to be made with other arguments is denied:
// the protocol has no words for that.
func (c *Client) Decide(id string, v agents.Verdict) bool {
	r := c.requests[id]
	if r == nil || r.replied {
		return false
	}
	delete(c.requests, id)
	allowed := v.Effect == agents.EffectAllow && v.Input == nil && r.allow != ""
	r.tool.judge(allowed)
	switch {
	case allowed:
		c.reply(r.id, outcome("selected", r.allow))
	case r.reject != "":
		c.reply(r.id, outcome("selected", r.reject))
	default:
		c.reply(r.id, outcome("cancelled", ""))
	}
	if v.Interrupt {
		c.Interrupt()
	}
	return true
}

func outcome(what, option string) object {
	o := object{"outcome": what}
	if option != "" {
		o["optionId"] = option
	}
	return object{"outcome": o}
}

// judge remembers what was decided of a call.
func (k *call) judge(allowed bool) {
	k.verdict = agents.EffectDeny
	if allowed {
		k.verdict = agents.EffectAllow
	}
}

// answered takes in what another client answered.
func (c *Client) answered(id string, v *fastjson.Value) []agents.Event {
	key := requestKey(id)
	r := c.requests[key]
	if r == nil {
		return nil
	}
	delete(c.requests, key)
	allowed := slices.Contains(r.allows, native.String(v, "result", "outcome", "optionId"))
	r.tool.judge(allowed)
	return one(decided(key, r.tool.id, allowed, "person", ""))
}

func decided(id, tool string, allowed bool, by, message string) agents.PermissionDecided {
	d := agents.PermissionDecided{RequestID: id, ToolID: tool, Decision: agents.EffectDeny, By: by, Message: message}
	if allowed {
		d.Decision = agents.EffectAllow
	}
	return d
}

// onWithdrawal takes in that the agent no longer wants an answer.
func (c *Client) onWithdrawal(id string) []agents.Event {
	key := requestKey(id)
	r := c.requests[key]
	if r == nil {
		return nil
	}
	if !r.replied {
		c.refuse(r.id, cancelled, "cancelled")
	}
	return c.withdraw(key, "withdrawn")
}

func (c *Client) withdraw(key, message string) []agents.Event {
	r := c.requests[key]
	delete(c.requests, key)
	r.tool.judge(false)
	return one(decided(key, r.tool.id, false, "agent", message))
}

// withdrawAll withdraws what still waits when the turn ends, unless the call was made: then
// it was answered, and these are lines of the past.
func (c *Client) withdrawAll() []agents.Event {
	var events []agents.Event
	for _, key := range slices.Sorted(maps.Keys(c.requests)) {
		if !c.requests[key].tool.ran {
			events = append(events, c.withdraw(key, "withdrawn")...)
		}
	}
	clear(c.requests)
	return events
}

// Interrupt asks the agent to end the turn. As the protocol wants it, requests that wait
// are answered as cancelled.
func (c *Client) Interrupt() bool {
	if !c.turn.sent || c.turn.ended || c.turn.cancelled {
		return false
	}
	c.turn.cancelled = true
	c.tell("session/cancel", object{"sessionId": c.session.id})
	for _, key := range slices.Sorted(maps.Keys(c.requests)) {
		r := c.requests[key]
		r.replied = true
		c.reply(r.id, outcome("cancelled", ""))
	}
	return true
}
