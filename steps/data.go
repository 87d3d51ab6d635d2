package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state/disk"
)

// runData is what all templates of a frame see, in every step and outside of steps.
func (x *Executor) runData(f *frame) pipeline.Data {
	return pipeline.Data{
		"inputs": f.inputs,
		"run": map[string]any{
			"id": x.RunID, "dir": x.Store.Dir(), "pipeline": f.plan.Name,
			"started": x.Started.UTC().Format(time.RFC3339),
		},
	}
}

// stepsIn is runData with the steps that templates see. `env` is added where it is rendered.
func (x *Executor) stepsIn(f *frame, inputs map[string]dag.Input) (pipeline.Data, error) {
	steps := make(map[string]any, len(inputs))
	for id, in := range inputs {
		step, err := x.sights.get(in, x.stepData)
		if err != nil {
			return nil, err
		}
		steps[id] = step
	}
	data := x.runData(f)
	data["steps"] = steps
	return data, nil
}

// templateData is what the templates of the task see. The nearest list and the nearest
// loop around it count, and nothing beyond the call that its pipeline is.
func (a *attempt) templateData() (pipeline.Data, error) {
	data, err := a.x.stepsIn(a.frame, a.task.Inputs)
	if err != nil {
		return nil, err
	}
	var each, loop *dag.Enclosing
	for i := range a.task.Around[a.frame.depth:] {
		switch e := &a.task.Around[a.frame.depth+i]; e.Form {
		case dag.Each:
			each = e
		case dag.Loop:
			loop = e
			data["iteration"], data["previous"] = e.Index, nil
		default:
		}
	}
	if each != nil {
		data["index"] = each.Index
		if data["item"], err = a.x.item(each.Path, each.Result, each.Index); err != nil {
			return nil, err
		}
	}
	if a.task.Before != nil {
		data["previous"], err = a.previous(loop)
	}
	return data, err
}

// previous is the round before, of the loop around or of the task's own: the steps of a
// group by their ids, or the step itself.
func (a *attempt) previous(loop *dag.Enclosing) (map[string]any, error) {
	step := a.step
	if a.task.Form != dag.Loop || a.task.Action != dag.Close {
		step = loop.Step
	}
	if step.Kind == pipeline.KindGroup {
		return a.x.stepsData(a.task.Before.Steps)
	}
	return a.x.stepData(*a.task.Before)
}

func (x *Executor) stepsData(inputs map[string]dag.Input) (map[string]any, error) {
	steps := make(map[string]any, len(inputs))
	for id, in := range inputs {
		data, err := x.stepData(in)
		if err != nil {
			return nil, err
		}
		steps[id] = data
	}
	return steps, nil
}

// projectFile is the template function `file` for a name that is computed: a text of the
// project, read when the template is rendered. One with a literal name is in its plan.
func (x *Executor) projectFile(path string) (string, error) {
	if x.Recording != nil {
		return "", fmt.Errorf("file %q has a computed name, and a recording has no files of the workspace", path)
	}
	root, err := disk.OpenRoot(x.Workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	// Without O_NONBLOCK a FIFO would be waited for. A socket cannot be opened: ENXIO.
	f, err := root.OpenFile(filepath.Clean(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return "", fmt.Errorf("file %q is not a regular file", path)
	}
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

// decoded reads a JSON text that is kept with a result; nil for none.
func (x *Executor) decoded(c Content) (any, error) {
	if c.IsZero() {
		return nil, nil //nolint:nilnil // no text is no value
	}
	text, err := c.Load(x.Store)
	if err != nil {
		return nil, err
	}
	return pipeline.DecodeJSON(json.RawMessage(text))
}
