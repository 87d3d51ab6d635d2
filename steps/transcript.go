package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"flow/pipeline"
)

// transcript is the template function of that name for the templates of a scope
// ("" or the path of a group): what a step's agent said and did, as text that
// another vendor's agent can read.
func (x *Executor) transcript(scope string) func(id string) (string, error) {
	return func(id string) (string, error) {
		var t transcript
		step := x.visible(scope, id)
		err := x.Events(func(line []byte) error {
			if !bytes.Contains(line, []byte(id)) {
				return nil // cheaper than reading it
			}
			return t.event(line, step)
		})
		return strings.TrimSpace(t.text.String()), err
	}
}

// visible is the path of the step that templates of scope mean by id: one in scope,
// or in a group around it.
func (x *Executor) visible(scope, id string) string {
	for {
		path := strings.TrimPrefix(scope+"."+id, ".")
		if scope == "" || x.Plan.Step(path) != nil {
			return path
		}
		scope = parent(scope)
	}
}

// parent is the path of the group around a step, "" for the run.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

type transcript struct{ text strings.Builder }

// event adds what an event of step says.
func (t *transcript) event(line []byte, step string) error {
	var e struct {
		Step       string `json:"step"`
		Type       string `json:"type"`
		Content    string `json:"content"`
		IsPartial  bool   `json:"isPartial"`
		Role       string `json:"role"`
		NativeName string `json:"nativeName"`
		Target     string `json:"target"`
		Error      string `json:"error"`
		FilePath   string `json:"filePath"`
		ChangeType string `json:"changeType"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("an event cannot be read: %w", err)
	}
	if e.Step != step {
		return nil
	}
	switch e.Type {
	case "textChunk":
		if e.Role == "assistant" {
			t.text.WriteString(e.Content)
			if !e.IsPartial {
				t.text.WriteByte('\n')
			}
		}
	case "toolStarted":
		fmt.Fprintf(&t.text, "\n[%s %s]\n", e.NativeName, e.Target)
	case "toolCompleted":
		if e.Error != "" {
			fmt.Fprintf(&t.text, "[failed: %s]\n", e.Error)
		}
	case "fileChanged":
		fmt.Fprintf(&t.text, "[%s %s]\n", e.ChangeType, e.FilePath)
	}
	if t.text.Len() > pipeline.MaxRenderedBytes {
		return fmt.Errorf("the transcript of %s is longer than %d MiB; use .steps.%s.text", step, pipeline.MaxRenderedBytes>>20, step)
	}
	return nil
}
