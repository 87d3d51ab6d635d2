package steps

import (
	"context"
	"encoding/json"
	"errors"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// set evaluates the values of a `set`, which are its output. All mistakes are told at once.
func (a *attempt) set(ctx context.Context) (dag.Fact, error) {
	values := make(map[string]any, len(a.step.Set))
	var errs pipeline.Errors
	for _, v := range a.step.Set {
		value, err := a.frame.renderer.Value(v.Value, a.data)
		if e, ok := errors.AsType[pipeline.Error](err); ok {
			errs = append(errs, e)
			continue
		}
		if err != nil {
			return dag.Fact{}, err
		}
		values[v.Name] = value
	}
	if len(errs) > 0 {
		return a.refused(configProblem(errs)), nil
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return a.refused(configProblem(err)), nil
	}
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, err
	}
	a.result.Output, err = a.x.keepText(string(raw))
	return a.succeeded(), err
}
