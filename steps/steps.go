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
	"time"

	"github.com/hashicorp/go-hclog"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/steps/mask"
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
	AppendAudit(line []byte) error
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
	Mask      *mask.Masker      // takes secrets out of all that is stored; nil: there are none. See Masker
	Environ   []string          // flow's own environment
	// Simulate, when set, is the command line that is put in front of an agent's
	// arguments instead of its executable: a simulated agent.
	Simulate func(use string) []string
	CacheDir string // of results that steps with `cache` share with other runs; "" for none
	// Stop stops the run: nothing new starts. It may be nil, and must not block.
	Stop func(reason error)
	Now  func() time.Time
	// Events calls fn with the events of the run so far, one JSON line each, from one on that
	// comes not long before the one with the number after + 1.
	Events  func(after int64, fn func(line []byte) error) error
	Observe func(agents.Event) // every new event, in order; must be quick
	Logger  hclog.Logger
	// Ask answers questions from where the user sits; nil: `flow approve` alone does.
	Ask Asker
	// AskTimeout is how long a call that a person is asked about waits for an answer, in
	// place of the pipeline's `ask-timeout`; 0: the pipeline decides.
	AskTimeout time.Duration
	// Recording, when set, is what the run is played from: nothing is started.
	Recording *Recording
	// Yes approves the questions of `ask` steps that have no form. It permits nothing.
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
	seals     *seals
	git       *workspace.Git
	merging   chan struct{} // holds a value while a merge is under way
	half      *halfMerges
	updated   int // the highest attempt before the last update; 0: there was none

	// What an earlier process of the run left, for Restore's sake.
	exits  map[string]proc.Record // by label: how processes ended when flow died
	before past
}

// New returns an executor for a run that is about to begin, or, after Restore, to
// go on. The error says that a template of the plan or one of its agents cannot be
// used by this flow.
func New(c Config) (*Executor, error) {
	sweep(c.Store.Dir())
	c.Store = maskedStore{c.Store, c.Mask}
	x := &Executor{
		Config: c, ledger: newLedger(), budgets: newBudgets(),
		versions: &versions{known: map[string]string{}}, traffic: &traffic{working: map[string]int{}, arrived: map[string]int{}},
		notifier:  &notifier{known: map[string]*attempt{}},
		renderers: map[*pipeline.Plan]*pipeline.Renderer{},
		frames:    recent[*frame]{limit: frameKeep}, items: recent[[]json.RawMessage]{limit: listKeep},
		recorder: &recorder{append: c.Store.AppendEvents, observe: c.Observe, spans: map[string]eventSpan{}, deltas: newDeltas(c.Mask)},
		answers:  newAnswers(c.Store, c.Logger), seals: &seals{done: map[string]bool{}}, git: newGit(c), merging: make(chan struct{}, 1),
		half: &halfMerges{turn: make(chan struct{}, 1)},
	}
	x.answers.seal = x.maskFile
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
		err = errors.Join(x.recorder.err(), a.seal(ctx))
	}
	if x.Recording != nil {
		x.Recording.advance(t.Path)
	}
	if err != nil {
		return dag.Fact{}, err // the driver names the step
	}
	fact.Path, fact.Attempt = t.Path, t.Attempt
	return x.masked(fact), nil
}
