package main

import (
	"fmt"

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
