package acpclient

import (
	"cmp"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// onTool takes news of a tool call.
func (c *Client) onTool(u *fastjson.Value) []agents.Event {
	k := c.callOf(u)
	if k == nil || k.ended {
		return native.Unknown(native.String(u, "sessionUpdate"), u)
	}
	c.began = true
	c.turn.text.cut()
	if status := native.String(u, "status"); status == "completed" || status == "in_progress" && !c.info.earlyProgress {
		k.ran = k.asked
	}
	switch k.status {
	case "completed", "failed":
		return append(c.start(k), c.end(k)...)
	case "in_progress":
		events := c.start(k)
		if c.info.earlyProgress && k.verdict != agents.EffectAllow {
			return events
		}
		return append(events, agents.Event{Body: agents.ToolProgress{ToolID: k.id, Output: k.text}})
	}
	if _, certain := k.target(); certain { // pending, but there is no more to know
		return c.start(k)
	}
	return nil
}

// start tells that a call begins, once.
func (c *Client) start(k *call) []agents.Event {
	if k.told {
		return nil
	}
	k.told = true
	target, _ := k.target()
	risk := agents.RiskOf(k.tool(), target, c.dir)
	if c.info.excuse(k) {
		risk = agents.RiskLow
	}
	return one(agents.ToolStarted{
		ToolID: k.id, ToolName: k.tool(), NativeName: k.nativeName(), Target: target, Risk: risk, Arguments: k.arguments(),
	})
}

// end tells what came of a call.
func (c *Client) end(k *call) []agents.Event {
	k.ended = true
	defer c.forget(k)
	done := agents.ToolCompleted{ToolID: k.id, Success: k.status == "completed", Result: k.output, ExitCode: k.exit}
	if done.Result == nil && k.text != "" {
		done.Result = agents.AppendString(nil, k.text)
	}
	if !done.Success {
		done.Error = cmp.Or(k.text, errorOf(k), "the tool failed")
		done.Declined = k.declined() || !k.asked && c.info.asksWhenRuled && c.o.Request.Ruled()
		return one(done)
	}
	return append(one(done), k.effects()...)
}

// forget keeps of a call that has ended no more than that, and of very many not even that:
// what was in its result may be large. Whoever judged it has the call itself.
func (c *Client) forget(k *call) {
	k.output, k.text = nil, ""
	c.calls[k.id] = &call{id: k.id, told: true, ended: true}
	delete(c.calls, c.ended.Put(k.id))
}

// errorOf is what a result says of a failure.
func errorOf(k *call) string {
	var p fastjson.Parser
	v, err := p.ParseBytes(k.output)
	if err != nil {
		return ""
	}
	return cmp.Or(native.String(v, "error"), native.String(v, "output"), native.String(v))
}

// declined reports whether a call that failed was refused. Where nobody says what was
// answered, because lines of the past are read again, a call that did not run after it was
// asked for was.
func (k *call) declined() bool {
	return k.verdict == agents.EffectDeny || k.verdict == "" && k.asked && !k.ran
}

// effects are the events that the success of a call implies.
func (k *call) effects() []agents.Event {
	switch k.tool() {
	case agents.ToolWriteFile, agents.ToolEditFile:
	default:
		return nil
	}
	changes := k.diffs
	if len(changes) == 0 {
		for _, path := range k.files() {
			changes = append(changes, diff{path: path, change: agents.Modified})
		}
	}
	var events []agents.Event
	for _, d := range changes {
		if k.kind == "delete" {
			d.change = agents.Deleted
		}
		events = append(events, agents.Event{Body: agents.FileChanged{FilePath: d.path, ChangeType: d.change, ToolID: k.id}})
	}
	return events
}
