package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"flow/agents"
	"flow/pipeline"
	"flow/steps/workspace"
)

// diffMax is how much of a diff templates see; the whole of it is a file of the run.
const diffMax = pipeline.MaxRenderedBytes

// watchChanges takes down how the workspace is before the step, where a template names what
// the step changed. In a workspace of its own, or of a step around it, everything since
// that was made counts. Of earlier attempts that came to nothing the changes count too.
func (a *attempt) watchChanges(ctx context.Context) (*agents.Problem, error) {
	if !a.step.Changes || a.isolated != nil || a.x.Recording != nil {
		return nil, nil
	}
	if a.tree = a.x.ledger.get(a.task.Path).tree; a.tree != "" {
		return nil, nil
	}
	repo, err := a.x.git.Open(ctx, a.x.Workspace)
	if err == nil {
		a.tree, err = repo.Snapshot(ctx)
	}
	if err == nil {
		return nil, nil
	}
	p, err := a.gitProblem(ctx, err)
	if p != nil && p.Cause == agents.CauseConfig {
		p.Message = "a template names what this step changes, which only git can tell: " + p.Message
	}
	return p, err
}

// keep notes what the step has changed, where a template names it, and commits that where
// the workspace is the step's own.
func (a *attempt) keep(ctx context.Context) (*agents.Problem, error) {
	if a.x.Recording != nil {
		return a.keepRecorded()
	}
	if !a.task.Owns && !a.step.Changes {
		return nil, nil
	}
	ctx, released := workspace.Linger(untimed(ctx))
	defer released()
	ctx, done := context.WithTimeoutCause(ctx, gitTime, errGitTime)
	defer done()
	repo, from, to, err := a.span(ctx)
	if err == nil {
		err = a.compare(ctx, repo, from, to)
	}
	if err == nil {
		return nil, nil
	}
	return a.gitProblem(ctx, err)
}

// span returns the two states between which the step's changes lie.
func (a *attempt) span(ctx context.Context) (repo *workspace.Repo, from, to string, err error) {
	if a.isolated == nil {
		if repo, err = a.x.git.Open(ctx, a.x.Workspace); err == nil {
			to, err = repo.Snapshot(ctx)
		}
		return repo, a.tree, to, err
	}
	w, err := a.x.recordOf(a.isolated)
	if err != nil {
		return nil, "", "", err
	}
	if repo, err = a.x.git.OpenWorkspace(ctx, w); err != nil {
		return nil, "", "", err
	}
	a.result.Branch = w.Branch
	if !a.task.Owns {
		to, err = repo.Snapshot(ctx)
		return repo, w.Base, to, err
	}
	a.result.Workspace = a.isolated
	if err := a.cleanWorkspace(ctx, repo, w.Base); err != nil {
		return nil, "", "", err
	}
	committed, err := a.x.git.Commit(ctx, w, fmt.Sprintf("%s: step %s of run %s", a.x.Plan.Name, a.task.Path, a.x.RunID))
	if err != nil {
		return nil, "", "", err
	}
	for _, note := range committed.Notes {
		a.x.Logger.Info(note, "step", a.task.Path)
	}
	a.result.Commit = committed.Commit
	return repo, w.Base, committed.Commit, nil
}

// compare keeps the changes between two states with the result: the files always, the
// diff where a template wants it.
func (a *attempt) compare(ctx context.Context, repo *workspace.Repo, from, to string) error {
	file := ""
	if a.step.Changes {
		file = a.x.file(a.task.Path+"-changes", "diff")
	}
	changes, err := repo.Diff(ctx, from, to, file)
	if err != nil {
		return err
	}
	names, err := json.Marshal(changes.Files)
	if err != nil {
		return err
	}
	if a.result.Files, err = a.x.keepText(string(names)); err != nil || file == "" {
		return err
	}
	text, cut, err := changes.Text(diffMax)
	if err != nil {
		return err
	}
	if names := a.x.Mask.Names([]byte(text)); len(names) > 0 {
		a.notice(noticeSecret, "what the step changed holds the secret "+strings.Join(names, ", ")+": the diff is masked, the files are not")
	}
	if a.result.Diff, err = a.x.keepText(text); err != nil {
		return err
	}
	a.result.Diff.Cut = cut
	return a.x.sealProcess(ctx, a.task.Path+"-changes")
}
