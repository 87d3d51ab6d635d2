package scriptmodel

import (
	"encoding/json"
	"net/http"
	"strings"
)

// anthropic is the Messages API: https://docs.anthropic.com/en/api/messages and
// .../messages-streaming.
type anthropic struct{}

type anthropicRequest struct {
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	MaxTokens int    `json:"max_tokens"`
	Tools     []tool `json:"tools"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"` // a text or blocks
	} `json:"messages"`
}

type anthropicBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Content json.RawMessage `json:"content"` // a text or blocks
}

func (anthropic) request(h http.Header, body []byte) (Request, error) {
	var in anthropicRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{API: Anthropic, Model: in.Model, Session: h.Get("X-Claude-Code-Session-Id"), stream: in.Stream}
	r.Side = len(in.Tools) == 0 || in.MaxTokens <= 1
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	for _, m := range in.Messages {
		if m.Role == "system" { // what the CLI adds beside the conversation
			continue
		}
		for _, b := range anthropicBlocks(m.Content) {
			if i, ok := b.item(m.Role); ok {
				r.Items = append(r.Items, i)
			}
		}
	}
	return r, nil
}

// anthropicBlocks reads a content, which may also be a plain text.
func anthropicBlocks(content json.RawMessage) []anthropicBlock {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}
	}
	var blocks []anthropicBlock
	if json.Unmarshal(content, &blocks) != nil {
		return nil
	}
	return blocks
}

func (b anthropicBlock) item(role string) (Item, bool) {
	switch b.Type {
	case "text":
		if role == "assistant" {
			return Item{Kind: Answer, Text: b.Text}, true
		}
		return Item{Kind: Prompt, Text: b.Text}, true
	case "tool_use":
		return Item{Kind: Call, Tool: b.Name, Text: string(b.Input)}, true
	case "tool_result":
		var text strings.Builder
		for _, part := range anthropicBlocks(b.Content) {
			text.WriteString(part.Text)
		}
		return Item{Kind: Result, Text: text.String()}, true
	default:
		return Item{}, false // thinking, images
	}
}

func (anthropic) side() Turn { return Turn{Text: "ok"} }

func (anthropic) failure(t Turn) any {
	types := map[int]string{401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
	kind := types[t.Status]
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": t.Message}}
}

func (anthropic) answer(w *stream, r Request, t Turn, id string) {
	content := anthropicContent(t, id)
	stop := "end_turn"
	if len(t.Calls) > 0 {
		stop = "tool_use"
	}
	usage := object{
		"input_tokens": t.Usage.Input - t.Usage.Cached, "output_tokens": t.Usage.Output,
		"cache_read_input_tokens": t.Usage.Cached, "cache_creation_input_tokens": 0,
	}
	message := object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": r.Model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
	if !r.stream {
		w.json(message)
		return
	}
	message["content"], message["stop_reason"] = []any{}, nil
	w.event("message_start", object{"type": "message_start", "message": message})
	for i, block := range content {
		anthropicStream(w, i, block)
	}
	delta := object{"stop_reason": stop, "stop_sequence": nil}
	w.event("message_delta", object{"type": "message_delta", "delta": delta, "usage": usage})
	w.event("message_stop", object{"type": "message_stop"})
}

func anthropicContent(t Turn, id string) []object {
	var content []object
	if t.Text != "" {
		content = append(content, object{"type": "text", "text": t.Text})
	}
	for i, c := range t.Calls {
		content = append(content, object{"type": "tool_use", "id": callID("toolu_", id, i), "name": c.Name, "input": c.Input})
	}
	return content
}

// anthropicStream sends one block: its start without content, the content, its end.
func anthropicStream(w *stream, index int, block object) {
	start := object{"type": "text", "text": ""}
	delta := object{"type": "text_delta", "text": block["text"]}
	if block["type"] == "tool_use" {
		start = object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": string(encode(block["input"]))}
	}
	w.event("content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
	w.event("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": delta})
	w.event("content_block_stop", object{"type": "content_block_stop", "index": index})
}
