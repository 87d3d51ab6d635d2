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
	KeepRaw     bool               `json:"keepRaw,omitempty"` // what processes print is stored with the secrets in it
	Env         []Var              `json:"env,omitempty"`
	Agents      map[string]Profile `json:"agents,omitempty"`
	Steps       []Step             `json:"steps"`
	Outputs     []Var              `json:"outputs,omitempty"`
	Budget      *Budget            `json:"budget,omitempty"`
	OnLimit     *OnLimit           `json:"onLimit,omitempty"` // nil: a limit is a failure like others
	Permissions *Permissions       `json:"permissions,omitempty"`
	Notify      []Notify           `json:"notify,omitempty"`
	Files       map[string]string  `json:"files,omitempty"` // contents that the plan froze (`prompt-file`, `file`), by path
	// Origin says of what the pipeline itself does not say where it comes from, as
	// file:line:col, by key: `budget`, `concurrency.agents.claude`.
	Origin map[string]string `json:"origin,omitempty"`
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
	// JSON says that Src is a value in JSON, and no template: in `set` and `with`.
	JSON bool `json:"json,omitempty"`
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
	Use          string   `json:"use"` // a built-in agent
	Command      []string `json:"command,omitempty"`
	Args         []string `json:"args,omitempty"`
	Transport    string   `json:"transport,omitempty"` // "": the agent's adapter chooses
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
	// Fallback are the profiles to go on with, in order, when this one is not to be had.
	Fallback       []string       `json:"fallback,omitempty"`
	Permissions    *Permissions   `json:"permissions,omitempty"`
	Exec           *Exec          `json:"exec,omitempty"` // of a command that speaks no protocol
	SandboxOptions SandboxOptions `json:"sandboxOptions,omitzero"`
	Pos            Pos            `json:"pos"`

	// File is the configuration that Pos is in; "": the pipeline's own file.
	File string `json:"file,omitempty"`
	// Origin says where the keys come from that stand in a configuration, as file:line:col,
	// by key: `model`, `env.NAME`.
	Origin map[string]string `json:"origin,omitempty"`
}

// Kind is what a step does.
type Kind string

// The kinds.
const (
	KindPrompt Kind = "prompt"   // one headless turn of an agent
	KindRun    Kind = "run"      // a shell script
	KindGroup  Kind = "steps"    // a nested graph of steps
	KindCall   Kind = "pipeline" // another pipeline
	KindAsk    Kind = "ask"      // a person decides
	KindMerge  Kind = "merge"    // brings branches of isolated steps together
	KindSet    Kind = "set"      // names for values
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

	FailFast bool   `json:"failFast,omitempty"` // of a group's steps, or of the items of Foreach
	Steps    []Step `json:"steps,omitempty"`

	Call  *Call  `json:"call,omitempty"`
	Ask   *Text  `json:"ask,omitempty"` // the question; Output is the form of the answer
	Merge *Merge `json:"merge,omitempty"`
	Set   []Var  `json:"set,omitempty"`

	// These three make many of one, in this order from outside in: each item of
	// Foreach goes through the rounds of Repeat, and each round is a Contest.
	Foreach *Foreach `json:"foreach,omitempty"`
	Repeat  *Repeat  `json:"repeat,omitempty"`
	Contest *Contest `json:"contest,omitempty"` // `race` or `vote`
	// IfEach says that If names .item or .index: it is asked for every item, and not
	// once before there are any.
	IfEach bool `json:"ifEach,omitempty"`
	// Previous says that the step needs what the round before left: a template names
	// .previous, or its session goes on in its own of that round.
	Previous bool `json:"previous,omitempty"`

	Isolation   *Isolation   `json:"isolation,omitempty"`
	Check       *Check       `json:"check,omitempty"`
	Artifacts   []Text       `json:"artifacts,omitempty"` // paths and globs below the working directory
	AllowRaw    bool         `json:"allowRaw,omitempty"`  // `raw` may stand in Run
	Sandbox     string       `json:"sandbox,omitempty"`   // instead of the profile's, with SandboxOptions
	Permissions *Permissions `json:"permissions,omitempty"`
	Budget      *Budget      `json:"budget,omitempty"`
	Cache       *Cache       `json:"cache,omitempty"`
	Notify      []Notify     `json:"notify,omitempty"`
	// Changes says that some template names .diff or .files of this step: what
	// changed in its workspace is kept with its result.
	Changes bool `json:"changes,omitempty"`

	SandboxOptions SandboxOptions `json:"sandboxOptions,omitzero"`
}

// Foreach runs a step once for every item of a list, which is either literal or the
// value of a template.
type Foreach struct {
	List        *Text           `json:"list,omitempty"`        // one action, with or without braces
	Items       json.RawMessage `json:"items,omitempty"`       // a JSON array
	MaxParallel int             `json:"maxParallel,omitempty"` // items at once; 0: no limit of its own
	// Refs are those of the step's Refs that List alone names: an item does without them.
	Refs []string `json:"refs,omitempty"`
}

// Repeat runs a step in rounds until a condition holds.
type Repeat struct {
	Until Text `json:"until"` // sees the round's own steps, .iteration and .previous
	Max   int  `json:"max"`   // rounds at most
	// GoOn says that the step succeeds when Until does not hold after Max rounds
	// (`on-max: continue`); otherwise it fails.
	GoOn bool `json:"goOn,omitempty"`
}

