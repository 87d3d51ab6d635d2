package main

import (
	"encoding/json"
	"fmt"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

// view opens a run for reading.
func (a *app) view(name string) (*state.View, error) {
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	id, err := s.Resolve(name)
	if err != nil {
		return nil, err
	}
	return s.Read(id)
}

// machine replays a run's facts.
func machine(v *state.View) (*dag.Machine, error) {
	plan, _, err := frozen(v)
	if err != nil {
		return nil, err
	}
	m := dag.New(plan, dag.Options{})
	for f, err := range steps.Facts(v.Records()) {
		if err != nil {
			return nil, err
		}
		if err := m.Apply(f); err != nil {
			return nil, fmt.Errorf("run %s: the journal contradicts itself: %w", v.Header().ID, err)
		}
	}
	return m, nil
}

// files is a run, to read what it froze when it began.
type files interface {
	File(name string) ([]byte, error)
}

// frozen reads the plan and the inputs that a run froze when it began.
func frozen(r files) (*pipeline.Plan, map[string]json.RawMessage, error) {
	var plan pipeline.Plan
	if err := readJSON(r, "plan.json", &plan); err != nil {
		return nil, nil, err
	}
	var inputs map[string]json.RawMessage
	return &plan, inputs, readJSON(r, "inputs.json", &inputs)
}

func readJSON(r files, name string, v any) error {
	data, err := r.File(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &state.Error{Path: name, Msg: "cannot be read", Err: err}
	}
	return nil
}
