// Package agents is what flow knows of coding agents: how one is asked to do
// something (Request), how it is started (Command), what it says while it works
// (Event) and what became of it (Outcome).
//
// An agent is an Adapter: an argument vector plus a protocol, both pure. It
// starts no process, reads no clock and touches no file; package proc does the
// first, the callers do the rest. So every recorded stream of a real CLI is a
// test, and a run can be translated again from what it stored.
package agents

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// An Adapter speaks for one agent CLI. Its methods may be called concurrently.
type Adapter interface {
	// Info describes the agent: names, capabilities, environment.
	Info() Info
	// Command says how to start the agent for one headless turn. A request that
	// the agent cannot honour is refused with a *Problem of CauseConfig that says
	// which agents can, never approximated.
	Command(Request) (Command, error)
	// Dialog returns a new protocol machine for the process that Command(r) starts: a
	// Conversation if the command Talks.
	Dialog(r Request) Dialog
}

// A Dialog turns what one process of an agent prints into events, line by line,
// and its end into an Outcome. It is a pure state machine for one goroutine.
// Lines come without their newline and must not be kept: copy what is needed.
//
// Dialogs set no envelope fields (Event.Time excepted, where the native line
// carries a time of its own) and need not close open tools: a Translator does.
type Dialog interface {
	// Line takes one line of standard output. It never fails: what it does not
	// understand becomes a Log, Malformed or Unknown event.
	Line(line []byte) []Event
	// Stderr takes one line of standard error, for the agents that say something
	// there that nothing else tells (a retry, say). Most return nothing.
	Stderr(line []byte) []Event
	// End says what the end of the process means, given all that was seen. The
	// exit status alone proves nothing for any of the agents.
	End(Exit) Outcome
}

// A Request is one headless turn asked of an agent.
type Request struct {
	Prompt  string  `json:"-"`               // sent on standard input
	Model   string  `json:"model,omitempty"` // "" leaves the choice to the agent
	Session Session `json:"session"`         // the native session to begin, continue or branch
	Dir     string  `json:"dir"`             // absolute working directory
	// Transport names the protocol, one of Info.Transports; "" is the first of them.
	Transport string `json:"transport,omitempty"`
	// Key names the one of Info.KeyVariables that is set for the agent, "" for none.
	Key string `json:"key,omitempty"`

	Schema json.RawMessage `json:"schema,omitempty"` // JSON Schema of the answer, or nil

	Approval ApprovalMode `json:"approval,omitempty"` // "": file edits pass, within the sandbox's bounds
	Sandbox  SandboxMode  `json:"sandbox,omitempty"`  // "" is SandboxWorkspaceWrite
	// Network says whether the agent's tools reach the network; "" is the agent's own way.
	Network Network `json:"network,omitempty"`
	// Confined says that whoever starts the agent keeps it, and all that it starts, to
	// what Sandbox allows to write.
	Confined bool `json:"confined,omitempty"`
	// AllowedTools and BlockedTools are tool patterns in the agent's own syntax.
	AllowedTools []string `json:"allowedTools,omitempty"`
	BlockedTools []string `json:"blockedTools,omitempty"`
	// Rules say which tool calls pass, in words that all agents share. Whatever an agent
	// makes of them, package policy judges every call again when it is seen.
	Rules       []Rule `json:"rules,omitempty"`
	RuleDefault string `json:"ruleDefault,omitempty"` // allow, ask or deny; "": the approval mode decides
	// Protected are globs of further files that only a rule that names them lets be
	// written, besides those that are so in every policy.
	Protected    []string `json:"protected,omitempty"`
	AddDirs      []string `json:"addDirs,omitempty"`      // further directories the agent may work in, absolute
	SystemPrompt string   `json:"systemPrompt,omitempty"` // appended to the agent's own
	Effort       string   `json:"effort,omitempty"`       // reasoning effort in the agent's own words, or ""
	MaxTurns     int      `json:"maxTurns,omitempty"`     // model turns; 0 is no limit
	MaxCostUSD   float64  `json:"maxCostUsd,omitempty"`   // 0 is no limit
	// Inherit lets the agent load hooks, settings, instructions and MCP servers of
	// the user and of the repository. Without it a run is hermetic.
	Inherit bool     `json:"inherit,omitempty"`
	Exec    *Exec    `json:"exec,omitempty"` // what is to be known of a command that speaks no protocol
	Args    []string `json:"args,omitempty"` // further arguments from the profile
	// Scratch is an absolute directory, private to this turn, where the files of
	// Command.Files go (settings, schemas).
	Scratch string `json:"scratch"`
	// Home is an absolute directory that all turns of an agent in a run share and
	// that outlives them: there an agent may keep what its sessions need. Files of
	// Command.Files may go there too, if they are the same for every turn, for other
	// turns may be reading them. "" when there is none.
	Home string `json:"home,omitempty"`
}

