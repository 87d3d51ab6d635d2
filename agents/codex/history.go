package codex

import (
	"cmp"
	"path"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// Sessions says where Codex keeps its threads: by day, and apart those that were archived.
func (Adapter) Sessions() agents.SessionFiles {
	return agents.SessionFiles{
		Dir: func(getenv func(string) string) string {
			if dir := getenv("CODEX_HOME"); dir != "" {
				return dir
			}
			if home := getenv("HOME"); home != "" {
				return path.Join(home, ".codex")
			}
			return ""
		},
		Patterns: []string{"sessions/*/*/*/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl"},
		ID: func(name string) string { // rollout-2026-11-21T19-19-02-UUID.jsonl
			name = strings.TrimSuffix(path.Base(name), ".jsonl")
			id := name[max(0, len(name)-36):]
			if !agents.IsUUID(id) {
				return ""
			}
			return id
		},
	}
}

// History returns a reader of a thread's file.
func (Adapter) History() agents.History {
	return &history{calls: map[string]*storedCall{}}
}

// A history reads the file of a thread, a rollout. Each line has a type and a payload. The
// conversation stands there twice: as it was shown (event_msg) and as the model has it
// (response_item), which is more than was said. So what is said is taken from the events,
// and the tools from both: the model's calls are always there, and an event that tells of
// one tells it better.
type history struct {
	reader  native.Reader
	turns   native.Turns
	about   agents.SessionSummary
	dialect string // of what is said: "items", or "messages" in files of older versions
	calls   map[string]*storedCall
	total   agents.Usage // of the whole thread
}

// Summary is what is known of the thread.
func (h *history) Summary() agents.SessionSummary {
	s := h.about
	s.Messages, _ = h.turns.Count()
	if h.total != (agents.Usage{}) {
		total := h.total
		s.Usage = &total
	}
	return s
}

// Skip says that lines are left out here.
func (h *history) Skip() { h.turns.Skip() }

// End ends the last turn.
func (h *history) End() []agents.Event { return h.turns.End(0) }

// Line takes one line of the file.
func (h *history) Line(line []byte) []agents.Event {
	v, events := h.reader.Object(line)
	if v == nil {
		return events
	}
	if at, err := time.Parse(time.RFC3339, native.String(v, "timestamp")); err == nil {
		h.about.Updated = at.UTC()
		if h.about.Created.IsZero() {
			h.about.Created = h.about.Updated
		}
	}
	events = h.entry(native.String(v, "type"), v.Get("payload"), v)
	for i := range events {
		events[i].Time = h.about.Updated
	}
	return events
}

func (h *history) entry(typ string, payload, line *fastjson.Value) []agents.Event {
	switch typ {
	case "session_meta":
		return h.meta(payload)
	case "turn_context":
		h.about.Model = cmp.Or(native.String(payload, "model"), h.about.Model)
		return nil
	case "event_msg":
		return h.event(payload)
	case "response_item":
		return h.response(payload)
	case "compacted":
		return bodies(agents.System{Subtype: "compacted", Message: native.String(payload, "message")})
	case "world_state", "token_usage_record": // told elsewhere too
		return nil
	default:
		return native.Unknown(typ, line)
	}
}

// meta is the head of the file. A fork of older versions has its parent's after its own.
func (h *history) meta(payload *fastjson.Value) []agents.Event {
	if h.about.ID != "" {
		return nil
	}
	h.about.ID, h.about.Parent = native.String(payload, "id"), native.String(payload, "forked_from_id")
	h.about.Dir, h.about.Version = native.String(payload, "cwd"), native.String(payload, "cli_version")
	events := bodies(agents.SessionStarted{Version: h.about.Version, Cwd: h.about.Dir})
	if h.about.Parent != "" { // whose file has what was said before
		events = append(events, bodies(agents.System{Subtype: "forked", Message: h.about.Parent})...)
	}
	return events
}

// event is a line of what was shown. There are many types, and more with every version:
// those that are left out tell nothing that the others do not.
func (h *history) event(payload *fastjson.Value) []agents.Event {
	switch typ := native.String(payload, "type"); typ {
	case "item_completed":
		return h.item(payload.Get("item"))
	case "user_message", "agent_message", "agent_reasoning":
		return h.said("messages", typ, cmp.Or(native.String(payload, "message"), native.String(payload, "text")))
	case "token_count":
		return h.counted(payload.Get("info", "total_token_usage"))
	case "task_complete":
		return h.ended(agents.SessionCompleted, payload)
	case "turn_aborted":
		return append(bodies(agents.System{Subtype: typ, Message: native.String(payload, "reason")}), h.ended(agents.SessionCancelled, payload)...)
	case "error":
		message := unwrap(native.String(payload, "message"))
		h.about.Status = agents.SessionFailed
		return bodies(agents.Error{Message: message, Cause: known(classify(message))})
	case "thread_rolled_back", "context_compacted", "entered_review_mode", "exited_review_mode":
		return bodies(agents.System{Subtype: typ})
	default:
		return nil
	}
}

// ended ends a turn. One that failed says so twice: with an error, and with an end like any
// other.
func (h *history) ended(status agents.SessionStatus, payload *fastjson.Value) []agents.Event {
	if h.about.Status != agents.SessionFailed {
		h.about.Status = status
	}
	return h.turns.End(time.Duration(native.Int(payload, "duration_ms")) * time.Millisecond)
}

// said is a prompt, an answer or a thought. A file holds these in one dialect; would one
// hold them in both, the first counts.
func (h *history) said(dialect, typ, text string) []agents.Event {
	if h.dialect == "" {
		h.dialect = dialect
	}
	if h.dialect != dialect || text == "" {
		return nil
	}
	switch typ {
	case "user_message", "UserMessage":
		h.about.Status = agents.SessionUnfinished
		h.about.Title = cmp.Or(h.about.Title, native.Title(text))
		return append(h.turns.Prompt(), bodies(agents.TextChunk{Content: text, Role: "user"})...)
	case "agent_message", "AgentMessage":
		h.turns.Answer()
		return bodies(agents.TextChunk{Content: text, Role: "assistant"})
	default:
		return bodies(agents.Reasoning{Content: text})
	}
}

// counted takes in what the thread has used so far.
func (h *history) counted(total *fastjson.Value) []agents.Event {
	if total.GetObject() == nil {
		return nil
	}
	before := h.total
	h.total = *readUsage(total)
	if h.about.Parent != "" && before == (agents.Usage{}) {
		return nil // the count of a fork begins at its parent's
	}
	return h.turns.Use(h.total.Sub(before))
}

// item is one piece of the conversation as it was shown when it was whole.
func (h *history) item(item *fastjson.Value) []agents.Event {
	switch typ := native.String(item, "type"); typ {
	case "UserMessage", "AgentMessage":
		return h.said("items", typ, itemText(item.GetArray("content")))
	case "Reasoning":
		return h.said("items", typ, cmp.Or(itemText(item.GetArray("summary_text")), itemText(item.GetArray("raw_content"))))
	case "CommandExecution", "FileChange", "McpToolCall", "WebSearch", "ImageView", "DynamicToolCall", "CollabAgentToolCall":
		return h.toolItem(typ, item)
	case "ContextCompaction": // told by the line that has the summary
		return nil
	case "Plan":
		return h.said("items", "AgentMessage", native.String(item, "text"))
	default:
		return native.Unknown("item_completed "+typ, item)
	}
}

// itemText joins the texts of a content: strings, or objects that have one.
func itemText(content []*fastjson.Value) string {
	var texts []string
	for _, part := range content {
		if text := cmp.Or(native.String(part), native.String(part, "text")); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
