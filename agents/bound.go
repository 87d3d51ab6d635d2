package agents

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Bounded returns e with texts over limit bytes cut: the event says that they were
// cut and how long they are, the native line has them whole.
func (e Event) Bounded(limit int) Event {
	switch b := e.Body.(type) {
	case TextChunk:
		b.Content = cut(b.Content, limit)
		e.Body = b
	case Reasoning:
		b.Content = cut(b.Content, limit)
		e.Body = b
	case ToolStarted:
		b.Target, b.Arguments = cut(b.Target, limit), cutJSON(b.Arguments, limit)
		e.Body = b
	case ToolProgress:
		b.Output = cut(b.Output, limit)
		e.Body = b
	case ToolCompleted:
		b.Error, b.Result = cut(b.Error, limit), cutJSON(b.Result, limit)
		e.Body = b
	case PermissionRequested:
		b.Target, b.Arguments, b.Reason = cut(b.Target, limit), cutJSON(b.Arguments, limit), cut(b.Reason, limit)
		e.Body = b
	case FileChanged:
		b.Diff = cut(b.Diff, limit)
		e.Body = b
	case Log:
		b.Text = cut(b.Text, limit)
		e.Body = b
	case Unknown:
		b.Raw = cutJSON(b.Raw, limit)
		e.Body = b
	case SessionEnded:
		b.Text, b.Error, b.Output = cut(b.Text, limit), cut(b.Error, limit), cutJSON(b.Output, limit)
		e.Body = b
	}
	return e
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + fmt.Sprintf("… [cut: %d bytes in all]", len(s))
}

// cutJSON replaces a value that is too long by the cut text of it.
func cutJSON(v json.RawMessage, limit int) json.RawMessage {
	if len(v) <= limit {
		return v
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		text = string(v)
	}
	return AppendString(nil, cut(text, limit))
}
