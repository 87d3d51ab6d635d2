package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flow/agents/program"
	"flow/pipeline"
	"flow/state"
	"flow/steps"
)

type runFlags struct {
	inputs   []string
	file     string // --inputs
	runID    string
	simulate bool
	from     string // with reuse
	reuse    string
	replay   string // the run to play again, or an archive
	driveFlags
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Run a pipeline",
		Long: "run checks the pipeline, records the run and executes its steps, the independent ones at once.\n" +
			"Progress goes to standard error. Standard output gets the pipeline's outputs, or with -o json\n" +
			"one object with the state of every step.\n\n" +
			"With --replay nothing is started: the processes of an earlier run are played from what that stored, by the\n" +
			"pipeline that it went by or by FILE. The exit status is 0 when the same came of it, and 1 with the first\n" +
			"difference when not: a test of the pipeline, and of how flow reads its agents. It takes no key and no network,\n" +
			"and changes nothing outside of the state directory.",
		Example: "  flow run review.yaml -i branch=main\n  flow run review.yaml --simulate -o json\n  flow run --replay last",
		Args:    arguments(0, 1, "one pipeline file"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.runOrReplay(args, f) },
	}
	fl := cmd.Flags()
	f.bind(fl)
	f.bindInputs(fl)
	fl.BoolVar(&f.simulate, "simulate", false, "use built-in simulated agents: no key, no agent CLI, no cost")
	fl.StringVar(&f.from, "from", "", "with --reuse: the `step` from which on nothing is taken over")
	fl.StringVar(&f.replay, "replay", "", "play that `run`, or the archive of one that flow state export wrote")
	fl.StringVar(&f.reuse, "reuse", "", "take over what that `run` did before --from, where steps and inputs are the same")
	return cmd
}

// bind adds the flags that all commands have which begin a run.
func (f *runFlags) bind(fl *pflag.FlagSet) {
	fl.StringVar(&f.runID, "run-id", "", "name of the run (default: time and a random part)")
	f.add(fl)
}

// bindInputs adds the flags that give a pipeline its inputs.
func (f *runFlags) bindInputs(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.inputs, "input", "i", nil, "an input, `name=value` (repeatable)")
	fl.StringVar(&f.file, "inputs", "", "JSON `file` with an object of inputs; - is standard input")
}

// runOrReplay runs a pipeline, or plays an earlier run of one.
func (a *app) runOrReplay(args []string, f runFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	switch {
	case f.replay != "":
		return a.replay(args, f)
	case len(args) == 0:
		return usageError{errors.New("`flow run` takes one pipeline file\nhint: flow run FILE; --replay RUN plays an earlier run and needs none")}
	}
	return a.run(args[0], f)
}

func (a *app) run(file string, f runFlags) error {
	plan, source, err := a.load(file)
	if err != nil {
		return err
	}
	inputs, err := a.inputs(plan, f)
	if err != nil {
		return err
	}
	workspace, err := os.Getwd()
	if err != nil {
		return err
	}
	reuse, err := a.reused(f)
	if err != nil {
		return err
	}
	return a.begin(beginning{plan: plan, source: source, inputs: inputs, workspace: workspace, flags: f, reuse: reuse, from: f.from})
}

// load reads a pipeline and prints what it warns of.
func (a *app) load(file string) (*pipeline.Plan, []byte, error) {
	o, warnings, err := a.options(file)
	a.warn(warnings)
	if err != nil {
		return nil, nil, err
	}
	plan, warnings, err := check(file, o)
	a.warn(warnings)
	if err != nil {
		return nil, nil, err
	}
	source, err := os.ReadFile(file)
	return plan, source, err
}

// check reads a pipeline and finds everything that can be known to be wrong with it.
func check(file string, o pipeline.Options) (*pipeline.Plan, []pipeline.Warning, error) {
	plan, warnings, err := pipeline.Load(file, o)
	if err != nil {
		return nil, nil, fileError(file, err)
	}
	if errs := steps.Check(plan, adapters()); len(errs) > 0 {
		return nil, warnings, errs
	}
	return plan, append(warnings, steps.Lint(plan, adapters())...), nil
}

// fileError makes a pipeline that cannot be opened a mistake of the command line.
func fileError(file string, err error) error {
	if _, ok := errors.AsType[pipeline.Errors](err); ok {
		return err
	}
	hint := fmt.Sprintf("is %s the pipeline's path?", file)
	if file == "-" {
		hint = "a pipeline is a file, since others are found beside it; standard input is not read"
	}
	return usageError{fmt.Errorf("%w\nhint: %s", err, hint)}
}

