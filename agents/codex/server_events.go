package codex

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// told translates a notification.
func (c *Conversation) told(method string, v *fastjson.Value) []agents.Event {
	params := v.Get("params")
	switch method {
	case "item/started", "item/completed":
		return c.item(method == "item/completed", params, v)
	case "thread/started":
		return c.threadStarted(params.Get("thread"))
	case "turn/started", "turn/completed":
		return c.turned(method, params)
	case "thread/tokenUsage/updated":
		return c.used(params)
	case "account/rateLimits/updated":
		return c.limits(params.Get("rateLimits"))
	case "error":
		return c.troubled(params)
	case "serverRequest/resolved":
		return c.resolved(string(native.Raw(params, "requestId")))
	case "turn/plan/updated":
		return bodies(planned(params))
	case "mcpServer/startupStatus/updated":
		return startup(params)
	default:
		return c.noted(method, params, v)
	}
}

// noted translates the notifications that only tell of something in passing.
func (c *Conversation) noted(method string, params, v *fastjson.Value) []agents.Event {
	text := func(keys ...string) string { return native.String(params, keys...) }
	switch method {
	case "item/agentMessage/delta", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta",
		"item/reasoning/summaryPartAdded", "item/commandExecution/outputDelta", "item/fileChange/outputDelta",
		"item/mcpToolCall/progress", "item/commandExecution/terminalInteraction", "item/fileChange/patchUpdated":
		return c.delta(method, params)
	case "warning", "configWarning", "deprecationNotice", "guardianWarning":
		message := strings.TrimSpace(text("message") + text("summary") + " " + text("details"))
		return bodies(agents.System{Subtype: "warning", Message: message})
	case "model/rerouted":
		if text("threadId") == c.thread && text("toModel") != "" {
			c.model = text("toModel")
		}
		return bodies(agents.System{Subtype: "model", Message: text("fromModel") + " → " + text("toModel")})
	case "thread/compacted": // the item contextCompaction tells
		return nil
	case "hook/started", "hook/completed":
		return bodies(agents.System{Subtype: "hook", Message: text("run", "eventName") + " " + text("run", "status")})
	case "thread/status/changed", "thread/readState/changed", "thread/name/updated", "thread/settings/updated",
		"thread/closed", "thread/archived", "turn/diff/updated", "item/plan/delta", "remoteControl/status/changed",
		"account/updated", "app/list/updated", "skills/changed": // of no interest to a turn
		return nil
	default:
		return native.Unknown(method, v)
	}
}

// threadStarted tells of the thread of a subagent; the turn's own is known by then.
func (c *Conversation) threadStarted(thread *fastjson.Value) []agents.Event {
	id, parent := native.String(thread, "id"), native.String(thread, "parentThreadId")
	if id == "" || id == c.thread || parent == "" {
		return nil
	}
	return bodies(agents.Subagent{SubagentID: id, Status: "started", Message: native.String(thread, "agentNickname")})
}

// turned takes the start or the end of a turn. Those of subagents' threads are news of
// the subagents.
func (c *Conversation) turned(method string, params *fastjson.Value) []agents.Event {
	thread, id := native.String(params, "threadId"), native.String(params, "turn", "id")
	switch {
	case c.foreign(thread):
		return subagentTurned(method, thread, params.Get("turn"))
	case method == "turn/completed":
		return c.turnEnded(id, params.Get("turn"))
	case c.turn != "" && c.turn != id && native.String(params, "turn", "rootTurnId") == c.turn:
		return nil // a review has a turn within
	case c.end != nil || c.turn != id: // the next turn: what the last one said is not its answer
		c.end, c.turn, c.answer = nil, "", nil
		c.turnKnown(id)
	}
	return bodies(agents.TurnStarted{})
}

// foreign reports whether a thread is another than that of the conversation.
func (c *Conversation) foreign(thread string) bool {
	return thread != "" && c.thread != "" && thread != c.thread
}

