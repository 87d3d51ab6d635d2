package gemini

import (
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A dialog reads the six message types of stream-json (init, message, tool_use,
// tool_result, error, result), each with a timestamp of its own.
type dialog struct {
	reader   native.Reader
	dir      string
	maxTurns int
	ownHome  bool // the CLI has our settings, whatever it makes of the system's

	session string
	model   string // as init names it: what was asked for, not what answered
	began   bool
	heard   bool // any message of the protocol came

	segment strings.Builder // assistant text since the last tool result
	earlier string          // the last segment before, unless it was blank
	calls   map[string]call // by tool id
	ended   native.Ring     // the ids of those that have ended
	denied  []string

	trouble string  // message of the last error event, "" if there was none
	result  *result // the first one

	retry           *agents.Retry // a retry whose line goes on
	settingsSkipped string        // why the CLI did not read our settings, or ""
}

// A result is the last message of a turn that ran to an end.
type result struct {
	success   bool
	errorType string
	message   string
	usage     *agents.Usage
	model     string // the one with the most tokens
	duration  time.Duration
}

// SessionID is the native session's id once init has told it.
func (d *dialog) SessionID() string { return d.session }

// Ended reports whether the turn has ended.
func (d *dialog) Ended() bool { return d.result != nil }

// Line takes a line of standard output.
func (d *dialog) Line(line []byte) []agents.Event {
	v, events := d.reader.Object(line)
	if v == nil {
		return events
	}
	events = d.message(v)
	if at, err := time.Parse(time.RFC3339, native.String(v, "timestamp")); err == nil {
		for i := range events {
			events[i].Time = at
		}
	}
	return events
}

func (d *dialog) message(v *fastjson.Value) []agents.Event {
	typ := native.String(v, "type")
	switch typ {
	case "init":
		return d.onInit(v)
	case "message":
		return d.onMessage(v)
	case "tool_use":
		return d.onToolUse(v)
	case "tool_result":
		return d.onToolResult(v)
	case "error":
		return d.onError(v)
	case "result":
		return d.onResult(v)
	}
	return native.Unknown(typ, v)
}

func (d *dialog) onInit(v *fastjson.Value) []agents.Event {
	d.heard = true
	d.session, d.model = either(d.session, native.String(v, "session_id")), native.String(v, "model")
	return one(agents.SessionStarted{Model: d.model})
}

// onMessage takes the prompt's echo, which is whole, and the assistant's text,
// which comes in deltas that no whole message repeats.
//
// When the model's stream breaks in mid answer the CLI asks again without a word,
// and the text it had printed stays: "a b " and then "a b c". Nothing in the
// stream tells such a text from a good one.
func (d *dialog) onMessage(v *fastjson.Value) []agents.Event {
	d.heard = true
	role, content := native.String(v, "role"), native.String(v, "content")
	switch role {
	case "user":
		if d.ownHome {
			content = strings.TrimPrefix(content, verbatim)
		}
		return one(agents.TextChunk{Content: content, Role: role})
	case "assistant":
		d.began = true
		partial := v.GetBool("delta")
		if !partial { // never seen; would it repeat the deltas, only what is new counts
			content = strings.TrimPrefix(content, d.segment.String())
		}
		if content == "" {
			return nil
		}
		d.segment.WriteString(content)
		return one(agents.TextChunk{Content: content, IsPartial: partial, Role: role})
	}
	return native.Unknown("message", v)
}

func (d *dialog) onToolUse(v *fastjson.Value) []agents.Event {
	d.heard = true
	id, name := native.String(v, "tool_id"), native.String(v, "tool_name")
	if id == "" || name == "" || d.calls[id].untold {
		return native.Unknown("tool_use", v)
	}
	return d.startTool(id, name, v.Get("parameters"))
}

func (d *dialog) startTool(id, name string, parameters *fastjson.Value) []agents.Event {
	d.began = true
	c := newCall(name, parameters, d.dir)
	d.calls[id] = c
	return one(agents.ToolStarted{
		ToolID: id, ToolName: c.tool, NativeName: name, Target: c.target,
		Risk: agents.RiskOf(c.tool, c.target, d.dir), Arguments: native.Raw(parameters),
	})
}

// onToolResult ends a call. One whose start was not told, or could not be read, is
// begun here: its id begins with the tool's name.
func (d *dialog) onToolResult(v *fastjson.Value) []agents.Event {
	d.heard = true
	d.endSegment()
	id := native.String(v, "tool_id")
	c, told := d.calls[id]
	if id == "" || c.ended {
		return native.Unknown("tool_result", v)
	}
	var events []agents.Event
	if !told {
		name, _, _ := strings.Cut(id, "__")
		events = d.startTool(id, name, nil)
	}
	c = d.calls[id]
	d.calls[id] = call{ended: true, untold: !told}
	delete(d.calls, d.ended.Put(id))
	return append(events, d.endTool(id, c, v)...)
}

// endTool takes what the CLI would show a person of a tool's result: the content of
// a file that was read is not in it, nor a shell command's exit status, and a
// command that exits 3 is a success.
func (d *dialog) endTool(id string, c call, v *fastjson.Value) []agents.Event {
	done := agents.ToolCompleted{
		ToolID: id, Success: native.String(v, "status") == "success", Result: native.Raw(v, "output"),
	}
	if done.Success {
		return append(one(done), c.effects(id)...)
	}
	done.Error = either(native.String(v, "error", "message"), native.String(v, "output"), "the tool failed")
	kind := native.String(v, "error", "type")
	if c.declined(kind, done.Error) {
		d.denied = append(d.denied, c.String())
	}
	done.Declined = notMade(kind)
	return one(done)
}

func (d *dialog) endSegment() {
	if text := d.segment.String(); strings.TrimSpace(text) != "" {
		d.earlier = text
	}
	d.segment.Reset()
}

// text is the final answer: what the model said after its last tool, or before
// that when it had nothing to add.
func (d *dialog) text() string {
	if text := d.segment.String(); strings.TrimSpace(text) != "" {
		return text
	}
	return d.earlier
}

func (d *dialog) onError(v *fastjson.Value) []agents.Event {
	d.heard = true
	message := either(readable(native.String(v, "message")), "an error without a message")
	d.trouble = message
	return one(agents.Error{Message: message, Cause: causeOf(0, "", message)})
}

func (d *dialog) onResult(v *fastjson.Value) []agents.Event {
	d.heard = true
	if d.result != nil {
		return native.SecondEnd("result", v)
	}
	d.result = newResult(v)
	return one(agents.TurnCompleted{Usage: d.result.usage, DurationMS: d.result.duration.Milliseconds()})
}

func newResult(v *fastjson.Value) *result {
	stats := v.Get("stats")
	return &result{
		success:   native.String(v, "status") == "success",
		errorType: native.String(v, "error", "type"),
		message:   native.String(v, "error", "message"),
		usage:     usageOf(stats),
		model:     busiest(stats.GetObject("models")),
		duration:  time.Duration(native.Int(stats, "duration_ms")) * time.Millisecond,
	}
}

// usageOf reads the counts of one process: they do not add up over resumed turns.
// What total_tokens has beyond input and output are the thoughts, which no field
// names. It returns nil for counts that are all zero, as they are after a failed
// call and a detected loop, whatever was spent.
func usageOf(stats *fastjson.Value) *agents.Usage {
	u := agents.Usage{
		InputTokens:  native.Int(stats, "input_tokens"),
		OutputTokens: native.Int(stats, "output_tokens"),
		CachedTokens: native.Int(stats, "cached"),
		TotalTokens:  native.Int(stats, "total_tokens"),
	}
	u.ReasoningTokens = max(0, u.TotalTokens-u.InputTokens-u.OutputTokens)
	if u == (agents.Usage{}) {
		return nil
	}
	return &u
}

// busiest is the model with the most tokens, or "": a router's small model may
// stand beside the one that answered.
func busiest(models *fastjson.Object) string {
	var name string
	var most int64
	if models == nil {
		return name
	}
	models.Visit(func(key []byte, v *fastjson.Value) {
		if n := native.Int(v, "total_tokens"); n > most {
			name, most = string(key), n
		}
	})
	return name
}

func one(b agents.Body) []agents.Event { return []agents.Event{{Body: b}} }

// either is the first text that is not empty.
func either(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
