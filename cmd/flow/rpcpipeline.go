package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"flow/cmd/flow/internal/rpc"
	"flow/pipeline"
	"flow/state"
	"flow/steps"
)

// readPlan reads and checks the text of a pipeline that is, or could be, at path.
func (a *app) readPlan(path string, text []byte) (*pipeline.Plan, error) {
	o, _, err := a.options(path)
	if err != nil {
		return nil, err
	}
	plan, _, err := pipeline.LoadText(path, text, o)
	if err != nil {
		return nil, err
	}
	if errs := steps.Check(plan, adapters()); len(errs) > 0 {
		return nil, errs
	}
	return plan, nil
}

// pipelineRef is a pipeline as a client names it.
type pipelineRef struct {
	path, dir string
	text      []byte // nil: what the file says
}

func (h *host) resolve(p rpc.PipelineRef) (r pipelineRef, err error) {
	if p.File == "" && p.Text == "" {
		return r, rpc.InvalidParam("params.file", "is missing", "the path of a pipeline, or its YAML as text")
	}
	if r.dir, err = h.directory("params.dir", p.Dir); err != nil {
		return r, err
	}
	r.path = cmp.Or(p.File, "pipeline.yaml")
	if !filepath.IsAbs(r.path) {
		r.path = filepath.Join(r.dir, r.path)
	}
	if p.Text != "" {
		r.text = []byte(p.Text)
	}
	return r, nil
}

// validatePipeline is pipeline/validate.
func (h *host) validatePipeline(_ *rpc.Call, p rpc.ValidateParams) (rpc.ValidateResult, error) {
	ref, err := h.resolve(p.PipelineRef)
	if err != nil {
		return rpc.ValidateResult{}, err
	}
	var warnings []pipeline.Warning
	if ref.text != nil {
		warnings, err = h.validateText(ref.path, ref.text)
	} else {
		_, warnings, err = h.validateFile(ref.path)
	}
	errs, invalid := errors.AsType[pipeline.Errors](err)
	if err != nil && !invalid {
		return rpc.ValidateResult{}, err
	}
	return rpc.ValidateResult{Valid: err == nil, Problems: rpcProblems(errs, warnings)}, nil
}

// runPipeline is pipeline/run.
func (h *host) runPipeline(c *rpc.Call, p rpc.PipelineRunParams) (rpc.Started, error) {
	ref, err := h.resolve(p.PipelineRef)
	if err != nil {
		return rpc.Started{}, err
	}
	flags, err := drivenBy(p.Driving)
	if err != nil {
		return rpc.Started{}, err
	}
	plan, source, err := h.planOf(ref)
	if err != nil {
		return rpc.Started{}, err
	}
	inputs, err := plan.BindInputs(nil, p.Inputs)
	if err != nil {
		return rpc.Started{}, rpc.InvalidParam("params.inputs", err.Error(), "")
	}
	e, err := h.record(beginning{
		plan: plan, source: source, inputs: inputs, workspace: ref.dir,
		flags: runFlags{runID: p.RunID, simulate: p.Simulate, driveFlags: flags},
	})
	if err != nil {
		return rpc.Started{}, err
	}
	if err := h.launch(e, false, e.ready); err != nil {
		return rpc.Started{}, err
	}
	return h.started(c, e, "", 0, p.Following), nil
}

func (h *host) planOf(ref pipelineRef) (*pipeline.Plan, []byte, error) {
	if ref.text == nil {
		return h.load(ref.path)
	}
	plan, err := h.readPlan(ref.path, ref.text)
	return plan, ref.text, err
}

// drivenBy are the flags of a run that a client begins.
func drivenBy(d rpc.Driving) (driveFlags, error) {
	f := hostFlags()
	f.budget = budgetFlags{USD: d.BudgetUSD, Tokens: d.BudgetTokens}
	if d.AskTimeout != "" {
		var err error
		if f.ask, err = time.ParseDuration(d.AskTimeout); err != nil || f.ask <= 0 {
			return f, rpc.InvalidParam("params.ask_timeout", fmt.Sprintf("%q is no duration", d.AskTimeout), "such as 30m or 1h30m")
		}
	}
	return f, f.check()
}

