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
	// permission is the beginning of the id of a call that an agent wants to make.
	permission string
}

func (a *app) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve RUN [STEP]",
		Short: "Answer a question that a run waits for",
		Long: "approve answers an `ask` step: yes, no by --deny, or the JSON of a form by --answer. It also permits, or by\n" +
			"--deny forbids, a call that the agent of a step wants to make. Then it goes on with the run, as flow resume\n" +
			"does; a run that is under way in another process takes the answer itself.\n" +
			"STEP may be left out when the run waits for one answer only.",
		Example: "  flow approve last\n  flow approve last deploy --deny --reason \"not on a Friday\"\n  flow approve last plan --answer '{\"target\": \"staging\"}'",
		Args:    arguments(1, 2, "a run and a step"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.approve(args[0], strings.Join(args[1:], ""), f)
		},
	}
	fl := cmd.Flags()
	f.add(fl)
	fl.BoolVar(&f.deny, "deny", false, "say no: the step fails; a call of an agent is not made, and the agent goes on")
	fl.StringVar(&f.answer, "answer", "", "the form filled in, `JSON`; text may be without quotes")
	fl.StringVar(&f.reason, "reason", "", "why, for the record")
	fl.StringVar(&f.permission, "permission", "", "the call that is meant, by its `ID` or the beginning of it, where an agent waits for several")
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
	a.maskKnown(v)
	q, err := a.standing(v, step, f.permission)
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
	if answer, err = a.maskedAnswer(v, q, answer); err != nil {
		return err
	}
	if err := steps.PutAnswer(v, q.Key(), answer); err != nil {
		if errors.Is(err, steps.ErrAnswered) {
			return fmt.Errorf("step %s has an answer already that the run has not taken yet\nhint: flow resume %s", q.Path, v.Header().ID)
		}
		return &state.Error{Path: v.Dir(), Msg: "the answer cannot be stored", Hint: remedy(err) + ", then give the answer again", Err: err}
	}
	if f.noResume {
		fmt.Fprintf(a.stderr, "the answer is stored; hint: flow resume %s\n", v.Header().ID)
		return nil
	}
	return a.goOn(v, q.Key(), f.driveFlags)
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

// standing returns the question that the step waits with, or the only one of the run. A
// step of an agent may have several: permission names one.
func (a *app) standing(v *state.View, step, permission string) (steps.Question, error) {
	m, err := machine(v)
	if err != nil {
		return steps.Question{}, err
	}
	all, err := openQuestions(v, m)
	if err != nil {
		return steps.Question{}, err
	}
	var waiting []steps.Question
	for _, q := range all {
		asked := q.Permission != nil && strings.HasPrefix(q.Permission.ID, permission) || q.Permission == nil && permission == ""
		if asked && (step == q.Path || step == "" && !steps.Answered(v, q.Key())) {
			waiting = append(waiting, q)
		}
	}
	if len(waiting) == 1 {
		return waiting[0], nil
	}
	return steps.Question{}, notStanding(v, m, step, waiting)
}

// notStanding is why there is no single question to answer.
func notStanding(v *state.View, m *dag.Machine, step string, waiting []steps.Question) error {
	id := v.Header().ID
	if len(waiting) > 1 {
		return usageError{fmt.Errorf("run %s waits for several answers: %s\nhint: name one: %s", id, strings.Join(each(waiting, questionName), ", "), approveLine(id, waiting[0]))}
	}
	for _, s := range m.Steps() {
		if s.Step.Kind == pipeline.KindAsk && s.Path == step {
			return fmt.Errorf("step %s waits for no answer: it is %s", step, standing(s.Status, v.Summary().Status))
		}
	}
	if step != "" {
		return usageError{fmt.Errorf("run %s has no step %s that waits for an answer\nhint: flow show %s", id, step, id)}
	}
	return fmt.Errorf("run %s waits for no answer\nhint: flow show %s", id, id)
}

// openQuestions are what a run waits for a person to answer: `ask` steps, and calls of agents.
func openQuestions(v *state.View, m *dag.Machine) ([]steps.Question, error) {
	var all []steps.Question
	running := map[string]bool{}
	for _, s := range m.Steps() {
		running[s.Path] = s.Status == dag.Running
		if s.Step.Kind != pipeline.KindAsk || s.Status != dag.Waiting {
			continue
		}
		q, err := questionOf(s)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	pending, err := steps.PendingPermissions(v.Records())
	for _, q := range pending {
		if running[q.Path] {
			all = append(all, q)
		}
	}
	return all, err
}

// questionName is what `flow approve` calls a question.
func questionName(q steps.Question) string {
	if q.Permission == nil {
		return q.Path
	}
	return q.Path + " --permission " + q.Permission.ID
}

// approveLine is the command that answers a question of a run.
func approveLine(run string, q steps.Question) string {
	return "flow approve " + run + " " + questionName(q)
}

func each[T any](list []T, text func(T) string) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = text(x)
	}
	return out
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
func (a *app) goOn(v *state.View, key string, f driveFlags) error {
	late := time.After(takenWait)
	tick := time.NewTicker(takenPoll)
	defer tick.Stop()
	for {
		err := a.resume(v.Header().ID, f, false, nil)
		var locked *state.LockedError
		if !errors.As(err, &locked) {
			return err
		}
		if !steps.Answered(v, key) {
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
