package steps

import (
	"context"
	"slices"

	"flow/agents"
	"flow/steps/workspace"
)

// halfMerges are merges that flow died in the middle of. Each is gone on with before
// any step begins in its workspace: what is there is neither the old state nor the new one,
// and another merge or a commit would leave it out of date.
type halfMerges struct {
	turn chan struct{} // holds a value while left is in use
	left []workspace.HalfMerge
}

// wholeWorkspace goes on with the merges that were left half way in the workspace. A step
// that comes meanwhile waits for that.
func (a *attempt) wholeWorkspace(ctx context.Context) (*agents.Problem, error) {
	h := a.x.half
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return a.gitProblem(ctx, context.Cause(ctx))
	}
	here := func(m workspace.HalfMerge) bool { return m.Repo == a.workspace() }
	for i := slices.IndexFunc(h.left, here); i >= 0; i = slices.IndexFunc(h.left, here) {
		if err := a.x.git.GoOn(ctx, h.left[i]); err != nil {
			p, err := a.gitProblem(ctx, err)
			if p != nil && p.Cause == agents.CauseConfig {
				p.Message = "the merge of step " + h.left[i].Path + " was interrupted, and cannot go on: " + p.Message
			}
			return p, err
		}
		h.left = slices.Delete(h.left, i, i+1)
	}
	return nil, nil
}
