package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The notifications that tell of what agents do, each made of one unified event; those of
// questions and of the end of a run; and the events as they are.
const (
	AgentMessage    = "agent_message"
	AgentThinking   = "agent_thinking"
	AgentToolCall   = "agent_tool_call"
	AgentToolResult = "agent_tool_result"
	AgentPermission = "agent_permission"
	AgentComplete   = "agent_complete"
	AgentError      = "agent_error"
	AgentStatus     = "agent_status"
	RunQuestion     = "run_question"
	RunComplete     = "run_complete"
	RunEvent        = "run_event"
)

// The params of the notifications.
type (
	// Envelope is what all that tell of agents have.
	Envelope struct {
		AgentType string    `json:"agent_type" doc:"the agent, as in use: claude"`
		SessionID string    `json:"session_id" doc:"native session; empty before it is known"`
		Run       string    `json:"run"`
		Step      string    `json:"step"`
		Attempt   int       `json:"attempt,omitempty"`
		Seq       int64     `json:"seq,omitempty" doc:"the cursor: of the event that this was made of"`
		Timestamp time.Time `json:"timestamp"`
	}
	// ContentBlock is a part of a message.
	ContentBlock struct {
		Type string `json:"type" enum:"text"`
		Text string `json:"text"`
	}
	// MessageParams are those of agent_message.
	MessageParams struct {
		Envelope
		Role      string         `json:"role" enum:"assistant,user"`
		Content   []ContentBlock `json:"content"`
		IsPartial bool           `json:"is_partial" doc:"a piece: the pieces of a message are to be joined"`
		MessageID string         `json:"message_id,omitempty"`
	}
	// ThinkingParams are those of agent_thinking.
	ThinkingParams struct {
		Envelope
		Content   string `json:"content"`
		IsPartial bool   `json:"is_partial" doc:"a piece: the pieces of a thought are to be joined"`
	}
	// ToolParams describe a call of a tool.
	ToolParams struct {
		ToolID         string          `json:"tool_id"`
		ToolName       string          `json:"tool_name" doc:"in names that all agents share"`
		ToolNameNative string          `json:"tool_name_native" doc:"the agent's own name"`
		Operation      string          `json:"operation" enum:"shell_execute,file_read,file_write,file_search,web_fetch,web_search,mcp_call,agent_start,plan_update,other"`
		Target         string          `json:"target" doc:"path, URL, query or command"`
		Arguments      json.RawMessage `json:"arguments,omitempty" doc:"an object; text where it was too long to keep"`
		RiskLevel      string          `json:"risk_level" enum:"low,medium,high"`
		Description    string          `json:"description" doc:"what it does, in a sentence"`
	}
	// ToolCallParams are those of agent_tool_call.
	ToolCallParams struct {
		Envelope
		ToolParams
		RequiresPermission bool   `json:"requires_permission" doc:"the risk is not low: where no rule allows such a call, someone may be asked"`
		ParentToolID       string `json:"parent_tool_id,omitempty" doc:"the call whose subagent made this one"`
	}
	// ToolResultParams are those of agent_tool_result.
	ToolResultParams struct {
		Envelope
		ToolID   string          `json:"tool_id"`
		Success  bool            `json:"success"`
		Result   json.RawMessage `json:"result,omitempty"`
		Error    string          `json:"error,omitempty"`
		ExitCode *int            `json:"exit_code,omitempty" doc:"of a shell command"`
		Declined bool            `json:"declined,omitempty" doc:"it was refused, and not made"`
	}
	// PermissionParams are those of agent_permission: a call waits for a person.
	PermissionParams struct {
		Envelope
		ToolParams
		PermissionID    string    `json:"permission_id" doc:"what agent/respond answers; the same for the same call of the same step"`
		RequestID       string    `json:"request_id,omitempty" doc:"of the agent's request"`
		AutoApproveHint bool      `json:"auto_approve_hint" doc:"the risk is low"`
		Rule            string    `json:"rule,omitempty" doc:"the rule that wants a person to be asked"`
		Where           string    `json:"where,omitempty" doc:"where it stands, as file:line:col"`
		Deadline        time.Time `json:"deadline,omitzero" doc:"when it is denied for want of an answer"`
	}
	// CompleteParams are those of agent_complete: a turn has ended well.
	CompleteParams struct {
		Envelope
		StopReason string          `json:"stop_reason" enum:"completed"`
		Model      string          `json:"model,omitempty"`
		Text       string          `json:"text" doc:"the final answer"`
		Output     json.RawMessage `json:"output,omitempty" doc:"the answer by schema"`
		Usage      json.RawMessage `json:"usage,omitempty"`
		CostUSD    *float64        `json:"cost_usd,omitempty"`
		DurationMS int64           `json:"duration_ms,omitempty"`
	}
	// ErrorParams are those of agent_error: a turn has failed, or the agent reports an error.
	ErrorParams struct {
		Envelope
		Message    string          `json:"message"`
		Cause      string          `json:"cause,omitempty" doc:"a word that programs can tell errors apart by"`
		Hint       string          `json:"hint,omitempty" doc:"what to do next"`
		Final      bool            `json:"final" doc:"the turn has ended with it"`
		StopReason string          `json:"stop_reason,omitempty" enum:"failed,cancelled,timeout"`
		RetryAfter time.Time       `json:"retry_after,omitzero"`
		Usage      json.RawMessage `json:"usage,omitempty"`
		CostUSD    *float64        `json:"cost_usd,omitempty"`
	}
	// StatusParams are those of agent_status: all other news.
	StatusParams struct {
		Envelope
		Status  string          `json:"status" doc:"started, turn, tool_progress, file_changed, todo_list, usage, retry, rate_limit, permission_decided, subagent or system"`
		Message string          `json:"message,omitempty"`
		Details json.RawMessage `json:"details,omitempty" doc:"the fields of the unified event"`
	}
	// Question is what a person is asked: that of run_question, and of run/show.
	Question struct {
		Run        string            `json:"run"`
		Step       string            `json:"step"`
		QuestionID string            `json:"question_id" doc:"what agent/respond answers"`
		Text       string            `json:"text"`
		Form       json.RawMessage   `json:"form,omitempty" doc:"JSON Schema of the answer; absent: allow or deny is all that is asked"`
		Deadline   time.Time         `json:"deadline,omitzero"`
		Permission *PermissionParams `json:"permission,omitempty" doc:"in run/show: the call that an agent wants to make"`
	}
	// RunCompleteParams are those of run_complete.
	RunCompleteParams struct {
		Run    string `json:"run"`
		Status string `json:"status" doc:"succeeded, failed, cancelled, waiting or interrupted"`
		Error  string `json:"error,omitempty" doc:"what is wrong with the run as a whole, or with the first step that failed"`
		Seq    int64  `json:"seq" doc:"the cursor after the last event"`
	}
	// RunEventParams are those of run_event.
	RunEventParams struct {
		Run   string          `json:"run"`
		Seq   int64           `json:"seq"`
		Event json.RawMessage `json:"event" doc:"a unified event, as flow schema events describes it"`
	}
)

