package steps

import (
	"github.com/google/uuid"

	"flow/agents"
	"flow/pipeline"
)

// continuePrompt goes into a session whose history holds the task already.
const continuePrompt = "You were interrupted. Go on with the task from where you stopped, without repeating what is done, " +
	"and end with the final answer that it asks for."

// turnPlan is how an attempt begins.
type turnPlan struct {
	session agents.Session
	prompt  string
	// recovering: the session is that of an earlier attempt of this step. If the
	// agent no longer knows it, the step begins anew.
	recovering bool
}

// plan chooses the native session of an attempt. An attempt before this one is
// gone on with where its session can be of use; otherwise the step's own
// `session` decides.
func (a *attempt) plan(prompt string) (turnPlan, *agents.Problem) {
	last := a.x.ledger.get(a.task.Path).last
	source, problem := a.source()
	if problem != nil {
		return turnPlan{}, problem
	}
	if a.task.Previous > 0 && last.session != "" && !spoiled(agents.Cause(last.result.Cause)) {
		spent := last.result.SessionUsage
		if spent == nil && last.session == source.Session {
			spent = source.SessionUsage
		}
		p := turnPlan{session: agents.Session{Mode: agents.SessionResume, ID: last.session, Spent: spent}, prompt: prompt, recovering: true}
		if last.result.Began {
			p.prompt = continuePrompt
		}
		// A step that goes on in another's session must not lose that context silently.
		p.recovering = last.session != source.Session
		return p, nil
	}
	switch a.step.Session.Mode {
	case pipeline.SessionContinue:
		return turnPlan{prompt: prompt, session: agents.Session{Mode: agents.SessionResume, ID: source.Session, Spent: source.SessionUsage}}, nil
	case pipeline.SessionFork:
		fork := a.newSession()
		fork.Mode, fork.Parent, fork.Spent = agents.SessionFork, source.Session, source.SessionUsage
		return turnPlan{prompt: prompt, session: fork}, nil
	default:
		return turnPlan{prompt: prompt, session: a.newSession()}, nil
	}
}

// newSession names a session that does not exist yet, for agents that let the
// caller choose: its id is recorded before the process is started.
func (a *attempt) newSession() agents.Session {
	if !a.adapter().Info().Capabilities.ChoosesSessionID {
		return agents.Session{}
	}
	return agents.Session{ID: uuid.NewString()}
}

// source is the result of the step whose session this one continues or branches.
func (a *attempt) source() (Result, *agents.Problem) {
	if a.step.Session.Mode == pipeline.SessionNew {
		return Result{}, nil
	}
	id := a.step.Session.Step
	r, err := DecodeResult(a.task.Inputs[id].Result)
	if err == nil && r.Session != "" {
		return r, nil
	}
	return r, &agents.Problem{
		Agent: a.step.Agent, Cause: agents.CauseSessionNotFound,
		Message: "step " + id + " left no session to " + string(a.step.Session.Mode),
	}
}

// spoiled reports whether a failure of this cause lies in the session's history
// itself, so that going on in it would fail again.
func spoiled(c agents.Cause) bool {
	switch c {
	case agents.CauseContext, agents.CauseRefusal, agents.CauseInvalidRequest, agents.CauseSchema,
		agents.CauseSessionNotFound, agents.CauseProtocol:
		return true
	default:
		return false
	}
}

func (a *attempt) adapter() agents.Adapter {
	return a.x.Adapters[a.x.Plan.Agents[a.step.Agent].Use]
}
