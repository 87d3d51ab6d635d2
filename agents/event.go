package agents

import (
	"bytes"
	"encoding/json"
	"time"
)

// An Event is one thing that happened in an agent's session, in terms that all
// agents share. Its JSON form is one flat object: the envelope's fields, then the
// body's; the schema of both is EventSchema.
type Event struct {
	ID        string    `json:"id"`                // unique within a run
	Type      string    `json:"type"`              // the body's
	SessionID string    `json:"sessionId"`         // native session; "" before it is known
	Time      time.Time `json:"timestamp"`         // UTC; of the native line where it has one
	AgentType string    `json:"agentType"`         // "claude", "codex", …
	Run       string    `json:"run,omitempty"`     // run id
	Step      string    `json:"step,omitempty"`    // step path
	Attempt   int       `json:"attempt,omitempty"` // 1 is the first
	Seq       int64     `json:"seq"`               // counts the events of a run (or of a translation) from 1
	Native    *Native   `json:"native,omitempty"`  // where the native line stands; nil for flow's own events
	Body      Body      `json:"-"`
}

// Native locates the line that an event was translated from.
type Native struct {
	File   string `json:"file,omitempty"` // in the run's directory; "" for a translation of standard input
	Offset int64  `json:"offset"`         // bytes
	Length int64  `json:"length"`         // bytes, newline excluded
}

// A Body is the part of an Event that its type decides: one of the structs below.
type Body interface {
	Type() string               // the JSON "type"
	appendFields([]byte) []byte // appends `,"key":value…`; see encode.go
	mapped(mapping) Body        // see Event.Mapped
}

// The bodies. Fields without omitempty are always present in JSON.
type (
	// SessionStarted is the agent's own word that its session exists.
	SessionStarted struct {
		Model   string   `json:"model,omitempty"`
		Version string   `json:"version,omitempty"` // of the CLI
		Cwd     string   `json:"cwd,omitempty"`
		Tools   []string `json:"tools,omitempty"` // what was really granted, native names
	}

	// TurnStarted marks a model turn, where the agent says so.
	TurnStarted struct{}

	// TextChunk is text. A partial chunk is a delta; a chunk that is not partial is
	// a whole message that no delta announced. Joining the contents of all chunks
	// of one role therefore gives each text once.
	TextChunk struct {
		Content   string `json:"content"`
		IsPartial bool   `json:"isPartial"`
		Role      string `json:"role"` // "assistant" or "user"
		MessageID string `json:"messageId,omitempty"`
	}

	// Reasoning is the model thinking aloud; same rules as TextChunk.
	Reasoning struct {
		Content   string `json:"content"`
		IsPartial bool   `json:"isPartial"`
	}

	// ToolStarted is a call of a tool.
	ToolStarted struct {
		ToolID     string          `json:"toolId"`
		ToolName   Tool            `json:"toolName"`         // normalised
		NativeName string          `json:"nativeName"`       // the agent's own
		Target     string          `json:"target,omitempty"` // command, path, URL or query
		Risk       Risk            `json:"risk"`
		Arguments  json.RawMessage `json:"arguments,omitempty"` // a JSON object; text where it was too long to keep
		ParentID   string          `json:"parentId,omitempty"`  // the tool call whose subagent made this one
	}

	// ToolProgress is a sign of life of a running tool.
	ToolProgress struct {
		ToolID    string  `json:"toolId"`
		Output    string  `json:"output,omitempty"`
		ElapsedMS int64   `json:"elapsedMs,omitempty"`
		Progress  float64 `json:"progress,omitempty"` // 0 to 1
	}

	// ToolCompleted is the end of a call. Each ToolStarted has exactly one.
	ToolCompleted struct {
		ToolID   string          `json:"toolId"`
		Success  bool            `json:"success"`
		Result   json.RawMessage `json:"result,omitempty"` // text or structure, as the agent gave it
		Error    string          `json:"error,omitempty"`
		ExitCode *int            `json:"exitCode,omitempty"` // of a shell command
		Declined bool            `json:"declined,omitempty"` // it was not made: refused by a policy, or wrong
	}

	// FileChanged is a file that an editing tool changed.
	FileChanged struct {
		FilePath   string     `json:"filePath"`
		ChangeType ChangeType `json:"changeType"`
		Diff       string     `json:"diff,omitempty"`
		ToolID     string     `json:"toolId,omitempty"`
	}

	// TodoList is the agent's plan as it stands.
	TodoList struct {
		Items []TodoItem `json:"items"`
	}

	// TodoItem is one line of a TodoList.
	TodoItem struct {
		Text   string `json:"text"`
		Status string `json:"status"` // pending, in_progress or completed
	}

	// TurnCompleted ends a turn that succeeded or failed; SessionEnded says which.
	TurnCompleted struct {
		Usage      *Usage `json:"usage,omitempty"`
		DurationMS int64  `json:"durationMs,omitempty"`
	}

	// UsageReport is a count of tokens before the end of the turn.
	UsageReport struct {
		Usage   Usage    `json:"usage"`
		CostUSD *float64 `json:"costUsd,omitempty"`
	}

	// Retry is an attempt that the agent itself makes again.
	Retry struct {
		Attempt    int    `json:"retryAttempt"`
		MaxRetries int    `json:"maxRetries,omitempty"`
		DelayMS    int64  `json:"delayMs,omitempty"`
		Status     int    `json:"httpStatus,omitempty"`
		Cause      Cause  `json:"cause,omitempty"`
		Message    string `json:"message,omitempty"`
	}

	// RateLimit is what the provider says of a limit.
	RateLimit struct {
		Status   string     `json:"status"` // "allowed", "warning", "rejected"
		Limit    string     `json:"limit,omitempty"`
		ResetsAt *time.Time `json:"resetsAt,omitempty"`
		Used     float64    `json:"used,omitempty"` // 0 to 1
	}

	// PermissionRequested is a tool call that waits for a decision. A preliminary one is
	// made before every call: where the verdict leaves it open, the agent decides by its own
	// rules, and asks again if these want that.
	PermissionRequested struct {
		RequestID   string          `json:"requestId"`
		ToolID      string          `json:"toolId,omitempty"`
		ToolName    Tool            `json:"toolName"`
		NativeName  string          `json:"nativeName"`
		Target      string          `json:"target,omitempty"`
		Risk        Risk            `json:"risk"`
		Arguments   json.RawMessage `json:"arguments,omitempty"`
		Preliminary bool            `json:"preliminary,omitempty"`
		Reason      string          `json:"reason,omitempty"` // why the agent asks, in its words
	}

	// PermissionDecided is the decision, whoever took it.
	PermissionDecided struct {
		RequestID string `json:"requestId,omitempty"`
		ToolID    string `json:"toolId,omitempty"`
		Decision  string `json:"decision"` // "allow" or "deny"
		By        string `json:"by"`       // "agent", "policy", "person", "default"
		Message   string `json:"message,omitempty"`
		Rule      string `json:"rule,omitempty"`  // that decided, as it is written
		Where     string `json:"where,omitempty"` // where it stands, as file:line:col
	}

	// Subagent is news of an agent that the agent started.
	Subagent struct {
		SubagentID string `json:"subagentId"`
		Status     string `json:"status"` // "started", "progress", "completed", "failed"
		ParentID   string `json:"parentId,omitempty"`
		Message    string `json:"message,omitempty"`
	}

	// System is a notice about the session itself (compaction, status, hooks …).
	System struct {
		Subtype string `json:"subtype"`
		Message string `json:"message,omitempty"`
	}

	// Error is something the agent reports as an error; it does not end the session.
	Error struct {
		Message string `json:"message"`
		Cause   Cause  `json:"cause,omitempty"`
	}

	// Log is a line that is no message of the protocol.
	Log struct {
		Stream string `json:"stream"` // "stdout" or "stderr"
		Text   string `json:"text"`
	}

	// Malformed is a line that should have been a message but cannot be read.
	Malformed struct {
		Error     string `json:"error"`
		Raw       []byte `json:"raw,omitempty"` // its first 4 KiB, base64 in JSON
		Truncated bool   `json:"truncated,omitempty"`
	}

	// Unknown is a message of a type that flow does not know; Raw has it whole.
	Unknown struct {
		NativeType string          `json:"nativeType"`
		Raw        json.RawMessage `json:"raw"`
	}

	// SessionEnded is the last event of every process of an agent, and only the last.
	SessionEnded struct {
		Reason     Reason          `json:"reason"`
		Cause      Cause           `json:"cause,omitempty"`
		Error      string          `json:"error,omitempty"`
		Hint       string          `json:"hint,omitempty"`
		Model      string          `json:"model,omitempty"`
		Text       string          `json:"text"`
		Output     json.RawMessage `json:"output,omitempty"`
		FinalUsage *Usage          `json:"finalUsage,omitempty"`
		CostUSD    *float64        `json:"costUsd,omitempty"`
		DurationMS int64           `json:"durationMs,omitempty"`
		RetryAfter *time.Time      `json:"retryAfter,omitempty"`
		ExitCode   *int            `json:"exitCode,omitempty"`
		Signal     string          `json:"signal,omitempty"`
	}
)

