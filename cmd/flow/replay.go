package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"flow/agents/replay"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/state"
	"flow/state/disk"
	"flow/steps"
)

// replay begins a run that plays what another one stored: its processes are not started,
// but print and end as they did then. It says at its end whether the same came of it.
func (a *app) replay(args []string, f runFlags) error {
	switch {
	case f.simulate, f.from != "", f.reuse != "", f.file != "", len(f.inputs) > 0:
		return usageError{errors.New("--replay plays a run with the inputs that it had, and starts nothing\nhint: leave out --simulate, --from, --reuse, --input and --inputs")}
	case f.budget.USD != 0, f.budget.Tokens != 0:
		return usageError{errors.New("--replay goes by the budget of the pipeline\nhint: leave out --budget-usd and --budget-tokens")}
	}
	from, done, err := a.recordedRun(f.replay)
	if err != nil {
		return err
	}
	defer done()
	b, err := a.replayed(from, args)
	if err != nil {
		return err
	}
	b.flags = f
	recorded, err := machine(from)
	if err != nil {
		return err
	}
	recording, err := steps.NewRecording(from, recorded.Done())
	if err != nil {
		return fmt.Errorf("run %s: %w", from.Header().ID, err)
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	r, err := a.create(s, b)
	if err != nil {
		return err
	}
	e := &engine{app: a, run: r, plan: b.plan, inputs: b.inputs, secrets: unknownSecrets(b.plan), driveFlags: f.driveFlags, recording: recording}
	return e.playAndClose(from)
}

// recordedRun returns the run that is to be played: one of the state directory, or one in an
// archive, which is taken in for as long as it plays. done ends that.
func (a *app) recordedRun(name string) (v *state.View, done func(), err error) {
	info, err := os.Stat(name)
	if !strings.HasSuffix(name, ".tar") && (err != nil || !info.Mode().IsRegular()) {
		v, err = a.view(name)
		return v, func() {}, err
	}
	s, err := a.store()
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--replay: %w\nhint: a run's id, or the path of what `flow state export` wrote", err)}
	}
	defer f.Close()
	temp, remove, err := s.Temporary()
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = remove() } // the next flow does it else
	id, err := temp.Import(f, state.DefaultImportLimits())
	if err == nil {
		v, err = temp.Read(id)
	}
	if err != nil {
		done()
	}
	return v, done, err
}

// replayed is what a replay begins with: the pipeline that the run went by, or the one that
// is named, and the inputs that it had.
func (a *app) replayed(from *state.View, args []string) (b beginning, err error) {
	plan, values, err := frozen(from)
	if err != nil {
		return b, err
	}
	if len(args) > 0 {
		b.plan, b.source, err = a.load(args[0])
	} else {
		b.plan = plan
		b.source, err = frozenSource(from)
	}
	if err != nil {
		return b, err
	}
	if b.inputs, err = b.plan.BindInputs(nil, values); err != nil {
		return b, usageError{fmt.Errorf("the inputs of run %s: %w", from.Header().ID, err)}
	}
	b.workspace, b.replays = from.Header().Workspace, from.Header().ID
	return b, nil
}

// unknownSecrets has something in the place of each secret: a replay needs none of them.
func unknownSecrets(plan *pipeline.Plan) map[string]string {
	all := map[string]string{}
	for _, name := range plan.AllSecrets() {
		all[name] = "(the secret " + name + " of a replay)"
	}
	return all
}

// prepareReplay makes the executor of a replay. Its workspace is an empty directory of the
// run: what steps changed stays what the recorded results say of it.
func (e *engine) prepareReplay(c steps.Config) (err error) {
	c.Recording, c.Launcher = e.recording, replay.Launcher{Find: e.recording.Tape}
	c.CacheDir, c.Yes = "", false
	c.Workspace = filepath.Join(e.run.Dir(), "scratch")
	if err := disk.MkdirAll(c.Workspace, 0o700); err != nil {
		return err
	}
	e.executor, err = steps.New(c)
	return err
}

// playAndClose plays the run, says how it compares, and gives up its lock.
func (e *engine) playAndClose(from *state.View) (err error) {
	defer func() { err = errors.Join(err, e.run.Close()) }()
	if err := e.ready(); err != nil {
		return err
	}
	r, err := e.play(from)
	if err != nil {
		return err
	}
	if e.signal.Load() != 0 && r.Status != string(dag.OK) { // not played to the end: nothing to compare
		return e.exit(r)
	}
	if r.Replay, err = e.compare(from, r); err != nil {
		return err
	}
	if err := e.print(r); err != nil {
		return err
	}
	return e.replayEnd(r.Replay)
}

// play takes the run to where the recording ends.
func (e *engine) play(from *state.View) (*report, error) {
	ctx, stop := e.attend()
	defer stop()
	e.progress.begin(e.run.Header(), e.plan)
	err := local.Play(ctx, e.machine, e.executor, e.executor.Journal(), e.recording, local.Options{
		Observe: e.progress.fact, Stop: e.stops,
		Panic: func(path string, stack []byte) {
			fmt.Fprintf(e.stderr, "flow: a defect of flow made step %s fail:\n%s\n", path, stack)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("the replay of run %s stopped: %w", from.Header().ID, err)
	}
	report := newReport(e.run.Header(), e.machine, string(e.machine.Status()), e.run)
	if err := e.outputs(report); err != nil {
		return nil, err
	}
	if err := e.finish(report.Status); err != nil {
		return nil, err
	}
	e.progress.end(report)
	return report, nil
}