func subagentTurned(method, thread string, turn *fastjson.Value) []agents.Event {
	s := agents.Subagent{SubagentID: thread, Status: "progress"}
	switch {
	case method == "turn/started":
	case native.String(turn, "status") == "completed":
		s.Status = "completed"
	default:
		s.Status, s.Message = "failed", native.String(turn, "error", "message")
	}
	return bodies(s)
}

// turnEnded keeps how the turn ended. What is still pending then gets no answer any more.
func (c *Conversation) turnEnded(id string, turn *fastjson.Value) []agents.Event {
	if c.end != nil {
		return native.SecondEnd("turn/completed", turn)
	}
	if c.turn != "" && id != c.turn {
		return nil
	}
	end := &ending{status: native.String(turn, "status")}
	if end.status == "failed" {
		end.err = c.failure(turn.Get("error"))
	}
	c.end, c.turn = end, ""
	c.duration += time.Duration(max(0, native.Int(turn, "durationMs"))) * time.Millisecond
	events := c.withdrawAll()
	return append(events, bodies(agents.TurnCompleted{Usage: c.turnUsage(), DurationMS: native.Int(turn, "durationMs")})...)
}

// used takes a count of tokens: total is of the whole thread.
func (c *Conversation) used(params *fastjson.Value) []agents.Event {
	total := params.Get("tokenUsage", "total")
	if total == nil {
		return nil
	}
	usage := readTotals(total)
	if thread := native.String(params, "threadId"); c.foreign(thread) {
		c.others[thread] = *usage
	} else {
		c.total = usage
	}
	if so := c.turnUsage(); so != nil {
		return bodies(agents.UsageReport{Usage: *so})
	}
	return nil
}

