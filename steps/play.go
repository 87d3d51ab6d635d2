package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline/dag"
	"flow/state"
)

// What an attempt does otherwise when the run is played from a Recording. Nothing is
// started: of processes there are the tapes, and what only git or the workspace could tell
// is taken from the recorded result.

// recorded returns the fact of an attempt that has nothing to play: one that ran no
// process, because its result came from the cache, say, ends as it did. It is false when
// there is something to play, and when nothing is to be played at all.
func (a *attempt) recorded(ctx context.Context) (dag.Fact, bool, error) {
	if a.x.Recording == nil {
		return dag.Fact{}, false, nil
	}
	end := a.x.Recording.next(a.task.Path)
	switch {
	case end == nil:
		return a.refused(unrecorded("no further attempt of this step is on record")), true, nil
	case len(end.labels) > 0 && a.step.Merge == nil:
		return dag.Fact{}, false, nil
	}
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, false, err
	}
	f := end.fact
	return f, true, a.x.Recording.copyBlobs(f, a.x.Store)
}

// unrecorded is the problem of a step that the recording has not what it takes of.
func unrecorded(message string) *agents.Problem {
	return &agents.Problem{
		Cause: agents.CauseConfig, Message: message,
		Hint: "a replay plays what the other run did; run the pipeline itself for the steps that are new in it",
	}
}

// copyBlobs gives a run the blobs that a recorded fact refers to.
func (r *Recording) copyBlobs(f dag.Fact, to Store) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	for _, ref := range BlobRefs(state.Record{Type: recordFact, Data: data}, r.run) {
		from, into := io.Pipe()
		go func() { into.CloseWithError(r.run.CopyBlob(into, ref)) }()
		_, _, err := to.PutBlobFrom(from)
		if err = errors.Join(err, from.Close()); err != nil { // else the goroutine would wait for a reader
			return fmt.Errorf("take over what the recorded result refers to: %w", err)
		}
	}
	return nil
}

// playedWorkspace is the own workspace of a step in a playing: none, for nothing works in it.
func (a *attempt) playedWorkspace() *Workspace {
	return &Workspace{Name: a.x.workspaceName(a.task.Path), Root: a.x.Workspace}
}

// keepRecorded takes what the step has changed, and left as artifacts, from the recorded
// result. The problem is that which the attempt ended with after its processes had done
// well: an artifact that was missing, say.
func (a *attempt) keepRecorded() (*agents.Problem, error) {
	end := a.x.Recording.next(a.task.Path)
	if end == nil {
		return nil, nil
	}
	r, err := DecodeResult(end.fact.Result)
	if err != nil {
		return nil, err
	}
	to := &a.result
	to.Artifacts, to.Files, to.Diff, to.Branch, to.Commit = r.Artifacts, r.Files, r.Diff, r.Branch, r.Commit
	if err := a.x.Recording.copyBlobs(end.fact, a.x.Store); err != nil {
		return nil, err
	}
	left := agents.Cause(r.Cause) == agents.CauseIncomplete && len(a.step.Artifacts) > 0
	if end.fact.Kind != dag.Failed || !left && agents.Cause(r.Cause) != agents.CauseConfig {
		return nil, nil
	}
	return &agents.Problem{Agent: a.step.Agent, Cause: agents.Cause(r.Cause), Message: r.Error, Hint: r.Hint}, nil
}

// rehearse puts into place what a playing has of a process's start: its prompt and how it
// was started. The request is that of the recording as far as the agent's own words depend
// on it: where it worked, and in which session.
func (a *attempt) rehearse(spec *proc.Spec, cmd agents.Command, l *Launch) error {
	known, _ := a.x.Recording.resolve(spec.Label)
	before, ok, err := a.x.Recording.launch(known)
	switch {
	case err != nil:
		return err
	case !ok:
		return unrecorded(fmt.Sprintf("%s is a script on record, and the step now has an agent there", known))
	case before.Use != l.Use:
		return unrecorded(fmt.Sprintf("%s is on record as one of %s, and the step is now of %s", known, before.Use, l.Use))
	}
	r := &l.Request
	r.Session, r.Dir, r.AddDirs = before.Request.Session, before.Request.Dir, before.Request.AddDirs
	r.Scratch, r.Home, r.Transport = before.Request.Scratch, before.Request.Home, before.Request.Transport
	r.Confined = before.Request.Confined
	l.Leaves, spec.Sandbox = nil, nil
	record, err := json.Marshal(*l)
	if err != nil {
		return err
	}
	for _, f := range []agents.File{{Path: a.path("prompt"), Data: []byte(cmd.Stdin)}, {Path: a.path(launchExt), Data: record}} {
		if err := putFile(scratchOf(a.x.Store.Dir()), f); err != nil {
			return err
		}
	}
	return nil
}

// recordedRuling is the decision on a call that was taken when the run was recorded.
func (a *attempt) recordedRuling(r agents.PermissionRequested) (recordedRuling, bool) {
	known, ok := a.x.Recording.resolve(a.label())
	if !ok {
		return recordedRuling{}, false
	}
	return a.x.Recording.ruling(rulingKey{a.task.Path, attemptOf(known), r.RequestID, r.ToolID})
}

// recordedAnswer is what a person answered, nil if nobody did.
func (a *attempt) recordedAnswer() *Answer {
	end := a.x.Recording.next(a.task.Path)
	if end == nil {
		return nil
	}
	r, err := DecodeResult(end.fact.Result)
	if err != nil {
		return nil
	}
	return r.Answer
}
