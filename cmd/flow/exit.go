package main

import (
	"errors"
	"fmt"
	"io/fs"

	"flow/cmd/flow/internal/console"
	"flow/pipeline"
	"flow/state"
	"flow/steps"
)

// The exit statuses, the same for every command. docs/commands.md explains them.
const (
	exitFailed    = 1   // a step failed
	exitUsage     = 2   // bad command line or invalid pipeline
	exitPreflight = 3   // an agent CLI or its login is missing, or a limit of the process is too low
	exitPerson    = 4   // the run waits for a person, or one said no
	exitBudget    = 5   // a budget is used up
	exitNoRun     = 10  // no such run
	exitLocked    = 11  // another process has the run
	exitState     = 12  // the state directory cannot be used
	exitTimeout   = 124 // every failed step ran into its timeout
	exitSignal    = 128 // plus the signal's number
)

// exitError is an exit status that was reported already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// report prints the error and returns the exit status it stands for.
func (a *app) report(err error) int {
	var (
		exit      exitError
		output    *console.Error
		invalid   pipeline.Errors
		preflight *steps.PreflightError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case console.ReaderGone(err):
		return 0 // it has seen enough
	case errors.As(err, &output):
		fmt.Fprintf(a.stderr, "flow: what was to be printed is not there, or not all of it: %v\nhint: what runs did is recorded: flow show, flow output\n", err)
		return exitFailed
	case errors.As(err, &invalid):
		a.explain(invalid)
		return exitUsage
	case errors.As(err, &preflight):
		fmt.Fprintf(a.stderr, "flow: %v\n", preflight)
		return exitPreflight
	}
	fmt.Fprintf(a.stderr, "flow: %v\n", err)
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var (
		usage  usageError
		locked *state.LockedError
		broken *state.Error
		onDisk *fs.PathError
	)
	switch {
	case errors.As(err, &usage), errors.Is(err, state.ErrAmbiguous):
		return exitUsage
	case errors.As(err, &locked):
		return exitLocked
	case errors.Is(err, state.ErrNotFound):
		return exitNoRun
	case errors.As(err, &broken), errors.Is(err, state.ErrNewer), diskTrouble(err) != "":
		return exitState
	case isStopped(err) && errors.As(err, &onDisk):
		return exitState
	default:
		return exitFailed
	}
}
