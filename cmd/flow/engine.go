package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"flow/agents"
	"flow/agents/proc"
	"flow/cmd/flow/internal/console"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/state"
	"flow/state/failpoint"
	"flow/steps"
	"flow/steps/mask"
)

// An engine takes one run, new or resumed, to its end.
type engine struct {
	*app
	run     *state.Run
	plan    *pipeline.Plan
	inputs  map[string]any
	secrets map[string]string
	masker  *mask.Masker
	records []state.Record // to go on from
	driveFlags

	machine    *dag.Machine
	executor   *steps.Executor
	supervisor *proc.Supervisor
	progress   *progress
	signal     atomic.Int32 // the first signal that asked the run to stop, or 0
	stops      chan error   // why the run is to stop, while what runs goes on
	overBudget atomic.Pointer[steps.BudgetError]

	recording *steps.Recording // that the run is played from; nil: it is for real
	host      *hosted          // the server that the run is under way in; nil: this command line
}

// exitsFile is where the guardian says how processes ended when flow died.
const exitsFile = "exits.jsonl"

// runAndClose executes the run, prints its report and gives up its lock.
func (e *engine) runAndClose() (err error) {
	defer func() { err = e.closed(err, e.run.Close()) }()
	if err := e.ready(); err != nil {
		return err
	}
	return e.execute()
}

// ready prepares a new run, with what it takes over from another one.
func (e *engine) ready() error {
	if err := e.prepare(); err != nil {
		return err
	}
	return e.executor.Restore(e.machine, e.records, e.run.Events, nil)
}

// prepare builds the machine and everything around it.
func (e *engine) prepare() error {
	e.masker = e.mask(e.secrets)
	log, err := e.logger()
	if err != nil {
		return err
	}
	if err := e.rebudget(); err != nil {
		return err
	}
	e.stops = make(chan error, 1)
	e.progress = e.newProgress(e.quiet)
	e.machine = dag.New(e.slots(), dag.Options{})
	e.supervisor = proc.New(proc.Options{
		Record: filepath.Join(e.run.Dir(), exitsFile), KeepOpen: []*os.File{e.run.LockFile()}, Logger: log.Named("proc"),
		MaxOutput: agents.MaxOutput,
	})
	header := e.run.Header()
	config := steps.Config{
		RunID: header.ID, Started: header.Created, Plan: e.plan, Adapters: adapters(),
		Store: e.run, Launcher: e.supervisor, Workspace: header.Workspace,
		Inputs: e.inputs, Secrets: e.secrets, Mask: e.masker, Environ: e.environ(),
		Now: e.now, Events: e.eventsAfter, Observe: e.progress.event, Logger: log, Yes: e.yes, AskTimeout: e.ask, Stop: e.stop,
		CacheDir: filepath.Join(filepath.Dir(filepath.Dir(e.run.Dir())), "cache"),
	}
	switch {
	case e.recording != nil:
		return e.prepareReplay(config)
	case e.host != nil:
		config.Ask = e.host
	case e.interactive(e.driveFlags):
		config.Ask = e.newPrompter(e.progress)
	}
	if header.Simulated {
		if config.Simulate, err = e.simulated(&config); err != nil {
			return err
		}
	}
	e.executor, err = steps.New(config)
	return err
}

// slots is the plan with the slots that its steps share. A replay does one step at a time, in
// the order in which they ended, and has slots for all: in the run itself a slot was free as
// soon as its step had ended, and here only once that is recorded. A candidate that was under
// way when another one won must not wait for one.
func (e *engine) slots() *pipeline.Plan {
	if e.recording == nil {
		return e.plan
	}
	plan := *e.plan
	plan.Limit, plan.AgentLimits = math.MaxInt, nil
	return &plan
}

// eventsAfter reads the events of the run from about a number on.
func (e *engine) eventsAfter(after int64, fn func(line []byte) error) error {
	offset, err := behindCursor(&e.run.View, after)
	if err != nil {
		return err
	}
	return e.run.EventsFrom(offset, fn)
}

// simulated returns the command lines of the simulated agents, whose sessions live
// beside the runs.
func (e *engine) simulated(c *steps.Config) (func(string) []string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if e.getenv("FLOW_SIMULATE_HOME") == "" {
		c.Environ = append(c.Environ, "FLOW_SIMULATE_HOME="+filepath.Join(e.run.Dir(), "simulated"))
	}
	return func(use string) []string { return []string{self, agentCommand, use} }, nil
}