// languageOptions tells the language which agents there are and what they can do.
func languageOptions() pipeline.Options {
	o := pipeline.Options{Agents: map[string]pipeline.AgentInfo{}}
	for name, adapter := range adapters() {
		info := adapter.Info()
		o.Agents[name] = pipeline.AgentInfo{
			Resume: info.Capabilities.Resume, Fork: info.Capabilities.Fork, Transports: info.Transports,
			NeedsCommand: info.Executable == "", Describes: name == program.Name,
		}
	}
	return o
}

// inputs binds the inputs of the command line to those that the plan declares.
func (a *app) inputs(plan *pipeline.Plan, f runFlags) (map[string]any, error) {
	flags, err := inputFlags(f.inputs)
	if err != nil {
		return nil, err
	}
	values, err := a.inputFile(f.file)
	if err != nil {
		return nil, err
	}
	bound, err := plan.BindInputs(flags, values)
	if err != nil {
		return nil, usageError{err}
	}
	return bound, nil
}

// inputFlags reads name=value.
func inputFlags(texts []string) (map[string]string, error) {
	flags := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return nil, usageError{fmt.Errorf("-i %s has no value\nhint: -i %s=VALUE", text, text)}
		case name == "":
			return nil, usageError{fmt.Errorf("-i %s has no name\nhint: -i NAME=%s", text, value)}
		}
		flags[name] = value
	}
	return flags, nil
}

func (a *app) inputFile(file string) (map[string]json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	data, err := a.readInputs(file)
	if err != nil {
		return nil, usageError{err}
	}
	var values map[string]json.RawMessage
	err = json.Unmarshal(data, &values)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("got a JSON %s, not an object", wrong.Value)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--inputs %s: %w\nhint: a JSON object, one key for each input", file, err)}
	}
	return values, nil
}

// maxInputs is the size of a file of inputs, in bytes. They are kept in memory.
const maxInputs = 64 << 20

// readInputs reads a file of inputs, which may be a pipe, or with - standard input.
func (a *app) readInputs(file string) ([]byte, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--inputs: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInputs+1))
	if err == nil && len(data) > maxInputs {
		err = fmt.Errorf("larger than %d MiB\nhint: give the path of large data as an input, and let the steps read it", maxInputs>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("--inputs %s: %w", file, err)
	}
	return data, nil
}

// secrets reads the declared secrets from the environment.
func (a *app) secrets(plan *pipeline.Plan) (map[string]string, error) {
	secrets := map[string]string{}
	var missing []string
	for _, name := range plan.AllSecrets() {
		value := a.getenv(name)
		if value == "" {
			missing = append(missing, name)
			continue
		}
		secrets[name] = value
	}
	if len(missing) > 0 {
		return nil, usageError{fmt.Errorf("the pipeline needs secrets that are not set: %s\nhint: export them before flow is started; flow passes them on only where `env:` names them", strings.Join(missing, ", "))}
	}
	return secrets, nil
}

// create records the run with everything that a resume needs.
func (a *app) create(s *state.Store, b beginning) (*state.Run, error) {
	id := b.flags.runID
	if id == "" {
		id = state.NewID(a.now())
	}
	if err := state.CheckID(id); err != nil {
		return nil, usageError{err}
	}
	planJSON, err := json.Marshal(b.plan)
	if err != nil {
		return nil, err
	}
	inputsJSON, err := json.Marshal(b.inputs)
	if err != nil {
		return nil, err
	}
	r, err := s.Create(state.Header{
		ID: id, Name: b.plan.Name, File: b.plan.File, Workspace: b.workspace,
		FlowVersion: version(), Created: a.now(), Simulated: b.flags.simulate, Steps: stepCount(b.plan), Replays: b.replays,
	}, map[string][]byte{"pipeline.yaml": b.source, "plan.json": planJSON, "inputs.json": inputsJSON})
	if errors.Is(err, state.ErrExists) {
		return nil, usageError{fmt.Errorf("run %s exists already\nhint: choose another --run-id, or go on with it: flow resume %s", id, id)}
	}
	return r, err
}

// stepCount counts the steps of a plan, those in groups and called pipelines included.
func stepCount(plan *pipeline.Plan) int {
	count := 0
	plan.Each(func(_ string, q *pipeline.Plan) { q.Walk(func(string, *pipeline.Step) { count++ }) })
	return count
}
