package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// close says what a node comes to whose steps have all ended well.
func (a *attempt) close(ctx context.Context) (dag.Fact, error) {
	switch {
	case a.task.Form == dag.Loop:
		return a.closeLoop(ctx)
	case a.task.Form == dag.Contest:
		return a.closeContest()
	case a.task.Form == dag.Group && a.step.Kind == pipeline.KindCall:
		if err := a.outputs(); err != nil {
			return a.refusedOr(err)
		}
	}
	return a.closed(ctx)
}

// closed is the fact of a node that ends with a.result. What was changed in a workspace of
// its own is kept first.
func (a *attempt) closed(ctx context.Context) (dag.Fact, error) {
	opening, err := decodeOpening(a.x.ledger.get(a.task.Path).opened)
	if err != nil {
		return dag.Fact{}, err
	}
	if a.tree = opening.Tree; opening.Workspace != nil {
		a.isolated = opening.Workspace
	}
	if problem, err := a.keep(ctx); err != nil || problem != nil {
		return a.notPlaced(problem), err
	}
	return dag.Fact{Kind: dag.Succeeded, Result: a.result.encode()}, nil
}

// closeLoop looks at the round that has ended: it was the last, or there is another.
func (a *attempt) closeLoop(ctx context.Context) (dag.Fact, error) {
	round, repeat := a.task.Inner, a.step.Repeat
	if err := a.seeRound(); err != nil {
		return dag.Fact{}, err
	}
	holds, err := a.frame.renderer.Condition(repeat.Until, a.data, pipeline.NeedState{})
	switch {
	case err != nil:
		return a.refused(configProblem(err)), nil
	case holds || round.Rounds >= repeat.Max && repeat.GoOn:
		if a.result, err = DecodeResult(round.Result); err != nil {
			return dag.Fact{}, err
		}
		return a.closed(ctx)
	case round.Rounds < repeat.Max:
		return dag.Fact{Kind: dag.Continued, Count: round.Rounds + 1}, nil
	}
	return a.refused(&agents.Problem{
		Cause: agents.CauseCheck, Message: fmt.Sprintf("`until` did not hold after %d rounds", round.Rounds),
		Hint: "raise `max`, ask for less, or go on without it by `on-max: continue`",
	}), nil
}

// seeRound lets the templates of a loop see the round that has ended: the steps of a
// group, or the step itself by its own id.
func (a *attempt) seeRound() error {
	round := *a.task.Inner
	a.data["iteration"] = round.Rounds
	if a.task.Before == nil { // and not what a loop around this one has
		a.data["previous"] = nil
	}
	steps := maps.Clone(a.data["steps"].(map[string]any))
	inner, err := a.x.stepsData(round.Steps)
	if err != nil {
		return err
	}
	maps.Copy(steps, inner)
	if a.step.Kind != pipeline.KindGroup {
		if steps[a.step.ID], err = a.x.stepData(round); err != nil {
			return err
		}
	}
	a.data["steps"] = steps
	return nil
}

// outputs evaluates what a called pipeline gives back, among its own steps.
func (a *attempt) outputs() error {
	plan := a.step.Call.Plan
	opening := a.x.ledger.get(a.task.Path).opened
	around := append(slices.Clip(a.task.Around), dag.Enclosing{
		Path: a.task.Path, Form: a.task.Form, Step: a.step, Result: opening,
	})
	f, err := a.x.frameOf(around)
	if err != nil {
		return broken(err)
	}
	if len(plan.Outputs) == 0 {
		return nil
	}
	values, err := a.x.frameOutputs(f, a.task.Inner.Steps)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}
	a.result.Output, err = a.x.keepText(string(raw))
	return broken(err)
}
