package claude

import (
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A dialog is the agents.Dialog of one process.
type dialog struct {
	reader native.Reader
	dir    string   // working directory, of the request or as the CLI tells it
	wanted []string // tools that were asked for; nil when that is not known

	spoke   bool   // a message was seen
	session string // as the last line that decides said
	started string // the session that was announced
	version string
	model   string // that of init, then that of the last answer
	began   bool   // the model was seen at work

	complaint string // an error that older versions report on a line of its own

	answer    answer
	stream    stream
	calls     map[string]call // open tool calls by id
	subagents map[string]bool // background tasks that are agents, by task id
	consulted map[string]bool // ids of calls that flow was asked about; nil: it never is
	denied    denials
	spent     agents.Usage // tokens of the messages streamed so far
	tally     tally
	verdict   verdict
	tasks     int // that run in the background
}

// SessionID is the native session as far as it is known.
func (d *dialog) SessionID() string { return d.session }

// Line translates one line of standard output.
func (d *dialog) Line(line []byte) []agents.Event { return d.read(line, d.message) }

// read translates a line by means of message.
func (d *dialog) read(line []byte, message func(*fastjson.Value) []agents.Event) []agents.Event {
	v, events := d.reader.Object(line)
	if v == nil {
		return events
	}
	d.spoke = true
	d.noteSession(v)
	events = message(v)
	if at, err := time.Parse(time.RFC3339, native.String(v, "timestamp")); err == nil {
		for i := range events {
			events[i].Time = at.UTC()
		}
	}
	return events
}

// Stderr keeps the warnings: an effort that the CLI does not know, say, is ignored
// with a warning there and nowhere else.
func (d *dialog) Stderr(line []byte) []agents.Event {
	text, ok := strings.CutPrefix(string(line), "Warning:")
	if !ok {
		return nil
	}
	return system("warning", strings.TrimSpace(text))
}

// noteSession follows the session id, which stands on nearly every line. Only init
// and result may change it: /clear begins another session in mid-process.
func (d *dialog) noteSession(v *fastjson.Value) {
	id := native.String(v, "session_id")
	if id == "" {
		return
	}
	if typ := native.String(v, "type"); d.session == "" || typ == "result" ||
		typ == "system" && native.String(v, "subtype") == "init" {
		d.session = id
	}
}

func (d *dialog) message(v *fastjson.Value) []agents.Event {
	switch typ := native.String(v, "type"); typ {
	case "system":
		return d.system(v)
	case "assistant":
		d.verdict.fresh = false
		return d.assistant(v)
	case "user":
		d.verdict.fresh = false
		return d.user(v)
	case "stream_event":
		return d.streamEvent(v)
	case "result":
		return d.result(v)
	case "rate_limit_event":
		return d.rateLimit(v.Get("rate_limit_info"))
	case "tool_progress":
		return toolProgress(v)
	case "control_request", "control_response", "control_cancel_request", olderRequest:
		return d.control(typ, v)
	case "command_lifecycle":
		return system(typ, native.String(v, "state"))
	case "conversation_reset":
		return system(typ, native.String(v, "trigger"))
	default:
		if events, ok := d.olderMessage(typ, v); ok {
			return events
		}
		return native.Unknown(typ, v)
	}
}

// assistant is one content block (by habit, not by promise) of a model's message.
func (d *dialog) assistant(v *fastjson.Value) []agents.Event {
	message, parent := v.Get("message"), native.String(v, "parent_tool_use_id")
	model := native.String(message, "model")
	if model == "" {
		model = native.String(v, "model") // the older protocol
	}
	switch {
	case model == "<synthetic>":
		return d.synthetic(v)
	case parent != "":
		return d.subagentMessage(v, parent)
	case model != "":
		d.model = model
	}
	id := messageID(v)
	d.began = true
	d.answer.begin(id)
	var events []agents.Event
	for _, block := range message.GetArray("content") {
		events = append(events, d.block(id, block)...)
	}
	return events
}

func (d *dialog) block(id string, block *fastjson.Value) []agents.Event {
	switch typ := native.String(block, "type"); typ {
	case "text":
		text := native.String(block, "text")
		d.answer.add(text)
		rest, partial := d.stream.rest(id, typ, text)
		if rest == "" {
			return nil
		}
		fresh := d.stream.fresh(rest)
		return chunk(id, fresh, partial || len(fresh) < len(rest))
	case "thinking":
		if rest, partial := d.stream.rest(id, typ, native.String(block, "thinking")); rest != "" {
			return []agents.Event{{Body: agents.Reasoning{Content: rest, IsPartial: partial}}}
		}
		return nil
	case "redacted_thinking":
		return nil
	case "tool_use":
		return d.startTool(block, "")
	default:
		return native.Unknown("assistant/"+typ, block)
	}
}

// synthetic is a message that the CLI made itself, with the words of a model: an
// error of the API, or what a slash command printed. Neither is an answer.
func (d *dialog) synthetic(v *fastjson.Value) []agents.Event {
	text := contentText(v.Get("message", "content"))
	class := native.String(v, "error")
	if !v.GetBool("is_api_error_message") && class == "" {
		return system("synthetic_assistant", text)
	}
	if native.String(v, "parent_tool_use_id") == "" { // a subagent's failure does not explain that of the turn
		d.verdict.assistantError = class
	}
	f := failure{
		status: int(native.Int(v, "api_error_status")), apiError: native.String(v, "api_error"),
		apiType: native.String(v, "api_error_type"), assistantError: class, text: text,
	}
	if native.String(v, "refused_message_id") != "" {
		f.stop = "refusal"
	}
	return []agents.Event{{Body: agents.Error{Message: text, Cause: f.cause()}}}
}

// subagentMessage is a block of a subagent's message. Its text is news of the
// subagent, not part of the conversation; its tools are told like all others.
func (d *dialog) subagentMessage(v *fastjson.Value, parent string) []agents.Event {
	var events []agents.Event
	for _, block := range v.GetArray("message", "content") {
		switch native.String(block, "type") {
		case "text":
			events = append(events, agents.Event{Body: agents.Subagent{
				SubagentID: native.String(v, "agent_id"), Status: "progress", ParentID: parent,
				Message: native.String(block, "text"),
			}})
		case "tool_use":
			events = append(events, d.startTool(block, parent)...)
		}
	}
	return events
}

// user is what the model is told: results of tools, and words that are seldom a
// user's. The prompt itself is not repeated.
func (d *dialog) user(v *fastjson.Value) []agents.Event {
	content := v.Get("message", "content")
	if v.GetBool("isReplay") {
		return system("replay", contentText(content))
	}
	var events []agents.Event
	for _, block := range content.GetArray() {
		if native.String(block, "type") == "tool_result" {
			events = append(events, d.endTool(block, v)...)
		}
	}
	if text := contentText(content); text != "" {
		events = append(events, d.userText(v, text)...)
	}
	return events
}

func (d *dialog) userText(v *fastjson.Value, text string) []agents.Event {
	switch {
	case native.String(v, "parent_tool_use_id") != "":
		return nil // the prompt of a subagent, which its tool call has already told
	case v.GetBool("isSynthetic"):
		d.answer.goesOn = asksToContinue(text)
		return system("synthetic_user", text)
	default:
		d.verdict.interrupted = d.verdict.interrupted || strings.HasPrefix(text, "[Request interrupted by user")
		return []agents.Event{{Body: agents.TextChunk{Content: text, Role: "user"}}}
	}
}

// asksToContinue reports whether the CLI told the model that its message was cut,
// by a broken stream or by the output limit, and is to go on where it stopped.
func asksToContinue(text string) bool {
	return strings.HasPrefix(text, "Your response above was cut off") ||
		strings.HasPrefix(text, "Output token limit hit")
}

// An answer collects the text of the last message of the main conversation, over
// all its blocks and over the messages that continue it. The result has only the
// last block of the last one.
type answer struct {
	id     string
	text   strings.Builder
	goesOn bool // the next message continues this one
}

// begin is called with the id of every message, once a block.
func (a *answer) begin(id string) {
	if id == a.id {
		return
	}
	if !a.goesOn {
		a.text.Reset()
	}
	a.id, a.goesOn = id, false
}

func (a *answer) add(text string) { a.text.WriteString(text) }
