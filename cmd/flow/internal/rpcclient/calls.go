package rpcclient

import (
	"context"

	"flow/cmd/flow/internal/rpc"
)

// call is Call with a result of a type.
func call[R any](ctx context.Context, c *Client, method string, params any) (r R, err error) {
	err = c.Call(ctx, method, params, &r)
	return r, err
}

// Initialize says who calls and what it can do.
func (c *Client) Initialize(ctx context.Context, p rpc.InitializeParams) (rpc.InitializeResult, error) {
	return call[rpc.InitializeResult](ctx, c, "rpc/initialize", p)
}

// Discover lists the agents.
func (c *Client) Discover(ctx context.Context) (rpc.DiscoverResult, error) {
	return call[rpc.DiscoverResult](ctx, c, "agent/discover", nil)
}

// Select selects the agent that Run takes when it names none.
func (c *Client) Select(ctx context.Context, agent string) (rpc.SelectResult, error) {
	return call[rpc.SelectResult](ctx, c, "agent/select", rpc.SelectParams{Type: agent})
}

// Configure sets options that every Run of an agent has from now on.
func (c *Client) Configure(ctx context.Context, p rpc.ConfigureParams) (rpc.ConfigureResult, error) {
	return call[rpc.ConfigureResult](ctx, c, "agent/configure", p)
}

// Run gives a prompt to an agent.
func (c *Client) Run(ctx context.Context, p rpc.RunParams) (rpc.Started, error) {
	return call[rpc.Started](ctx, c, "agent/run", p)
}

// Stop asks the agent of a run to stop; "" is the only one.
func (c *Client) Stop(ctx context.Context, run string) (rpc.Stopped, error) {
	return call[rpc.Stopped](ctx, c, "agent/stop", rpc.StopParams{Run: run})
}

// Respond answers a permission or a question.
func (c *Client) Respond(ctx context.Context, p rpc.RespondParams) (rpc.RespondResult, error) {
	return call[rpc.RespondResult](ctx, c, "agent/respond", p)
}

// Validate finds all mistakes of a pipeline.
func (c *Client) Validate(ctx context.Context, p rpc.ValidateParams) (rpc.ValidateResult, error) {
	return call[rpc.ValidateResult](ctx, c, "pipeline/validate", p)
}

// RunPipeline begins a run of a pipeline.
func (c *Client) RunPipeline(ctx context.Context, p rpc.PipelineRunParams) (rpc.Started, error) {
	return call[rpc.Started](ctx, c, "pipeline/run", p)
}

// Resume goes on with a run.
func (c *Client) Resume(ctx context.Context, p rpc.ResumeParams) (rpc.Started, error) {
	return call[rpc.Started](ctx, c, "pipeline/resume", p)
}

// Cancel stops a run.
func (c *Client) Cancel(ctx context.Context, run string) (rpc.Stopped, error) {
	return call[rpc.Stopped](ctx, c, "pipeline/cancel", rpc.RunRef{Run: run})
}

// Approve answers a question of a run, and goes on with it.
func (c *Client) Approve(ctx context.Context, p rpc.ApproveParams) (rpc.ApproveResult, error) {
	return call[rpc.ApproveResult](ctx, c, "pipeline/approve", p)
}

// Runs lists the runs, newest first.
func (c *Client) Runs(ctx context.Context, p rpc.ListParams) (rpc.ListResult, error) {
	return call[rpc.ListResult](ctx, c, "run/list", p)
}

// Show shows how a run stands.
func (c *Client) Show(ctx context.Context, run string) (rpc.ShowResult, error) {
	return call[rpc.ShowResult](ctx, c, "run/show", rpc.RunRef{Run: run})
}

// Events reads events, or has them told.
func (c *Client) Events(ctx context.Context, p rpc.EventsParams) (rpc.EventsResult, error) {
	return call[rpc.EventsResult](ctx, c, "run/events", p)
}

// Unsubscribe ends the notifications of a run.
func (c *Client) Unsubscribe(ctx context.Context, run string) error {
	return c.Call(ctx, "run/unsubscribe", rpc.RunRef{Run: run}, nil)
}
