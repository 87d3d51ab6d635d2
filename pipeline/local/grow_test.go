package local_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
)

func ask(id string, needs ...string) pipeline.Step {
	return pipeline.Step{ID: id, Kind: pipeline.KindAsk, Needs: needs}
}

// grows returns an executor that gives each foreach so many items and each loop so many
// rounds, and does the rest as x does.
func grows(items, rounds int, x exec) exec {
	return func(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
		f := answer(t, dag.Succeeded)
		switch {
		case t.Action == dag.Open && t.Form == dag.Each:
			f.Kind, f.Count = dag.Opened, items
		case t.Action == dag.Close && t.Form == dag.Loop && t.Inner.Rounds < rounds:
			f.Kind, f.Count = dag.Continued, t.Inner.Rounds+1
		case t.Action == dag.Close:
		default:
			return x(ctx, t, rec)
		}
		return f, nil
	}
}

// A foreach of 6 items, two at once, each of 3 rounds of a minute. Opening and closing
// needs no slot.
func TestItemsAndRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fix := group("fix", step("edit"))
		fix.Foreach, fix.Repeat = &pipeline.Foreach{MaxParallel: 2}, &pipeline.Repeat{}
		start, facts := time.Now(), 0
		o := local.Options{Observe: func(dag.Fact) { facts++ }}
		m, err := run(t, plan(9, fix, step("after", "fix")), grows(6, 3, works(time.Minute)), &journal{}, o)
		if err != nil || m.Status() != dag.RunSucceeded || time.Since(start) != 10*time.Minute {
			t.Errorf("%v %s after %s", err, m.Status(), time.Since(start))
		}
		// One Opened, then of each item: 1 + 3 rounds × (Opened, Started, Succeeded, and
		// Continued or Succeeded of the loop), then two of the step after it.
		if want := 1 + 6*(1+3*4) + 2; facts != want {
			t.Errorf("observed %d facts, want %d", facts, want)
		}
		if in := m.Input("fix"); len(in.Items) != 6 || in.Items[5].Rounds != 3 {
			t.Errorf("%+v", in)
		}
	})
}

// The first candidate that succeeds ends the others.
func TestRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		race := pipeline.Step{
			ID: "race", Kind: pipeline.KindPrompt,
			Contest: &pipeline.Contest{Agents: []string{"slow", "fast", "slower"}, Race: true},
		}
		takes := map[string]time.Duration{"slow": time.Hour, "fast": time.Minute, "slower": 2 * time.Hour}
		var mu sync.Mutex
		var causes []error
		x := grows(0, 0, func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			f, err := works(takes[task.Step.Agent])(ctx, task, rec)
			if ctx.Err() != nil {
				mu.Lock()
				defer mu.Unlock()
				causes = append(causes, context.Cause(ctx))
			}
			return f, err
		})
		start := time.Now()
		m, err := run(t, plan(3, race), x, &journal{}, local.Options{})
		if err != nil || m.Status() != dag.RunSucceeded || time.Since(start) != time.Minute {
			t.Errorf("%v %s after %s", err, m.Status(), time.Since(start))
		}
		if len(causes) != 2 || !errors.Is(causes[0], local.ErrBeaten) || !errors.Is(causes[1], local.ErrBeaten) {
			t.Errorf("cancelled for %v", causes)
		}
	})
}

// waits returns an executor of questions that are answered after a while, or not at all.
func waits(after time.Duration, x exec) exec {
	return func(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
		if t.Step.Kind != pipeline.KindAsk {
			return x(ctx, t, rec)
		}
		if err := rec(ctx, answer(t, dag.Started)); err != nil {
			return dag.Fact{}, err
		}
		select {
		case <-time.After(after):
			return answer(t, dag.Succeeded), nil
		case <-ctx.Done():
		}
		if errors.Is(context.Cause(ctx), local.ErrNobody) {
			return answer(t, dag.Suspended), nil
		}
		return answer(t, dag.Stopped), nil
	}
}

// A question needs no slot and does not keep others from running. When it is all that is
// left and nobody is there, the run ends, and waits.
func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		name        string
		interactive bool
		answer      time.Duration // after that long
		x           exec
		want        dag.RunStatus
		takes       time.Duration
		kinds       string // of the facts about the question
	}{
		{"answered in time", false, time.Minute, works(time.Hour), dag.RunSucceeded, 2 * time.Hour, "started succeeded"},
		{"nobody there", false, 24 * time.Hour, works(time.Hour), dag.RunWaiting, time.Hour, "started suspended"},
		{"somebody there", true, 24 * time.Hour, works(time.Hour), dag.RunSucceeded, 25 * time.Hour, "started succeeded"},
		{"answered before a retry is due", false, 30 * time.Minute, again(time.Hour), dag.RunSucceeded, 90 * time.Minute, "started succeeded"},
		{"nobody there after a retry", false, 90 * time.Minute, again(time.Hour), dag.RunWaiting, time.Hour, "started suspended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, start := &journal{}, time.Now()
				p := plan(1, ask("ask"), step("long"), step("push", "ask"))
				m, err := run(t, p, waits(c.answer, c.x), j, local.Options{Interactive: c.interactive})
				if err != nil || m.Status() != c.want || time.Since(start) != c.takes || j.kinds("ask") != c.kinds {
					t.Errorf("%v %s after %s: %s\n%s", err, m.Status(), time.Since(start), j.kinds("ask"), states(m))
				}
				if c.want != dag.RunWaiting {
					return
				}
				for _, f := range m.Reopenable() {
					j.facts = append(j.facts, f)
					if err := m.Apply(f); err != nil {
						t.Error(err)
					}
				}
				x := waits(0, works(time.Minute))
				if err := local.Run(t.Context(), m, x, j, local.Options{Interactive: true}); err != nil || m.Status() != dag.RunSucceeded {
					t.Errorf("resumed: %v\n%s", err, states(m))
				}
			})
		})
	}
}