// NewMalformed is the event for a line that cannot be read, with its beginning.
func NewMalformed(why string, line []byte) Malformed {
	const most = 4 << 10
	return Malformed{Error: why, Raw: bytes.Clone(line[:min(len(line), most)]), Truncated: len(line) > most}
}

// ChangeType is what happened to a file.
type ChangeType string

// The change types.
const (
	Created  ChangeType = "created"
	Modified ChangeType = "modified"
	Deleted  ChangeType = "deleted"
)

// Type names of the bodies, as in JSON.
func (SessionStarted) Type() string      { return "sessionStarted" }
func (TurnStarted) Type() string         { return "turnStarted" }
func (TextChunk) Type() string           { return "textChunk" }
func (Reasoning) Type() string           { return "reasoning" }
func (ToolStarted) Type() string         { return "toolStarted" }
func (ToolProgress) Type() string        { return "toolProgress" }
func (ToolCompleted) Type() string       { return "toolCompleted" }
func (FileChanged) Type() string         { return "fileChanged" }
func (TodoList) Type() string            { return "todoList" }
func (TurnCompleted) Type() string       { return "turnCompleted" }
func (UsageReport) Type() string         { return "usage" }
func (Retry) Type() string               { return "retry" }
func (RateLimit) Type() string           { return "rateLimit" }
func (PermissionRequested) Type() string { return "permissionRequested" }
func (PermissionDecided) Type() string   { return "permissionDecided" }
func (Subagent) Type() string            { return "subagent" }
func (System) Type() string              { return "system" }
func (Error) Type() string               { return "error" }
func (Log) Type() string                 { return "log" }
func (Malformed) Type() string           { return "malformed" }
func (Unknown) Type() string             { return "unknown" }
func (SessionEnded) Type() string        { return "sessionEnded" }
