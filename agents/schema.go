package agents

import _ "embed"

// EventSchema is the JSON Schema (draft 2020-12) of an Event's JSON form. It is
// generated from the Go types: go test ./agents -run Schema -update.
//
//go:embed event.schema.json
var EventSchema []byte

// Bodies returns one zero value of every kind of event, in the order in which the
// documentation shows them.
func Bodies() []Body {
	return []Body{
		SessionStarted{},
		TurnStarted{},
		TextChunk{},
		Reasoning{},
		ToolStarted{},
		ToolProgress{},
		ToolCompleted{},
		FileChanged{},
		TodoList{},
		TurnCompleted{},
		UsageReport{},
		Retry{},
		RateLimit{},
		PermissionRequested{},
		PermissionDecided{},
		Subagent{},
		System{},
		Error{},
		Log{},
		Malformed{},
		Unknown{},
		SessionEnded{},
	}
}
