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
	Opened    Kind = "opened"    // a group's condition held: its steps may run
	Succeeded Kind = "succeeded" // the step has a verified result
	Failed    Kind = "failed"    // the attempt failed; Final says whether the step did
	Skipped   Kind = "skipped"   // the step's condition was false
	Stopped   Kind = "stopped"   // the attempt was cancelled
	Lost      Kind = "lost"      // flow died while the attempt ran
	Reopened  Kind = "reopened"  // a resume gives a step that ended without success another chance
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
}

// Action is what a Task asks for.
type Action string

// The actions.
const (
	Execute Action = "execute" // run the step; answer Succeeded, Failed, Skipped or Stopped
	Open    Action = "open"    // decide a group's condition; answer Opened, Skipped or Failed
)

// A Task is one thing to do now.
type Task struct {
	Action  Action
	Path    string // "fix.edit": ids from the root, joined by dots
	Step    *pipeline.Step
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
}

// Input is what a step sees of another.
type Input struct {
	Path   string
	Status Status
	Result json.RawMessage
	Steps  map[string]Input // of a group
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
)