// readTotals reads app-server's counts.
func readTotals(v *fastjson.Value) *agents.Usage {
	count := func(key string) int64 { return max(0, native.Int(v, key)) }
	u := agents.Usage{
		InputTokens:      count("inputTokens"),
		OutputTokens:     count("outputTokens"),
		CachedTokens:     count("cachedInputTokens"),
		CacheWriteTokens: count("cacheWriteInputTokens"),
		ReasoningTokens:  count("reasoningOutputTokens"),
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return &u
}

// limits tells of the windows of the account's limits whose state has changed.
func (c *Conversation) limits(v *fastjson.Value) []agents.Event {
	reached := native.String(v, "rateLimitReachedType") != ""
	var events []agents.Event
	for _, key := range []string{"primary", "secondary"} {
		window := v.Get(key)
		if window == nil || window.Type() != fastjson.TypeObject {
			continue
		}
		l := limit(native.String(v, "limitId"), window, reached)
		if last, known := c.windows[l.Limit]; known && sameLimit(last, l) {
			continue
		}
		c.windows[l.Limit] = l
		if l.Status == "rejected" && l.ResetsAt != nil && l.ResetsAt.After(c.resets) {
			c.resets = *l.ResetsAt
		}
		events = append(events, bodies(l)...)
	}
	return events
}

// limit reads one window, named after what it limits and how long it is.
func limit(id string, window *fastjson.Value, reached bool) agents.RateLimit {
	percent := native.Int(window, "usedPercent")
	l := agents.RateLimit{Status: "allowed", Limit: id, Used: min(max(float64(percent)/100, 0), 1)}
	if minutes := native.Int(window, "windowDurationMins"); minutes > 0 {
		l.Limit = strings.TrimSpace(id + " " + span(minutes))
	}
	switch {
	case percent >= 100:
		l.Status = "rejected"
	case reached || percent >= 90:
		l.Status = "warning"
	}
	if at := native.Int(window, "resetsAt"); at > 0 {
		t := time.Unix(at, 0).UTC()
		l.ResetsAt = &t
	}
	return l
}

// span is a number of minutes for people: 5h, 7d.
func span(minutes int64) string {
	switch {
	case minutes%(24*60) == 0:
		return strconv.FormatInt(minutes/(24*60), 10) + "d"
	case minutes%60 == 0:
		return strconv.FormatInt(minutes/60, 10) + "h"
	default:
		return strconv.FormatInt(minutes, 10) + "m"
	}
}

func sameLimit(a, b agents.RateLimit) bool {
	same := a.ResetsAt == nil && b.ResetsAt == nil || a.ResetsAt != nil && b.ResetsAt != nil && a.ResetsAt.Equal(*b.ResetsAt)
	a.ResetsAt, b.ResetsAt = nil, nil
	return same && a == b
}

// troubled translates an `error`. It ends nothing: the end of the turn tells.
func (c *Conversation) troubled(params *fastjson.Value) []agents.Event {
	p := c.failure(params.Get("error"))
	c.trouble = p.Message
	if !params.GetBool("willRetry") {
		return bodies(agents.Error{Message: p.Message, Cause: known(p.Cause)})
	}
	c.retries++
	r := agents.Retry{Attempt: c.retries, Cause: known(p.Cause), Message: p.Message, Status: statusOf(params.Get("error", "codexErrorInfo"))}
	if said, ok := readRetry(native.String(params, "error", "message")); ok && said.Attempt > 0 {
		r.Attempt, r.MaxRetries = said.Attempt, said.MaxRetries
	}
	return bodies(r)
}

func planned(params *fastjson.Value) agents.TodoList {
	var list agents.TodoList
	for _, step := range params.GetArray("plan") {
		status := native.String(step, "status")
		if status == "inProgress" {
			status = "in_progress"
		}
		list.Items = append(list.Items, agents.TodoItem{Text: native.String(step, "step"), Status: status})
	}
	return list
}

// startup tells of MCP servers that are not there.
func startup(params *fastjson.Value) []agents.Event {
	if native.String(params, "status") != "failed" {
		return nil
	}
	message := native.String(params, "name") + ": " + native.String(params, "error")
	return bodies(agents.System{Subtype: "mcp", Message: clip(message, maxMessage)})
}

// delta translates a piece of an item.
func (c *Conversation) delta(method string, params *fastjson.Value) []agents.Event {
	id, text := native.String(params, "itemId"), native.String(params, "delta")
	if c.foreign(native.String(params, "threadId")) && !strings.Contains(method, "Execution") {
		return nil // what a subagent says; its whole messages tell
	}
	switch method {
	case "item/agentMessage/delta":
		c.began = true
		c.at(id).said.WriteString(text)
		return bodies(agents.TextChunk{Content: text, IsPartial: true, Role: "assistant", MessageID: id})
	case "item/reasoning/summaryPartAdded":
		if native.Int(params, "summaryIndex") == 0 {
			return nil
		}
		text = "\n"
		fallthrough
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta":
		c.began = true
		c.at(id).said.WriteString(text)
		return bodies(agents.Reasoning{Content: text, IsPartial: true})
	case "item/commandExecution/terminalInteraction":
		return c.typedInto(id, native.String(params, "stdin"))
	case "item/mcpToolCall/progress":
		text = native.String(params, "message")
	}
	if c.at(id).state != toolOpen {
		return nil
	}
	return bodies(agents.ToolProgress{ToolID: id, Output: text})
}

// typedInto tells of what the model typed into a command that runs, as of a command of
// its own: that is what it is to a shell.
func (c *Conversation) typedInto(id, text string) []agents.Event {
	if text == "" { // a look at the output
		return bodies(agents.ToolProgress{ToolID: id})
	}
	c.typed++
	call := call{
		name: agents.ToolShell, native: "write_stdin", target: text, risk: agents.RiskHigh,
		arguments: pickText("stdin", text),
	}
	tool := id + "/" + strconv.Itoa(c.typed)
	return bodies(call.started(tool), agents.ToolCompleted{ToolID: tool, Success: true})
}
