package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

// view opens a run for reading.
func (a *app) view(name string) (*state.View, error) {
	s, id, err := a.find(name)
	if err != nil {
		return nil, err
	}
	return s.Read(id)
}

// openRun opens a run that no other process has, to go on with it.
func (a *app) openRun(name string) (*state.Run, error) {
	s, id, err := a.find(name)
	if err != nil {
		return nil, err
	}
	r, err := s.OpenRun(context.Background(), id)
	if err != nil {
		return nil, err
	}
	if err := notReplay(r.Header()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// notReplay refuses a run in which nothing was done: nothing of it can go on.
func notReplay(h state.Header) error {
	if h.Replays == "" {
		return nil
	}
	return usageError{fmt.Errorf("run %s only plays run %s again, and did nothing that could go on\nhint: go on with %s itself, or play it once more: flow run --replay %[2]s", h.ID, h.Replays, h.Replays)}
}

// find returns the store and the id of a run that is named by it, the beginning of it, or
// `last`.
func (a *app) find(name string) (s *state.Store, id string, err error) {
	if s, err = a.store(); err != nil {
		return nil, "", err
	}
	id, err = s.Resolve(name)
	return s, id, err
}

// machine replays a run's facts.
func machine(v *state.View) (*dag.Machine, error) {
	plan, _, err := frozen(v)
	if err != nil {
		return nil, err
	}
	m := dag.New(plan, dag.Options{})
	records, err := steps.Effective(v.Records())
	if err != nil {
		return nil, err
	}
	for f, err := range steps.Facts(records) {
		if err != nil {
			return nil, err
		}
		if err := m.Apply(f); err != nil {
			return nil, fmt.Errorf("run %s: the journal contradicts itself: %w", v.Header().ID, err)
		}
	}
	return m, nil
}

// files is a run, to read what it froze when it began or was updated.
type files interface {
	File(name string) ([]byte, error)
	Blob(ref string) ([]byte, error)
	Records() []state.Record
}

// frozen reads the plan and the inputs that a run goes by: those that it began with, or
// those of its last update.
func frozen(r files) (*pipeline.Plan, map[string]json.RawMessage, error) {
	u, err := steps.LastUpdate(r.Records())
	if err != nil {
		return nil, nil, err
	}
	if u == nil {
		u = &steps.Update{}
	}
	var plan pipeline.Plan
	if err := readFrozen(r, u.Plan, "plan.json", &plan); err != nil {
		return nil, nil, err
	}
	var inputs map[string]json.RawMessage
	return &plan, inputs, readFrozen(r, u.Inputs, "inputs.json", &inputs)
}
