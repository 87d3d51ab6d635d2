package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"flow/agents/proc"
	"flow/state/disk"
)

// exitExt is of an Exit.
const exitExt = "exit"

// An Exit is what is kept of how a process ended, beside its output: with that it can be
// played again. It is written when the process has ended and before what follows from it is
// recorded, without waiting for the disk. A process without one was under way when flow died.
type Exit struct {
	Code   int    `json:"code"`             // -1: by a signal, or not started
	Signal string `json:"signal,omitempty"` // "KILL"
	Error  string `json:"error,omitempty"`  // why it was not started
	// Why is why flow ended the process, "" if it did not: an agents.Intent, or
	// check-timeout; the cause of another kind stands in Reason.
	Why       string   `json:"why,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Leftovers []string `json:"leftovers,omitempty"`
}

// whyCheckTimeout is the Exit.Why of a check that took too long.
const whyCheckTimeout = "check-timeout"

// exitCauses are the causes for which flow ends a process, by Exit.Why.
func exitCauses() map[string]error {
	return map[string]error{
		"timeout": errTimeout, "idle": errIdle, "policy": errPolicy, "done": errParted, whyCheckTimeout: errCheckTimeout,
	}
}

// newExit says how a process ended, and for what cause flow ended it, nil if it did not.
func newExit(r proc.Result, cause error) Exit {
	e := Exit{Code: r.Code, Signal: r.Signal, Leftovers: r.Leftovers}
	if r.Err != nil {
		e.Error = r.Err.Error()
	}
	if cause == nil {
		return e
	}
	e.Why, e.Reason = "cancelled", cause.Error()
	for why, known := range exitCauses() {
		if errors.Is(cause, known) {
			e.Why, e.Reason = why, ""
		}
	}
	return e
}

// cause is the one that newExit was given.
func (e Exit) cause() error {
	if e.Why == "" {
		return nil
	}
	if known := exitCauses()[e.Why]; known != nil {
		return known
	}
	return errors.New(e.Reason)
}

// runWatched runs one process of the attempt whose silence is watched, and keeps how it
// ended. A process that is played has ended for the cause that it ended for when it was
// recorded.
func (a *attempt) runWatched(ctx context.Context, w *idleWatch, spec proc.Spec, sink proc.Sink) (proc.Result, error) {
	res, err := a.run(ctx, spec, w.over(sink))
	if err != nil {
		return res, err
	}
	if a.x.Recording != nil {
		if cause := a.x.Recording.exit(spec.Label).cause(); cause != nil {
			w.cancel(cause)
		}
	}
	cause := cmp.Or(w.cause(), context.Cause(ctx))
	data, err := json.Marshal(newExit(res, cause))
	if err != nil {
		return res, err
	}
	return res, disk.WriteFile(a.x.file(spec.Label, exitExt), a.x.Mask.JSON(data), 0o600)
}