// Contest gives the same prompt to several agents.
type Contest struct {
	Agents []string `json:"agents"` // keys of Plan.Agents, one for each candidate; a name may stand twice
	// Race says that the first candidate to succeed wins and ends the others. Otherwise all
	// come to their end, and then By or Judge decides.
	Race bool `json:"race,omitempty"`
	// By names a field of the output, or with dots one inside of it: the value that
	// most candidates give wins. A tie goes to the value that came first in Agents.
	By    string `json:"by,omitempty"`
	Judge *Step  `json:"judge,omitempty"` // an agent step with the id `judge`; Prompt is what it is told besides, or nil
	Pos   Pos    `json:"pos"`
}

// Call runs another pipeline as a step. Its Plan knows nothing of the caller's.
type Call struct {
	File string `json:"file"` // relative to the calling pipeline's directory
	With []Var  `json:"with,omitempty"`
	Plan *Plan  `json:"plan"`
}

// Merge brings the branches of isolated steps into the workspace, in order.
type Merge struct {
	From []string `json:"from"` // siblings, or visible steps; each item of one with Foreach
	// OnConflict is `fail`, or `agent`: Step.Agent resolves it, told Step.Prompt besides.
	OnConflict string `json:"onConflict,omitempty"`
}

// Isolation gives a step, or each item of it, a workspace of its own.
type Isolation struct {
	Mode  string   `json:"mode"`            // `worktree` or `copy`
	Base  *Text    `json:"base,omitempty"`  // what a worktree begins at; nil: what the workspace around it has now
	Copy  []string `json:"copy,omitempty"`  // untracked files to take along: paths and globs
	Setup *Text    `json:"setup,omitempty"` // a script to run in it first
}

// Check is a script that must pass before an agent step counts as done.
type Check struct {
	Run     Text     `json:"run"`
	Max     int      `json:"max"` // how often its failure goes back to the agent
	Timeout Duration `json:"timeout,omitempty"`
}

// Budget bounds what agents may use.
type Budget struct {
	USD    float64 `json:"usd,omitempty"`    // 0: no bound
	Tokens int64   `json:"tokens,omitempty"` // 0: no bound
	// OnExceed is `stop` (the run ends, resumable), `fail` (the step fails) or `warn`.
	OnExceed string `json:"onExceed,omitempty"`
	Pos      Pos    `json:"pos"`
}

// OnLimit says what a usage or rate limit of an agent does.
type OnLimit struct {
	Wait     Duration `json:"wait,omitempty"` // how long its reset may be waited for
	Fallback bool     `json:"fallback,omitempty"`
}

// Permissions are rules on tools, in words that all agents share. deny beats ask beats allow.
type Permissions struct {
	Default string       `json:"default,omitempty"` // deny, ask, allow; "": as the approval mode says
	Rules   []Permission `json:"rules,omitempty"`
	Strict  bool         `json:"strict,omitempty"` // refuse rules that an agent cannot enforce
	// AskTimeout is how long a call that a person is to be asked about waits for one when
	// nobody is there; 0: it is denied at once.
	AskTimeout Duration `json:"askTimeout,omitempty"`
	Protect    []string `json:"protect,omitempty"` // globs of further protected files
	// Least is what the user's configuration has as the default: a nearer Default may be
	// stronger and not weaker.
	Least string `json:"least,omitempty"`
}

// Permission is one rule: `allow: shell(go test *)`.
type Permission struct {
	Effect  string `json:"effect"`            // allow, ask or deny
	Tool    string `json:"tool"`              // shell read_file write_file edit_file search_content find_files web_fetch web_search mcp, or *
	Pattern string `json:"pattern,omitempty"` // of the target; "": any
	Pos     Pos    `json:"pos"`
	File    string `json:"file,omitempty"` // the configuration that Pos is in; "": the pipeline's own file
}

// Cache keeps the result of an agent step for later runs.
type Cache struct {
	Key *Text    `json:"key,omitempty"` // what the result depends on besides prompt, agent and tree
	TTL Duration `json:"ttl,omitempty"` // 0: for ever
}

// Notify runs a script when a step or a run has ended. Its values arrive as variables.
type Notify struct {
	On  []string `json:"on"` // succeeded, failed, cancelled, skipped, waiting
	Run Text     `json:"run"`
}

// Retry says how often a failed step is tried again.
type Retry struct {
	Max     int      `json:"max,omitempty"`     // further attempts after the first
	Backoff Duration `json:"backoff,omitempty"` // before the second attempt; doubles, with jitter
	On      []string `json:"on,omitempty"`      // causes; empty: every transient one and exit
	Hint    bool     `json:"hint,omitempty"`    // the failure goes into the next prompt
}

// SessionMode says what a step does with a native session.
type SessionMode string

// The session modes.
const (
	SessionNew      SessionMode = ""
	SessionContinue SessionMode = "continue" // go on in the session of Session.Step
	SessionFork     SessionMode = "fork"     // branch the session of Session.Step
)

// Session names the step whose native session a step continues or branches. A step that
// names itself goes on in its own session of the round before.
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
