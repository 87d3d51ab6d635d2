package steps

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
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
	script, err := a.x.renderer.Script(*a.step.Run, a.data)
	if err != nil {
		return a.refused(err), nil
	}
	spec := a.spec()
	spec.Path, spec.Args, err = a.command(script)
	if err != nil {
		return dag.Fact{}, err
	}
	spec.Env, spec.Group = a.env, true
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, err
	}
	res, err := a.x.Launcher.Run(ctx, spec, proc.Sink{})
	if err != nil {
		return dag.Fact{}, err
	}
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
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
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
	if r.Stdout, err = store(a.x.Store, text); err != nil {
		return dag.Fact{}, err
	}
	r.Stdout.Cut = cut
	if res.Err == nil {
		r.Exit = &res.Code
	}
	problem := a.shellProblem(ctx, res)
	switch {
	case problem == nil:
		return a.shellOutput(text, r), nil
	case problem.Cause == agents.CauseCancelled:
		return a.stopped(problem.Message, r), nil
	default:
		return a.failed(problem, r), nil
	}
}

// shellOutput validates what the script printed, where the step has a schema.
func (a *attempt) shellOutput(text string, r Result) dag.Fact {
	if len(a.step.Output) == 0 {
		return a.succeeded(r)
	}
	output, err := agents.ParseAnswer(text)
	if err == nil {
		err = pipeline.ValidateJSON(a.step.Output, output)
	}
	if err != nil {
		return a.failed(&agents.Problem{Cause: agents.CauseSchema, Message: "its output does not match the schema: " + err.Error()}, r)
	}
	r.Output = output
	return a.succeeded(r)
}

// shellProblem says why the script did not succeed, nil if it did. A script that
// succeeded before flow could end it has succeeded.
func (a *attempt) shellProblem(ctx context.Context, res proc.Result) *agents.Problem {
	why := intent(ctx)
	switch {
	case res.Err == nil && res.Code == 0:
		return nil
	case why == agents.IntentTimeout:
		return &agents.Problem{Cause: agents.CauseTimeout, Message: "timed out after " + a.step.Timeout.String()}
	case why != agents.IntentNone:
		return &agents.Problem{Cause: agents.CauseCancelled, Message: context.Cause(ctx).Error()}
	case res.Err != nil:
		return &agents.Problem{Cause: agents.CauseSpawn, Message: res.Err.Error()}
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

// tail is the end of s, at most limit bytes, beginning at a whole character.
func tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[len(s)-limit:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// readHead reads at most limit bytes of a file and says whether there were more.
func readHead(path string, limit int64) (text string, more bool, err error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		return string(data[:limit]), true, err
	}
	return string(data), false, err
}

// spec is the part of a process's description that all kinds of steps share: its
// label and its files. Each call begins a new turn of the attempt.
func (a *attempt) spec() proc.Spec {
	a.turns++
	return proc.Spec{Label: a.label(), Dir: a.dir, Stdout: a.path("stdout"), Stderr: a.path("stderr")}
}

// label names one process of a run: path, attempt, turn.
func label(path string, attempt, turn int) string {
	return fmt.Sprintf("%s.%d.%d", path, attempt, turn)
}

func (a *attempt) label() string { return label(a.task.Path, a.task.Attempt, a.turns) }

// path is the absolute name of a file of the current turn.
func (a *attempt) path(ext string) string {
	return filepath.Join(a.x.Store.Dir(), a.x.Store.AttemptPath(a.label(), ext))
}
