// Package pipeline is the language: it reads a pipeline from YAML, finds every
// mistake in it at once, and makes a Plan. It also renders the templates of a
// plan. It knows nothing of agents, processes or state.
package pipeline

import (
	"encoding/json"
	"time"
)

// A Plan is a pipeline that has been checked: immutable, and the same after a
// round trip through JSON, which is how a run freezes it.
type Plan struct {
	Name        string             `json:"name"`
	Description string             `json:"description,omitempty"`
	File        string             `json:"file"` // as the user named it, for messages
	FailFast    bool               `json:"failFast,omitempty"`
	Limit       int                `json:"limit,omitempty"`       // steps at once; 0: the default
	AgentLimits map[string]int     `json:"agentLimits,omitempty"` // by `use` name
	Inputs      []Input            `json:"inputs,omitempty"`
	Secrets     []string           `json:"secrets,omitempty"`
	Env         []Var              `json:"env,omitempty"`
	Agents      map[string]Profile `json:"agents,omitempty"`
	Steps       []Step             `json:"steps"`
	Outputs     []Var              `json:"outputs,omitempty"`
	Files       map[string]string  `json:"files,omitempty"` // contents that the plan froze (`prompt-file`, `file`), by path
}

// Pos is a place in the pipeline's file, both counted from 1.
type Pos struct {
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`
}

// Text is a template with its place. It is comparable.
type Text struct {
	Src string `json:"src"`
	Pos Pos    `json:"pos"` // of its first character
	// File is where the text stands, relative to the pipeline's directory, when it
	// is not the pipeline's own file (`prompt-file`).
	File string `json:"file,omitempty"`
	// Folded says that the lines of Src are not those of the file (escapes, folded
	// lines): a place inside the text cannot be told from its start.
	Folded bool `json:"folded,omitempty"`
}

// Var is a name with a template for its value.
type Var struct {
	Name  string `json:"name"`
	Value Text   `json:"value"`
}

// Input declares an input of the pipeline.
type Input struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"` // string, integer, number, boolean, array or object
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"` // it has no default
	Default     json.RawMessage `json:"default,omitempty"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the value (type, enum, minimum, pattern …)
	Pos         Pos             `json:"pos"`
}

// Profile is a named agent, or a built-in one under its own name.
type Profile struct {
	Name         string   `json:"name"`
	Use          string   `json:"use"` // claude, codex or gemini
	Command      []string `json:"command,omitempty"`
	Args         []string `json:"args,omitempty"`
	Model        string   `json:"model,omitempty"`
	Approval     string   `json:"approval,omitempty"`
	Sandbox      string   `json:"sandbox,omitempty"`
	AllowedTools []string `json:"allowedTools,omitempty"`
	BlockedTools []string `json:"blockedTools,omitempty"`
	AddDirs      []string `json:"addDirs,omitempty"`
	SystemPrompt string   `json:"systemPrompt,omitempty"`
	Effort       string   `json:"effort,omitempty"`
	MaxTurns     int      `json:"maxTurns,omitempty"`
	MaxCostUSD   float64  `json:"maxCostUsd,omitempty"`
	Inherit      bool     `json:"inherit,omitempty"`
	Env          []Var    `json:"env,omitempty"`
	Pos          Pos      `json:"pos"`
}

// Kind is what a step does.
type Kind string

// The kinds.
const (
	KindPrompt Kind = "prompt" // one headless turn of an agent
	KindRun    Kind = "run"    // a shell script
	KindGroup  Kind = "steps"  // a nested graph of steps
)

// Step is one step of a plan, exactly one Kind.
type Step struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Pos  Pos    `json:"pos"`

	// Needs are the siblings that must end first, explicit and inferred, each once,
	// in the order of the file. The plan is free of cycles.
	Needs []string `json:"needs,omitempty"`
	// Refs are the ids that the step's templates name as `.steps.ID`: siblings, or
	// siblings of a group that holds the step. Every one is also in the Needs of
	// the step or of that group, except the sources of a group's inner steps.
	Refs []string `json:"refs,omitempty"`

	If *Text `json:"if,omitempty"`
	// Handles says that If calls always, failed or succeeded: the step is asked for even when
	// what it needs did not succeed.
	Handles         bool     `json:"handles,omitempty"`
	Retry           Retry    `json:"retry,omitzero"`
	Timeout         Duration `json:"timeout,omitempty"`
	IdleTimeout     Duration `json:"idleTimeout,omitempty"`
	ContinueOnError bool     `json:"continueOnError,omitempty"`
	Cwd             *Text    `json:"cwd,omitempty"`
	Env             []Var    `json:"env,omitempty"`

	Prompt  *Text           `json:"prompt,omitempty"`
	Agent   string          `json:"agent,omitempty"`  // a key of Plan.Agents
	Output  json.RawMessage `json:"output,omitempty"` // JSON Schema of the answer
	Session Session         `json:"session,omitzero"`

	Run   *Text  `json:"run,omitempty"`
	Shell string `json:"shell,omitempty"` // "" is sh

	FailFast bool   `json:"failFast,omitempty"` // of a group
	Steps    []Step `json:"steps,omitempty"`
}

// Retry says how often a failed step is tried again.
type Retry struct {
	Max     int      `json:"max,omitempty"`     // further attempts after the first
	Backoff Duration `json:"backoff,omitempty"` // before the second attempt; doubles, with jitter
	On      []string `json:"on,omitempty"`      // causes; empty: every transient one and exit
}

// SessionMode says what a step does with a native session.
type SessionMode string

// The session modes.
const (
	SessionNew      SessionMode = ""
	SessionContinue SessionMode = "continue" // go on in the session of Session.Step
	SessionFork     SessionMode = "fork"     // branch the session of Session.Step
)

// Session names the step whose native session a step continues or branches.
type Session struct {
	Mode SessionMode `json:"mode,omitempty"`
	Step string      `json:"step,omitempty"`
	// Root is the path of the step that began the session: steps with the same
	// root never write at once.
	Root string `json:"root,omitempty"`
}

// Duration is a time.Duration that reads and writes as "1m30s".
type Duration time.Duration

// MarshalText writes d as time.Duration.String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// String is time.Duration.String.
func (d Duration) String() string { return time.Duration(d).String() }
