// Package steps runs one attempt of one step: it renders the templates, chooses
// the workspace and the native session, starts the shell or the agent, and says
// in a fact what became of it. It joins the packages that know nothing of one
// another: pipeline, dag, agents and state.
package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/steps/workspace"
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
	PutBlobFrom(src io.Reader) (ref string, size int64, err error)
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
	CacheDir string // of results that steps with `cache` share with other runs; "" for none
	// Stop stops the run: nothing new starts. It may be nil, and must not block.
	Stop func(reason error)
	Now  func() time.Time
	// Events calls its argument with every event of the run so far, one JSON line each.
	Events  func(func(line []byte) error) error
	Observe func(agents.Event) // every new event, in order; must be quick
	Logger  hclog.Logger
	// Ask answers questions from where the user sits; nil: `flow approve` alone does.
	Ask Asker
	// Yes approves every question that has no form.
	Yes bool
}

// An Executor executes the tasks of one run. It is a local.Executor, and its
// Journal a local.Journal. Tasks may be executed concurrently.
type Executor struct {
	Config
	root      *frame                                // of the run's own pipeline
	renderers map[*pipeline.Plan]*pipeline.Renderer // of it, and of those that it calls
	frames    recent[*frame]
	items     recent[[]json.RawMessage] // of lists
	sights    sights
	ledger    *ledger
	budgets   *budgets
	versions  *versions
	traffic   *traffic
	notifier  *notifier
	recorder  *recorder
	answers   *answers
	git       *workspace.Git
	merging   chan struct{} // holds a value while a merge is under way
	updated   int           // the highest attempt before the last update; 0: there was none

	// What an earlier process of the run left, for Restore's sake.
	exits  map[string]proc.Record // by label: how processes ended when flow died
	before past
}

