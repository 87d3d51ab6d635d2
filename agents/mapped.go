package agents

import (
	"encoding/json"
	"strings"
)

// Mapped returns e with what text makes of each of its texts, and value of each part that is
// JSON of the agent's own. Both must return what they are given when there is nothing to
// change. What flow compares (types, normalised tools, the session's id) stays.
func (e Event) Mapped(text func(string) string, value func(json.RawMessage) json.RawMessage) Event {
	if e.Body != nil {
		e.Body = e.Body.mapped(mapping{text, value})
	}
	return e
}

type mapping struct {
	text  func(string) string
	value func(json.RawMessage) json.RawMessage
}

// all maps texts in place.
func (m mapping) all(texts ...*string) {
	for _, t := range texts {
		if *t != "" {
			*t = m.text(*t)
		}
	}
}

func (m mapping) json(v *json.RawMessage) {
	if len(*v) > 0 {
		*v = m.value(*v)
	}
}

func (x SessionStarted) mapped(m mapping) Body {
	m.all(&x.Model, &x.Version, &x.Cwd)
	tools := make([]string, len(x.Tools))
	for i, t := range x.Tools {
		tools[i] = m.text(t)
	}
	x.Tools = tools
	return x
}

func (x TurnStarted) mapped(mapping) Body { return x }

func (x TextChunk) mapped(m mapping) Body {
	m.all(&x.Content, &x.MessageID)
	return x
}

func (x Reasoning) mapped(m mapping) Body {
	m.all(&x.Content)
	return x
}

func (x ToolStarted) mapped(m mapping) Body {
	m.all(&x.ToolID, &x.NativeName, &x.Target, &x.ParentID)
	m.json(&x.Arguments)
	return x
}

func (x ToolProgress) mapped(m mapping) Body {
	m.all(&x.ToolID, &x.Output)
	return x
}

func (x ToolCompleted) mapped(m mapping) Body {
	m.all(&x.ToolID, &x.Error)
	m.json(&x.Result)
	return x
}

func (x FileChanged) mapped(m mapping) Body {
	m.all(&x.FilePath, &x.Diff, &x.ToolID)
	return x
}

func (x TodoList) mapped(m mapping) Body {
	items := make([]TodoItem, len(x.Items))
	for i, item := range x.Items {
		m.all(&item.Text, &item.Status)
		items[i] = item
	}
	x.Items = items
	return x
}

func (x TurnCompleted) mapped(mapping) Body { return x }

func (x UsageReport) mapped(mapping) Body { return x }

func (x Retry) mapped(m mapping) Body {
	m.all(&x.Message)
	return x
}

func (x RateLimit) mapped(m mapping) Body {
	m.all(&x.Status, &x.Limit)
	return x
}

func (x PermissionRequested) mapped(m mapping) Body {
	m.all(&x.RequestID, &x.ToolID, &x.NativeName, &x.Target, &x.Reason)
	m.json(&x.Arguments)
	return x
}

func (x PermissionDecided) mapped(m mapping) Body {
	m.all(&x.RequestID, &x.ToolID, &x.Message, &x.Rule, &x.Where)
	return x
}

func (x Subagent) mapped(m mapping) Body {
	m.all(&x.SubagentID, &x.Status, &x.ParentID, &x.Message)
	return x
}

func (x System) mapped(m mapping) Body {
	m.all(&x.Subtype, &x.Message)
	return x
}

func (x Error) mapped(m mapping) Body {
	m.all(&x.Message)
	return x
}

func (x Log) mapped(m mapping) Body {
	m.all(&x.Text)
	return x
}

func (x Malformed) mapped(m mapping) Body {
	m.all(&x.Error)
	mark := ""
	if x.Truncated { // so that text knows it
		mark = "…"
	}
	if len(x.Raw) > 0 {
		x.Raw = []byte(strings.TrimSuffix(m.text(string(x.Raw)+mark), mark))
	}
	return x
}

func (x Unknown) mapped(m mapping) Body {
	m.all(&x.NativeType)
	m.json(&x.Raw)
	return x
}

func (x SessionEnded) mapped(m mapping) Body {
	m.all(&x.Error, &x.Hint, &x.Model, &x.Text)
	m.json(&x.Output)
	return x
}
