package steps

import (
	"encoding/json"
	"slices"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// A frame is what a pipeline is to its steps: the run's own, or one that a `pipeline`
// step calls. A called one sees nothing of its caller but what it was given.
type frame struct {
	plan     *pipeline.Plan
	renderer *pipeline.Renderer
	inputs   map[string]any
	secrets  map[string]string // those that the plan declares
	// outer are the variables that the callers declare for every process.
	outer []string
	// depth is how many of the nodes around a task are the callers'.
	depth int
}

// frameKeep is how many frames of calls are kept ready: as many calls may well be under way.
const frameKeep = 64

// frameOf returns the frame of what stands in the nodes around: that of the nearest call
// among them.
func (x *Executor) frameOf(around []dag.Enclosing) (*frame, error) {
	for i, e := range slices.Backward(around) {
		if isCall(e) {
			return x.frames.get(e.Path, e.Result, func() (*frame, error) { return x.called(around[:i+1]) })
		}
	}
	return x.root, nil
}

func isCall(e dag.Enclosing) bool { return e.Form == dag.Group && e.Step.Kind == pipeline.KindCall }

// called makes the frame of the call that is the last of around.
func (x *Executor) called(around []dag.Enclosing) (*frame, error) {
	call := around[len(around)-1]
	caller, err := x.frameOf(around[:len(around)-1])
	if err != nil {
		return nil, err
	}
	opening, err := decodeOpening(call.Result)
	if err != nil {
		return nil, err
	}
	text, err := opening.Inputs.Load(x.Store)
	if err != nil {
		return nil, err
	}
	var values map[string]json.RawMessage
	if text != "" {
		if err := json.Unmarshal([]byte(text), &values); err != nil {
			return nil, err
		}
	}
	return x.callee(caller, call.Step.Call.Plan, values, len(around))
}

// callee makes the frame of a called plan from the values of its inputs.
func (x *Executor) callee(caller *frame, plan *pipeline.Plan, values map[string]json.RawMessage, depth int) (*frame, error) {
	inputs, err := plan.BindInputs(nil, values)
	if err != nil {
		return nil, err
	}
	f, err := x.beneath(caller, plan)
	f.inputs, f.depth = inputs, depth
	return f, err
}

// beneath is the frame of a called plan without its inputs. The error is about a variable
// of the caller, which is left out.
func (x *Executor) beneath(caller *frame, plan *pipeline.Plan) (*frame, error) {
	declared, _, err := x.variables(caller, caller.plan.Env, x.runData(caller))
	return &frame{
		plan: plan, renderer: x.renderers[plan], secrets: declaredSecrets(plan, x.Secrets), outer: setEnv(caller.outer, declared...),
	}, err
}

// frameAt is the frame for what is done for the step at a path outside of any task. The
// inputs of a called pipeline are not known there, and neither is what is made of them.
func (x *Executor) frameAt(path string) *frame {
	f, path := x.root, StaticPath(path)
	for i, r := range path {
		if r != '.' {
			continue
		}
		if s := x.Plan.Step(path[:i]); s != nil && s.Call != nil {
			f, _ = x.beneath(f, s.Call.Plan)
		}
	}
	return f
}

// declaredSecrets are those of all that the plan names.
func declaredSecrets(p *pipeline.Plan, all map[string]string) map[string]string {
	secrets := make(map[string]string, len(p.Secrets))
	for _, name := range p.Secrets {
		if value, ok := all[name]; ok {
			secrets[name] = value
		}
	}
	return secrets
}
