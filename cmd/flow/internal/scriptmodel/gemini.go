package scriptmodel

import (
	"encoding/json"
	"net/http"
)

// gemini is the Gemini API: https://ai.google.dev/api/generate-content. The model
// stands in the request's path, not in its body.
type gemini struct {
	model  string
	stream bool
}

type geminiRequest struct {
	Contents []struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	} `json:"contents"`
	Tools []struct {
		FunctionDeclarations []tool `json:"functionDeclarations"`
	} `json:"tools"`
}

type geminiPart struct {
	Text         string `json:"text"`
	Thought      bool   `json:"thought"`
	FunctionCall *struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

func (g gemini) request(_ http.Header, body []byte) (Request, error) {
	var in geminiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{API: Gemini, Model: g.model, stream: g.stream}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	r.Side = !g.stream || len(r.Tools) == 0
	for _, c := range in.Contents {
		for _, p := range c.Parts {
			if i, ok := p.item(c.Role); ok {
				r.Items = append(r.Items, i)
			}
		}
	}
	return r, nil
}

func (p geminiPart) item(role string) (Item, bool) {
	switch {
	case p.FunctionCall != nil:
		return Item{Kind: Call, Tool: p.FunctionCall.Name, Text: string(p.FunctionCall.Args)}, true
	case p.FunctionResponse != nil:
		return Item{Kind: Result, Tool: p.FunctionResponse.Name, Text: geminiResult(p.FunctionResponse.Response)}, true
	case p.Text == "" || p.Thought:
		return Item{}, false
	case role == "model":
		return Item{Kind: Answer, Text: p.Text}, true
	default:
		return Item{Kind: Prompt, Text: p.Text}, true
	}
}

// geminiResult is the tool's output, which the CLI wraps into an object.
func geminiResult(response json.RawMessage) string {
	var r struct {
		Output string `json:"output"`
	}
	if json.Unmarshal(response, &r) == nil && r.Output != "" {
		return r.Output
	}
	return string(response)
}

// side satisfies the questions that the CLI asks for itself: which model should
// answer, and whose turn it is.
func (gemini) side() Turn {
	return Turn{Text: `{"reasoning":"","next_speaker":"user","model_choice":"flash"}`}
}

func (gemini) failure(t Turn) any {
	statuses := map[int]string{401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
	return object{"error": object{"code": t.Status, "message": t.Message, "status": statuses[t.Status]}}
}

// answer sends the text and the calls in a chunk each.
func (gemini) answer(w *stream, r Request, t Turn, id string) {
	var chunks [][]any
	if t.Text != "" {
		chunks = append(chunks, []any{object{"text": t.Text}})
	}
	var calls []any
	for i, c := range t.Calls {
		calls = append(calls, object{"functionCall": object{"id": callID("call_", id, i), "name": c.Name, "args": c.Input}})
	}
	if len(calls) > 0 {
		chunks = append(chunks, calls)
	}
	for i, parts := range chunks {
		candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
		chunk := object{"candidates": []any{candidate}, "modelVersion": r.Model, "responseId": id}
		if i == len(chunks)-1 {
			candidate["finishReason"] = "STOP"
			chunk["usageMetadata"] = object{
				"promptTokenCount": t.Usage.Input, "candidatesTokenCount": t.Usage.Output,
				"cachedContentTokenCount": t.Usage.Cached, "totalTokenCount": t.Usage.Input + t.Usage.Output,
			}
		}
		if !r.stream {
			w.json(chunk)
			return
		}
		w.event("", chunk)
	}
}