// New returns an executor for a run that is about to begin, or, after Restore, to
// go on. The error says that a template of the plan or one of its agents cannot be
// used by this flow.
func New(c Config) (*Executor, error) {
	x := &Executor{
		Config: c, ledger: newLedger(), budgets: newBudgets(),
		versions: &versions{known: map[string]string{}}, traffic: &traffic{working: map[string]int{}, arrived: map[string]int{}},
		notifier:  &notifier{known: map[string]*attempt{}},
		renderers: map[*pipeline.Plan]*pipeline.Renderer{},
		frames:    recent[*frame]{limit: frameKeep}, items: recent[[]json.RawMessage]{limit: listKeep},
		recorder: &recorder{append: c.Store.AppendEvents, observe: c.Observe},
		answers:  newAnswers(c.Store, c.Logger), git: newGit(c), merging: make(chan struct{}, 1),
	}
	var errs []error
	c.Plan.Each(func(_ string, p *pipeline.Plan) { errs = append(errs, x.admit(p)) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	x.root = &frame{plan: c.Plan, renderer: x.renderers[c.Plan], inputs: c.Inputs, secrets: declaredSecrets(c.Plan, c.Secrets)}
	return x, nil
}

// admit makes the renderer of a plan, if this flow can run it.
func (x *Executor) admit(p *pipeline.Plan) (err error) {
	for name, profile := range p.Agents {
		if x.Adapters[profile.Use] == nil {
			return fmt.Errorf("agent %s uses %q, which this flow does not have; use the version of flow that the pipeline was written for", name, profile.Use)
		}
	}
	x.renderers[p], err = pipeline.NewRenderer(p, pipeline.Funcs{File: x.projectFile})
	return err
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
		return dag.Fact{}, err // the driver names the step
	}
	fact.Path, fact.Attempt = t.Path, t.Attempt
	return fact, nil
}

// attempt is one attempt of one step under way.
type attempt struct {
	x        *Executor
	task     dag.Task
	step     *pipeline.Step
	frame    *frame
	record   local.Recorder
	began    time.Time
	data     pipeline.Data
	dir      string // absolute working directory
	env      []string
	turns    int     // the number of the latest process
	chat     bool    // it is one more turn in the session of a step that has run
	result   Result  // as far as it is known
	started  bool    // that is recorded
	lookup   *lookup // what the cache may keep of it, nil for nothing
	reserved bool    // what the next turn may use is reserved
	bound    *limit  // the budget that MaxCostUSD of the latest turn comes from, or nil
	over     *limit  // the budget that a turn could not begin for, or nil
	held     string  // the session whose history holds the prompt, "" if none
	repaired bool    // an answer went back because of its schema
	checks   int     // how often work went back because of the check
	// isolated is the workspace that the step, or the nearest around it, has of its own;
	// nil for the run's.
	isolated *Workspace
	tree     string // the workspace's when the step began, where its changes are kept
	// judgement, if set, judges an answer that matches the schema.
	judgement func(output json.RawMessage) error

	why    agents.Intent // why flow ended the latest process, if it did
	reason string        // who cancelled it
}

func (a *attempt) execute(ctx context.Context) (dag.Fact, error) {
	if err := a.prepare(); err != nil {
		return dag.Fact{}, err
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

// place finds out where the step works, and makes its own workspace if it is to have one.
func (a *attempt) place(ctx context.Context) (*agents.Problem, error) {
	if a.task.Owns {
		if problem, err := a.isolate(ctx); err != nil || problem != nil {
			return problem, err
		}
	}
	if err := a.workingDirectory(); err != nil {
		return configProblem(err), nil
	}
	return a.watchChanges(ctx)
}

// workingDirectory finds out where the step works.
func (a *attempt) workingDirectory() error {
	a.dir = a.workspace()
	if a.step.Cwd == nil {
		return checkWorkspace(a.dir)
	}
	cwd, err := a.frame.renderer.Text(*a.step.Cwd, a.data)
	if err != nil {
		return err
	}
	if a.dir, err = insideWorkspace(a.workspace(), cwd); err != nil {
		return pipeline.Error{File: a.frame.plan.File, Pos: a.step.Cwd.Pos, Msg: err.Error()}
	}
	return nil
}

// checkWorkspace fails if the workspace was removed. An agent would take that for
// its own program not being there.
func checkWorkspace(dir string) error {
	_, err := os.Stat(dir)
	if err == nil {
		return nil
	}
	return &agents.Problem{
		Cause: agents.CauseConfig, Message: "the workspace cannot be used: " + err.Error(),
		Hint: "bring the directory back, then resume the run",
	}
}

// insideWorkspace resolves cwd, which must be an existing directory in workspace.
func insideWorkspace(workspace, cwd string) (string, error) {
	if cwd == "" {
		return "", errors.New("cwd is empty; write . for the workspace itself")
	}
	if !filepath.IsLocal(cwd) {
		return "", fmt.Errorf("cwd %q is outside the workspace", cwd)
	}
	top, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return "", fmt.Errorf("the workspace: %w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(top, cwd))
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the user knows the name
	}
	if err != nil {
		return "", fmt.Errorf("cwd %q: %w", cwd, err)
	}
	rel, err := filepath.Rel(top, dir)
	info, statErr := os.Stat(dir)
	switch {
	case err != nil || !filepath.IsLocal(rel):
		return "", fmt.Errorf("cwd %q leads outside the workspace", cwd)
	case statErr != nil || !info.IsDir():
		return "", fmt.Errorf("cwd %q is not a directory", cwd)
	}
	return dir, nil
}

func (a *attempt) elapsed() int64 { return a.x.Now().Sub(a.began).Milliseconds() }

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
	later.Lookup = a.result.Lookup
	if a.step.Agent != a.task.Step.Agent {
		later.Agent = a.step.Agent // another one goes on in its place
	}
	if later.Agent != "" || later.Question != nil || later.Workspace != nil || later.Tree != "" || later.Lookup != "" {
		f.Result = later.encode()
	}
	return a.record(ctx, f)
}

// spec is the part of a process's description that all kinds of steps share: its
// label and its files. Each call begins a new turn of the attempt.
//
// Files that are there already belong to an attempt that a power failure made the
// journal forget. They are kept, and the turn takes the next number.
func (a *attempt) spec() proc.Spec {
	a.turns++
	for a.x.ran(a.label()) {
		a.turns++
	}
	return proc.Spec{Label: a.label(), Dir: a.dir, Stdout: a.path("stdout"), Stderr: a.path("stderr")}
}

// run runs one process of the attempt, and says so in the log.
func (a *attempt) run(ctx context.Context, spec proc.Spec, sink proc.Sink) (proc.Result, error) {
	log := a.x.Logger.With("process", spec.Label)
	log.Debug("starts", "path", spec.Path, "args", spec.Args, "dir", spec.Dir)
	res, err := a.x.Launcher.Run(ctx, spec, sink)
	log.Debug("ended", "code", res.Code, "signal", res.Signal, "cause", context.Cause(ctx), "leftovers", res.Leftovers, "error", errors.Join(res.Err, err))
	return res, err
}

// label names one process of a run: path, attempt, turn.
func label(path string, attempt, turn int) string {
	return fmt.Sprintf("%s.%d.%d", path, attempt, turn)
}

func (a *attempt) label() string {
	if a.chat {
		return chatLabel(a.task.Path, a.turns)
	}
	return label(a.task.Path, a.task.Attempt, a.turns)
}

// path is the absolute name of a file of the current turn.
func (a *attempt) path(ext string) string { return a.x.file(a.label(), ext) }
