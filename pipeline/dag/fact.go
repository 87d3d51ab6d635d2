// Package dag decides: facts about steps go in, tasks come out. A Machine is a
// pure value: it reads no clock, starts nothing and waits for nothing, so that the
// same facts give the same decisions under every driver and after every restart.
package dag

import (
	"encoding/json"
	"time"

	"flow/pipeline"
)

// Kind is what a Fact says.
type Kind string

// The kinds of facts.
const (
	Started   Kind = "started"   // an attempt of a step was launched
	Opened    Kind = "opened"    // a step with steps in it grew them: they may run
	Continued Kind = "continued" // a loop goes into another round
	Succeeded Kind = "succeeded" // the step has a verified result
	Failed    Kind = "failed"    // the attempt failed; Final says whether the step did
	Skipped   Kind = "skipped"   // the step's condition was false
	Stopped   Kind = "stopped"   // the attempt was cancelled
	Lost      Kind = "lost"      // flow died while the attempt ran
	Reopened  Kind = "reopened"  // a resume gives a step that ended without success another chance
	Suspended Kind = "suspended" // a question stands, and nobody was there to answer it
	Updated   Kind = "updated"   // of the run: from here on it follows another plan
)

// A Fact is what happened to one step. Facts are stored before they are applied,
// and a run is what its facts say.
type Fact struct {
	Kind Kind `json:"kind"`
	// Path is the step's. Stopped and Reopened may be about the run itself: then it is
	// empty, and nothing new starts until the run is reopened.
	Path string `json:"path"`
	// Attempt is that of the Task, from 1. Reopened has none, Lost needs none.
	Attempt int `json:"attempt,omitempty"`
	// Session is, for Started, the native session chosen before the launch.
	Session string `json:"session,omitempty"`
	// Result is what the step leaves, opaque to the machine.
	Result json.RawMessage `json:"result,omitempty"`
	Reason string          `json:"reason,omitempty"` // why it failed, was skipped or stopped
	Cause  string          `json:"cause,omitempty"`
	Final  bool            `json:"final,omitempty"` // Failed: there will be no further attempt
	// RetryAt is, for Failed without Final, when the next attempt may start.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Count is, for Opened, the number of items of a `foreach`; for Continued, that of
	// the round that begins, from 2.
	Count int `json:"count,omitempty"`
}

// Action is what a Task asks for.
type Action string

// The actions.
const (
	Execute Action = "execute" // run the step; answer Succeeded, Failed, Skipped or Stopped
	Open    Action = "open"    // decide what steps a step grows; answer Opened, Skipped or Failed
	Close   Action = "close"   // the steps within have succeeded: answer Succeeded, Failed or, for a loop, Continued
)

// Form is what a node of the run stands for. A step with `foreach` and `repeat` is three
// nodes deep: its items are in the Each, the rounds of an item in a Loop, and a
// round is a Group or a Single.
type Form string

// The forms.
const (
	Single  Form = "single"  // one attempt at a time: prompt, run, ask, merge, set
	Group   Form = "group"   // the steps of a group or of a called pipeline
	Each    Form = "each"    // the items of a `foreach`: "fix.0", "fix.1" …
	Loop    Form = "loop"    // the rounds of a `repeat`: "fix.1", "fix.2" …
	Contest Form = "contest" // the candidates of a `race` or `vote`: "fix.0" …, and "fix.judge"
)

// Enclosing is a node that a task stands in.
type Enclosing struct {
	Path   string
	Form   Form
	Step   *pipeline.Step
	Result json.RawMessage // of its Opened
	// Index is the item or candidate, from 0, or the round, from 1, that the task is or is in.
	Index int
}

// A Task is one thing to do now.
type Task struct {
	Action Action
	// Path names the node: ids from the root, and the numbers of items, candidates (from
	// 0) and rounds (from 1), joined by dots: "fix.0.2.edit".
	Path string
	Form Form
	// Step is the node's. Of a candidate it is a copy with the candidate's Agent.
	Step *pipeline.Step
	// Around are the nodes that hold this one, from outside in.
	Around []Enclosing
	// Owns says that this is the node whose workspace Step.Isolation describes: an item, a
	// candidate, or the step itself where there are none.
	Owns    bool
	Attempt int // from 1; higher than any that has a Started fact
	// Previous is the attempt before this one, 0 if there was none, and PreviousKind
	// how it ended: Failed, Stopped or Lost.
	Previous     int
	PreviousKind Kind
	NotBefore    time.Time // of a retry, else zero
	// Needs says how the steps that this one needs have ended.
	Needs pipeline.NeedState
	// Inputs are the steps that this one's templates name (Step.Refs), by id.
	Inputs map[string]Input
	// Before is the round before this one of the nearest loop around (or of this very node,
	// should it be a round), where Step.Previous asks for it; nil in the first.
	Before *Input
	// Inner is, to Close, how the node stands: its steps, items, last round. For a judge it
	// is the contest with its candidates.
	Inner *Input
}

// Input is what a step sees of another.
type Input struct {
	Path   string
	Status Status
	// Result is the step's own; of a loop that has none yet, that of its last round.
	Result json.RawMessage
	Steps  map[string]Input // of a group or called pipeline; of a loop, those of its last round
	Items  []Input          // of a foreach or contest, in order
	Rounds int              // of a loop
}

// Status is how a step stands.
type Status string

// The statuses.
const (
	Pending     Status = "pending"
	Running     Status = "running"
	Retrying    Status = "retrying"
	OK          Status = "succeeded"
	Failure     Status = "failed"
	SkippedStep Status = "skipped"
	Cancelled   Status = "cancelled"
	Waiting     Status = "waiting" // for a person
)
