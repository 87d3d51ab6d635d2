package claude

import (
	"fmt"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A stream is the message that arrives in deltas. Each of its blocks follows
// whole, in an assistant line, before it ends.
type stream struct {
	id     string
	blocks []*streamed
	used   agents.Usage // its tokens, as far as they are told

	void     string // text of a broken message that stands in the events already
	repeated int    // how many bytes of it have come again
}

// streamed is what has arrived of one content block.
type streamed struct {
	index int
	kind  string // text, thinking, tool_use …
	text  strings.Builder
	whole bool // the assistant line has come
}

func (s *stream) add(index int, text string) {
	for _, b := range s.blocks {
		if b.index == index {
			b.text.WriteString(text)
		}
	}
}

// fresh returns the part of text that the events do not have yet. After a broken
// stream the message comes again from its beginning, and mostly word for word; as
// soon as it differs, it is another text and is told whole.
func (s *stream) fresh(text string) string {
	again, rest := s.void[:s.repeated], s.void[s.repeated:]
	if len(text) < len(rest) && strings.HasPrefix(rest, text) {
		s.repeated += len(text)
		return ""
	}
	s.void, s.repeated = "", 0
	if news, same := strings.CutPrefix(text, rest); same {
		return news
	}
	return again + text
}

// rest returns what the deltas left out of a whole block, and whether there were
// deltas of it. A block that contradicts its deltas is returned whole.
func (s *stream) rest(id, kind, text string) (rest string, partial bool) {
	if id != s.id {
		return text, false
	}
	for _, b := range s.blocks {
		if b.whole || b.kind != kind {
			continue
		}
		b.whole = true
		seen := b.text.String()
		if rest, ok := strings.CutPrefix(text, seen); ok {
			return rest, seen != ""
		}
		return text, false
	}
	return text, false
}

// abandon voids the blocks from index on, which will come again.
func (s *stream) abandon(index int) {
	kept := s.blocks[:0]
	for _, b := range s.blocks {
		switch {
		case b.index < index:
			kept = append(kept, b)
		case b.kind == "text":
			s.void += b.text.String()
		}
	}
	s.blocks = kept
}

// streamEvent is an event of the API itself, passed on by the CLI. Those of
// subagents are left out: their messages come whole.
func (d *dialog) streamEvent(v *fastjson.Value) []agents.Event {
	if native.String(v, "parent_tool_use_id") != "" {
		return nil
	}
	event := v.Get("event")
	switch typ := native.String(event, "type"); typ {
	case "message_start":
		d.stream = stream{id: native.String(event, "message", "id"), void: d.stream.void}
		return nil
	case "content_block_start":
		d.stream.blocks = append(d.stream.blocks, &streamed{
			index: int(native.Int(event, "index")), kind: native.String(event, "content_block", "type"),
		})
		return nil
	case "content_block_delta":
		return d.delta(event)
	case "message_delta":
		return d.usageSoFar(event.Get("usage"))
	case "message_stop":
		return d.messageStop(v.Get("abandoned_blocks"))
	case "content_block_stop", "ping":
		return nil
	default:
		return native.Unknown("stream_event/"+typ, event)
	}
}

func (d *dialog) delta(event *fastjson.Value) []agents.Event {
	delta, index := event.Get("delta"), int(native.Int(event, "index"))
	switch typ := native.String(delta, "type"); typ {
	case "text_delta":
		text := native.String(delta, "text")
		d.began = true
		d.stream.add(index, text)
		return chunk(d.stream.id, d.stream.fresh(text), true)
	case "thinking_delta":
		text := native.String(delta, "thinking")
		d.began = true
		d.stream.add(index, text)
		return []agents.Event{{Body: agents.Reasoning{Content: text, IsPartial: true}}}
	case "input_json_delta", "signature_delta", "citations_delta":
		return nil // a tool's input comes whole; the others are no text
	default:
		return native.Unknown("stream_event/"+typ, event)
	}
}

// chunk is text of the model, no event when there is none.
func chunk(id, text string, partial bool) []agents.Event {
	if text == "" {
		return nil
	}
	return []agents.Event{{Body: agents.TextChunk{Content: text, IsPartial: partial, Role: "assistant", MessageID: id}}}
}

// usageSoFar adds the tokens of a message to those before it. A message may tell
// them more than once; each time they are all it has used.
func (d *dialog) usageSoFar(usage *fastjson.Value) []agents.Event {
	if usage.GetObject() == nil {
		return nil
	}
	used := apiUsage(usage)
	d.spent, d.stream.used = d.spent.Sub(d.stream.used).Add(used), used
	return []agents.Event{{Body: agents.UsageReport{Usage: d.spent}}}
}

// messageStop ends a message. When the connection broke, blocks that were streamed
// are void and come again in another message, or whole; what was said cannot be
// unsaid, so an event tells it.
func (d *dialog) messageStop(abandoned *fastjson.Value) []agents.Event {
	repeating := d.stream.void
	d.stream.void, d.stream.repeated = "", 0
	if abandoned == nil || abandoned.Type() == fastjson.TypeNull {
		return nil
	}
	from := int(native.Int(abandoned, "from_block_index"))
	d.stream.abandon(from)
	if repeating != "" { // it broke again before it said anything new
		d.stream.void = repeating
	}
	return system("stream_abandoned", fmt.Sprintf("message %s is void from block %d on: the stream broke", d.stream.id, from))
}