// event is a unified event as it is stored: one flat object.
type event struct {
	Type      string    `json:"type"`
	SessionID string    `json:"sessionId"`
	Time      time.Time `json:"timestamp"`
	AgentType string    `json:"agentType"`
	Run       string    `json:"run"`
	Step      string    `json:"step"`
	Attempt   int       `json:"attempt"`
	Seq       int64     `json:"seq"`

	Content   string `json:"content"`
	IsPartial bool   `json:"isPartial"`
	Role      string `json:"role"`
	MessageID string `json:"messageId"`

	ToolID     string          `json:"toolId"`
	ToolName   string          `json:"toolName"`
	NativeName string          `json:"nativeName"`
	Target     string          `json:"target"`
	Risk       string          `json:"risk"`
	Arguments  json.RawMessage `json:"arguments"`
	ParentID   string          `json:"parentId"`

	Success  bool            `json:"success"`
	Result   json.RawMessage `json:"result"`
	ExitCode *int            `json:"exitCode"`
	Declined bool            `json:"declined"`

	Reason     string          `json:"reason"`
	Cause      string          `json:"cause"`
	Error      string          `json:"error"`
	Hint       string          `json:"hint"`
	Message    string          `json:"message"`
	Model      string          `json:"model"`
	Text       string          `json:"text"`
	Output     json.RawMessage `json:"output"`
	FinalUsage json.RawMessage `json:"finalUsage"`
	CostUSD    *float64        `json:"costUsd"`
	DurationMS int64           `json:"durationMs"`
	RetryAfter time.Time       `json:"retryAfter"`
}

