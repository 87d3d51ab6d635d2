package steps

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// base is what all templates see. `env` is added where it is rendered.
func (x *Executor) base(inputs map[string]dag.Input) (pipeline.Data, error) {
	steps, err := x.stepsData(inputs)
	return pipeline.Data{
		"inputs": x.Inputs,
		"run": map[string]any{
			"id": x.RunID, "dir": x.Store.Dir(), "pipeline": x.Plan.Name,
			"started": x.Started.UTC().Format(time.RFC3339),
		},
		"steps": steps,
	}, err
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
		"duration": (time.Duration(r.DurationMS) * time.Millisecond).String(),
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
	if r.Output.IsZero() {
		return d, nil
	}
	output, err := r.Output.Load(x.Store)
	if err != nil {
		return nil, err
	}
	d["output"], err = pipeline.DecodeJSON([]byte(output))
	return d, err
}

// frozenFile is the template function `file`: a text of the project. One with a
// literal name is in the plan; others are read when the template is rendered.
func (x *Executor) frozenFile(path string) (string, error) {
	if text, ok := x.Plan.Files[path]; ok {
		return text, nil
	}
	root, err := os.OpenRoot(x.Workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	// Without O_NONBLOCK a FIFO would be waited for.
	f, err := root.OpenFile(filepath.Clean(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("file %q is not a regular file", path), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, pipeline.MaxRenderedBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > pipeline.MaxRenderedBytes:
		return "", fmt.Errorf("file %q is larger than %d MiB", path, pipeline.MaxRenderedBytes>>20)
	case !utf8.Valid(data):
		return "", fmt.Errorf("file %q is not UTF-8 text", path)
	}
	return string(data), nil
}
