package steps

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
)

// A Question is what a person is to decide: an `ask` step, or whether an agent may do
// something.
type Question struct {
	Path    string `json:"path"`
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
	// Form is the JSON Schema of the answer; none: yes or no is all that is asked.
	Form json.RawMessage `json:"form,omitempty"`
	// Deadline is when the step fails for want of an answer; zero: it waits for ever.
	Deadline time.Time `json:"deadline,omitzero"`
	// Problem says why the answer before was not taken.
	Problem string `json:"-"`
	// Permission is set when the question is whether an agent may make a call.
	Permission *Permission `json:"permission,omitempty"`
}

// Key names what is asked: the step, or a call that its agent wants to make. The answer is
// found by it.
func (q Question) Key() string {
	if q.Permission == nil {
		return q.Path
	}
	return q.Path + "-permission-" + q.Permission.ID
}

// An Answer is what a person said.
type Answer struct {
	Approved bool            `json:"approved"`
	Answer   json.RawMessage `json:"answer,omitempty"` // what the question's Form describes
	Reason   string          `json:"reason,omitempty"`
	By       string          `json:"by,omitempty"`
	At       time.Time       `json:"at"`
}

// Check returns an error unless the answer is one to the question: a form that is not
// filled in, or wrongly, is none.
func (q Question) Check(a Answer) error {
	switch {
	case !a.Approved:
		return nil
	case len(q.Form) == 0 && len(a.Answer) > 0:
		return errors.New("the question has no form; say yes or no")
	case len(q.Form) == 0:
		return nil
	case len(a.Answer) == 0:
		return errors.New("the form is not filled in; give JSON that matches its schema")
	}
	return pipeline.ValidateJSON(q.Form, a.Answer)
}

// An Asker puts questions to whoever sits before flow.
type Asker interface {
	// Answer returns the answer to q, or an error: the cause of ctx's end when it ends first,
	// local.ErrNobody when whoever was there has gone. It may be called concurrently.
	Answer(ctx context.Context, q Question) (Answer, error)
}

// ask waits until a person has answered, here or by `flow approve`.
func (a *attempt) ask(ctx context.Context) (dag.Fact, error) {
	q, err := a.question()
	if err != nil {
		return a.refused(configProblem(err)), nil
	}
	a.result.Question = &q
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, err
	}
	if !q.Deadline.IsZero() {
		var done context.CancelFunc
		ctx, done = context.WithDeadlineCause(ctx, q.Deadline, errTimeout)
		defer done()
	}
	if a.x.Recording != nil {
		if answer := a.recordedAnswer(); answer != nil {
			return a.decided(*answer)
		}
		f, _, err := a.recorded(ctx)
		return f, err
	}
	if a.x.Yes && len(q.Form) == 0 {
		return a.decided(Answer{Approved: true, By: "--yes", At: a.x.Now().UTC()})
	}
	for {
		answer, err := a.x.answer(ctx, q, a.x.ledger.get(a.task.Path).open)
		if err != nil {
			return a.unanswered(ctx, q, err)
		}
		if err := q.Check(answer); err != nil {
			q.Problem = err.Error()
			a.x.Logger.Warn("an answer was not taken", "step", q.Path, "by", answer.By, "error", err)
			continue
		}
		return a.decided(answer)
	}
}

// question renders what is asked. A question that stands already keeps its deadline: the
// time it waits goes on while flow does not run.
func (a *attempt) question() (Question, error) {
	text, err := a.frame.renderer.Text(*a.step.Ask, a.data)
	if err != nil {
		return Question{}, err
	}
	q := Question{Path: a.task.Path, Attempt: a.task.Attempt, Text: text, Form: a.step.Output}
	before := a.x.ledger.get(a.task.Path).question
	switch {
	case before != nil:
		q.Deadline = before.Deadline
	case a.step.Timeout > 0:
		q.Deadline = a.began.Add(time.Duration(a.step.Timeout)).UTC()
	}
	return q, nil
}

// decided is the fact of an answer.
func (a *attempt) decided(answer Answer) (dag.Fact, error) {
	a.result.Question, a.result.Answer = nil, &answer
	if !answer.Approved {
		message := "denied"
		if answer.By != "" {
			message += " by " + answer.By
		}
		if answer.Reason != "" {
			message += ": " + answer.Reason
		}
		return a.refused(&agents.Problem{Cause: agents.CauseDenied, Message: message}), nil
	}
	a.result.Text = Content{Inline: "approved"}
	if len(answer.Answer) == 0 {
		return a.succeeded(), nil
	}
	var err error
	if a.result.Output, err = a.x.keepText(string(answer.Answer)); err != nil {
		return dag.Fact{}, err
	}
	text := string(answer.Answer)
	_ = json.Unmarshal(answer.Answer, &text) // of a form that is a text, the text
	a.result.Text, err = a.x.keepText(text)
	return a.succeeded(), err
}

// unanswered is the fact of a question whose waiting has ended with err.
func (a *attempt) unanswered(ctx context.Context, q Question, err error) (dag.Fact, error) {
	cause := context.Cause(ctx)
	late := !q.Deadline.IsZero() && !a.x.Now().Before(q.Deadline)
	switch {
	case late || errors.Is(cause, errTimeout):
		a.result.Question = nil
		return a.refused(&agents.Problem{
			Cause: agents.CauseTimeout, Message: "nobody answered within " + a.step.Timeout.String(),
			Hint: "answer in time, or raise the step's `timeout`",
		}), nil
	case errors.Is(err, local.ErrNobody) || errors.Is(cause, local.ErrNobody):
		return dag.Fact{Kind: dag.Suspended, Reason: "waits for an answer", Result: a.charged()}, nil
	case cause != nil:
		return a.stopped(cause.Error()), nil
	}
	return dag.Fact{}, err
}

// answer returns the first answer to q, from the Asker or from a file. lost are attempts
// that flow died in: one of them may have taken an answer.
func (x *Executor) answer(ctx context.Context, q Question, lost []int) (Answer, error) {
	if answer, ok := x.answers.found(q, lost); ok {
		return answer, nil
	}
	type reply struct {
		Answer
		error
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	asked := make(chan reply, 1)
	if x.Ask != nil {
		asking.Go(func() {
			answer, err := x.Ask.Answer(ctx, q)
			asked <- reply{answer, err}
		})
	}
	seen, leave := x.answers.watch(q.Key())
	defer leave()
	for {
		select {
		case r := <-asked:
			if errors.Is(r.error, local.ErrNobody) && q.Permission != nil && !q.Deadline.IsZero() {
				asked = nil // there is time for flow approve
				continue
			}
			return r.Answer, r.error
		case <-seen:
		case <-ctx.Done():
		}
		if answer, ok := x.answers.found(q, nil); ok {
			return answer, nil
		}
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
	}
}