// resumePipeline is pipeline/resume.
func (h *host) resumePipeline(c *rpc.Call, p rpc.ResumeParams) (rpc.Started, error) {
	if len(p.Inputs) > 0 && !p.Update {
		return rpc.Started{}, rpc.InvalidParam("params.inputs", "is given without update", "a resumed run keeps its inputs; update changes them, and runs what uses them again")
	}
	flags, err := drivenBy(p.Driving)
	if err != nil {
		return rpc.Started{}, err
	}
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.Started{}, err
	}
	replan := func(*engine) func(map[string]json.RawMessage) error { return noReplan }
	if p.Update {
		replan = func(e *engine) func(map[string]json.RawMessage) error {
			return func(values map[string]json.RawMessage) error { return e.update(values, inputAssignments(p.Inputs)) }
		}
	}
	return h.goOn(c, v, flags, p.Following, replan)
}

// inputAssignments are inputs as a command line gives them.
func inputAssignments(inputs map[string]string) []string {
	var all []string
	for name, value := range inputs {
		all = append(all, name+"="+value)
	}
	return all
}

// goOn goes on with a run. One that has succeeded is left as it is.
func (h *host) goOn(c *rpc.Call, v *state.View, flags driveFlags, f rpc.Following, replan func(*engine) func(map[string]json.RawMessage) error) (rpc.Started, error) {
	id := v.Header().ID
	after, err := lastSeq(v)
	if err != nil {
		return rpc.Started{}, err
	}
	r, err := h.openRun(id)
	if err != nil {
		return rpc.Started{}, err
	}
	e := &engine{app: h.app, run: r, driveFlags: flags}
	err = h.launch(e, v.Header().Name == turnsName, func() error { return e.reopen(replan(e)) })
	if errors.Is(err, errNothingLeft) {
		return rpc.Started{Run: id, Status: "succeeded", After: after}, nil
	}
	if err != nil {
		return rpc.Started{}, err
	}
	return h.started(c, e, "", after, f), nil
}

// cancelPipeline is pipeline/cancel.
func (h *host) cancelPipeline(_ *rpc.Call, p rpc.RunRef) (rpc.Stopped, error) {
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.Stopped{}, err
	}
	return h.stopRun(v.Header().ID)
}

// stopRun stops a run that is under way here, politely.
func (h *host) stopRun(id string) (rpc.Stopped, error) {
	if r := h.running(id); r != nil {
		r.cancel(errors.New("cancelled by a client"))
		return rpc.Stopped{Run: id, Status: "stopping"}, nil
	}
	v, err := h.view(id)
	if err != nil {
		return rpc.Stopped{}, err
	}
	if v.Summary().Status == state.StatusRunning {
		r, err := h.openRun(id) // says who has it
		if err != nil {
			return rpc.Stopped{}, err
		}
		if err := r.Close(); err != nil { // it has just ended
			return rpc.Stopped{}, err
		}
	}
	return rpc.Stopped{}, rpc.NewError(rpc.CodeFailed, "not_running", fmt.Sprintf("run %s is not under way", id), "run/show says how it stands")
}

// asked is the question that is to be answered.
func (h *host) asked(v *state.View, p rpc.ApproveParams) (steps.Question, error) {
	return h.app.standing(v, p.Step, p.Permission)
}

// approvePipeline is pipeline/approve: an answer, and the run goes on.
func (h *host) approvePipeline(c *rpc.Call, p rpc.ApproveParams) (rpc.ApproveResult, error) {
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.ApproveResult{}, err
	}
	q, err := h.asked(v, p)
	if err != nil {
		return rpc.ApproveResult{}, err
	}
	if err := h.putAnswer(v, q, p.Decision, p.Message, p.Answer); err != nil {
		return rpc.ApproveResult{}, err
	}
	r := rpc.ApproveResult{Run: v.Header().ID, Step: q.Path, Status: "stored"}
	if p.NoResume {
		return r, nil
	}
	r.Status = "running"
	if v.Summary().Status == state.StatusRunning { // it takes the answer where it is
		return r, nil
	}
	_, err = h.goOn(c, v, hostFlags(), p.Following, func(*engine) func(map[string]json.RawMessage) error { return noReplan })
	return r, err
}
