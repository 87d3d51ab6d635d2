package steps

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"flow/pipeline/dag"
	"flow/state"
)

// Outputs evaluates the pipeline's outputs over a machine that is done.
func (x *Executor) Outputs(m *dag.Machine) (map[string]any, error) {
	values, err := x.frameOutputs(x.root, x.topSteps(m))
	if err != nil {
		return nil, errors.New(x.Mask.Text(err.Error()))
	}
	return x.maskedValues(values)
}

// topSteps are the steps of the run's own pipeline, by id.
func (x *Executor) topSteps(m *dag.Machine) map[string]dag.Input {
	steps := map[string]dag.Input{}
	for i := range x.Plan.Steps {
		id := x.Plan.Steps[i].ID
		steps[id] = m.Input(id)
	}
	return steps
}

// frameOutputs evaluates the outputs of a frame's pipeline over its steps.
func (x *Executor) frameOutputs(f *frame, steps map[string]dag.Input) (map[string]any, error) {
	named := maps.Clone(steps)
	maps.DeleteFunc(named, func(id string, _ dag.Input) bool { return !f.renderer.OutputNames(id) })
	data, err := x.stepsIn(f, named)
	if err != nil {
		return nil, err
	}
	if _, data["env"], err = x.variables(f, f.plan.Env, data); err != nil {
		return nil, err
	}
	return f.renderer.Outputs(data)
}

// NativeSession is a session of an agent that an attempt used.
type NativeSession struct {
	Path    string
	Session string
	Started time.Time
	// Replaced says that the session was chosen before the start, and that the agent then
	// named another: it may never have been.
	Replaced bool
}

// Sessions lists the native sessions among a run's records, each once for each
// step, in the order in which they became known.
func Sessions(records []state.Record) []NativeSession {
	var all []NativeSession
	seen, chosen := map[[2]string]bool{}, map[attemptKey]int{} // chosen: places in all
	add := func(path, session string, at time.Time) {
		if key := [2]string{path, session}; session != "" && !seen[key] {
			seen[key] = true
			all = append(all, NativeSession{Path: path, Session: session, Started: at})
		}
	}
	for _, r := range records {
		switch r.Type {
		case recordFact:
			var f dag.Fact
			if json.Unmarshal(r.Data, &f) != nil {
				continue
			}
			known := len(all)
			if add(f.Path, f.Session, r.Time); len(all) > known {
				chosen[attemptKey{f.Path, f.Attempt}] = known
			}
			if res, err := DecodeResult(f.Result); err == nil {
				add(f.Path, res.Session, r.Time)
			}
		case recordSession:
			var s SessionSeen
			if json.Unmarshal(r.Data, &s) != nil {
				continue
			}
			if i, ok := chosen[attemptKey{s.Path, s.Attempt}]; ok && all[i].Session != s.Session {
				all[i].Replaced = true
			}
			add(s.Path, s.Session, r.Time)
		}
	}
	return all
}
