package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

const (
	schemaIntro = "Answer with one JSON value that matches this JSON Schema, and with nothing else:\n```json\n"
	schemaOutro = "\n```"
)

// WithSchema returns prompt with the demand for an answer that matches schema, for
// agents that cannot enforce one.
func WithSchema(prompt string, schema json.RawMessage) string {
	if len(schema) == 0 {
		return prompt
	}
	return strings.TrimRight(prompt, "\n") + "\n\n" + schemaIntro + string(schema) + schemaOutro + "\n"
}

// SchemaOf returns the schema that WithSchema put into a prompt, or nil.
func SchemaOf(prompt string) json.RawMessage {
	_, rest, ok := strings.Cut(prompt, schemaIntro)
	if !ok {
		return nil
	}
	schema, _, ok := strings.Cut(rest, schemaOutro)
	if !ok || !json.Valid([]byte(schema)) {
		return nil
	}
	return json.RawMessage(schema)
}

// ParseAnswer returns the JSON value in an answer: the whole text, or the last
// fenced block, or what stands between the first opening and the last closing
// bracket.
func ParseAnswer(text string) (json.RawMessage, error) {
	for _, candidate := range []string{text, lastFence(text), bracketed(text)} {
		candidate = strings.TrimSpace(candidate)
		if candidate != "" && json.Valid([]byte(candidate)) {
			var b bytes.Buffer
			if err := json.Compact(&b, []byte(candidate)); err == nil {
				return b.Bytes(), nil
			}
		}
	}
	return nil, errors.New("the answer is not JSON")
}

func lastFence(text string) string {
	parts := strings.Split(text, "```")
	if len(parts) < 3 {
		return ""
	}
	block := parts[len(parts)-2]
	if len(parts)%2 == 0 {
		block = parts[len(parts)-3]
	}
	if first, rest, ok := strings.Cut(block, "\n"); ok && !strings.ContainsAny(first, "{[\"") {
		return rest
	}
	return block
}

func bracketed(text string) string {
	start, end := strings.IndexAny(text, "{["), strings.LastIndexAny(text, "}]")
	if start < 0 || end < start {
		return ""
	}
	return text[start : end+1]
}