// A Rule allows, asks for or denies calls of a tool. Deny beats ask, and ask beats allow.
type Rule struct {
	Effect  string `json:"effect"`            // allow, ask or deny
	Tool    string `json:"tool"`              // shell read_file write_file edit_file search_content find_files web_fetch web_search mcp, or *
	Pattern string `json:"pattern,omitempty"` // of what the tool is called on; "": anything
	Where   string `json:"where,omitempty"`   // the place that it stands at, as file:line:col
}

// SessionMode says what a turn does with a native session.
type SessionMode string

// The session modes. The zero value is SessionNew.
const (
	SessionNew    SessionMode = ""       // begin a session
	SessionResume SessionMode = "resume" // go on in Session.ID
	SessionFork   SessionMode = "fork"   // branch Session.Parent
)

// Session names the native session of a turn.
type Session struct {
	Mode SessionMode `json:"mode,omitempty"`
	// ID is the session to resume, or the id wished for a new or forked one: it is
	// used where Capabilities.ChoosesSessionID holds and ignored elsewhere.
	ID     string `json:"id,omitempty"`
	Parent string `json:"parent,omitempty"` // the session to fork
	// Spent is what the session (when resumed) or its parent (when forked) had
	// used when its last turn ended, for agents that count over the whole session.
	// nil when nothing is known.
	Spent *Usage `json:"spent,omitempty"`
}

// IsUUID reports whether id has the form of the session ids that all three CLIs
// use: 36 characters, hexadecimal with dashes.
func IsUUID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

// ApprovalMode says which tool calls pass without anyone being asked.
type ApprovalMode string

// The approval modes (agent-neutral; adapters map or refuse them).
const (
	ApprovalPlan         ApprovalMode = "plan"          // think and read only
	ApprovalDeny         ApprovalMode = "deny"          // what is not allowed explicitly is denied
	ApprovalAsk          ApprovalMode = "ask"           // every effect is asked; without anyone it is denied
	ApprovalAskDangerous ApprovalMode = "ask-dangerous" // the dangerous ones are asked
	ApprovalAutoEdit     ApprovalMode = "auto-edit"     // file edits pass, the rest is asked
	ApprovalAutoAll      ApprovalMode = "auto-all"      // everything passes
)

// SandboxMode bounds what an agent's tools can reach.
type SandboxMode string

// The sandbox modes.
const (
	SandboxOff            SandboxMode = "off"             // no bounds
	SandboxReadOnly       SandboxMode = "read-only"       // nothing is written
	SandboxWorkspaceWrite SandboxMode = "workspace-write" // writes stay in the working directory
)

// Network says whether something reaches the network.
type Network string

// The values of Network, besides the zero value.
const (
	NetworkOn  Network = "on"
	NetworkOff Network = "off"
)

// Info describes an agent to people and to the planner.
type Info struct {
	Name  string // "claude", as in `use: claude`
	Title string // "Claude Code"
	// Transports are the protocols it speaks, as a profile's `transport` names them. The
	// first is the one-way one where there is one.
	Transports   []string
	Executable   string   // looked up on PATH unless the profile names a command
	Install      string   // what to do when it is missing, one line
	Login        string   // what to do when it is not logged in, one line
	KeyVariables []string // environment variables that log it in, any one of them
	VersionArgs  []string // prints the version, quickly and offline
	// Hermetic says that without Request.Inherit it loads nothing that the user or the
	// repository has set up: no MCP servers among that.
	Hermetic bool
	// Tools are those that its calls can be of, where these are not all; nil: all.
	Tools        []Tool
	Unbounded    bool     // without Request.Sandbox nothing bounds what its tools write
	LoginArgs    []string // exits 0 when logged in, quickly, free of charge; or nil
	Capabilities Capabilities
}

// Capabilities says what an agent's one-shot protocol can do.
type Capabilities struct {
	ChoosesSessionID bool           `json:"choosesSessionId"` // the caller names new sessions
	Resume           bool           `json:"resume"`
	Fork             bool           `json:"fork"`
	Schema           bool           `json:"schema"` // enforces an output schema natively
	Cost             bool           `json:"cost"`   // reports money, not only tokens
	MaxTurns         bool           `json:"maxTurns"`
	MaxCost          bool           `json:"maxCost"`
	SystemPrompt     bool           `json:"systemPrompt"`
	Approval         []ApprovalMode `json:"approval"`
	Sandbox          []SandboxMode  `json:"sandbox"`
	NativeSandbox    bool           `json:"nativeSandbox"` // it bounds what it runs by the operating system itself
}

