package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

func (a *app) rerunCommand() *cobra.Command {
	var (
		f    runFlags
		step string
	)
	cmd := &cobra.Command{
		Use:   "rerun RUN --step ID",
		Short: "Run a step of an earlier run again, and all that depends on it, as a new run",
		Long: "rerun begins a new run of the pipeline that RUN began with, with the same inputs. What the other steps\n" +
			"did in RUN is taken over: only the step and those that need it, directly or not, are run.\n" +
			"A step in a loop or a called pipeline, or in a group with a workspace of its own, is run with all of that.\n" +
			"The workspace is used as it is now; nothing in it is undone.",
		Example: "  flow rerun last --step review",
		Args:    arguments(1, 1, "one run"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.rerun(args[0], step, f) },
	}
	cmd.Flags().StringVar(&step, "step", "", "`ID` of the step, as `flow show` prints it")
	f.bind(cmd.Flags())
	return cmd
}

func (a *app) rerun(name, step string, f runFlags) error {
	if step == "" {
		return usageError{errors.New("which step is to be run again?\nhint: --step ID; flow show RUN lists the steps")}
	}
	if err := oneOf("--output", f.output, "text", "json"); err != nil {
		return err
	}
	from, err := a.view(name)
	if err != nil {
		return err
	}
	plan, values, err := frozen(from)
	if err != nil {
		return err
	}
	inputs, err := plan.BindInputs(nil, values)
	if err != nil {
		return err
	}
	source, err := frozenSource(from)
	if err != nil {
		return err
	}
	f.simulate = from.Header().Simulated
	start := beginning{plan: plan, source: source, inputs: inputs, workspace: from.Header().Workspace, flags: f, reuse: from, from: step}
	return a.begin(start)
}

// A beginning is what a new run begins with.
type beginning struct {
	plan      *pipeline.Plan
	source    []byte
	inputs    map[string]any
	workspace string
	flags     runFlags
	reuse     *state.View // the run whose results are taken over, or nil
	from      string      // the step from which on they are not
	replays   string      // the run that this one plays again, or ""
}

// begin records a new run and takes it to its end.
func (a *app) begin(b beginning) error {
	e, err := a.record(b)
	if err != nil {
		return err
	}
	return e.runAndClose()
}

// record checks that a new run can begin, and records it.
func (a *app) record(b beginning) (*engine, error) {
	secrets, err := a.secrets(b.plan)
	if err != nil {
		return nil, err
	}
	if err := a.withoutSecrets(secrets, b.inputs); err != nil {
		return nil, err
	}
	dropped, err := b.dropped()
	if err != nil {
		return nil, err
	}
	if err := enoughRoom(b.plan); err != nil {
		return nil, err
	}
	if !b.flags.simulate {
		if err := a.preflight(b.plan, b.workspace); err != nil {
			return nil, err
		}
	}
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	r, err := a.create(s, b)
	if err != nil {
		return nil, err
	}
	e := &engine{app: a, run: r, plan: b.plan, inputs: b.inputs, secrets: secrets, driveFlags: b.flags.driveFlags}
	if b.reuse != nil {
		if err := e.reuse(b.reuse, dropped); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return e, nil
}

// dropped are the paths of the steps whose earlier results are not taken over.
func (b beginning) dropped() ([]string, error) {
	if b.reuse == nil {
		return nil, nil
	}
	header := b.reuse.Header()
	if err := notReplay(header); err != nil {
		return nil, err
	}
	affected := b.plan.Affected(steps.StaticPath(b.from))
	switch {
	case len(affected) == 0:
		return nil, usageError{fmt.Errorf("the pipeline has no step %s\nhint: flow show %s lists the steps", b.from, header.ID)}
	case header.Simulated != b.flags.simulate:
		return nil, usageError{fmt.Errorf("run %s and the new one are not both simulated\nhint: give --simulate exactly if run %s had it", header.ID, header.ID)}
	}
	old, values, err := frozen(b.reuse)
	if err != nil {
		return nil, err
	}
	before, err := old.BindInputs(nil, values)
	if err != nil {
		return nil, err
	}
	for _, c := range pipeline.Compare(old, b.plan, before, b.inputs) {
		affected = append(affected, c.Path)
	}
	unfinished, err := unfinished(b.reuse)
	if err != nil {
		return nil, err
	}
	for _, path := range unfinished {
		affected = append(affected, path)
		affected = append(affected, b.plan.Affected(path)...)
	}
	return affected, nil
}

// unfinished are the steps of a run that have not ended well.
func unfinished(v *state.View) ([]string, error) {
	m, err := machine(v)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, s := range m.Steps() {
		tolerated := s.Status == dag.Failure && s.Step.ContinueOnError
		if s.Status != dag.OK && s.Status != dag.SkippedStep && !tolerated && !holds(s) {
			paths = append(paths, steps.StaticPath(s.Path))
		}
	}
	return paths, nil
}

// holds reports whether a step is a plain group: its steps count by themselves.
func holds(s dag.StepState) bool {
	return s.Step.Kind == pipeline.KindGroup && s.Step.Foreach == nil && s.Step.Repeat == nil && s.Step.Isolation == nil
}

// reused returns the run given with --reuse, nil if there is none.
func (a *app) reused(f runFlags) (*state.View, error) {
	switch given := []bool{f.from != "", f.reuse != ""}; {
	case !slices.Contains(given, true):
		return nil, nil //nolint:nilnil // most runs reuse none
	case slices.Contains(given, false):
		return nil, usageError{errors.New("--from and --reuse belong together\nhint: --from STEP --reuse RUN takes over what RUN did before STEP")}
	}
	return a.view(f.reuse)
}

// frozenSource is the text of the pipeline that a run goes by.
func frozenSource(v *state.View) ([]byte, error) {
	u, err := steps.LastUpdate(v.Records())
	if err != nil || u == nil {
		data, fileErr := v.File("pipeline.yaml")
		return data, errors.Join(err, fileErr)
	}
	return v.Blob(u.Pipeline)
}

// readFrozen decodes the blob ref, or the file name where there is none.
func readFrozen(r files, ref, name string, v any) error {
	data, err := r.File(name)
	if ref != "" {
		data, err = r.Blob(ref)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &state.Error{Path: name, Msg: "cannot be read", Err: err}
	}
	return nil
}
