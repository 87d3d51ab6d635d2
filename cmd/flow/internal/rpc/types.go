package rpc

import (
	"encoding/json"
	"time"
)

// ProtocolVersion counts the versions of the protocol that do not understand each other.
// Members are added without a new one.
const ProtocolVersion = 1

// The params and results of the methods. `doc` says what a member is, and what may be
// omitted is not required.
type (
	// None is a request without params, or an answer without members.
	None struct{}

	// InitializeParams are those of rpc/initialize.
	InitializeParams struct {
		Client       *Peer        `json:"client,omitempty" doc:"who calls"`
		Capabilities Capabilities `json:"capabilities,omitzero" doc:"what the client can do"`
	}
	// Peer is a program.
	Peer struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	// Capabilities are what a client can do.
	Capabilities struct {
		Permissions bool `json:"permissions,omitempty" doc:"answers the questions of runs: they wait for it for as long as it is connected"`
	}
	// InitializeResult is that of rpc/initialize.
	InitializeResult struct {
		Protocol int  `json:"protocol" doc:"version of the protocol"`
		Server   Peer `json:"server"`
	}

	// DiscoverResult is that of agent/discover.
	DiscoverResult struct {
		Available []Agent `json:"available" doc:"the agents that flow knows, installed or not"`
		Active    string  `json:"active" doc:"type of the selected agent"`
		Status    string  `json:"status" enum:"idle,running" doc:"whether a run of agent/run is under way"`
	}
	// Agent is an agent on this machine.
	Agent struct {
		Type         string            `json:"type" doc:"its name, as in use: claude"`
		Name         string            `json:"name"`
		Version      string            `json:"version,omitempty" doc:"of its CLI, where it says so"`
		Installed    bool              `json:"installed"`
		LoggedIn     *bool             `json:"loggedIn,omitempty" doc:"absent where that cannot be known for free"`
		Capabilities AgentCapabilities `json:"capabilities"`
		Tools        []string          `json:"tools" doc:"the tools that it has, in names that all agents share"`
		Transports   []string          `json:"transports" doc:"the protocols that flow can speak with it"`
		Problem      string            `json:"problem,omitempty" doc:"why it cannot be used"`
		Hint         string            `json:"hint,omitempty" doc:"what to do about that"`
	}
	// AgentCapabilities are what an agent can do.
	AgentCapabilities struct {
		Streaming     bool `json:"streaming" doc:"what it says is told while it works"`
		SessionResume bool `json:"sessionResume"`
		SessionFork   bool `json:"sessionFork"`
		Thinking      bool `json:"thinking" doc:"its thoughts are told"`
		MCP           bool `json:"mcp"`
		Sandbox       bool `json:"sandbox" doc:"it bounds by itself what it runs"`
		Schema        bool `json:"schema" doc:"it enforces a schema of its answer by itself"`
		Cost          bool `json:"cost" doc:"it tells what a turn cost"`
		Permissions   bool `json:"permissions" doc:"it can ask before it calls a tool"`
	}

	// SelectParams are those of agent/select.
	SelectParams struct {
		Type string `json:"type" doc:"an agent, or an agent of the configuration"`
	}
	// SelectResult is that of agent/select.
	SelectResult struct {
		Status string `json:"status" enum:"selected"`
		Type   string `json:"type"`
		Name   string `json:"name"`
	}

	// AgentOptions say how an agent works. They are keys of a pipeline's agents and steps.
	AgentOptions struct {
		Model        string          `json:"model,omitempty" doc:"the agent's own name of the model"`
		Sandbox      string          `json:"sandbox,omitempty" enum:"off,read-only,workspace-write" doc:"what its tools can reach"`
		Approval     string          `json:"approval,omitempty" enum:"plan,deny,ask,ask-dangerous,auto-edit,auto-all" doc:"which calls of tools pass without anyone being asked"`
		AutoApprove  []string        `json:"autoApprove,omitempty" doc:"tools that pass, as rules: read_file, or shell(go test *)"`
		AllowedTools []string        `json:"allowedTools,omitempty" doc:"tools that pass, in the agent's own syntax"`
		BlockedTools []string        `json:"blockedTools,omitempty" doc:"tools that never pass, in the agent's own syntax"`
		Permissions  json.RawMessage `json:"permissions,omitempty" doc:"as in a pipeline: {default, rules, ask-timeout, …}"`
		Effort       string          `json:"effort,omitempty" doc:"reasoning effort, in the agent's own words"`
		SystemPrompt string          `json:"systemPrompt,omitempty" doc:"appended to the agent's own system prompt"`
		Transport    string          `json:"transport,omitempty" doc:"the protocol that flow speaks with it"`
		MaxTurns     int             `json:"maxTurns,omitempty" doc:"the most turns of the model"`
		MaxCostUSD   float64         `json:"maxCostUsd,omitempty" doc:"the most money, in US dollars"`
	}

	// ConfigureParams are those of agent/configure.
	ConfigureParams struct {
		Type string `json:"type,omitempty" doc:"the agent that is meant; default: the selected one"`
		AgentOptions
	}
	// ConfigureResult is that of agent/configure.
	ConfigureResult struct {
		Status  string       `json:"status" enum:"configured"`
		Type    string       `json:"type"`
		Options AgentOptions `json:"options" doc:"all that is set now"`
	}

	// RunOptions are the options of agent/run.
	RunOptions struct {
		AgentOptions
		Dir         string            `json:"dir,omitempty" doc:"absolute directory to work in; default: the server's. A run that is continued keeps its own"`
		Timeout     string            `json:"timeout,omitempty" doc:"how long the turn may take, such as 30m"`
		IdleTimeout string            `json:"idleTimeout,omitempty" doc:"how long it may show no sign of life"`
		Schema      json.RawMessage   `json:"schema,omitempty" doc:"JSON Schema of the answer"`
		Env         map[string]string `json:"env,omitempty" doc:"further variables of the agent's process"`
		Simulate    bool              `json:"simulate,omitempty" doc:"use the built-in simulated agent: no key, no CLI, no cost"`
	}
	// RunParams are those of agent/run.
	RunParams struct {
		Prompt    string     `json:"prompt"`
		Mode      string     `json:"mode,omitempty" enum:"new,continue" doc:"new (the default): a session of its own; continue: go on in one"`
		Type      string     `json:"type,omitempty" doc:"the agent; default: the selected one, or that of the session"`
		SessionID string     `json:"session_id,omitempty" doc:"with continue: the session"`
		Run       string     `json:"run,omitempty" doc:"with continue, instead of a session: the run of agent/run to go on with"`
		Options   RunOptions `json:"options,omitzero"`
		Following
	}
	// Following says what a client wants to hear of a run that it begins.
	Following struct {
		Subscribe *bool `json:"subscribe,omitempty" doc:"whether the notifications of the run are wanted; default: where they can be sent"`
		RunEvents bool  `json:"run_events,omitempty" doc:"with it, every unified event comes as a run_event too"`
	}
	// Started is the answer of what begins a run, or goes on with one. It goes on by itself.
	Started struct {
		Run       string `json:"run" doc:"id of the run"`
		SessionID string `json:"session_id,omitempty" doc:"the native session, where it is known already"`
		Step      string `json:"step,omitempty" doc:"the step that is the turn"`
		Status    string `json:"status" enum:"running,succeeded" doc:"succeeded: there was nothing left to go on with"`
		After     int64  `json:"after" doc:"the seq of the last event that was there before"`

		Subscribed bool `json:"subscribed" doc:"notifications follow"`
	}

	// StopParams are those of agent/stop.
	StopParams struct {
		Run string `json:"run,omitempty" doc:"default: the only run of agent/run that is under way"`
	}
	// Stopped is the answer of what stops a run.
	Stopped struct {
		Run    string `json:"run"`
		Status string `json:"status" enum:"stopping"`
	}

	// RespondParams are those of agent/respond.
	RespondParams struct {
		Run      string          `json:"run"`
		ID       string          `json:"id" doc:"permission_id or request_id of an agent_permission, or question_id of a run_question"`
		Decision string          `json:"decision" enum:"allow,deny"`
		Message  string          `json:"message,omitempty" doc:"why, for the record and for the model"`
		Answer   json.RawMessage `json:"answer,omitempty" doc:"the form of a question filled in"`
	}
	// RespondResult is that of agent/respond.
	RespondResult struct {
		Status string `json:"status" enum:"answered"`
		Run    string `json:"run"`
		Step   string `json:"step"`
		Live   bool   `json:"live" doc:"the run is under way and takes the answer; else pipeline/resume goes on with it"`
	}

	// PipelineRef names a pipeline.
	PipelineRef struct {
		File string `json:"file,omitempty" doc:"its path, relative to dir"`
		Text string `json:"text,omitempty" doc:"its YAML, instead of the file's"`
		Dir  string `json:"dir,omitempty" doc:"absolute directory to work in; default: the server's"`
	}
	// ValidateParams are those of pipeline/validate.
	ValidateParams struct {
		PipelineRef
	}
	// ValidateResult is that of pipeline/validate.
	ValidateResult struct {
		Valid    bool      `json:"valid"`
		Problems []Problem `json:"problems" doc:"mistakes and warnings"`
	}
	// PipelineRunParams are those of pipeline/run.
	PipelineRunParams struct {
		PipelineRef
		Inputs   map[string]json.RawMessage `json:"inputs,omitempty"`
		RunID    string                     `json:"run_id,omitempty" doc:"name of the run; default: time and a random part"`
		Simulate bool                       `json:"simulate,omitempty" doc:"use built-in simulated agents"`
		Driving
		Following
	}
	// Driving says how a run is taken to its end.
	Driving struct {
		AskTimeout   string  `json:"ask_timeout,omitempty" doc:"how long an agent waits for a permission, such as 30m, also when nobody is connected"`
		BudgetUSD    float64 `json:"budget_usd,omitempty" doc:"another budget than the pipeline's"`
		BudgetTokens int64   `json:"budget_tokens,omitempty" doc:"another budget than the pipeline's"`
	}
	// ResumeParams are those of pipeline/resume.
	ResumeParams struct {
		Run    string            `json:"run"`
		Update bool              `json:"update,omitempty" doc:"go on with the pipeline's file as it is today"`
		Inputs map[string]string `json:"inputs,omitempty" doc:"with update: other values of inputs"`
		Driving
		Following
	}
	// RunRef names a run.
	RunRef struct {
		Run string `json:"run" doc:"id of a run, the beginning of one, or last"`
	}
	// ApproveParams are those of pipeline/approve.
	ApproveParams struct {
		Run        string          `json:"run"`
		Step       string          `json:"step,omitempty" doc:"the step that asks; default: the only one"`
		Permission string          `json:"permission,omitempty" doc:"the permission_id, where the step's agent asks"`
		Decision   string          `json:"decision,omitempty" enum:"allow,deny" doc:"default: allow"`
		Message    string          `json:"message,omitempty" doc:"why, for the record"`
		Answer     json.RawMessage `json:"answer,omitempty" doc:"the form filled in"`
		NoResume   bool            `json:"no_resume,omitempty" doc:"leave the answer, and do not go on with the run"`
		Following
	}
	// ApproveResult is that of pipeline/approve.
	ApproveResult struct {
		Run    string `json:"run"`
		Step   string `json:"step"`
		Status string `json:"status" enum:"stored,running" doc:"running: the run goes on, here or where it is under way"`
	}

	// ListParams are those of run/list.
	ListParams struct {
		Limit  int    `json:"limit,omitempty" doc:"how many, newest first; default 50, at most 1000"`
		Status string `json:"status,omitempty" doc:"only those that stand so"`
	}
	// ListResult is that of run/list.
	ListResult struct {
		Runs []RunSummary `json:"runs"`
	}
	// RunSummary is a run's line in a list.
	RunSummary struct {
		ID        string    `json:"id"`
		Name      string    `json:"name" doc:"of the pipeline"`
		File      string    `json:"file"`
		Status    string    `json:"status"`
		Created   time.Time `json:"created"`
		Ended     time.Time `json:"ended,omitzero"`
		Steps     int       `json:"steps,omitempty"`
		Simulated bool      `json:"simulated,omitempty"`
		Here      bool      `json:"here" doc:"it is under way in this server"`
	}
	// ShowResult is that of run/show.
	ShowResult struct {
		Report    json.RawMessage `json:"report" doc:"the object that flow show -o json prints"`
		Questions []Question      `json:"questions" doc:"what it waits for a person to answer"`
		Here      bool            `json:"here" doc:"it is under way in this server"`
	}
	// EventsParams are those of run/events.
	EventsParams struct {
		Run       string `json:"run"`
		Step      string `json:"step,omitempty" doc:"only those of the step, and of the steps inside it"`
		After     int64  `json:"after,omitempty" doc:"the cursor: only events with a higher seq"`
		Limit     int    `json:"limit,omitempty" doc:"events in a page; default 200, at most 1000"`
		Subscribe bool   `json:"subscribe,omitempty" doc:"send notifications from the cursor on, until the run has ended, instead of a page"`
		RunEvents bool   `json:"run_events,omitempty" doc:"with subscribe: every unified event comes as a run_event too"`
	}
	// EventsResult is that of run/events.
	EventsResult struct {
		Run        string            `json:"run"`
		Events     []json.RawMessage `json:"events" doc:"unified events, as flow schema events describes them"`
		Next       int64             `json:"next" doc:"the cursor after these"`
		More       bool              `json:"more" doc:"there are more already"`
		Subscribed bool              `json:"subscribed" doc:"notifications follow"`
	}
)