// Translate makes the notification of a unified event, given as it is stored. It is false
// for the events that only run_event tells: requests for permission that need no person,
// and what is no message of the agent's protocol.
func Translate(line []byte) (Notification, bool, error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return Notification{}, false, fmt.Errorf("an event cannot be read: %w", err)
	}
	switch e.Type {
	case "textChunk":
		return e.as(AgentMessage, MessageParams{
			Envelope: e.envelope(), Role: e.Role, Content: []ContentBlock{{"text", e.Content}}, IsPartial: e.IsPartial, MessageID: e.MessageID,
		})
	case "reasoning":
		return e.as(AgentThinking, ThinkingParams{Envelope: e.envelope(), Content: e.Content, IsPartial: e.IsPartial})
	case "toolStarted":
		return e.as(AgentToolCall, ToolCallParams{
			Envelope: e.envelope(), ToolParams: e.tool(), RequiresPermission: e.Risk != "low", ParentToolID: e.ParentID,
		})
	case "toolCompleted":
		return e.as(AgentToolResult, ToolResultParams{
			Envelope: e.envelope(), ToolID: e.ToolID, Success: e.Success, Result: e.Result, Error: e.Error, ExitCode: e.ExitCode, Declined: e.Declined,
		})
	case "sessionEnded":
		return e.end()
	case "error":
		return e.as(AgentError, ErrorParams{Envelope: e.envelope(), Message: e.Message, Cause: e.Cause})
	}
	status := statusOf(e.Type)
	if status == "" {
		return Notification{}, false, nil
	}
	details, err := detailsOf(line)
	return Notification{AgentStatus, StatusParams{Envelope: e.envelope(), Status: status, Message: e.Message, Details: details}, e.Seq}, err == nil, err
}

func (e event) as(method string, params any) (Notification, bool, error) {
	return Notification{method, params, e.Seq}, true, nil
}

// end tells of the end of an agent's process.
func (e event) end() (Notification, bool, error) {
	if e.Reason == "completed" {
		return e.as(AgentComplete, CompleteParams{
			Envelope: e.envelope(), StopReason: e.Reason, Model: e.Model, Text: e.Text, Output: e.Output,
			Usage: e.FinalUsage, CostUSD: e.CostUSD, DurationMS: e.DurationMS,
		})
	}
	return e.as(AgentError, ErrorParams{
		Envelope: e.envelope(), Message: e.Error, Cause: e.Cause, Hint: e.Hint, Final: true, StopReason: e.Reason,
		RetryAfter: e.RetryAfter, Usage: e.FinalUsage, CostUSD: e.CostUSD,
	})
}

func (e event) envelope() Envelope {
	return Envelope{AgentType: e.AgentType, SessionID: e.SessionID, Run: e.Run, Step: e.Step, Attempt: e.Attempt, Seq: e.Seq, Timestamp: e.Time}
}

func (e event) tool() ToolParams {
	return Tool(e.ToolID, e.ToolName, e.NativeName, e.Target, e.Risk, e.Arguments)
}

// Tool describes a call of a tool, given its names, what it is called on and its risk.
func Tool(id, name, native, target, risk string, arguments json.RawMessage) ToolParams {
	return ToolParams{
		ToolID: id, ToolName: name, ToolNameNative: native, Operation: operation(name), Target: target,
		Arguments: arguments, RiskLevel: risk, Description: describe(name, native, target),
	}
}

// operation is what a call does, in the words of the protocol.
func operation(tool string) string {
	switch tool {
	case "shell":
		return "shell_execute"
	case "read_file":
		return "file_read"
	case "write_file", "edit_file":
		return "file_write"
	case "search_content", "find_files":
		return "file_search"
	case "web_fetch", "web_search":
		return tool
	case "mcp":
		return "mcp_call"
	case "subagent":
		return "agent_start"
	case "todo":
		return "plan_update"
	default:
		return "other"
	}
}

// describe says what a call does, in a sentence.
func describe(tool, native, target string) string {
	verbs := map[string]string{
		"shell": "Run", "read_file": "Read", "write_file": "Write", "edit_file": "Edit", "search_content": "Search for",
		"find_files": "Find", "web_fetch": "Fetch", "web_search": "Search the web for",
	}
	verb := verbs[tool]
	if verb == "" || target == "" {
		return bounded("Use " + native + " " + target)
	}
	return bounded(verb + " " + target)
}

// bounded is the beginning of a text, on one line.
func bounded(s string) string {
	const most = 200
	s = string(bytes.Join(bytes.Fields([]byte(s)), []byte(" ")))
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return s
}

// statusOf is the status of agent_status for a type of event, "" if that has none.
func statusOf(eventType string) string {
	switch eventType {
	case "sessionStarted":
		return "started"
	case "turnStarted", "turnCompleted":
		return "turn"
	case "toolProgress":
		return "tool_progress"
	case "fileChanged":
		return "file_changed"
	case "todoList":
		return "todo_list"
	case "rateLimit":
		return "rate_limit"
	case "permissionDecided":
		return "permission_decided"
	case "usage", "retry", "subagent", "system":
		return eventType
	default:
		return ""
	}
}

// detailsOf are the fields of an event that are not in every one.
func detailsOf(line []byte) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(line, &all); err != nil {
		return nil, err
	}
	for _, name := range []string{"id", "sessionId", "timestamp", "agentType", "run", "step", "attempt", "seq", "native"} {
		delete(all, name)
	}
	return marshal(all)
}
