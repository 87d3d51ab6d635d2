package scriptmodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// openAI is the Responses API: https://platform.openai.com/docs/api-reference/responses
// and .../responses-streaming.
type openAI struct{}

type openAIRequest struct {
	Model          string       `json:"model"`
	PromptCacheKey string       `json:"prompt_cache_key"` // Codex puts its thread's id here
	Tools          []tool       `json:"tools"`
	Input          []openAIItem `json:"input"`
}

type openAIItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"` // parts
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"` // a text or parts
}

func (openAI) request(_ http.Header, body []byte) (Request, error) {
	var in openAIRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{API: OpenAI, Model: in.Model, Session: in.PromptCacheKey, Side: len(in.Tools) == 0, stream: true}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	for _, raw := range in.Input {
		if i, ok := raw.item(); ok {
			r.Items = append(r.Items, i)
		}
	}
	return r, nil
}

func (i openAIItem) item() (Item, bool) {
	switch i.Type {
	case "message":
		switch i.Role {
		case "assistant":
			return Item{Kind: Answer, Text: openAIText(i.Content)}, true
		case "user":
			return Item{Kind: Prompt, Text: openAIText(i.Content)}, true
		}
	case "function_call":
		return Item{Kind: Call, Tool: i.Name, Text: i.Arguments}, true
	case "custom_tool_call":
		return Item{Kind: Call, Tool: i.Name, Text: i.Input}, true
	case "function_call_output", "custom_tool_call_output":
		return Item{Kind: Result, Text: openAIText(i.Output)}, true
	}
	return Item{}, false // the developer's instructions, reasoning
}

// openAIText joins the texts of a content, which may also be a plain text.
func openAIText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func (openAI) side() Turn { return Turn{Text: "ok"} }

func (openAI) failure(t Turn) any {
	codes := map[int]string{401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
	return object{"error": object{"message": t.Message, "type": "invalid_request_error", "code": codes[t.Status]}}
}

func (openAI) answer(w *stream, r Request, t Turn, id string) {
	sequence := 0
	send := func(kind string, v object) {
		v["type"], v["sequence_number"] = kind, sequence
		sequence++
		w.event(kind, v)
	}
	response := func(status string) object {
		return object{"id": "resp_" + id, "object": "response", "status": status, "model": r.Model, "output": []any{}}
	}
	send("response.created", object{"response": response("in_progress")})
	items := openAIItems(t, id)
	for i, item := range items {
		openAIStream(send, i, item, t.Text)
	}
	done := response("completed")
	done["output"] = items
	done["usage"] = object{
		"input_tokens": t.Usage.Input, "input_tokens_details": object{"cached_tokens": t.Usage.Cached},
		"output_tokens": t.Usage.Output, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": t.Usage.Input + t.Usage.Output,
	}
	send("response.completed", object{"response": done})
}

func openAIItems(t Turn, id string) []object {
	var items []object
	if t.Text != "" {
		items = append(items, object{
			"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": t.Text, "annotations": []any{}}},
		})
	}
	for i, c := range t.Calls {
		item := object{"id": callID("fc_", id, i), "call_id": callID("call_", id, i), "name": c.Name, "status": "completed"}
		if text, free := c.Input.(string); free {
			item["type"], item["input"] = "custom_tool_call", text
		} else {
			item["type"], item["arguments"] = "function_call", string(encode(c.Input))
		}
		items = append(items, item)
	}
	return items
}

// openAIStream sends one item of the output; text is what a message says. Codex
// takes calls from the last of these events; only of text it wants the pieces.
func openAIStream(send func(string, object), index int, item object, text string) {
	send("response.output_item.added", object{"output_index": index, "item": item})
	if item["type"] == "message" {
		send("response.output_text.delta", object{"item_id": item["id"], "output_index": index, "content_index": 0, "delta": text})
	}
	send("response.output_item.done", object{"output_index": index, "item": item})
}

// callID is the id of a tool call of one answer.
func callID(prefix, answer string, index int) string {
	return fmt.Sprintf("%s%s%d", prefix, answer, index)
}
