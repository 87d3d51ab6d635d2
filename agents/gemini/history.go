package gemini

import (
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// Sessions says where Gemini CLI keeps its sessions: by working directory, which a file
// beside them names. Older versions kept a session as one JSON object.
func (Adapter) Sessions() agents.SessionFiles {
	return agents.SessionFiles{
		Dir: func(getenv func(string) string) string {
			home := either(getenv("GEMINI_CLI_HOME"), getenv("HOME"))
			if home == "" {
				return ""
			}
			return path.Join(home, ".gemini")
		},
		Patterns: []string{"tmp/*/chats/session-*.jsonl", "tmp/*/chats/session-*.json"},
		ID: func(name string) string { // session-2026-11-21T19-19-11111111.jsonl
			name = strings.TrimSuffix(path.Base(name), path.Ext(name))
			return name[strings.LastIndexByte(name, '-')+1:]
		},
		Marker: func(name string) string { return path.Join(path.Dir(path.Dir(name)), ".project_root") },
	}
}

// History returns a reader of a session's file.
func (Adapter) History() agents.History {
	return &history{chat: chat{head: record{}}, known: map[string]record{}, calls: map[string]call{}}
}

// A history reads the file of a session. What stands in it may be replaced and taken back
// by later lines, so it is told at the end.
type history struct {
	reader native.Reader
	chat   chat
	// known are the messages as they were when they were said. A resume writes all of them
	// anew, with less in them: no thoughts, no tokens, the results of tools apart.
	known map[string]record

	turns native.Turns
	about agents.SessionSummary
	calls map[string]call // by tool id
}

// Summary is what is known of the session.
func (h *history) Summary() agents.SessionSummary {
	s := h.about
	s.Messages, s.Usage = h.turns.Count()
	return s
}

// Skip says that lines are left out here.
func (h *history) Skip() { h.turns.Skip() }

// Line takes one line of the file.
func (h *history) Line(line []byte) []agents.Event {
	var r record
	if json.Unmarshal(line, &r) != nil {
		_, events := h.reader.Object(line)
		return events
	}
	h.chat.add(r)
	if id := stringOf(r["id"]); id != "" && r["$set"] == nil {
		h.known[id] = r
	}
	h.about.ID = stringOf(h.chat.head["sessionId"])
	if h.about.Created.IsZero() { // a resume begins anew
		h.about.Created = timeOf(stringOf(r["startTime"]))
	}
	h.seen(timeOf(stringOf(h.chat.head["lastUpdated"])))
	return nil
}

func (h *history) seen(at time.Time) {
	if at.After(h.about.Updated) {
		h.about.Updated = at
	}
}

// timeOf is the zero time for a text that is none.
func timeOf(text string) time.Time {
	at, _ := time.Parse(time.RFC3339, text)
	return at.UTC()
}

// End tells the whole session.
func (h *history) End() []agents.Event {
	events := one(agents.SessionStarted{})
	events[0].Time = h.about.Created
	last := h.about.Created
	var parser fastjson.Parser
	for _, m := range h.chat.messages {
		if known := h.known[stringOf(m["id"])]; known != nil && m["tokens"] == nil {
			m = known
		}
		v, err := parser.ParseBytes(encodeJSON(m))
		if err != nil { // what encoding/json wrote, fastjson can read
			continue
		}
		said := h.message(v)
		at := timeOf(native.String(v, "timestamp"))
		for i := range said {
			said[i].Time = at
			if _, ended := said[i].Body.(agents.TurnCompleted); ended {
				said[i].Time = last
			}
		}
		events, last = append(events, said...), at
		h.seen(at)
	}
	ended := h.turns.End(0)
	for i := range ended {
		ended[i].Time = last
	}
	return append(events, ended...)
}

func (h *history) message(v *fastjson.Value) []agents.Event {
	switch typ := native.String(v, "type"); typ {
	case "user":
		return h.user(v)
	case "gemini":
		return h.model(v)
	case "info", "warning", "error":
		return one(agents.System{Subtype: typ, Message: textOf(parts(v.Get("content")))})
	default:
		return native.Unknown(typ, v)
	}
}

// parts are the parts of a content, which may also be one part alone, or a text.
func parts(content *fastjson.Value) []*fastjson.Value {
	if list := content.GetArray(); list != nil || content == nil {
		return list
	}
	return []*fastjson.Value{content}
}

// textOf joins the texts among parts.
func textOf(parts []*fastjson.Value) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(either(native.String(p), native.String(p, "text")))
	}
	return b.String()
}

// user is a prompt, or the results of tools.
func (h *history) user(v *fastjson.Value) []agents.Event {
	parts := parts(v.Get("content"))
	var events []agents.Event
	for _, p := range parts {
		if answer := p.Get("functionResponse"); answer != nil {
			events = append(events, h.answered(answer)...)
		}
	}
	text := textOf(parts)
	if text == "" || strings.HasPrefix(text, "<session_context>") { // the CLI's own introduction
		return events
	}
	text = asGiven(text)
	h.about.Status = agents.SessionUnfinished
	h.about.Title = either(h.about.Title, native.Title(text))
	events = append(events, h.turns.Prompt()...)
	return append(events, one(agents.TextChunk{Content: text, Role: "user"})...)
}

// model is a message of the model: thoughts, text, and calls of tools, which stand with
// their results in a list of their own as long as no resume has written them anew.
func (h *history) model(v *fastjson.Value) []agents.Event {
	h.about.Model = either(native.String(v, "model"), h.about.Model)
	h.about.Status = agents.SessionUnfinished
	var events []agents.Event
	for _, t := range v.GetArray("thoughts") {
		thought := strings.TrimSpace(native.String(t, "subject") + "\n" + native.String(t, "description"))
		events = append(events, one(agents.Reasoning{Content: thought})...)
	}
	parts := parts(v.Get("content"))
	if text := textOf(parts); text != "" {
		h.turns.Answer()
		h.about.Status = agents.SessionCompleted
		events = append(events, one(agents.TextChunk{Content: text, Role: "assistant", MessageID: native.String(v, "id")})...)
	}
	events = append(events, h.tools(v.GetArray("toolCalls"), parts)...)
	return append(events, h.turns.Use(tokens(v.Get("tokens")))...)
}

// tokens reads the counts of one call of the model.
func tokens(v *fastjson.Value) agents.Usage {
	return agents.Usage{
		InputTokens: native.Int(v, "input"), OutputTokens: native.Int(v, "output"), CachedTokens: native.Int(v, "cached"),
		ReasoningTokens: native.Int(v, "thoughts"), TotalTokens: native.Int(v, "total"),
	}
}
