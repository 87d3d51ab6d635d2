package main

import (
	"context"
	"errors"
	"strings"

	"flow/cmd/flow/internal/rpc"
	"flow/pipeline"
	"flow/state"
	"flow/steps"
)

// rpcError explains an error to a program.
func rpcError(err error) *rpc.Error {
	var (
		invalid   pipeline.Errors
		preflight *steps.PreflightError
		locked    *state.LockedError
		broken    *state.Error
		usage     usageError
	)
	msg, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	switch {
	case errors.As(err, &invalid):
		e := rpc.NewError(rpc.CodeInvalid, "invalid_pipeline", invalid.Error(), "put right what data.problems says")
		e.Data.Problems = rpcProblems(invalid, nil)
		return e
	case errors.As(err, &preflight):
		return rpc.NewError(rpc.CodePreflight, "preflight", msg, hint)
	case errors.As(err, &locked):
		return rpc.NewError(rpc.CodeLocked, "locked", msg, "end that process, or let it finish; run/show and run/events read the run meanwhile")
	case errors.Is(err, state.ErrNotFound):
		return rpc.NewError(rpc.CodeNotFound, "no_run", msg, "run/list has the runs")
	case errors.Is(err, state.ErrAmbiguous):
		return rpc.InvalidParam("params.run", msg, "give more of the id")
	case errors.As(err, &broken):
		return rpc.NewError(rpc.CodeFailed, "state", msg, broken.Hint)
	case errors.As(err, &usage):
		return rpc.NewError(rpc.CodeInvalidParams, "invalid_params", msg, hint)
	case errors.Is(err, context.Canceled):
		return rpc.NewError(rpc.CodeFailed, "cancelled", msg, "")
	default:
		return rpc.NewError(rpc.CodeFailed, "failed", msg, hint)
	}
}

// rpcProblems are mistakes and warnings of a pipeline as programs get them.
func rpcProblems(errs pipeline.Errors, warnings []pipeline.Warning) []rpc.Problem {
	all := []rpc.Problem{}
	add := func(e pipeline.Error, severity string) {
		all = append(all, rpc.Problem{File: e.File, Line: e.Pos.Line, Col: e.Pos.Col, Severity: severity, Message: e.Msg, Hint: e.Hint})
	}
	for _, e := range errs {
		add(e, "error")
	}
	for _, w := range warnings {
		add(pipeline.Error(w), "warning")
	}
	return all
}
