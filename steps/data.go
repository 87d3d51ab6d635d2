package steps

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// data is what the templates of a task see.
func (x *Executor) data(t dag.Task) (pipeline.Data, error) {
	steps, err := x.stepsData(t.Inputs)
	if err != nil {
		return nil, err
	}
	return x.base(steps), nil
}

func (x *Executor) base(steps map[string]any) pipeline.Data {
	return pipeline.Data{
		"inputs": x.Inputs,
		"env":    map[string]any{}, // filled where the environment is rendered
		"run": map[string]any{
			"id": x.RunID, "dir": x.Store.Dir(), "pipeline": x.Plan.Name,
			"started": x.Started.UTC().Format(time.RFC3339),
		},
		"steps": steps,
	}
}

func (x *Executor) stepsData(inputs map[string]dag.Input) (map[string]any, error) {
	steps := make(map[string]any, len(inputs))
	for id, in := range inputs {
		data, err := x.stepData(in)
		if err != nil {
			return nil, fmt.Errorf("the result of %s: %w", in.Path, err)
		}
		steps[id] = data
	}
	return steps, nil
}

// stepData is one step as templates see it. A key that the step has no value for
// is missing, so that a template which needs it says so.
func (x *Executor) stepData(in dag.Input) (map[string]any, error) {
	r, err := DecodeResult(in.Result)
	if err != nil {
		return nil, err
	}
	text, err := r.Text.Load(x.Store)
	if err != nil {
		return nil, err
	}
	d := map[string]any{
		"status": string(in.Status), "text": text, "error": r.Error,
		"duration": time.Duration(r.DurationMS * int64(time.Millisecond)).String(),
	}
	if in.Steps != nil {
		d["steps"], err = x.stepsData(in.Steps)
		return d, err
	}
	if r.Use != "" {
		d["agent"], d["model"], d["session"] = r.Agent, r.Model, r.Session
	}
	if r.Exit != nil {
		stdout, err := r.Stdout.Load(x.Store)
		if err != nil {
			return nil, err
		}
		d["exit"], d["stdout"], d["stderr"] = *r.Exit, stdout, r.Stderr
		d["text"] = strings.TrimRight(stdout, "\n")
	}
	if r.Usage != nil {
		d["usage"] = map[string]any{
			"inputTokens": r.Usage.InputTokens, "outputTokens": r.Usage.OutputTokens, "cachedTokens": r.Usage.CachedTokens,
			"reasoningTokens": r.Usage.ReasoningTokens, "totalTokens": r.Usage.TotalTokens,
		}
	}
	if r.CostUSD != nil {
		d["cost"] = *r.CostUSD
	}
	if len(r.Output) > 0 {
		if d["output"], err = decodeJSON(r.Output); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// decodeJSON reads a value with whole numbers as integers, as templates expect.
func decodeJSON(data json.RawMessage) (any, error) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// environment is what the step's process gets, apart from what its agent adds:
// the inherited part, then the pipeline's env, the profile's and the step's.
func (x *Executor) environment(s *pipeline.Step, data pipeline.Data) ([]string, error) {
	env := inherit(x.Environ)
	layers := [][]pipeline.Var{x.Plan.Env, s.Env}
	if s.Kind == pipeline.KindPrompt {
		prefixes := vendorPrefixes
		if x.Simulate != nil {
			prefixes = append(prefixes[:len(prefixes):len(prefixes)], simulatePrefixes...)
		}
		env = inherit(x.Environ, prefixes...)
		layers = [][]pipeline.Var{x.Plan.Env, x.Plan.Agents[s.Agent].Env, s.Env}
	}
	secrets := make(map[string]any, len(x.Secrets))
	for name, value := range x.Secrets {
		secrets[name] = value
	}
	names := map[string]any{}
	scope := pipeline.Data{}
	for k, v := range data {
		scope[k] = v
	}
	scope["secrets"], scope["env"] = secrets, names
	for _, layer := range layers {
		for _, v := range layer {
			value, err := x.renderer.Text(v.Value, scope)
			if err != nil {
				return nil, err
			}
			env = setEnv(env, v.Name+"="+value)
			if !strings.Contains(v.Value.Src, ".secrets") {
				names[v.Name] = value // .env in prompts must not carry a secret
			}
		}
	}
	data["env"] = names
	return setEnv(env, "FLOW_RUN_ID="+x.RunID), nil
}

// frozenFile is the template function `file`: a file of the project, read once and
// the same after a resume.
func (x *Executor) frozenFile(path string) (string, error) {
	if text, ok := x.Plan.Files[path]; ok {
		return text, nil
	}
	root, err := os.OpenRoot(x.Workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := root.ReadFile(filepath.Clean(path))
	return string(text), err
}
