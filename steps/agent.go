package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state/failpoint"
)

// An exchange is how far an attempt has come with its agent.
type exchange struct {
	held     string // the session whose history holds the prompt, "" if none
	repaired bool   // an answer went back because of its schema
	checks   int    // how often work went back because of the check
	// judgement, if set, judges an answer that matches the schema.
	judgement func(output json.RawMessage) error
}

// prompt runs an agent step: one turn of the agent, and one more in the same
// session when the answer does not match the schema.
func (a *attempt) prompt(ctx context.Context) (dag.Fact, error) {
	profile := a.profile()
	a.result = Result{Agent: a.step.Agent, Use: profile.Use, Model: profile.Model}
	a.held = a.x.ledger.get(a.task.Path).held
	out, done, err := a.adopt()
	if err != nil {
		return dag.Fact{}, err
	}
	if done {
		if err := a.start(ctx, out.SessionID); err != nil {
			return dag.Fact{}, err
		}
		return a.settle(ctx, out)
	}
	text, err := a.promptText()
	if err != nil {
		return a.refusedOr(err)
	}
	if fact, ok, err := a.recorded(ctx); ok || err != nil {
		return fact, err
	}
	if fact, ok, err := a.cached(ctx, text); ok || err != nil {
		return fact, err
	}
	p, problem := a.plan(text)
	if problem != nil {
		return a.refused(problem), nil
	}
	if out := a.reserve(ctx); out != nil { // before anything begins
		return a.ended(*out)
	}
	if err := a.start(ctx, p.session.ID); err != nil {
		return dag.Fact{}, err
	}
	out, err = a.turn(ctx, p)
	if err == nil && p.fallback != nil && lostSession(out) {
		if id := p.fallback.session.ID; id != "" {
			a.sessionSeen(ctx, id) // before it exists, as Started does
		}
		out, err = a.turn(ctx, *p.fallback)
	}
	if err != nil {
		return dag.Fact{}, err
	}
	return a.settle(ctx, out)
}

// promptText is what the agent is asked.
func (a *attempt) promptText() (string, error) {
	if a.isJudge() {
		return a.judgePrompt()
	}
	return a.frame.renderer.Text(*a.step.Prompt, a.data)
}

// settle turns the outcome of a turn into the step's fact. An answer that does not
// match the schema, and work that does not pass the check, go back to the agent.
func (a *attempt) settle(ctx context.Context, out agents.Outcome) (dag.Fact, error) {
	for {
		text, err := a.x.keepText(out.Text)
		if err != nil {
			return dag.Fact{}, err
		}
		failpoint.Reach("result-stored")
		a.result.Text = text
		if out.Reason != agents.Completed {
			return a.ended(out)
		}
		next, fact, err := a.accept(ctx, out)
		if next == nil || err != nil {
			return fact, err
		}
		if out := a.reserve(ctx); out != nil {
			return a.ended(*out) // with the answer that there is
		}
		a.result.Answered = false
		if out, err = a.turn(ctx, *next); err != nil {
			return dag.Fact{}, err
		}
	}
}

// accept looks at an answer. It returns what the agent is to be told, in the same
// session, or else the step's fact.
func (a *attempt) accept(ctx context.Context, out agents.Outcome) (*turnPlan, dag.Fact, error) {
	output, err := a.answer(out)
	if err != nil {
		return a.repair(out, err)
	}
	if a.result.Output, err = a.x.keepText(string(output)); err != nil {
		return nil, dag.Fact{}, err
	}
	if a.step.Check == nil {
		fact, err := a.finished(ctx)
		return nil, fact, err
	}
	a.repaired, a.result.Answered = false, true
	return a.checked(ctx, out)
}

// repair gives an answer that does not match the schema back to the agent, once.
func (a *attempt) repair(out agents.Outcome, violations error) (*turnPlan, dag.Fact, error) {
	if a.repaired || out.SessionID == "" {
		fact, err := a.unfinished(&agents.Problem{
			Agent: a.step.Agent, Cause: agents.CauseSchema,
			Message: "the answer does not match the output schema: " + violations.Error(),
			Hint:    "say in the prompt what each field means, or loosen the schema",
		})
		return nil, fact, err
	}
	a.repaired = true
	return &turnPlan{session: a.resume(out.SessionID), prompt: repairPrompt(violations), purpose: forSchema}, dag.Fact{}, nil
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
	if err := pipeline.ValidateJSON(a.step.Output, output); err != nil || a.judgement == nil {
		return output, err
	}
	return output, a.judgement(output)
}

func repairPrompt(violations error) string {
	return "Your last answer does not match the required JSON Schema:\n" + violations.Error() +
		"\nGive the same answer again as JSON that matches the schema, and nothing else."
}

// took adds what one turn used, and what it said of itself, to the result.
func (a *attempt) took(out agents.Outcome) {
	r := &a.result
	if out.SessionID != "" {
		r.Session = out.SessionID
	}
	if out.Began {
		a.held = out.SessionID
	}
	if out.Model != "" {
		r.Model = out.Model
	}
	if out.Version != "" {
		r.Version = out.Version
		if before := a.x.ledger.upgraded(a.step.Agent, out.Version); before != "" {
			a.notice(noticeVersion, fmt.Sprintf("%s is version %s now; earlier in this run it was %s", a.step.Agent, out.Version, before))
		}
	}
	a.spent(spendingOf(out.Usage, out.CostUSD))
	r.Usage = sumUsage(r.Usage, out.Usage)
	r.CostUSD = sumCost(r.CostUSD, out.CostUSD)
	a.x.ledger.used(out.SessionID, out.SessionUsage)
}

// ended is the fact of an outcome that is no success.
func (a *attempt) ended(out agents.Outcome) (dag.Fact, error) {
	problem := agents.Problem{Agent: a.step.Agent, Cause: agents.CauseUnknown, Message: "the agent ended without success"}
	if out.Problem != nil {
		problem = *out.Problem
	}
	if problem.Cause == agents.CauseCancelled && a.why == agents.IntentCancel {
		return a.stopped(a.reason), nil
	}
	if l := a.exceeded(problem.Cause); l != nil {
		return a.overBudget(*l, problem.Message), nil
	}
	if problem.Cause == agents.CauseTimeout && problem.Hint == "" {
		problem.Hint = a.timeoutHint()
	}
	return a.unfinished(&problem)
}

// timeoutHint says which of the step's limits ended it, "" if neither did.
func (a *attempt) timeoutHint() string {
	switch a.why {
	case agents.IntentTimeout:
		return "the step's `timeout` is " + a.step.Timeout.String() + "; raise it, or ask for less"
	case agents.IntentIdle:
		return "the step's `idle-timeout` is " + a.step.IdleTimeout.String() + "; raise it when the agent may be silent for longer"
	default:
		return ""
	}
}

func lostSession(out agents.Outcome) bool {
	return out.Problem != nil && out.Problem.Cause == agents.CauseSessionNotFound
}

// configProblem is the problem of a request or a template that is wrong.
func configProblem(err error) *agents.Problem {
	if p, ok := errors.AsType[*agents.Problem](err); ok {
		return p
	}
	p := &agents.Problem{Cause: agents.CauseConfig, Message: err.Error()}
	if e, ok := errors.AsType[pipeline.Error](err); ok {
		p.Hint = e.Hint
	}
	return p
}
