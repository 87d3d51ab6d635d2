// Package steps runs one attempt of one step: it renders the templates, chooses
// the workspace and the native session, starts the shell or the agent, and says
// in a fact what became of it. It joins the packages that know nothing of one
// another: pipeline, dag, agents and state.
package steps

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
)

// A Launcher runs processes; *proc.Supervisor is one.
type Launcher interface {
	Run(ctx context.Context, s proc.Spec, sink proc.Sink) (proc.Result, error)
}

// A Store is the part of a run's record that steps write; *state.Run is one.
type Store interface {
	BlobStore
	Dir() string
	Append(ctx context.Context, typ string, data any, sync bool) error
	AppendEvents(lines []byte) error
	AttemptPath(label, ext string) string
}

// Config is what an Executor needs.
type Config struct {
	RunID     string
	Started   time.Time // of the run
	Plan      *pipeline.Plan
	Adapters  map[string]agents.Adapter // by `use` name
	Store     Store
	Launcher  Launcher
	Workspace string            // absolute directory that the steps work in
	Inputs    map[string]any    // bound
	Secrets   map[string]string // by name, every one that the plan declares
	Environ   []string          // flow's own environment
	// Simulate, when set, is the command line that is put in front of an agent's
	// arguments instead of its executable: a simulated agent.
	Simulate func(use string) []string
	Now      func() time.Time
	// Events calls its argument with every event of the run so far, one JSON line each.
	Events  func(func(line []byte) error) error
	Observe func(agents.Event) // every new event, in order; must be quick
	Logger  hclog.Logger
}

// An Executor executes the tasks of one run. It is a local.Executor, and its
// Journal a local.Journal. Tasks may be executed concurrently.
type Executor struct {
	Config
	renderer *pipeline.Renderer
	ledger   *ledger
	recorder *recorder

	// What an earlier process of the run left, for Restore's sake.
	exits       map[string]proc.Record // by label: how processes ended when flow died
	recorded    map[string]int64       // by native file: where the lines end that are events already
	endedBefore map[string]bool        // by native file: its sessionEnded is recorded
}

// New returns an executor for a run that is about to begin, or, after Restore, to
// go on.
func New(c Config) (*Executor, error) {
	x := &Executor{
		Config: c, ledger: newLedger(),
		recorder: &recorder{append: c.Store.AppendEvents, observe: c.Observe},
	}
	var err error
	x.renderer, err = pipeline.NewRenderer(c.Plan, pipeline.Funcs{File: x.frozenFile, Transcript: x.transcript})
	return x, err
}

// Exec executes one task. A step that fails is a fact; an error means that flow
// itself cannot go on (the state cannot be written, the supervisor died).
func (x *Executor) Exec(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
	a := &attempt{x: x, task: t, step: t.Step, record: rec, began: x.Now()}
	fact, err := a.execute(ctx)
	if err == nil {
		err = x.recorder.err()
	}
	if err != nil {
		return dag.Fact{}, fmt.Errorf("step %s: %w", t.Path, err)
	}
	fact.Path, fact.Attempt = t.Path, t.Attempt
	return fact, nil
}

// attempt is one attempt of one step under way.
type attempt struct {
	x      *Executor
	task   dag.Task
	step   *pipeline.Step
	record local.Recorder
	began  time.Time
	data   pipeline.Data
	dir    string // absolute working directory
	env    []string
	turns  int // processes started so far
	// cancelled: the last process was ended because the run was cancelled.
	cancelled bool
}

func (a *attempt) execute(ctx context.Context) (dag.Fact, error) {
	data, err := a.x.data(a.task)
	if err != nil {
		return dag.Fact{}, err
	}
	a.data = data
	if a.step.If != nil {
		hold, err := a.x.renderer.Condition(*a.step.If, data, a.task.Needs)
		if err != nil {
			return a.refused(err), nil
		}
		if !hold {
			return dag.Fact{Kind: dag.Skipped, Reason: "its condition is false"}, nil
		}
	}
	if a.task.Action == dag.Open {
		return dag.Fact{Kind: dag.Opened}, nil
	}
	if err := a.surroundings(); err != nil {
		return a.refused(err), nil
	}
	ctx, done := withTimeout(ctx, time.Duration(a.step.Timeout))
	defer done()
	if a.step.Kind == pipeline.KindRun {
		return a.shell(ctx)
	}
	return a.prompt(ctx)
}

// surroundings renders the working directory and the environment.
func (a *attempt) surroundings() error {
	a.dir = a.x.Workspace
	if a.step.Cwd != nil {
		cwd, err := a.x.renderer.Text(*a.step.Cwd, a.data)
		if err != nil {
			return err
		}
		if a.dir, err = insideWorkspace(a.x.Workspace, cwd); err != nil {
			return pipeline.Error{File: a.x.Plan.File, Pos: a.step.Cwd.Pos, Msg: err.Error()}
		}
	}
	env, err := a.x.environment(a.step, a.data)
	a.env = env
	return err
}

// insideWorkspace resolves cwd, which must be an existing directory in workspace.
func insideWorkspace(workspace, cwd string) (string, error) {
	if !filepath.IsLocal(cwd) {
		return "", fmt.Errorf("cwd %q is outside the workspace", cwd)
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(workspace, cwd))
	if err != nil {
		return "", fmt.Errorf("cwd %q: %w", cwd, errors.Unwrap(err))
	}
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(real, dir); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("cwd %q leads outside the workspace", cwd)
	}
	return dir, nil
}

// refused is the fact of an attempt that could not even begin: a template or the
// configuration is wrong, and trying again would not help.
func (a *attempt) refused(err error) dag.Fact {
	return a.failed(&agents.Problem{Cause: agents.CauseConfig, Message: err.Error()}, Result{})
}

func (a *attempt) elapsed() int64 { return a.x.Now().Sub(a.began).Milliseconds() }

// start records that the attempt begins, in session if that is known already.
func (a *attempt) start(ctx context.Context, session string) error {
	return a.record(ctx, dag.Fact{Kind: dag.Started, Path: a.task.Path, Attempt: a.task.Attempt, Session: session})
}
