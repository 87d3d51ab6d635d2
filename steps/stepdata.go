package steps

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// stepData is one step as templates see it. A key that the step has no value for
// is missing, so that a template which needs it says so.
func (x *Executor) stepData(in dag.Input) (map[string]any, error) {
	d, err := x.stepFields(in)
	if err != nil {
		return nil, fmt.Errorf("the result of %s: %w", in.Path, err)
	}
	return d, nil
}

func (x *Executor) stepFields(in dag.Input) (map[string]any, error) {
	r, err := DecodeResult(in.Result)
	if err != nil {
		return nil, err
	}
	took, err := worked(in)
	if err != nil {
		return nil, err
	}
	d := map[string]any{"status": string(in.Status), "error": r.Error, "duration": took.String()}
	if in.Rounds > 0 {
		d["iterations"] = in.Rounds
	}
	if in.Steps != nil {
		if d["steps"], err = x.stepsData(in.Steps); err != nil {
			return nil, err
		}
	}
	if in.Items != nil {
		if d["items"], err = x.itemsData(in); err != nil {
			return nil, err
		}
		if r.Winner == nil {
			return d, nil // of the step itself there is nothing but its items
		}
	}
	return d, x.resultFields(d, r)
}

// worked is how long a step took, or, where that is not known of the step itself, all
// that is in it together.
func worked(in dag.Input) (time.Duration, error) {
	r, err := DecodeResult(in.Result)
	took := time.Duration(r.DurationMS) * time.Millisecond
	if err != nil || took > 0 {
		return took, err
	}
	for _, inner := range slices.Concat(in.Items, slices.Collect(maps.Values(in.Steps))) {
		more, err := worked(inner)
		if err != nil {
			return 0, err
		}
		took += more
	}
	return took, nil
}

// itemsData are the items of a `foreach`, or the candidates of a contest, in order.
func (x *Executor) itemsData(in dag.Input) ([]any, error) {
	opened := x.ledger.get(in.Path).opened
	values, err := x.itemsOf(in.Path, opened)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(in.Items))
	for i, item := range in.Items {
		d, err := x.stepFields(item)
		if err != nil {
			return nil, err
		}
		d["index"] = i
		if i < len(values) {
			if d["item"], err = pipeline.DecodeJSON(values[i]); err != nil {
				return nil, err
			}
		}
		all[i] = d
	}
	return all, nil
}

// resultFields adds what a result has to say.
func (x *Executor) resultFields(d map[string]any, r Result) (err error) {
	if d["text"], err = r.Text.Load(x.Store); err != nil {
		return err
	}
	if r.Use != "" {
		d["agent"], d["model"], d["session"] = r.Agent, r.Model, r.Session
	}
	if r.Exit != nil {
		stdout, err := r.Stdout.Load(x.Store)
		if err != nil {
			return err
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
	if err := x.artifactField(d, r); err != nil {
		return err
	}
	if err := x.keptFields(d, r); err != nil || r.Output.IsZero() {
		return err
	}
	d["output"], err = x.decoded(r.Output)
	return err
}

// keptFields adds what the step left in files: its artifacts, and what it changed, where
// that was kept.
func (x *Executor) keptFields(d map[string]any, r Result) error {
	kept, err := r.ArtifactList(x.Store)
	if err != nil {
		return err
	}
	if len(kept) > 0 {
		list := make([]any, len(kept))
		for i, a := range kept {
			list[i] = map[string]any{"name": a.Name, "size": a.Size}
		}
		d["artifacts"] = list
	}
	if r.Branch != "" {
		d["branch"] = r.Branch
	}
	if r.Files.IsZero() {
		return nil
	}
	if d["files"], err = x.decoded(r.Files); err != nil {
		return err
	}
	d["diff"], err = r.Diff.Load(x.Store)
	return err
}
