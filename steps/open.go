package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// open finds out what the node grows: the items of a list, the inputs of a called
// pipeline. A node that owns a workspace gets it now.
func (a *attempt) open(ctx context.Context) (dag.Fact, error) {
	fact, opening := dag.Fact{Kind: dag.Opened}, Opening{}
	var err error
	switch {
	case a.task.Form == dag.Each:
		opening.Items, fact.Count, err = a.list()
	case a.task.Form == dag.Group && a.step.Kind == pipeline.KindCall:
		opening.Inputs, err = a.with()
	}
	if err != nil {
		return a.refusedOr(err)
	}
	if problem, err := a.wholeWorkspace(ctx); err != nil || problem != nil {
		return a.notPlaced(problem), err
	}
	if a.task.Owns {
		problem, err := a.isolate(ctx)
		if err != nil || problem != nil {
			return a.notPlaced(problem), err
		}
		opening.Workspace = a.isolated
	}
	if a.task.Form == dag.Group || a.task.Form == dag.Loop {
		if problem, err := a.watchChanges(ctx); err != nil || problem != nil {
			return a.notPlaced(problem), err
		}
		opening.Tree = a.tree
	}
	fact.Result = opening.encode()
	return fact, nil
}

// list evaluates what a `foreach` goes over.
func (a *attempt) list() (Content, int, error) {
	each := a.step.Foreach
	raw := []byte(each.Items)
	if each.List != nil {
		items, err := a.frame.renderer.List(*each.List, a.data)
		if err != nil {
			return Content{}, 0, err
		}
		if raw, err = json.Marshal(items); err != nil {
			return Content{}, 0, err
		}
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return Content{}, 0, err
	}
	content, err := a.x.keepText(string(raw))
	return content, len(items), broken(err)
}

// with evaluates the inputs of a call, and binds them to see that they fit.
func (a *attempt) with() (Content, error) {
	call, values, errs := a.step.Call, map[string]json.RawMessage{}, pipeline.Errors{}
	for _, v := range call.With {
		raw, err := a.input(call.Plan, v)
		if e, ok := errors.AsType[pipeline.Error](err); ok {
			errs = append(errs, e)
			continue
		}
		if err != nil {
			return Content{}, err
		}
		values[v.Name] = raw
	}
	if len(errs) > 0 {
		return Content{}, errs
	}
	if _, err := call.Plan.BindInputs(nil, values); err != nil {
		return Content{}, err
	}
	if len(values) == 0 {
		return Content{}, nil
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return Content{}, err
	}
	content, err := a.x.keepText(string(raw))
	return content, broken(err)
}

// input evaluates one value of `with`. A value that does not fit is told of where it
// was written, and not where the called pipeline declares the input.
func (a *attempt) input(called *pipeline.Plan, v pipeline.Var) (json.RawMessage, error) {
	value, err := a.frame.renderer.Value(v.Value, a.data)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	for _, in := range called.Inputs {
		if in.Name != v.Name {
			continue
		}
		if err := in.Validate(raw); err != nil {
			return nil, pipeline.Error{File: a.frame.plan.File, Pos: v.Value.Pos, Msg: fmt.Sprintf("input `%s` of %s: %v", in.Name, called.File, err)}
		}
	}
	return raw, nil
}

// brokenError is an error of flow itself among those that are about the pipeline.
type brokenError struct{ error }

func (e brokenError) Unwrap() error { return e.error }

func broken(err error) error {
	if err == nil {
		return nil
	}
	return brokenError{err}
}

// refusedOr is the fact of a mistake of the pipeline, or the error of flow itself.
func (a *attempt) refusedOr(err error) (dag.Fact, error) {
	if b, ok := errors.AsType[brokenError](err); ok {
		return dag.Fact{}, b.error
	}
	return a.refused(configProblem(err)), nil
}
