package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"flow/agents/proc"
	"flow/pipeline/dag"
)

func (a *app) resumeCommand() *cobra.Command {
	var (
		f      driveFlags
		update bool
		inputs []string
	)
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a run that was interrupted or failed",
		Long: "resume goes on with a run after anything: a failed step, Ctrl-C, kill -9, a power cut. Steps that\n" +
			"succeeded are not run again. A step that was under way goes on in its agent's native session.\n" +
			"The pipeline is the one that the run began with, whatever its file says today. With --update it is the\n" +
			"file of today: steps that changed, and all that need them, run again; the others keep what they did.\n" +
			"RUN is a run's id, the beginning of one, or `last`.",
		Args: arguments(1, 1, "one run"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(inputs) > 0 && !update {
				return usageError{errors.New("a resumed run keeps its inputs\nhint: --update -i NAME=VALUE changes one, and runs what uses it again")}
			}
			return a.resume(args[0], f, update, inputs)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&update, "update", false, "go on with the pipeline's file as it is today")
	cmd.Flags().StringArrayVarP(&inputs, "input", "i", nil, "with --update: another value of an input, `name=value` (repeatable)")
	return cmd
}

func (a *app) resume(name string, f driveFlags, update bool, inputs []string) error {
	if err := f.check(); err != nil {
		return err
	}
	r, err := a.openRun(name)
	if err != nil {
		return err
	}
	e := &engine{app: a, run: r, driveFlags: f}
	return e.resumeAndClose(update, inputs)
}

func (e *engine) resumeAndClose(update bool, inputs []string) (err error) {
	defer func() { err = e.closed(err, e.run.Close()) }()
	replan := noReplan
	if update {
		replan = func(values map[string]json.RawMessage) error { return e.update(values, inputs) }
	}
	if err := e.reopen(replan); err != nil {
		return err
	}
	if e.succeeded() && !update { // an update may have changed the outputs alone
		return e.nothingLeft()
	}
	if !update {
		e.remarkChange()
	}
	return e.execute()
}

// noReplan leaves a run's plan as it is.
func noReplan(map[string]json.RawMessage) error { return nil }

// reopen brings the run to where it stopped, ready to go on. replan is given the values of
// its inputs, and may change what it goes by from now on.
func (e *engine) reopen(replan func(map[string]json.RawMessage) error) error {
	values, err := e.thaw()
	if err != nil {
		return err
	}
	if err := e.carryOn(); err != nil {
		return err
	}
	if err := replan(values); err != nil {
		return err
	}
	if e.secrets, err = e.app.secrets(e.plan); err != nil {
		return err
	}
	if err := enoughRoom(e.plan); err != nil {
		return err
	}
	if !e.run.Header().Simulated {
		if err := e.preflight(e.plan, e.run.Header().Workspace); err != nil {
			return err
		}
	}
	if err := e.prepare(); err != nil {
		return err
	}
	return e.restore()
}

// thaw reads the plan and the records that the run goes on from, and returns the values of
// its inputs.
func (e *engine) thaw() (map[string]json.RawMessage, error) {
	plan, values, err := frozen(e.run)
	if err != nil {
		return nil, err
	}
	e.plan, e.records = plan, e.run.Records()
	e.inputs, err = plan.BindInputs(nil, values)
	return values, err
}

// succeeded reports whether the run had succeeded already when it was opened.
func (e *engine) succeeded() bool {
	return e.machine.Done() && e.run.Summary().Status == string(dag.OK)
}

// nothingLeft prints the report of a run that has succeeded already.
func (e *engine) nothingLeft() error {
	e.progress.note("run " + e.run.Header().ID + " has succeeded; there is nothing to go on with")
	r, err := readReport(&e.run.View)
	if err != nil {
		return err
	}
	return r.print(e.out(e.output), e.output)
}

// replay brings the machine and the executor to where the run stopped.
func (e *engine) replay() error {
	exits, err := proc.ReadRecords(filepath.Join(e.run.Dir(), exitsFile))
	if err != nil {
		return err
	}
	if err := e.executor.Restore(e.machine, e.records, e.run.Events, exits); err != nil {
		return fmt.Errorf("run %s: %w", e.run.Header().ID, err)
	}
	return nil
}

// restore brings the machine to where the run stopped, and gives every step that
// did not succeed another chance. A run that has succeeded is left as it is, even
// one that was asked to stop while its last step came to its end.
func (e *engine) restore() error {
	if err := e.replay(); err != nil {
		return err
	}
	if e.succeeded() {
		return nil
	}
	for _, path := range e.machine.Unfinished() {
		if err := e.apply(dag.Fact{Kind: dag.Lost, Path: path}); err != nil {
			return err
		}
	}
	for _, f := range e.machine.Reopenable() {
		if err := e.apply(f); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) apply(f dag.Fact) error {
	if err := e.executor.Journal().Append(context.Background(), f); err != nil {
		return err
	}
	return e.machine.Apply(f)
}