// again is an executor whose first attempt at each step fails, and whose second has to wait.
func again(wait time.Duration) exec {
	return func(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
		if t.Attempt > 1 {
			return works(0)(ctx, t, rec)
		}
		f := answer(t, dag.Failed)
		f.RetryAt = time.Now().Add(wait)
		return f, rec(ctx, answer(t, dag.Started))
	}
}

// However the executor ends when nobody is there, the question is suspended; but an answer
// that it finds counts. It is called although its ctx has ended.
func TestNobody(t *testing.T) {
	for _, c := range []struct {
		name string
		x    exec
		want dag.RunStatus
	}{
		{"passes on the end", func(ctx context.Context, _ dag.Task, _ local.Recorder) (dag.Fact, error) {
			<-ctx.Done()
			return dag.Fact{}, fmt.Errorf("wait: %w", context.Cause(ctx))
		}, dag.RunWaiting},
		{"says so", func(_ context.Context, task dag.Task, _ local.Recorder) (dag.Fact, error) {
			return answer(task, dag.Suspended), nil
		}, dag.RunWaiting},
		{"finds an answer", func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			<-ctx.Done()
			return answer(task, dag.Succeeded), rec(ctx, answer(task, dag.Started))
		}, dag.RunSucceeded},
		{"is interrupted", func(ctx context.Context, _ dag.Task, _ local.Recorder) (dag.Fact, error) {
			<-ctx.Done()
			return dag.Fact{}, context.Canceled
		}, dag.RunCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o := local.Options{Interactive: c.want == dag.RunCancelled}
				if o.Interactive {
					time.AfterFunc(time.Minute, cancel)
				}
				m := dag.New(plan(1, ask("a"), ask("b")), dag.Options{})
				if err := local.Run(ctx, m, c.x, &journal{}, o); err != nil || m.Status() != c.want {
					t.Errorf("%v %s", err, states(m))
				}
			})
		})
	}
}

// Ever so many questions do not keep a step from running.
func TestManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []pipeline.Step
		for i := range 1000 {
			steps = append(steps, ask(fmt.Sprint("ask", i)))
		}
		steps = append(steps, step("long"))
		start := time.Now()
		m, err := run(t, plan(1, steps...), waits(24*time.Hour, works(time.Hour)), &journal{takes: time.Second}, local.Options{})
		if err != nil || m.Status() != dag.RunWaiting || len(m.Waits()) != 1000 || m.Input("long").Status != dag.OK {
			t.Errorf("%v %s, %d wait", err, m.Status(), len(m.Waits()))
		}
		if time.Since(start) > 2*time.Hour {
			t.Errorf("took %s", time.Since(start))
		}
	})
}

// What an executor must not say of a task without an attempt, or of a question.
func TestBrokenAnswers(t *testing.T) {
	loop := step("loop")
	loop.Repeat = &pipeline.Repeat{}
	for _, c := range []struct {
		name, want string
		step       pipeline.Step
		says       dag.Kind // of the last task
	}{
		{"closes with a skip", "the executor returned skipped", loop, dag.Skipped},
		{"closes with an opening", "the executor returned opened", loop, dag.Opened},
		{"fails to close, but not finally", "the executor returned failed", loop, dag.Failed},
		{"continues what is no loop", "the executor returned continued", step("a"), dag.Continued},
		{"suspends what is no question", "the executor returned suspended", step("a"), dag.Suspended},
		{"starts to close", "the executor recorded started", loop, dag.Started},
		{"ends its goroutine", "ended its goroutine", ask("a"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
					switch {
					case c.says == "":
						runtime.Goexit()
					case c.step.Repeat != nil && task.Action != dag.Close:
						return works(0)(ctx, task, rec)
					case c.says == dag.Started:
						return answer(task, dag.Succeeded), rec(ctx, answer(task, dag.Started))
					}
					return answer(task, c.says), nil
				})
				_, err := run(t, plan(1, c.step), x, &journal{}, local.Options{})
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			})
		})
	}
}
