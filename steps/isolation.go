package steps

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state/failpoint"
	"flow/steps/workspace"
)

// A Workspace names one that a step has of its own. Package workspace keeps the rest of
// what there is to know of it.
type Workspace struct {
	Name   string         `json:"name"` // see workspaceName
	Mode   workspace.Mode `json:"mode"`
	Root   string         `json:"root"` // the directory that stands for the run's workspace
	Branch string         `json:"branch,omitempty"`
}

// newGit returns what does the git work of the run, in processes of the run.
func newGit(c Config) *workspace.Git {
	run := c.Store.Dir() // in the state directory: <state>/runs/<id>
	scratch := scratchOf(run)
	return workspace.New(workspace.Options{
		Runner:  &workspace.Processes{Launcher: c.Launcher, Label: "flow-git", Scratch: scratch},
		Environ: GitEnvironment(c.Environ), Scratch: scratch, Exclude: []string{run, filepath.Dir(filepath.Dir(run))},
	})
}

// surrounding returns the workspace of the nearest node around that has one, nil for none.
func surrounding(around []dag.Enclosing) (*Workspace, error) {
	for _, e := range slices.Backward(around) {
		if e.Step.Isolation == nil {
			continue
		}
		o, err := decodeOpening(e.Result)
		if err != nil || o.Workspace != nil {
			return o.Workspace, err
		}
	}
	return nil, nil //nolint:nilnil // no workspace of one's own is the run's
}

// workspace is the directory that the task works in, and below.
func (a *attempt) workspace() string {
	if a.isolated != nil {
		return a.isolated.Root
	}
	return a.x.Workspace
}

// isolate makes the workspace that the task owns, and from here on works in it. Its setup
// is run once, and again only if flow died before it had ended.
func (a *attempt) isolate(ctx context.Context) (*agents.Problem, error) {
	if before := a.x.ledger.get(a.task.Path).workspace; before != nil {
		a.isolated = before
		return nil, nil
	}
	if a.x.Recording != nil {
		a.isolated = a.playedWorkspace()
		return nil, nil
	}
	iso := a.step.Isolation
	request := workspace.Request{
		RunDir: a.x.Store.Dir(), Run: a.x.RunID, Path: a.x.workspaceName(a.task.Path), Repo: a.workspace(),
		Mode: workspace.Mode(iso.Mode), Copy: iso.Copy, Now: a.x.Now(),
	}
	if iso.Base != nil {
		var err error
		if request.Base, err = a.frame.renderer.Text(*iso.Base, a.data); err != nil {
			return configProblem(err), nil
		}
	}
	w, err := a.x.git.Create(ctx, request)
	if err != nil {
		return a.gitProblem(ctx, err)
	}
	failpoint.Reach("workspace-made")
	a.isolated = &Workspace{Name: w.Path, Mode: w.Mode, Root: w.Root, Branch: w.Branch}
	if iso.Setup == nil {
		return nil, nil
	}
	return a.setup(ctx, *iso.Setup)
}

// workspaceName is what the workspace of the node at path goes by. One that is made after
// the run was updated has the number of the first attempt from then on behind it: the step
// begins again, and not in what it did by the plan before.
func (x *Executor) workspaceName(path string) string {
	if x.updated == 0 {
		return path
	}
	return fmt.Sprintf("%s=%d", path, x.updated+1) // no path of a step has an =
}

// recordOf reads what is known of a workspace.
func (x *Executor) recordOf(w *Workspace) (*workspace.Workspace, error) {
	record, err := workspace.Load(x.Store.Dir(), w.Name, w.Mode)
	if err == nil && record == nil {
		err = &workspace.Error{Msg: "the workspace " + w.Name + " was removed", Hint: "begin a new run"}
	}
	return record, err
}

// setup prepares the workspace by the script of its step.
func (a *attempt) setup(ctx context.Context, text pipeline.Text) (*agents.Problem, error) {
	script, err := a.frame.renderer.Script(text, a.data)
	if err != nil {
		return configProblem(err), nil
	}
	shell := *a.step
	shell.Kind, shell.Shell = pipeline.KindRun, ""
	if shell.Repeat != nil { // it comes before the first round
		shell.Env = slices.DeleteFunc(slices.Clone(shell.Env), func(v pipeline.Var) bool { return v.Value.NamesRound() })
	}
	env, _, err := a.x.environment(a.frame, &shell, a.data)
	if err != nil {
		return configProblem(err), nil
	}
	// An attempt of its own for the names of its files; no path of a step has a hyphen.
	s := &attempt{x: a.x, task: a.task, step: &shell, scope: scope{frame: a.frame}, location: location{dir: a.isolated.Root}}
	s.task.Path += "-setup"
	spec := s.spec()
	spec.Env, spec.Group = env, true
	if spec.Path, spec.Args, err = s.command(script); err != nil {
		return nil, err
	}
	res, err := s.run(ctx, spec, proc.Sink{})
	if err = errors.Join(err, s.seal(ctx)); err != nil {
		return nil, err
	}
	p := s.shellProblem(ctx, res)
	if p != nil && p.Cause != agents.CauseCancelled {
		p.Message = "the setup of its workspace: " + p.Message
		p.Hint = "mend `setup`, or look into " + a.isolated.Root
	}
	return p, nil
}

// gitProblem tells what keeps the step from going on from what keeps flow.
func (a *attempt) gitProblem(ctx context.Context, err error) (*agents.Problem, error) {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		if errors.Is(cause, errGitTime) {
			return &agents.Problem{Cause: agents.CauseTimeout, Message: cause.Error(), Hint: "look into " + a.workspace()}, nil
		}
		if a.intent(context.Cause(ctx)) == agents.IntentTimeout {
			return &agents.Problem{Cause: agents.CauseTimeout, Message: "timed out after " + a.step.Timeout.String() + ", while git was at work", Hint: a.timeoutHint()}, nil
		}
		return &agents.Problem{Cause: agents.CauseCancelled, Message: cause.Error()}, nil
	}
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		return &agents.Problem{Cause: agents.CauseConfig, Message: e.Msg, Hint: e.Hint}, nil
	}
	return nil, err
}

// notPlaced is the fact of a task that has no place to work in.
func (a *attempt) notPlaced(p *agents.Problem) dag.Fact {
	if p == nil { // flow is broken
		return dag.Fact{}
	}
	if p.Cause == agents.CauseCancelled {
		return a.stopped(p.Message)
	}
	return a.refused(p)
}

// gitTime is how long git may take to say what a step changed, and to commit that. The
// step's own time is not counted on: its work is done, and is not to be lost. When the run
// is to stop it has [workspace.Grace].
const gitTime = 10 * time.Minute

var errGitTime = errors.New("git took longer than " + gitTime.String() + " to say what the step changed")
