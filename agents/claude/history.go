package claude

import (
	"cmp"
	"path"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// Sessions says where Claude Code keeps its sessions. The files of subagents, which lie
// deeper, are not sessions of their own.
func (Adapter) Sessions() agents.SessionFiles {
	return agents.SessionFiles{
		Dir: func(getenv func(string) string) string {
			if dir := getenv("CLAUDE_CONFIG_DIR"); dir != "" {
				return dir
			}
			return homeDir(getenv("HOME"), ".claude")
		},
		Patterns: []string{"projects/*/*.jsonl"},
		ID: func(name string) string {
			id := strings.TrimSuffix(path.Base(name), ".jsonl")
			if !agents.IsUUID(id) {
				return "" // agent-….jsonl of older versions
			}
			return id
		},
	}
}

// homeDir is a directory of the user's home, "" if that is not known.
func homeDir(home, name string) string {
	if home == "" {
		return ""
	}
	return path.Join(home, name)
}

// History returns a reader of a session's file.
func (Adapter) History() agents.History {
	return &history{dialog: dialog{calls: map[string]call{}, subagents: map[string]bool{}}, seen: map[string]bool{}}
}

// A history reads the file of a session. The messages in it are almost those of the
// stream, so a dialog makes the events of them; beside them stand lines in which the CLI
// keeps things for itself. Those of the conversation have a uuid and name the one before:
// a tree, where a person went back and said something else. It is told in the order in
// which it was written, with what was left behind.
type history struct {
	dialog dialog
	turns  native.Turns
	about  agents.SessionSummary
	begun  bool
	last   time.Time       // of the line before
	seen   map[string]bool // uuids: some versions repeat lines

	message string       // the id of the model's latest message
	used    agents.Usage // what it used, as far as it is told
	whole   bool         // the usage of the whole session is known
}

// Summary is what is known of the session.
func (h *history) Summary() agents.SessionSummary {
	s := h.about
	messages, total := h.turns.Count()
	s.Messages = messages
	if !h.whole {
		s.Usage = total
	}
	return s
}

// Skip says that lines are left out here.
func (h *history) Skip() { h.turns.Skip() }

// End ends the last turn.
func (h *history) End() []agents.Event { return h.turns.End(0) }

// Line takes one line of the file.
func (h *history) Line(line []byte) []agents.Event {
	v, events := h.dialog.reader.Object(line)
	if v == nil {
		return events
	}
	at, _ := time.Parse(time.RFC3339, native.String(v, "timestamp")) // bookkeeping has none
	if id := native.String(v, "uuid"); id == "" {
		events = h.note(v)
	} else if !h.seen[id] {
		h.seen[id] = true
		events = h.begin(v)
		events = append(events, h.entry(v)...)
	}
	h.clock(at.UTC(), events)
	return events
}

// clock puts the time of a line on its events. The end of a turn that a prompt shows was
// when the line before was written.
func (h *history) clock(at time.Time, events []agents.Event) {
	if at.IsZero() {
		at = h.last
	}
	for i := range events {
		events[i].Time = at
		if _, ended := events[i].Body.(agents.TurnCompleted); ended {
			events[i].Time = h.last
		}
	}
	h.last = at
	if at.After(h.about.Updated) { // a fork begins with copies of its parent's lines
		h.about.Updated = at
	}
	if h.about.Created.IsZero() {
		h.about.Created = at
	}
}

// begin takes in what stands on every line of the conversation.
func (h *history) begin(v *fastjson.Value) []agents.Event {
	h.about.ID = cmp.Or(native.String(v, "sessionId"), h.about.ID)
	h.about.Version = cmp.Or(native.String(v, "version"), h.about.Version)
	if from := native.String(v, "requestSessionId"); from != "" && from != h.about.ID {
		h.about.Parent = from // a fork has copies of its parent's lines
	}
	if h.begun || native.String(v, "cwd") == "" {
		return nil
	}
	h.begun = true
	h.about.Dir = native.String(v, "cwd")
	h.dialog.dir = h.about.Dir
	return []agents.Event{{Body: agents.SessionStarted{Version: h.about.Version, Cwd: h.about.Dir}}}
}

// note takes in a line of the CLI's own, of which only what is new in it matters.
func (h *history) note(v *fastjson.Value) []agents.Event {
	switch native.String(v, "type") {
	case "cost-state": // over the whole session
		usage, _ := modelUsage(v.Get("modelUsage"))
		cost := finite(v.GetFloat64("totalCostUSD"))
		h.about.Usage, h.about.CostUSD, h.whole = &usage, &cost, true
	case "custom-title", "ai-title":
		h.about.Title = native.Title(first(v, "customTitle", "aiTitle"))
	case "summary":
		return system("summary", native.String(v, "summary"))
	}
	return nil
}

// entry is a line of the conversation.
func (h *history) entry(v *fastjson.Value) []agents.Event {
	switch typ := native.String(v, "type"); typ {
	case "user":
		return h.user(v)
	case "assistant":
		return h.assistant(v)
	case "system":
		return h.system(v)
	case "attachment", "progress": // what the CLI adds for the model; how tools get on
		return nil
	default:
		return native.Unknown(typ, v)
	}
}

// user is a prompt, the result of a tool, or something that the CLI says to the model.
func (h *history) user(v *fastjson.Value) []agents.Event {
	content := v.Get("message", "content")
	var events []agents.Event
	for _, block := range content.GetArray() {
		if native.String(block, "type") == "tool_result" {
			events = append(events, h.result(block, v)...)
		}
	}
	if text := contentText(content); text != "" {
		events = append(events, h.userText(v, text)...)
	}
	return events
}

func (h *history) result(block, line *fastjson.Value) []agents.Event {
	if c := h.dialog.calls[native.String(block, "tool_use_id")]; c.name == answerTool && !block.GetBool("is_error") {
		h.about.Status = agents.SessionCompleted
		h.turns.Answer()
	}
	return h.dialog.endTool(block, line)
}

func (h *history) userText(v *fastjson.Value, text string) []agents.Event {
	switch {
	case v.GetBool("isSidechain"):
		return nil // the prompt of a subagent, which its tool call has already told
	case v.GetBool("isCompactSummary"):
		return system("compact_summary", text)
	case v.GetBool("isMeta"), strings.HasPrefix(text, "<command-name>"), strings.HasPrefix(text, "<local-command-"):
		return system("local_command", text)
	case strings.HasPrefix(text, "[Request interrupted by user"):
		h.about.Status = agents.SessionCancelled
		return system("interrupted", text)
	}
	h.about.Status = agents.SessionUnfinished
	if h.about.Title == "" {
		h.about.Title = native.Title(text)
	}
	return append(h.turns.Prompt(), agents.Event{Body: agents.TextChunk{Content: text, Role: "user"}})
}

// assistant is one content block of a model's message.
func (h *history) assistant(v *fastjson.Value) []agents.Event {
	message := v.Get("message")
	switch {
	case native.String(message, "model") == "<synthetic>":
		return h.synthetic(v)
	case v.GetBool("isSidechain"):
		return h.subagent(v)
	}
	h.about.Model = cmp.Or(native.String(message, "model"), h.about.Model)
	h.about.Status = agents.SessionUnfinished
	if stop := native.String(message, "stop_reason"); stop != "" && stop != "tool_use" && stop != "pause_turn" {
		h.about.Status = agents.SessionCompleted
	}
	events := h.dialog.assistant(v)
	if contentText(message.Get("content")) != "" {
		h.turns.Answer()
	}
	return append(events, h.usage(message)...)
}

// usage counts what a message used. Each of its blocks tells that again; each time it is
// all it has used.
func (h *history) usage(message *fastjson.Value) []agents.Event {
	if id := native.String(message, "id"); id != h.message {
		h.message, h.used = id, agents.Usage{}
	}
	before := h.used
	h.used = apiUsage(message.Get("usage"))
	return h.turns.Use(h.used.Sub(before))
}

// synthetic is a message that the CLI made itself, with the words of a model.
func (h *history) synthetic(v *fastjson.Value) []agents.Event {
	text, class := contentText(v.Get("message", "content")), native.String(v, "error")
	if !v.GetBool("isApiErrorMessage") && class == "" {
		return system("synthetic_assistant", text)
	}
	h.about.Status = agents.SessionFailed
	f := failure{
		status: int(native.Int(v, "apiErrorStatus")), apiError: native.String(v, "apiError"),
		assistantError: class, text: text,
	}
	return []agents.Event{{Body: agents.Error{Message: text, Cause: f.cause()}}}
}

// subagent is a message of a subagent, which older versions keep in the same file. Which
// tool call began it is not told.
func (h *history) subagent(v *fastjson.Value) []agents.Event {
	var events []agents.Event
	for _, block := range v.GetArray("message", "content") {
		switch native.String(block, "type") {
		case "text":
			events = append(events, agents.Event{Body: agents.Subagent{
				SubagentID: native.String(v, "agentId"), Status: "progress", Message: native.String(block, "text"),
			}})
		case "tool_use":
			events = append(events, h.dialog.startTool(block, "")...)
		}
	}
	return events
}

func (h *history) system(v *fastjson.Value) []agents.Event {
	subtype, content := native.String(v, "subtype"), native.String(v, "content")
	switch subtype {
	case "turn_duration":
		return h.turns.End(time.Duration(native.Int(v, "durationMs")) * time.Millisecond)
	case "api_error":
		return []agents.Event{{Body: agents.Retry{
			Attempt: int(native.Int(v, "retryAttempt")), MaxRetries: int(native.Int(v, "maxRetries")),
			DelayMS: native.Int(v, "retryInMs"), Status: int(native.Int(v, "error", "status")), Message: content,
		}}}
	}
	return system(subtype, content)
}
