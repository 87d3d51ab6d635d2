package steps

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// continuePrompt goes into a session whose history holds the task already.
const continuePrompt = "You were interrupted. Go on with the task from where you stopped, without repeating what is done, " +
	"and end with the final answer that it asks for."

// turnPlan is how a turn begins.
type turnPlan struct {
	session agents.Session
	prompt  string
	purpose purpose
	// fallback is how the step begins anew should the agent no longer know the
	// session, nil when the failure is to be shown.
	fallback *turnPlan
}

// A purpose says what a turn is for, besides the step's prompt.
type purpose string

const (
	forTask   purpose = ""
	forSchema purpose = "schema" // the answer did not match the schema
	forCheck  purpose = "check"  // the work did not pass the check
)

// plan chooses the native session of an attempt. The session of an attempt before
// this one is gone on with where it can be of use; otherwise the step's own
// `session` decides.
func (a *attempt) plan(prompt string) (turnPlan, *agents.Problem) {
	prompt, err := a.asked(prompt)
	lesson, err2 := a.lesson()
	if err := errors.Join(err, err2); err != nil {
		return turnPlan{}, configProblem(err)
	}
	fresh, problem := a.fresh(prompt)
	if problem != nil {
		return turnPlan{}, problem
	}
	before := a.x.ledger.get(a.task.Path)
	if before.session == "" || spoiled(before.cause) {
		return fresh, nil
	}
	p := turnPlan{session: a.resume(before.session), prompt: prompt, fallback: &fresh}
	if p.session.Spent == nil { // the count of a fork begins at its parent's
		p.session.Spent = fresh.session.Spent
	}
	if a.held == before.session {
		p.prompt = continuePrompt + lesson
	}
	if before.session == fresh.session.ID { // another step's context must not be lost silently
		p.fallback = nil
	}
	return p, nil
}

// fresh is how the step begins when nothing of it has run.
func (a *attempt) fresh(prompt string) (turnPlan, *agents.Problem) {
	p := turnPlan{prompt: prompt, session: a.newSession()}
	mode := a.step.Session.Mode
	if mode == pipeline.SessionNew || a.fellBack() { // sessions do not pass from agent to agent
		return p, nil
	}
	id, problem := a.source()
	if problem != nil || id == "" {
		return p, problem
	}
	if mode == pipeline.SessionContinue {
		p.session = a.resume(id)
		return p, nil
	}
	p.session.Mode, p.session.Parent, p.session.Spent = agents.SessionFork, id, a.x.ledger.total(id)
	return p, nil
}

// resume is the session id, to be gone on with.
func (a *attempt) resume(id string) agents.Session {
	return agents.Session{Mode: agents.SessionResume, ID: id, Spent: a.x.ledger.total(id)}
}

// newSession names a session that does not exist yet, for agents that let the
// caller choose: its id is recorded before the process is started.
func (a *attempt) newSession() agents.Session {
	if !a.adapter().Info().Capabilities.ChoosesSessionID {
		return agents.Session{}
	}
	return agents.Session{ID: uuid.NewString()}
}

// source is the session of the step that this one continues or branches.
func (a *attempt) source() (string, *agents.Problem) {
	id := a.step.Session.Step
	if id == a.step.ID {
		return a.accountBefore().session, nil
	}
	r, err := DecodeResult(a.task.Inputs[id].Result)
	if err == nil && r.Session != "" {
		return r.Session, nil
	}
	return "", &agents.Problem{
		Agent: a.step.Agent, Cause: agents.CauseSessionNotFound,
		Message: "step " + id + " left no session to " + string(a.step.Session.Mode),
		Hint:    "let this step run only when " + id + " has succeeded, or give it a session of its own",
	}
}

// accountBefore is the step's own account of the latest round before this one that left
// a session, zero in the first.
func (a *attempt) accountBefore() account {
	for _, e := range slices.Backward(a.task.Around) {
		if e.Form != dag.Loop {
			continue
		}
		rest := strings.TrimPrefix(a.task.Path, roundPath(e.Path, e.Index))
		for round := e.Index - 1; round > 0; round-- {
			before := a.x.ledger.get(roundPath(e.Path, round) + rest)
			if before.session != "" && !spoiled(before.cause) {
				return before
			}
		}
		break
	}
	return account{}
}

func roundPath(loop string, round int) string { return loop + "." + strconv.Itoa(round) }

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

func (a *attempt) profile() pipeline.Profile { return a.frame.plan.Agents[a.step.Agent] }

func (a *attempt) adapter() agents.Adapter {
	return a.x.Adapters[a.profile().Use]
}
