package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/state/failpoint"
)

// attempt is one attempt of one step under way. execute is its story.
type attempt struct {
	x      *Executor
	task   dag.Task
	step   *pipeline.Step // the task's, on the agent that works on it now
	record local.Recorder
	began  time.Time

	scope
	location
	exchange
	purse
	ending

	started bool    // that is recorded
	turns   int     // the number of the latest process
	chat    bool    // it is one more turn in the session of a step that has run
	lookup  *lookup // what the cache may keep of it, nil for nothing
	result  Result  // as far as it is known
}

// A scope is what templates and processes of an attempt see.
type scope struct {
	frame *frame
	data  pipeline.Data
	env   []string
}

// execute does what the task is about, unless its condition is false.
func (a *attempt) execute(ctx context.Context) (dag.Fact, error) {
	if err := a.prepare(); err != nil {
		return a.unprepared(err)
	}
	var envErr error // a condition may have been written to avoid it
	a.env, a.data["env"], envErr = a.x.environment(a.frame, a.step, a.data)
	a.x.notifier.expect(a)
	if a.conditional() {
		hold, err := a.frame.renderer.Condition(*a.step.If, a.data, a.task.Needs)
		if err != nil {
			return a.refused(configProblem(err)), nil
		}
		if !hold {
			return dag.Fact{Kind: dag.Skipped, Reason: "its condition is false"}, nil
		}
	}
	switch a.task.Action {
	case dag.Open:
		return a.open(ctx)
	case dag.Close:
		return a.close(ctx)
	case dag.Execute:
	}
	if envErr != nil {
		return a.refused(configProblem(envErr)), nil
	}
	return a.single(ctx)
}

// prepare finds out where the task stands: its pipeline, its data and its workspace.
func (a *attempt) prepare() (err error) {
	if a.frame, err = a.x.frameOf(a.task.Around); err != nil {
		return err
	}
	a.step = a.onAgent()
	if a.isolated, err = surrounding(a.task.Around); err != nil {
		return err
	}
	if a.data, err = a.templateData(); err != nil {
		return err
	}
	a.data[pipeline.TranscriptKey] = a.transcript
	return nil
}

// unprepared is the fact of a task that cannot be what the pipeline makes of it: the `env`
// around a call, say, has a template that fails. Any other error is flow's own.
func (a *attempt) unprepared(err error) (dag.Fact, error) {
	if mistake, ok := errors.AsType[pipeline.Error](err); ok {
		return a.refused(configProblem(mistake)), nil
	}
	return dag.Fact{}, err
}

// conditional reports whether this node is the one of its step's that asks `if`: the
// outermost, or each item where the condition is about the item.
func (a *attempt) conditional() bool {
	if a.step.If == nil || a.task.Action == dag.Close {
		return false
	}
	around := dag.Group // the form of the node that this one stands in
	if n := len(a.task.Around); n > 0 {
		around = a.task.Around[n-1].Form
	}
	if a.step.IfEach {
		return around == dag.Each
	}
	return around == dag.Group
}

// single runs a step that has no steps within it.
func (a *attempt) single(ctx context.Context) (dag.Fact, error) {
	switch a.step.Kind {
	case pipeline.KindSet:
		return a.set(ctx)
	case pipeline.KindAsk:
		return a.ask(ctx)
	default: // the others have a process
	}
	ctx, done := withTimeout(ctx, time.Duration(a.step.Timeout))
	defer done()
	if problem, err := a.place(ctx); err != nil || problem != nil {
		return a.notPlaced(problem), err
	}
	defer a.x.traffic.enter(a.workspace())()
	switch {
	case a.step.Kind == pipeline.KindRun:
		return a.shell(ctx)
	case a.step.Kind == pipeline.KindMerge:
		return a.merge(ctx)
	case a.isJudge():
		return a.judge(ctx)
	}
	return a.prompt(ctx)
}

// elapsed is how long the attempt has taken, in milliseconds. A clock that can be set may
// say less than nothing.
func (a *attempt) elapsed() int64 { return max(0, a.x.Now().Sub(a.began).Milliseconds()) }

// start records that the attempt begins, in session if that is known already.
func (a *attempt) start(ctx context.Context, session string) error {
	if a.started {
		if session != "" {
			a.sessionSeen(ctx, session)
		}
		return nil
	}
	a.started = true
	f := dag.Fact{Kind: dag.Started, Path: a.task.Path, Attempt: a.task.Attempt, Session: session}
	later := Result{Question: a.result.Question, Tree: a.tree} // what a later attempt needs to know
	if a.task.Owns {
		later.Workspace = a.isolated
	}
	later.Lookup, later.Forgotten = a.result.Lookup, a.forgotten()
	if a.step.Agent != a.task.Step.Agent {
		later.Agent = a.step.Agent // another one goes on in its place
	}
	if later.Agent != "" || later.Question != nil || later.Workspace != nil || later.Tree != "" || later.Lookup != "" || later.Forgotten > 0 {
		f.Result = later.encode()
	}
	return a.record(ctx, a.x.masked(f))
}

// forgotten is how many turns there are of an attempt of this number already.
func (a *attempt) forgotten() (turns int) {
	for a.x.used(label(a.task.Path, a.task.Attempt, turns+1)) {
		turns++
	}
	return turns
}

// used reports whether the name of a process is taken: it was started, or events stand for
// what it printed.
func (x *Executor) used(name string) bool {
	return x.ran(name) || x.before.printed(x.Store.AttemptPath(name, "stdout"))
}

// spec is the part of a process's description that all kinds of steps share: its
// label and its files. Each call begins a new turn of the attempt.
//
// Files that are there already belong to an attempt that a power failure made the
// journal forget. They are kept, and the turn takes the next number.
func (a *attempt) spec() proc.Spec {
	a.turns++
	for a.x.used(a.label()) {
		a.turns++
	}
	return proc.Spec{Label: a.label(), Dir: a.dir, Settled: a.pinned, Stdout: a.path("stdout"), Stderr: a.path("stderr")}
}

// run runs one process of the attempt, and says so in the log.
func (a *attempt) run(ctx context.Context, spec proc.Spec, sink proc.Sink) (proc.Result, error) {
	log := a.x.Logger.With("process", spec.Label)
	log.Debug("starts", "path", spec.Path, "args", spec.Args, "dir", spec.Dir)
	failpoint.Reach("process-starts")
	res, err := a.x.Launcher.Run(ctx, spec, sink)
	failpoint.Reach("process-done")
	if spec.Sandbox != nil {
		a.x.clearTemporary(spec.Label)
	}
	log.Debug("ended", "code", res.Code, "signal", res.Signal, "cause", context.Cause(ctx), "leftovers", res.Leftovers, "error", errors.Join(res.Err, err))
	return a.x.maskedResult(res), err
}

// label names one process of a run: path, attempt, turn.
func label(path string, attempt, turn int) string {
	return fmt.Sprintf("%s.%d.%d", path, attempt, turn)
}

func (a *attempt) label() string { return a.labelOf(a.turns) }

func (a *attempt) labelOf(turn int) string {
	if a.chat {
		return chatLabel(a.task.Path, turn)
	}
	return label(a.task.Path, a.task.Attempt, turn)
}

// path is the absolute name of a file of the current turn.
func (a *attempt) path(ext string) string { return a.x.file(a.label(), ext) }
