package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state/disk"
)

const (
	scriptArgMax = 64 << 10 // a longer script goes through a file: one argument holds 128 KiB
	outputMax    = 8 << 20  // of a shell step's standard output, kept as its text
	stderrMax    = 8 << 10  // of its standard error, kept with its result
)

// shell runs the step's script.
func (a *attempt) shell(ctx context.Context) (dag.Fact, error) {
	if f, ok, err := a.adoptShell(ctx); ok || err != nil {
		return f, err
	}
	script, err := a.frame.renderer.Script(*a.step.Run, a.data)
	if err != nil {
		return a.refused(configProblem(err)), nil
	}
	if f, ok, err := a.recorded(ctx); ok || err != nil {
		return f, err
	}
	spec := a.spec()
	spec.Path, spec.Args, err = a.command(script)
	if err != nil {
		return dag.Fact{}, err
	}
	spec.Env, spec.Group = a.env, true
	if err := a.confineScript(&spec); err != nil {
		return dag.Fact{}, err
	}
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, err
	}
	ctx, watch := watchIdle(ctx, time.Duration(a.step.IdleTimeout))
	defer watch.stop()
	res, err := a.runWatched(ctx, watch, spec, proc.Sink{})
	if err != nil {
		return dag.Fact{}, err
	}
	a.heldTo(res, "")
	return a.shellFact(ctx, spec.Stdout, res)
}

// command is how the script is given to the shell: as an argument, or, when it
// carries values or is long, as a file. Values are assigned, quoted, before the
// script and never become part of its text.
func (a *attempt) command(s pipeline.Script) (path string, args []string, err error) {
	shell, posix := []string{"sh", "-eu"}, true
	switch a.step.Shell {
	case "", "sh":
	case "bash":
		shell = []string{"bash", "-euo", "pipefail"}
	default:
		shell, posix = strings.Fields(a.step.Shell), false
	}
	if posix && len(s.Values) == 0 && len(s.Body) <= scriptArgMax {
		return shell[0], append(shell[1:], "-c", s.Body), nil
	}
	var b strings.Builder
	for _, v := range s.Values {
		fmt.Fprintf(&b, "%s='%s'\n", v.Name, strings.ReplaceAll(v.Value, "'", `'\''`))
	}
	b.WriteString(s.Body)
	file := a.path("script")
	if err := disk.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return "", nil, err
	}
	return shell[0], append(shell[1:], file), nil
}

// shellFact says what a script's end means.
func (a *attempt) shellFact(ctx context.Context, stdout string, res proc.Result) (dag.Fact, error) {
	text, cut, err := readHead(stdout, outputMax)
	if err != nil {
		return dag.Fact{}, err
	}
	r := Result{Leftovers: res.Leftovers, Stderr: tail(res.StderrTail, stderrMax)}
	kept := text
	if cut {
		kept = a.x.Mask.Part(text)
	}
	if r.Stdout, err = a.x.keepText(kept); err != nil {
		return dag.Fact{}, err
	}
	r.Stdout.Cut = cut
	if res.Err == nil {
		r.Exit = &res.Code
	}
	a.result = r
	problem := a.shellProblem(ctx, res)
	switch {
	case problem == nil:
		return a.shellOutput(ctx, text)
	case problem.Cause == agents.CauseCancelled:
		return a.stopped(problem.Message), nil
	default:
		return a.unfinished(problem)
	}
}

// shellOutput validates what the script printed, where the step has a schema.
func (a *attempt) shellOutput(ctx context.Context, text string) (dag.Fact, error) {
	if len(a.step.Output) == 0 {
		return a.finished(ctx)
	}
	output, err := agents.ParseAnswer(text)
	if err == nil {
		err = pipeline.ValidateJSON(a.step.Output, output)
	}
	if err != nil {
		return a.unfinished(&agents.Problem{
			Cause: agents.CauseSchema, Message: "what the script printed does not match the output schema: " + err.Error(),
			Hint: "print one JSON value on standard output, and everything else on standard error",
		})
	}
	if a.result.Output, err = a.x.keepText(string(output)); err != nil {
		return dag.Fact{}, err
	}
	return a.finished(ctx)
}

// shellProblem says why the script did not succeed, nil if it did. A script that
// succeeded before flow could end it has succeeded.
func (a *attempt) shellProblem(ctx context.Context, res proc.Result) *agents.Problem {
	why := a.intent(context.Cause(ctx))
	switch {
	case res.Err == nil && res.Code == 0:
		return nil
	case why == agents.IntentTimeout:
		return &agents.Problem{Cause: agents.CauseTimeout, Message: "timed out after " + a.step.Timeout.String(), Hint: a.timeoutHint()}
	case why == agents.IntentIdle:
		return &agents.Problem{Cause: agents.CauseTimeout, Message: "printed nothing for " + a.step.IdleTimeout.String(), Hint: a.timeoutHint()}
	case why != agents.IntentNone:
		return &agents.Problem{Cause: agents.CauseCancelled, Message: a.reason}
	case res.Overflow:
		return agents.Overflowed("")
	case res.Err != nil:
		return &agents.Problem{Cause: agents.CauseSpawn, Message: res.Err.Error(), Hint: agents.HintOf(res.Err)}
	case res.Signal != "":
		return &agents.Problem{Cause: agents.CauseCrash, Message: withLast("killed by SIG"+res.Signal, res.StderrTail)}
	default:
		return &agents.Problem{Cause: agents.CauseExit, Message: withLast(fmt.Sprintf("exit status %d", res.Code), res.StderrTail)}
	}
}

// withLast adds the last line of stderr, which usually says why.
func withLast(message, stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return message + ": " + tail(last, 300)
	}
	return message
}
