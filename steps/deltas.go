package steps

import (
	"encoding/json"
	"maps"

	"flow/agents"
	"flow/steps/mask"
)

// deltas mask events. A text that comes in several of them is one text: what may be the
// beginning of a secret is kept back, and comes with the next event of that text. Where there
// is none, an event of flow's own has it, before whatever ends the text.
type deltas struct {
	mask  *mask.Masker
	open  map[deltaKey]*delta
	lines map[deltaKey]*mask.Lines // what processes print, by stream
}

func newDeltas(m *mask.Masker) *deltas {
	return &deltas{mask: m, open: map[deltaKey]*delta{}, lines: map[deltaKey]*mask.Lines{}}
}

// A deltaKey names a text that comes in pieces.
type deltaKey struct {
	step    string
	attempt int
	text    string // a role, "reasoning", or the id of a tool's call
}

// A delta is such a text under way.
type delta struct {
	stream *mask.Stream
	last   agents.Event // of it
}

// The kinds of texts that come in pieces.
const (
	textOf     = "text "
	reasoning  = "reasoning"
	progressOf = "tool "
)

// masked returns the events that e becomes, e itself the last of them.
func (d *deltas) masked(e agents.Event) []agents.Event {
	if d.mask.Empty() && len(d.open) == 0 {
		return []agents.Event{e}
	}
	if b, ok := e.Body.(agents.Log); ok && !d.mask.Empty() {
		b.Text = d.line(deltaKey{e.Step, e.Attempt, b.Stream}, b.Text)
		e.Body = b
		return []agents.Event{e}
	}
	key, content := pieceOf(e)
	if key.text == "" {
		return append(d.ended(e), e.Mapped(d.mask.Text, func(v json.RawMessage) json.RawMessage { return d.mask.JSON(v) }))
	}
	t := d.open[key]
	if t == nil {
		t = &delta{stream: d.mask.Stream()}
		d.open[key] = t
	}
	e = withPiece(e, t.stream.Feed(content))
	t.last = e
	if !t.stream.Holding() {
		t.last = agents.Event{Body: e.Body} // the rest is not needed
	}
	return []agents.Event{e}
}

// line masks a line of what a process prints, which goes on with those before it.
func (d *deltas) line(key deltaKey, text string) string {
	lines := d.lines[key]
	if lines == nil {
		lines = d.mask.Lines()
		d.lines[key] = lines
	}
	return lines.Next(text)
}

// pieceOf returns which text an event has a piece of, and the piece.
func pieceOf(e agents.Event) (key deltaKey, content string) {
	key = deltaKey{step: e.Step, attempt: e.Attempt}
	switch b := e.Body.(type) {
	case agents.TextChunk:
		if b.IsPartial {
			key.text, content = textOf+b.Role, b.Content
		}
	case agents.Reasoning:
		if b.IsPartial {
			key.text, content = reasoning, b.Content
		}
	case agents.ToolProgress:
		if b.Output != "" {
			key.text, content = progressOf+b.ToolID, b.Output
		}
	}
	return key, content
}

// withPiece is the event with another piece.
func withPiece(e agents.Event, content string) agents.Event {
	switch b := e.Body.(type) {
	case agents.TextChunk:
		b.Content = content
		e.Body = b
	case agents.Reasoning:
		b.Content = content
		e.Body = b
	case agents.ToolProgress:
		b.Output = content
		e.Body = b
	}
	return e
}

// ended ends the texts that e ends, and returns events with what was kept back of them.
func (d *deltas) ended(e agents.Event) (rest []agents.Event) {
	for _, key := range endedBy(e) {
		key.step, key.attempt = e.Step, e.Attempt
		t := d.open[key]
		if t == nil {
			continue
		}
		delete(d.open, key)
		if !t.stream.Holding() {
			continue
		}
		last := withPiece(t.last, t.stream.Flush())
		last.Native, last.Time = nil, e.Time
		rest = append(rest, last)
	}
	if _, over := e.Body.(agents.SessionEnded); over {
		rest = append(rest, d.left(e)...)
	}
	return rest
}

// endedBy are the texts that an event of the same attempt is the end of.
func endedBy(e agents.Event) []deltaKey {
	messages := []deltaKey{{text: reasoning}, {text: textOf + "assistant"}, {text: textOf + "user"}}
	switch b := e.Body.(type) {
	case agents.TextChunk, agents.Reasoning, agents.ToolStarted, agents.TurnStarted, agents.TurnCompleted, agents.SessionEnded:
		return messages
	case agents.ToolCompleted:
		return append(messages, deltaKey{text: progressOf + b.ToolID})
	}
	return nil
}

// left forgets the texts that the end of a process leaves without an end of their own: of
// tools whose calls were closed before, there are none.
func (d *deltas) left(e agents.Event) (rest []agents.Event) {
	maps.DeleteFunc(d.lines, func(key deltaKey, _ *mask.Lines) bool { return key.step == e.Step && key.attempt == e.Attempt })
	for key, t := range d.open {
		if key.step != e.Step || key.attempt != e.Attempt {
			continue
		}
		delete(d.open, key)
		if t.stream.Holding() {
			last := withPiece(t.last, t.stream.Flush())
			last.Native, last.Time = nil, e.Time
			rest = append(rest, last)
		}
	}
	return rest
}

// isDelta reports whether an event of this type that stands in no native file has what was
// kept back of others.
func isDelta(eventType string) bool {
	switch eventType {
	case agents.TextChunk{}.Type(), agents.Reasoning{}.Type(), agents.ToolProgress{}.Type():
		return true
	}
	return false
}
