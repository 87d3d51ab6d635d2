package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"flow/agents/proc"
	"flow/pipeline/dag"
	"flow/steps"
)

func (a *app) resumeCommand() *cobra.Command {
	var (
		output string
		quiet  bool
	)
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a run that was interrupted or failed",
		Long: "resume goes on with a run after anything: a failed step, Ctrl-C, kill -9, a power cut. Steps that\n" +
			"succeeded are not run again. A step that was under way goes on in its agent's native session.\n" +
			"The pipeline is the one that the run began with, whatever its file says today.\n" +
			"RUN is a run's id, the beginning of one, or `last`.",
		Args: arguments(1, 1, "one run"),
		RunE: func(_ *cobra.Command, args []string) error { return a.resume(args[0], output, quiet) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "what standard output gets: text or json")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress, only what failed")
	return cmd
}

func (a *app) resume(name, output string, quiet bool) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	id, err := s.Resolve(name)
	if err != nil {
		return err
	}
	r, err := s.OpenRun(context.Background(), id)
	if err != nil {
		return err
	}
	e := &engine{app: a, run: r, output: output, quiet: quiet}
	return e.resumeAndClose()
}

func (e *engine) resumeAndClose() (err error) {
	defer func() { err = errors.Join(err, e.run.Close()) }()
	plan, values, err := frozen(e.run)
	if err != nil {
		return err
	}
	e.plan = plan
	if e.inputs, err = plan.BindInputs(nil, values); err != nil {
		return err
	}
	if e.secrets, err = e.app.secrets(plan); err != nil {
		return err
	}
	if !e.run.Header().Simulated {
		if err := steps.Preflight(plan, adapters(), e.run.Header().Workspace); err != nil {
			return err
		}
	}
	if err := e.prepare(); err != nil {
		return err
	}
	if err := e.restore(); err != nil {
		return err
	}
	if e.succeeded() {
		return e.nothingLeft()
	}
	return e.execute()
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
	return r.print(e.stdout, e.output)
}

// restore brings the machine to where the run stopped, and gives every step that
// did not succeed another chance. A run that has succeeded is left as it is, even
// one that was asked to stop while its last step came to its end.
func (e *engine) restore() error {
	exits, err := proc.ReadRecords(filepath.Join(e.run.Dir(), exitsFile))
	if err != nil {
		return err
	}
	if err := e.executor.Restore(e.machine, e.run.Records(), e.run.Events, exits); err != nil {
		return fmt.Errorf("run %s: %w", e.run.Header().ID, err)
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
