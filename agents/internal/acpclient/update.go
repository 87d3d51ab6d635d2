package acpclient

import (
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A turn is one prompt and what came of it.
type turn struct {
	sent, cancelled, ended bool
	stop                   string          // why the agent ended it, in its words
	problem                *agents.Problem // the error that it ended with
	text                   answer
}

// onUpdate takes news of the session. What the agent repeats of an older turn is not told
// again: the line is kept, the events were told when it was new.
func (c *Client) onUpdate(v *fastjson.Value) []agents.Event {
	u := v.Get("params", "update")
	kind := native.String(u, "sessionUpdate")
	if id := native.String(v, "params", "sessionId"); id != "" && c.session.id != "" && id != c.session.id {
		return native.Unknown("session/update", v) // of a session that a subagent has
	}
	switch kind {
	case "available_commands_update":
		c.session.listed = true
		return append(c.notice(kind, ""), c.proceed()...)
	case "usage_update":
		return c.onUsage(u)
	}
	if c.session.replaying {
		return nil
	}
	switch kind {
	case "user_message_chunk", "agent_message_chunk", "agent_thought_chunk":
		return c.onChunk(kind, u)
	case "tool_call", "tool_call_update":
		return c.onTool(u)
	case "plan":
		return c.onPlan(u)
	}
	return c.onNews(kind, u)
}

// onNews takes news that change nothing of the turn.
func (c *Client) onNews(kind string, u *fastjson.Value) []agents.Event {
	switch kind {
	case "current_mode_update":
		return c.notice(kind, native.String(u, "currentModeId"))
	case "config_option_update":
		c.session.readOptions(u)
		return c.notice(kind, "")
	case "session_info_update":
		return c.notice(kind, native.String(u, "title"))
	case "notice":
		return c.notice(kind, strings.TrimSpace(native.String(u, "title")+" "+native.String(u, "description")))
	case "compaction_update":
		return c.notice(kind, native.String(u, "status"))
	case "compaction_summary_chunk":
		return c.notice(kind, native.String(u, "content", "text"))
	}
	return native.Unknown(kind, u)
}

func (c *Client) notice(kind, message string) []agents.Event {
	return one(agents.System{Subtype: kind, Message: message})
}

// onChunk takes a piece of a message.
func (c *Client) onChunk(kind string, u *fastjson.Value) []agents.Event {
	text := native.String(u, "content", "text")
	switch {
	case native.String(u, "content", "type") != "text":
		return native.Unknown(kind, u) // an image, say
	case c.info.toolInIDs && strings.HasPrefix(text, modeUpdate):
		return c.notice("current_mode_update", strings.TrimPrefix(text, modeUpdate))
	case !c.turn.sent: // nothing was asked yet
		return c.notice(kind, text)
	case text == "":
		return nil
	}
	id := native.String(u, "messageId")
	switch kind {
	case "user_message_chunk":
		return one(agents.TextChunk{Content: text, IsPartial: true, Role: "user", MessageID: id})
	case "agent_thought_chunk":
		c.began = true
		return one(agents.Reasoning{Content: text, IsPartial: true})
	}
	c.began = true
	c.turn.text.add(text, id)
	return one(agents.TextChunk{Content: text, IsPartial: true, Role: "assistant", MessageID: id})
}

// An answer collects what the model says in a turn.
type answer struct {
	segment []byte // since the last tool, or of the last message
	earlier []byte // the last segment before, unless it was blank
	message string // the id of the message that the segment belongs to
	closed  int    // the length of segment when the turn ended
	over    bool   // the turn has ended
	final   string // with this answer: what is said later is not part of it
}

// close takes what was said so far for the answer of the turn.
func (a *answer) close() { a.final, a.closed, a.over = a.String(), len(a.segment), true }

func (a *answer) add(text, message string) {
	if message != a.message {
		a.cut()
		a.message = message
	}
	a.segment = append(a.segment, text...)
}

// cut begins a new segment.
func (a *answer) cut() {
	if strings.TrimSpace(string(a.segment)) != "" {
		a.earlier = a.segment
	}
	a.segment, a.closed = nil, 0
}

// String is the final answer: what the model said after its last tool, or before that
// when it had nothing to add.
func (a *answer) String() string {
	if a.over {
		return a.final
	}
	if text := string(a.segment); strings.TrimSpace(text) != "" {
		return text
	}
	return string(a.earlier)
}

// after is what was said since the turn ended: the answer of a later one.
func (a *answer) after() answer {
	if len(a.segment) == a.closed {
		return answer{}
	}
	return answer{segment: a.segment[a.closed:], message: a.message}
}

func (c *Client) onPlan(u *fastjson.Value) []agents.Event {
	var items []agents.TodoItem
	for _, entry := range u.GetArray("entries") {
		item := agents.TodoItem{Text: native.String(entry, "content"), Status: native.String(entry, "status")}
		if item.Status != "in_progress" && item.Status != "completed" {
			item.Status = "pending"
		}
		items = append(items, item)
	}
	return one(agents.TodoList{Items: items})
}

// onTurnEnd takes the answer to session/prompt.
func (c *Client) onTurnEnd(result *fastjson.Value) []agents.Event {
	c.turn.ended, c.turn.stop = true, native.String(result, "stopReason")
	c.turn.text.close()
	usage := c.spent.takeUsage(result)
	if model := busiest(result.GetArray("_meta", "quota", "model_usage")); model != "" {
		c.model = model
	}
	return append(c.withdrawAll(), agents.Event{Body: agents.TurnCompleted{Usage: usage}})
}