// execute drives the machine to its end, prints the report, and returns the exit
// status as an error.
func (e *engine) execute() error {
	if err := e.supervisor.Start(); err != nil {
		return e.broken(err)
	}
	failpoint.Reach("run-ready")
	ctx, stop := e.attend()
	defer stop()
	e.progress.begin(e.run.Header(), e.plan)
	err := local.Run(ctx, e.machine, e.executor, e.executor.Journal(), local.Options{
		Interactive: e.host != nil || e.interactive(e.driveFlags),
		Observe: func(f dag.Fact) {
			e.progress.fact(f)
			e.executor.NotifyFact(e.machine, f)
		},
		Stop: e.stops, Now: e.now,
		Panic: func(path string, stack []byte) {
			fmt.Fprintf(e.stderr, "flow: a defect of flow made step %s fail:\n%s\n", path, stack)
		},
	})
	var report *report
	if err == nil {
		report, err = e.conclude()
	}
	err = errors.Join(err, e.supervisor.Close(), e.executor.ClearCaches())
	if err != nil {
		return e.broken(err)
	}
	failpoint.Reach("run-concluded")
	if err := e.finish(report.Status); err != nil {
		return e.broken(err)
	}
	e.progress.end(report)
	if err := e.print(report); err != nil {
		return err
	}
	failpoint.Reach("report-printed")
	return e.exit(report)
}

// finish records how the run ended. That the list of runs does not say it yet is no failure.
func (e *engine) finish(status string) error {
	err := e.run.Finish(status)
	if errors.Is(err, state.ErrUnlisted) {
		e.progress.note(err.Error())
		return nil
	}
	return err
}

// print prints the report. A reader who has gone does not change how the run ended.
func (e *engine) print(r *report) error {
	err := r.print(e.out(e.output), e.output)
	if console.ReaderGone(err) {
		return nil
	}
	return err
}

// conclude says what the run has come to, and tells those who want to know.
func (e *engine) conclude() (*report, error) {
	r := newReport(e.run.Header(), e.machine, string(e.machine.Status()), e.run)
	if over := e.overBudget.Load(); over != nil && r.Status != string(dag.OK) {
		r.Error, r.hint = over.Message, over.Hint
	}
	err := e.outputs(r)
	if err == nil {
		e.executor.NotifyEnd(e.machine, r.Status, r.why())
	}
	return r, err
}

// The types of the journal's records about the run as a whole.
const (
	recordOutputs = "outputs" // the pipeline's outputs
	recordProblem = "problem" // why they could not be evaluated, as text
	recordReused  = "reused"  // a reuse
	recordCarried = "carried" // all that the run takes over is there
)

// outputs evaluates the pipeline's outputs, which only a run that succeeded has. A
// run whose outputs cannot be evaluated has not succeeded.
func (e *engine) outputs(r *report) error {
	if r.Status != string(dag.OK) {
		return nil
	}
	outputs, err := e.executor.Outputs(e.machine)
	if err != nil {
		r.Status, r.Error = string(dag.Failure), err.Error()
		return e.run.Append(context.Background(), recordProblem, r.Error, true)
	}
	r.Outputs = outputs
	return e.run.Append(context.Background(), recordOutputs, outputs, true)
}

// exit is the exit status of a run that has ended, as an error, or nil.
func (e *engine) exit(r *report) error {
	switch sig := e.signal.Load(); {
	case r.Status == string(dag.OK):
		return nil
	case sig != 0:
		return exitError{exitSignal + int(sig)}
	case e.overBudget.Load() != nil || r.only(agents.CauseBudget):
		return exitError{exitBudget}
	case r.Status == string(dag.Waiting) || r.only(agents.CauseDenied):
		return exitError{exitPerson}
	case r.only(agents.CauseTimeout):
		return exitError{exitTimeout}
	default:
		return exitError{exitFailed}
	}
}

// attend returns the context of the run: it ends when the run is to be stopped, by a signal
// or by the server.
func (e *engine) attend() (context.Context, func()) {
	if e.host != nil {
		return e.host.ctx, func() {}
	}
	return e.watchSignals(context.Background())
}

// watchSignals cancels the context at the first SIGINT, SIGTERM or SIGHUP, kills
// all processes at the second and leaves at the third. Signals that were ignored
// when flow was started (nohup, a shell's background job) stay ignored.
func (e *engine) watchSignals(ctx context.Context) (context.Context, func()) {
	return watchSignals(ctx, e.interrupted)
}

// watchSignals calls heard with every signal that asks the process to end, and how many
// there were with it.
func watchSignals(ctx context.Context, heard func(s syscall.Signal, count int, cancel context.CancelCauseFunc)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	// A closed pipe is an error of the write, not the end of flow. The signal is not ignored:
	// what flow starts would ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		for count := 1; ; count++ {
			select {
			case <-done:
				return
			case s := <-signals:
				if sig, ok := s.(syscall.Signal); ok {
					heard(sig, count, cancel)
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

func (e *engine) interrupted(s syscall.Signal, count int, cancel context.CancelCauseFunc) {
	switch count {
	case 1:
		e.signal.Store(int32(s))
		name := "SIG" + agents.SignalName(int(s))
		e.progress.note(name + ": stopping the agents; again to kill them")
		cancel(fmt.Errorf("cancelled by %s", name))
	case 2:
		e.progress.note("killing the agents; once more to leave at once")
		e.supervisor.KillAll()
	default:
		leaveNow(s)
	}
}

// leaveNow ends the process at the third signal.
func leaveNow(s syscall.Signal) { os.Exit(exitSignal + int(s)) }
