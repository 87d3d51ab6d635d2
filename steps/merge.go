package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"flow/agents"
	"flow/pipeline/dag"
	"flow/steps/workspace"
)

// errUnresolved ends a merge whose conflict an agent could not settle.
var errUnresolved = errors.New("the agent did not resolve the conflict")

// Merged is the output of a `merge` step.
type Merged struct {
	Merged    []string `json:"merged"`    // the branches, in order
	Conflicts []string `json:"conflicts"` // the files in which there were some
	Resolved  bool     `json:"resolved"`  // an agent settled them
}

// merge brings the branches of other steps into the workspace: all of them or none.
func (a *attempt) merge(ctx context.Context) (dag.Fact, error) {
	a.result = Result{Agent: a.step.Agent, Use: a.profile().Use}
	if fact, ok, err := a.recorded(ctx); ok || err != nil {
		return fact, err
	}
	sources, err := a.sources()
	if err != nil {
		problem, err := a.gitProblem(ctx, err)
		return a.notPlaced(problem), err
	}
	if a.step.Agent != "" { // what a resolution used counts, also one that flow died in
		if _, _, err := a.adopt(); err != nil {
			return dag.Fact{}, err
		}
	}
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, err
	}
	select { // one at a time: each changes what the others merge into
	case a.x.merging <- struct{}{}:
		defer func() { <-a.x.merging }()
	case <-ctx.Done():
		return a.unmerged(ctx, context.Cause(ctx), nil)
	}
	var unresolved *agents.Outcome
	request := workspace.MergeRequest{
		RunDir: a.x.Store.Dir(), Run: a.x.RunID, Path: a.task.Path, Repo: a.workspace(), Sources: sources, Now: a.x.Now(),
	}
	if a.step.Merge.OnConflict == "agent" {
		request.Resolve = func(ctx context.Context, dir string, c workspace.Conflict) error {
			out, err := a.resolve(ctx, dir, c)
			if err == nil && out.Reason != agents.Completed {
				unresolved, err = &out, errUnresolved
			}
			return err
		}
	}
	merged, err := a.x.git.Merge(ctx, request)
	if err != nil {
		return a.unmerged(ctx, err, unresolved)
	}
	return a.merged(ctx, merged)
}

// merged is the fact of a merge that is complete.
func (a *attempt) merged(ctx context.Context, m *workspace.Merged) (dag.Fact, error) {
	raw, err := json.Marshal(Merged{Merged: list(m.Merged), Conflicts: list(m.Conflicts), Resolved: m.Resolved})
	if err != nil {
		return dag.Fact{}, err
	}
	if a.result.Output, err = a.x.keepText(string(raw)); err != nil {
		return dag.Fact{}, err
	}
	a.result.Text = Content{Inline: fmt.Sprintf("merged %d branches", len(m.Merged))}
	return a.finished(ctx)
}

// list is names as JSON has a list, also without any.
func list(names []string) []string { return append([]string{}, names...) }

// unmerged is the fact of a merge that came to nothing. The workspace is as it was.
func (a *attempt) unmerged(ctx context.Context, err error, agent *agents.Outcome) (dag.Fact, error) {
	if errors.Is(err, errUnresolved) {
		return a.ended(*agent)
	}
	if conflict, ok := errors.AsType[*workspace.ConflictError](err); ok {
		p := &agents.Problem{
			Agent: a.step.Agent, Cause: agents.CauseConflict, Message: conflict.Error(),
			Hint: "let an agent settle it: merge: {from: …, on-conflict: agent, agent: NAME}; or merge " + conflict.Branch + " by hand, then resume the run",
		}
		if conflict.Unresolved != "" {
			p.Hint = "merge " + conflict.Branch + " by hand, then resume the run"
		}
		return a.failed(p), nil
	}
	problem, err := a.gitProblem(ctx, err)
	if err != nil {
		return dag.Fact{}, err
	}
	if problem.Cause == agents.CauseCancelled {
		return a.stopped(problem.Message), nil
	}
	return a.failed(problem), nil
}

// resolve lets the agent settle a conflict in the files of dir, in a session of its own.
func (a *attempt) resolve(ctx context.Context, dir string, c workspace.Conflict) (agents.Outcome, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "A git merge of the branch %s into the current state has conflicts in these files:\n", c.Branch)
	if err := fenced(&b, strings.Join(c.Files, "\n")); err != nil {
		return agents.Outcome{}, err
	}
	b.WriteString("\nThey hold both sides between conflict markers, with their common origin. Edit them so that they do what " +
		"both sides meant, and leave no marker. Do not run git: what the files say when you end is taken over.")
	if a.step.Prompt != nil {
		more, err := a.frame.renderer.Text(*a.step.Prompt, a.data)
		if err != nil {
			return agents.Outcome{Reason: agents.Failed, Problem: configProblem(err)}, nil
		}
		b.WriteString("\n\n" + more)
	}
	place, around := a.dir, a.isolated
	defer func() { a.dir, a.isolated = place, around }()
	a.dir, a.isolated = dir, &Workspace{Root: dir}
	session := a.newSession()
	if session.ID != "" {
		a.sessionSeen(ctx, session.ID) // before it exists
	}
	return a.turn(ctx, turnPlan{session: session, prompt: b.String()})
}

// sources are the workspaces whose branches are to be merged, in the order of the steps
// and of their items. One that has left none was skipped, or its failure was tolerated.
func (a *attempt) sources() ([]*workspace.Workspace, error) {
	var all []*workspace.Workspace
	for _, id := range a.step.Merge.From {
		in := a.task.Inputs[id]
		inputs := in.Items
		if own, err := DecodeResult(in.Result); err != nil {
			return nil, err
		} else if inputs == nil || own.Winner != nil { // of a contest, only the winner's
			inputs = []dag.Input{in}
		}
		for _, in := range inputs {
			w, err := a.workspaceOf(in)
			if err != nil {
				return nil, err
			}
			if w != nil {
				all = append(all, w)
			}
		}
	}
	return all, nil
}

// workspaceOf is the workspace that a step which has succeeded worked in, nil for none.
func (a *attempt) workspaceOf(in dag.Input) (*workspace.Workspace, error) {
	r, err := DecodeResult(in.Result)
	if err != nil || in.Status != dag.OK || r.Workspace == nil {
		return nil, err
	}
	return a.x.recordOf(r.Workspace)
}
