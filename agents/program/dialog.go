package program

import (
	"bytes"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// maxOutput bounds what is kept of an output that is read at its end, in bytes.
const maxOutput = 32 << 20

// A dialog reads what the command prints, as its profile describes it.
type dialog struct {
	exec    agents.Exec
	dir     string
	resumes bool // a session can be gone on with, so that its id is worth telling
	reader  native.Reader

	output  bytes.Buffer // of a format that is read at the end
	cut     bool         // … which did not fit
	session string
	model   string
	began   bool
	message string // the last whole message
	pieces  strings.Builder
	tools   int
	usage   agents.Usage
	cost    *float64
	failure string
	done    bool
}

// Ended reports whether the command has said that it is done.
func (d *dialog) Ended() bool { return d.done }

// SessionID is the session's id once the command has told it, if it can be gone on with.
func (d *dialog) SessionID() string {
	if !d.resumes {
		return ""
	}
	return d.session
}

// Line takes a line of standard output.
func (d *dialog) Line(line []byte) []agents.Event {
	switch d.exec.Format {
	case agents.FormatJSON:
		d.keep(line)
		return nil
	case agents.FormatLines:
		v, events := d.reader.Object(line)
		if v == nil {
			return events
		}
		return d.object(v)
	}
	d.began = d.began || len(bytes.TrimSpace(line)) > 0
	d.keep(line)
	return one(agents.TextChunk{Content: string(line) + "\n", IsPartial: true, Role: "assistant"})
}

func (d *dialog) keep(line []byte) {
	if d.cut = d.cut || d.output.Len()+len(line) >= maxOutput; !d.cut {
		d.output.Write(line)
		d.output.WriteByte('\n')
	}
}

// Stderr has nothing to tell.
func (d *dialog) Stderr([]byte) []agents.Event { return nil }

// object reads one JSON object.
func (d *dialog) object(v *fastjson.Value) []agents.Event {
	known := d.session != ""
	d.read(v)
	var events []agents.Event
	if !known && d.session != "" {
		events = one(agents.SessionStarted{Model: d.model})
	}
	if text := d.text(v, "delta"); text != "" {
		d.began = true
		d.pieces.WriteString(text)
		events = append(events, agents.Event{Body: agents.TextChunk{Content: text, IsPartial: true, Role: "assistant"}})
	}
	if text := d.text(v, "text"); text != "" {
		events = append(events, d.whole(text)...)
	}
	if name := d.text(v, "tool"); name != "" {
		events = append(events, d.tool(name)...)
	}
	if text := d.text(v, "error"); text != "" {
		d.failure = text
		events = append(events, agents.Event{Body: agents.Error{Message: text}})
	}
	if len(events) == 0 {
		return native.Unknown(native.String(v, "type"), v)
	}
	return events
}

// read takes what makes no event of its own.
func (d *dialog) read(v *fastjson.Value) {
	if id := d.text(v, "session"); id != "" {
		d.session = id
	}
	if model := d.text(v, "model"); model != "" {
		d.model = model
	}
	if n := d.find(v, "input-tokens"); n != nil {
		d.usage.InputTokens = native.Int(n)
	}
	if n := d.find(v, "output-tokens"); n != nil {
		d.usage.OutputTokens = native.Int(n)
	}
	if n := d.find(v, "cost"); n != nil && n.Type() == fastjson.TypeNumber {
		cost := n.GetFloat64()
		d.cost = &cost
	}
	d.done = d.done || d.find(v, "done") != nil
}

// whole takes a message that is whole. One that repeats the pieces before it is no news.
func (d *dialog) whole(text string) []agents.Event {
	d.began, d.message = true, text
	repeated := strings.HasSuffix(strings.TrimSpace(d.pieces.String()), strings.TrimSpace(text))
	d.pieces.Reset()
	if repeated {
		return nil
	}
	return one(agents.TextChunk{Content: text, Role: "assistant"})
}

// tool tells of a call of which no more is known than its name.
func (d *dialog) tool(name string) []agents.Event {
	d.began = true
	d.tools++
	id := toolID(d.tools)
	return []agents.Event{
		{Body: agents.ToolStarted{ToolID: id, ToolName: agents.ToolOther, NativeName: name, Risk: agents.RiskOf(agents.ToolOther, "", d.dir)}},
		{Body: agents.ToolCompleted{ToolID: id, Success: true}},
	}
}