// A Command is how a process is started: no shell is involved.
type Command struct {
	Args  []string // the arguments; the executable is the caller's choice
	Env   []string // NAME=value, in addition to what the caller passes on
	Dir   string
	Stdin string // the whole of standard input, or, when it Talks, the prompt for the record
	// Talks says that Dialog returns a Conversation: standard input is its own.
	Talks bool
	Files []File // to be written before the start
	// Prepare, when not nil, changes files that the agent keeps, before the start.
	Prepare *Preparation
	// Interrupt is the signal that asks the agent to stop politely, first rung of
	// the ladder that ends with SIGKILL: "INT" or "TERM".
	Interrupt string
	// Leaves are directories, relative to Dir, that the agent makes, empty, and does
	// not remove when it is killed.
	Leaves []string
	// Writable are the files and directories that the agent itself keeps, and that it must
	// be able to write whatever Request.Sandbox says: absolute, or beginning with ~ or
	// ${NAME:-DEFAULT}, as a shell would read them in its environment. One with a slash at
	// the end is a directory, to be made if it is not there.
	Writable []string
}

// A File is written, with mode 0600, before a Command is started. Whoever reads it
// meanwhile sees the old content or the new, never a part.
type File struct {
	Path string // absolute, inside Request.Scratch or Request.Home
	Data []byte
}

// A Preparation brings files that an agent keeps in Request.Home into the state that a
// turn needs: an adapter cannot read them itself. The turn's session must be its own
// meanwhile.
type Preparation struct {
	Read string // a pattern of fs.Glob, relative to Request.Home
	// Make returns what the files that Read matches are to be: one that it leaves out
	// is removed, one that is new or has changed is written. It is pure.
	Make func(files []File) []File
}

// Exit is how a process ended, and why if that was our doing.
type Exit struct {
	Code   int    // exit status; -1 when Signal is set or the process never ran
	Signal string // the signal that killed it ("KILL"), or ""
	// Intent is why flow ended the process, or "" when it ended by itself.
	Intent Intent
	Stderr string // the last 64 KiB of standard error
	Err    error  // why the process could not be started, or nil
	// Overflow says that flow killed it for printing too much.
	Overflow bool
}

// Intent is why flow ended a process.
type Intent string

// The intents.
const (
	IntentNone    Intent = ""
	IntentCancel  Intent = "cancelled" // the run was cancelled
	IntentTimeout Intent = "timeout"   // the step's timeout ran out
	IntentIdle    Intent = "idle"      // the step's idle-timeout ran out
	IntentPolicy  Intent = "policy"    // a tool call broke the policy
	IntentDone    Intent = "done"      // its turn had ended, but the process went on
)

// Reason is how a session ended.
type Reason string

// The reasons.
const (
	Completed Reason = "completed"
	Failed    Reason = "failed"
	Cancelled Reason = "cancelled"
	TimedOut  Reason = "timeout"
)

// An Outcome is what became of one turn of an agent.
type Outcome struct {
	Reason    Reason
	Problem   *Problem // why, unless Reason is Completed
	SessionID string   // the native session, as the agent itself named it
	Model     string   // the model that answered, where the agent says so
	Version   string   // the CLI's version, where it says so
	// Began says that the model was seen at work (text, reasoning or a tool): the
	// session's history holds the prompt, and a short continuation suffices.
	Began  bool
	Text   string          // the final answer
	Output json.RawMessage // the answer by schema as the agent reported it; not validated
	Usage  *Usage          // of this turn alone
	// SessionUsage is the running total of the session, for agents that count so
	// (to be passed back as Session.Spent), else nil.
	SessionUsage *Usage
	CostUSD      *float64      // of this turn alone, the agent's own estimate
	Duration     time.Duration // as the agent reported it, or 0
	Denied       []string      // tool calls that were refused, as "Tool: target"
}

// Usage counts tokens. InputTokens includes CachedTokens and CacheWriteTokens;
// OutputTokens includes ReasoningTokens for the agents that say so (Codex) and
// excludes them for those that count them apart (Gemini): TotalTokens is right
// for all.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CachedTokens     int64 `json:"cachedTokens,omitempty"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitempty"`
	TotalTokens      int64 `json:"totalTokens"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens + v.InputTokens,
		OutputTokens:     u.OutputTokens + v.OutputTokens,
		CachedTokens:     u.CachedTokens + v.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
		TotalTokens:      u.TotalTokens + v.TotalTokens,
	}
}

// Sub returns u minus v, no count below zero.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		InputTokens:      max(0, u.InputTokens-v.InputTokens),
		OutputTokens:     max(0, u.OutputTokens-v.OutputTokens),
		CachedTokens:     max(0, u.CachedTokens-v.CachedTokens),
		CacheWriteTokens: max(0, u.CacheWriteTokens-v.CacheWriteTokens),
		ReasoningTokens:  max(0, u.ReasoningTokens-v.ReasoningTokens),
		TotalTokens:      max(0, u.TotalTokens-v.TotalTokens),
	}
}
