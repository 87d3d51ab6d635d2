package steps

import (
	"context"
	"encoding/json"
	"errors"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// prompt runs an agent step: one turn of the agent, and one more in the same
// session when the answer does not match the schema.
func (a *attempt) prompt(ctx context.Context) (dag.Fact, error) {
	text, err := a.x.renderer.Text(*a.step.Prompt, a.data)
	if err != nil {
		return a.refused(err), nil
	}
	out, done, err := a.adopt()
	if err != nil {
		return dag.Fact{}, err
	}
	req := a.request()
	if done {
		if err := a.start(ctx, out.SessionID); err != nil {
			return dag.Fact{}, err
		}
		req.Session = agents.Session{Mode: agents.SessionResume, ID: out.SessionID, Spent: out.SessionUsage}
		return a.settle(ctx, req, out)
	}
	plan, problem := a.plan(text)
	if problem != nil {
		return a.failed(problem, Result{}), nil
	}
	if err := a.start(ctx, plan.session.ID); err != nil {
		return dag.Fact{}, err
	}
	req.Prompt, req.Session = plan.prompt, plan.session
	out, err = a.turn(ctx, req)
	if err == nil && plan.recovering && lostSession(out) {
		req.Prompt, req.Session = text, a.newSession()
		out, err = a.turn(ctx, req)
	}
	if err != nil {
		return dag.Fact{}, err
	}
	return a.settle(ctx, req, out)
}

// request is what all turns of the attempt have in common.
func (a *attempt) request() agents.Request {
	req := profileRequest(a.x.Plan.Agents[a.step.Agent], a.x.Workspace)
	req.Dir, req.Schema = a.dir, a.step.Output
	return req
}

// settle turns the outcome of a turn into the step's fact. An answer that does not
// match the schema is given back to the agent once.
func (a *attempt) settle(ctx context.Context, req agents.Request, out agents.Outcome) (dag.Fact, error) {
	profile := a.x.Plan.Agents[a.step.Agent]
	r := Result{Agent: a.step.Agent, Use: profile.Use, Model: profile.Model}
	for repaired := false; ; repaired = true {
		if err := a.add(&r, out); err != nil {
			return dag.Fact{}, err
		}
		if out.Reason != agents.Completed {
			return a.ended(out, r), nil
		}
		output, err := a.answer(out)
		if err == nil {
			r.Output = output
			return a.succeeded(r), nil
		}
		if repaired || out.SessionID == "" {
			return a.failed(&agents.Problem{
				Cause: agents.CauseSchema, Message: "the answer does not match the output schema: " + err.Error(),
				Hint: "say in the prompt what each field means, or loosen the schema",
			}, r), nil
		}
		req.Prompt = repairPrompt(err)
		req.Session = agents.Session{Mode: agents.SessionResume, ID: out.SessionID, Spent: out.SessionUsage}
		if out, err = a.turn(ctx, req); err != nil {
			return dag.Fact{}, err
		}
	}
}

// answer returns the validated output, or nil when the step has no schema.
func (a *attempt) answer(out agents.Outcome) (json.RawMessage, error) {
	if len(a.step.Output) == 0 {
		return nil, nil
	}
	output := out.Output
	if len(output) == 0 {
		var err error
		if output, err = agents.ParseAnswer(out.Text); err != nil {
			return nil, err
		}
	}
	return output, pipeline.ValidateJSON(a.step.Output, output)
}

func repairPrompt(violations error) string {
	return "Your last answer does not match the required JSON Schema:\n" + violations.Error() +
		"\nGive the same answer again as JSON that matches the schema, and nothing else."
}

// add takes what one turn left into the result: the latest words, and the sum of
// what was used.
func (a *attempt) add(r *Result, out agents.Outcome) (err error) {
	r.Session, r.SessionUsage, r.Began = out.SessionID, out.SessionUsage, out.Began
	if out.Model != "" {
		r.Model = out.Model
	}
	if out.Version != "" {
		r.Version = out.Version
	}
	if out.Usage != nil {
		sum := *out.Usage
		if r.Usage != nil {
			sum = sum.Add(*r.Usage)
		}
		r.Usage = &sum
	}
	if out.CostUSD != nil {
		sum := *out.CostUSD
		if r.CostUSD != nil {
			sum += *r.CostUSD
		}
		r.CostUSD = &sum
	}
	r.Text, err = store(a.x.Store, out.Text)
	return err
}

// ended is the fact of an outcome that is no success.
func (a *attempt) ended(out agents.Outcome, r Result) dag.Fact {
	problem := out.Problem
	if problem == nil {
		problem = &agents.Problem{Cause: agents.CauseUnknown, Message: "the agent ended without success"}
	}
	if out.Reason == agents.Cancelled && problem.Cause == agents.CauseCancelled && a.cancelled {
		return a.stopped(problem.Message, r)
	}
	return a.failed(problem, r)
}

func lostSession(out agents.Outcome) bool {
	var p *agents.Problem
	if out.Problem != nil {
		p = out.Problem
	}
	return p != nil && p.Cause == agents.CauseSessionNotFound
}

// commandProblem is the outcome of a request that the adapter refused.
func commandProblem(agent string, err error) agents.Outcome {
	var p *agents.Problem
	if !errors.As(err, &p) {
		p = &agents.Problem{Agent: agent, Cause: agents.CauseConfig, Message: err.Error()}
	}
	return agents.Outcome{Reason: agents.Failed, Problem: p}
}
