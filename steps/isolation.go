package steps

import (
	"context"
	"slices"

	"flow/agents"
	"flow/pipeline/dag"
)

// A Workspace is one that a step has of its own.
type Workspace struct {
	Dir    string `json:"dir"`
	Root   string `json:"root"` // the directory in it that stands for the run's workspace
	Branch string `json:"branch,omitempty"`
	Base   string `json:"base,omitempty"` // the commit or tree that it began at
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
	return nil, nil //nolint:nilnil // no workspace is the run's
}

// workspace is the directory that the task works in, and below.
func (a *attempt) workspace() string {
	if a.isolated != nil {
		return a.isolated.Root
	}
	return a.x.Workspace
}

func (a *attempt) isolate(ctx context.Context) (*agents.Problem, error) { return nil, ctx.Err() }
func (a *attempt) keep(ctx context.Context) (*agents.Problem, error)    { return nil, ctx.Err() }
func (a *attempt) ofWorkspace(ctx context.Context, p *agents.Problem) dag.Fact {
	return a.failed(p)
}
