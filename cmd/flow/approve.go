package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

type approveFlags struct {
	driveFlags
	deny     bool
	answer   string
	reason   string
	noResume bool
}

func (a *app) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve RUN [STEP]",
		Short: "Answer a question that a run waits for",
		Long: "approve answers an `ask` step: yes, no by --deny, or the JSON of a form by --answer. Then it goes on\n" +
			"with the run, as flow resume does; a run that is under way in another process takes the answer itself.\n" +
			"STEP may be left out when the run waits for one answer only.",
		Example: "  flow approve last\n  flow approve last deploy --deny --reason \"not on a Friday\"\n  flow approve last plan --answer '{\"target\": \"staging\"}'",
		Args:    arguments(1, 2, "a run and a step"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.approve(args[0], strings.Join(args[1:], ""), f)
		},
	}
	fl := cmd.Flags()
	f.add(fl)
	fl.BoolVar(&f.deny, "deny", false, "say no: the step fails")
	fl.StringVar(&f.answer, "answer", "", "the form filled in, `JSON`; text may be without quotes")
	fl.StringVar(&f.reason, "reason", "", "why, for the record")
	fl.BoolVar(&f.noResume, "no-resume", false, "leave the answer, and do not go on with the run")
	return cmd
}

func (a *app) approve(run, step string, f approveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	v, err := a.view(run)
	if err != nil {
		return err
	}
	q, err := a.standing(v, step)
	if err != nil {
		return err
	}
	answer := steps.Answer{Approved: !f.deny, Reason: f.reason, By: a.user(), At: a.now().UTC()}
	if f.answer != "" {
		answer.Answer = filledIn(q, f.answer)
	}
	if err := checkAnswer(q, answer, f); err != nil {
		return err
	}
	if err := steps.PutAnswer(v, q.Path, answer); err != nil {
		if errors.Is(err, steps.ErrAnswered) {
			return fmt.Errorf("step %s has an answer already that the run has not taken yet\nhint: flow resume %s", q.Path, v.Header().ID)
		}
		return &state.Error{Path: v.Dir(), Msg: "the answer cannot be stored", Err: err}
	}
	if f.noResume {
		fmt.Fprintf(a.stderr, "the answer is stored; hint: flow resume %s\n", v.Header().ID)
		return nil
	}
	return a.goOn(v, q.Path, f.driveFlags)
}

func checkAnswer(q steps.Question, answer steps.Answer, f approveFlags) error {
	if f.deny && f.answer != "" {
		return usageError{errors.New("--deny and --answer exclude each other")}
	}
	if err := q.Check(answer); err != nil {
		hint := "without --answer"
		if len(q.Form) > 0 {
			hint = "--answer JSON that matches " + string(q.Form)
		}
		return usageError{fmt.Errorf("step %s: %w\nhint: %s", q.Path, err, hint)}
	}
	return nil
}

// standing returns the question that the step waits with, or the only one of the run.
func (a *app) standing(v *state.View, step string) (steps.Question, error) {
	m, err := machine(v)
	if err != nil {
		return steps.Question{}, err
	}
	var waiting []string
	var found steps.Question
	for _, s := range m.Steps() {
		switch {
		case s.Step.Kind != pipeline.KindAsk || step != "" && s.Path != step:
		case s.Status != dag.Waiting || step == "" && steps.Answered(v, s.Path):
			if step != "" {
				return found, fmt.Errorf("step %s waits for no answer: it is %s", step, standing(s.Status, v.Summary().Status))
			}
		default:
			if found, err = questionOf(s); err != nil {
				return found, err
			}
			waiting = append(waiting, s.Path)
		}
	}
	id := v.Header().ID
	switch {
	case len(waiting) == 1:
		return found, nil
	case len(waiting) > 1:
		return found, usageError{fmt.Errorf("run %s waits for several answers: %s\nhint: name one: flow approve %s STEP", id, strings.Join(waiting, ", "), id)}
	case step != "":
		return found, usageError{fmt.Errorf("run %s has no `ask` step %s that has been asked\nhint: flow show %s", id, step, id)}
	}
	return found, fmt.Errorf("run %s waits for no answer\nhint: flow show %s", id, id)
}

// questionOf is the question of an `ask` step that waits.
func questionOf(s dag.StepState) (steps.Question, error) {
	r, err := steps.DecodeResult(s.Result)
	if err != nil {
		return steps.Question{}, err
	}
	if r.Question == nil { // it was reopened, and not asked again yet
		return steps.Question{Path: s.Path, Form: s.Step.Output}, nil
	}
	return *r.Question, nil
}

const (
	takenWait = 10 * time.Second // for the process that has the run to take the answer
	takenPoll = 100 * time.Millisecond
)

// goOn resumes the run, unless another process has it: then that one takes the answer, or
// is about to end, and the run is free.
func (a *app) goOn(v *state.View, step string, f driveFlags) error {
	late := time.After(takenWait)
	tick := time.NewTicker(takenPoll)
	defer tick.Stop()
	for {
		err := a.resume(v.Header().ID, f, false, nil)
		var locked *state.LockedError
		if !errors.As(err, &locked) {
			return err
		}
		if !steps.Answered(v, step) {
			fmt.Fprintf(a.stderr, "run %s goes on, in process %d\n", v.Header().ID, locked.PID)
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("the answer is stored, but the run does not take it: %w", err)
		}
	}
}
