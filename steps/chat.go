package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
)

// recordChat is the type of the record of a Chatted.
const recordChat = "chat"

// A Chatted is one more turn in the session of a step that has run: the data of a "chat"
// record. It changes nothing of the step's result.
type Chatted struct {
	Path    string        `json:"path"`
	Label   string        `json:"label"` // of the process and its files
	Session string        `json:"session"`
	Text    Content       `json:"text"` // the answer
	Error   string        `json:"error,omitempty"`
	Usage   *agents.Usage `json:"usage,omitempty"` // of this turn
	CostUSD *float64      `json:"costUsd,omitempty"`
	// SessionUsage is the session's running total, for agents that count so.
	SessionUsage *agents.Usage `json:"sessionUsage,omitempty"`
}

// Chat sends a prompt into the session of a step, as a turn of its own: no template, no
// schema, no check. The problem says why the agent gave no answer. It must come after
// Restore, when nothing else of the run is executed.
func (x *Executor) Chat(ctx context.Context, c *Conversation, prompt string) (text string, problem *agents.Problem, err error) {
	a, err := x.chatter(c)
	if err != nil {
		return "", nil, err
	}
	if err := checkWorkspace(a.dir); err != nil {
		return "", configProblem(err), nil
	}
	req := c.Launch.Request
	req.Session, req.Prompt, req.Schema = a.resume(c.Session), x.Mask.Text(prompt), nil
	if req.Session.Spent == nil {
		req.Session.Spent = c.Usage
	}
	spec := a.spec()
	req.Scratch = a.path("d")
	out, err := a.process(ctx, spec, req, forTask)
	if err != nil {
		return "", nil, err
	}
	return x.Mask.Text(out.Text), out.Problem, errors.Join(a.chatted(ctx, out), a.seal(ctx))
}

// chatter is the attempt whose only turn is one more in a session.
func (x *Executor) chatter(c *Conversation) (*attempt, error) {
	step, f := x.Plan.Step(c.Path), x.frameAt(c.Path)
	if step == nil || f.plan.Agents[c.Agent].Use == "" {
		return nil, fmt.Errorf("the pipeline has no step %s of agent %s any more", c.Path, c.Agent)
	}
	own := *step
	own.Agent, own.Kind, own.Output, own.IdleTimeout = c.Agent, pipeline.KindPrompt, nil, 0
	a := &attempt{
		x: x, task: dag.Task{Path: c.Path, Attempt: x.ledger.get(c.Path).attempt, Step: &own}, step: &own, began: x.Now(),
		scope: scope{frame: f}, location: location{dir: c.Launch.Request.Dir}, chat: true,
	}
	// What other steps gave is not known here: variables made from that are left out.
	a.env, _, _ = x.environment(f, &own, x.runData(f))
	return a, nil
}

// chatted records the turn.
func (a *attempt) chatted(ctx context.Context, out agents.Outcome) error {
	text, err := a.x.keepText(out.Text)
	if err != nil {
		return err
	}
	c := Chatted{
		Path: a.task.Path, Label: a.label(), Session: out.SessionID, Text: text, Usage: out.Usage,
		CostUSD: out.CostUSD, SessionUsage: a.x.ledger.total(out.SessionID),
	}
	if out.Problem != nil {
		c.Error = out.Problem.Message
	}
	if err := a.x.recorder.err(); err != nil {
		return err
	}
	return a.x.Store.Append(context.WithoutCancel(ctx), recordChat, c, true)
}

// noteChat takes in what a chat used: an agent that counts over a whole session begins
// there.
func (x *Executor) noteChat(r state.Record) error {
	var c Chatted
	if err := json.Unmarshal(r.Data, &c); err != nil {
		return fmt.Errorf("record %d of the journal is no chat: %w", r.Seq, err)
	}
	x.ledger.used(c.Session, c.SessionUsage)
	return nil
}

// chatLabel names the process of the n-th chat of a step.
func chatLabel(path string, n int) string { return fmt.Sprintf("%s.chat.%d", path, n) }
