package local_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
)

// exec is an executor made of a function.
type exec func(context.Context, dag.Task, local.Recorder) (dag.Fact, error)

func (e exec) Exec(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
	return e(ctx, t, rec)
}

// journal keeps facts in memory; each takes a while to become durable.
type journal struct {
	takes time.Duration
	fails dag.Kind // the kind of fact that cannot be stored

	mu        sync.Mutex
	facts     []dag.Fact
	now, most int // calls under way
}

var errDisk = errors.New("disk full")

func (j *journal) Append(ctx context.Context, f dag.Fact) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.count(+1)
	defer j.count(-1)
	if j.takes > 0 {
		<-time.After(j.takes)
	}
	if f.Kind == j.fails {
		return errDisk
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.facts = append(j.facts, f)
	return nil
}

func (j *journal) count(by int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now += by
	j.most = max(j.most, j.now)
}

// kinds returns the kinds of the facts about path, in order.
func (j *journal) kinds(path string) string {
	var all []string
	for _, f := range j.facts {
		if f.Path == path {
			all = append(all, string(f.Kind))
		}
	}
	return strings.Join(all, " ")
}

func plan(limit int, steps ...pipeline.Step) *pipeline.Plan {
	for i := range steps {
		if steps[i].Kind == "" {
			steps[i].Kind = pipeline.KindRun
		}
	}
	return &pipeline.Plan{Limit: limit, Steps: steps}
}

func step(id string, needs ...string) pipeline.Step { return pipeline.Step{ID: id, Needs: needs} }

func group(id string, steps ...pipeline.Step) pipeline.Step {
	return pipeline.Step{ID: id, Kind: pipeline.KindGroup, Steps: plan(0, steps...).Steps}
}

func answer(t dag.Task, kind dag.Kind) dag.Fact {
	return dag.Fact{Kind: kind, Path: t.Path, Attempt: t.Attempt}
}

// works returns an executor that opens groups and lets each step take a while.
func works(d time.Duration) exec {
	return func(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
		if t.Action == dag.Open {
			return answer(t, dag.Opened), nil
		}
		if err := rec(ctx, answer(t, dag.Started)); err != nil {
			return dag.Fact{}, err
		}
		select {
		case <-time.After(d):
			return answer(t, dag.Succeeded), nil
		case <-ctx.Done():
			f := answer(t, dag.Stopped)
			f.Reason = context.Cause(ctx).Error()
			return f, nil
		}
	}
}

// run runs p, and sees that the journal reads back as what the machine came to.
func run(t *testing.T, p *pipeline.Plan, x local.Executor, j *journal, o local.Options) (*dag.Machine, error) {
	t.Helper()
	m := dag.New(p, dag.Options{})
	err := local.Run(t.Context(), m, x, j, o)
	if copied := readBack(t, p, j); err == nil && states(m) != states(copied) {
		t.Errorf("it came to\n%s\nread back\n%s", states(m), states(copied))
	}
	return m, err
}

func readBack(t *testing.T, p *pipeline.Plan, j *journal) *dag.Machine {
	t.Helper()
	m := dag.New(p, dag.Options{})
	for _, f := range j.facts {
		if err := m.Apply(f); err != nil {
			t.Errorf("read back: %v", err)
		}
	}
	return m
}

func states(m *dag.Machine) string {
	var out strings.Builder
	for _, s := range m.Steps() {
		fmt.Fprintf(&out, "%s %s %d %s\n", s.Path, s.Status, s.Attempts, s.Reason)
	}
	return out.String() + string(m.Status())
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			now += by
			most = max(most, now)
		}
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			count(+1)
			defer count(-1)
			return works(time.Second)(ctx, task, rec)
		})
		var steps []pipeline.Step
		for i := range 30 {
			steps = append(steps, step(fmt.Sprint("s", i)))
		}
		start := time.Now()
		m, err := run(t, plan(3, steps...), x, &journal{}, local.Options{})
		if err != nil || m.Status() != dag.RunSucceeded || most != 3 || time.Since(start) != 10*time.Second {
			t.Errorf("%v %s: %d at once in %s", err, m.Status(), most, time.Since(start))
		}
	})
}

// Each of 20 steps takes 1 s, and its two facts 5 s each. In the slot they would take
// 220 s one after the other; off it, only Started holds the slot.
func TestDurabilityIsOffTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []pipeline.Step
		for i := range 20 {
			steps = append(steps, step(fmt.Sprint("s", i)))
		}
		steps = append(steps, step("last", "s19"))
		j := &journal{takes: 5 * time.Second}
		durable := map[string]time.Time{}
		begun := map[string]time.Time{}
		o := local.Options{Observe: func(f dag.Fact) {
			if f.Kind == dag.Succeeded {
				durable[f.Path] = time.Now()
			}
		}}
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			begun[task.Path] = time.Now() // one at a time: the limit is 1
			return works(time.Second)(ctx, task, rec)
		})
		start := time.Now()
		if _, err := run(t, plan(1, steps...), x, j, o); err != nil {
			t.Fatal(err)
		}
		if d := begun["s19"].Sub(start); d != 19*6*time.Second {
			t.Errorf("the 20th step began after %s", d)
		}
		if d := begun["last"].Sub(durable["s19"]); d != 0 {
			t.Errorf("the dependent began %s after the fact was durable", d)
		}
		if d := time.Since(start); d != (20*6+5+6+5)*time.Second {
			t.Errorf("took %s", d)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Duration
		start := time.Now()
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			begun = append(begun, time.Since(start))
			if err := rec(ctx, answer(task, dag.Started)); err != nil {
				return dag.Fact{}, err
			}
			f := answer(task, dag.Succeeded)
			if task.Attempt < 3 {
				f.Kind = dag.Failed
				f.RetryAt = time.Now().Add(time.Duration(task.Attempt) * time.Hour)
			}
			return f, nil
		})
		m, err := run(t, plan(1, step("a")), x, &journal{}, local.Options{})
		want := []time.Duration{0, time.Hour, 3 * time.Hour}
		if err != nil || m.Status() != dag.RunSucceeded || !slices.Equal(begun, want) {
			t.Errorf("%v %s: began at %v, want %v", err, m.Status(), begun, want)
		}
	})
}

func TestCancel(t *testing.T) {
	for _, c := range []struct {
		name, want string
		after      time.Duration
		x          exec
	}{
		{"at once", "cancelled skipped cancelled", 0, works(time.Hour)},
		{"while it runs", "cancelled skipped cancelled", time.Minute, works(time.Hour)},
		{"after the first", "succeeded cancelled succeeded", 90 * time.Minute, works(time.Hour)},
		{"passing on the error", "cancelled skipped cancelled", time.Minute, func(ctx context.Context, _ dag.Task, _ local.Recorder) (dag.Fact, error) {
			<-ctx.Done()
			return dag.Fact{}, fmt.Errorf("prepare: %w", context.Cause(ctx))
		}},
		{"while it waits for a retry", "cancelled skipped cancelled", time.Minute, func(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
			f := answer(t, dag.Failed)
			f.RetryAt = time.Now().Add(time.Hour)
			return f, rec(ctx, answer(t, dag.Started))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cancelled(t, c.after, c.x, c.want) })
		})
	}
}

func cancelled(t *testing.T, after time.Duration, x exec, want string) {
	t.Helper()
	interrupt := errors.New("interrupted by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if after == 0 {
		cancel(interrupt)
	}
	time.AfterFunc(after, func() { cancel(interrupt) })
	j := &journal{takes: time.Second}
	p := plan(2, step("a"), step("b", "a"), step("c"))
	m := dag.New(p, dag.Options{})
	err := local.Run(ctx, m, x, j, local.Options{})
	var got []string
	for _, s := range m.Steps() {
		got = append(got, string(s.Status))
		if s.Status == dag.Cancelled && !strings.Contains(s.Reason, interrupt.Error()) {
			t.Errorf("%s: %q", s.Path, s.Reason)
		}
	}
	if err != nil || m.Status() != dag.RunCancelled || strings.Join(got, " ") != want {
		t.Errorf("%v %s: %v, want %s", err, m.Status(), got, want)
	}
	if j.kinds("") != "stopped" {
		t.Errorf("of the run is stored: %q", j.kinds(""))
	}
	m = readBack(t, p, j)
	for _, f := range m.Reopenable() {
		if err := m.Apply(f); err != nil {
			t.Error(err)
		}
	}
	if err := local.Run(t.Context(), m, works(time.Second), j, local.Options{}); err != nil || m.Status() != dag.RunSucceeded {
		t.Errorf("resumed: %v %s", err, m.Status())
	}
}

// What has succeeded by the time of the cancel stays so, and a run that is complete is not
// marked as stopped.
func TestCancelTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		j := &journal{}
		o := local.Options{Observe: func(f dag.Fact) {
			if f.Kind == dag.Succeeded {
				cancel()
			}
		}}
		m := dag.New(plan(1, step("a")), dag.Options{})
		err := local.Run(ctx, m, works(0), j, o)
		if err != nil || m.Status() != dag.RunSucceeded || j.kinds("") != "" {
			t.Errorf("%v %s %q", err, m.Status(), j.kinds(""))
		}
	})
}

func TestFailFastCancelsOnlyItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group("g", step("x"), step("bad"), step("later", "x"))
		g.FailFast = true
		var cause error
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			if task.Path == "g.bad" {
				<-time.After(time.Minute)
				f := answer(task, dag.Failed)
				f.Final = true
				return f, nil
			}
			f, err := works(time.Hour)(ctx, task, rec)
			if task.Path == "g.x" {
				cause = context.Cause(ctx)
			}
			return f, err
		})
		start := time.Now()
		m, err := run(t, plan(9, g, step("other")), x, &journal{}, local.Options{})
		if err != nil || m.Status() != dag.RunFailed || time.Since(start) != time.Hour {
			t.Errorf("%v %s after %s", err, m.Status(), time.Since(start))
		}
		if !errors.Is(cause, local.ErrFailFast) {
			t.Errorf("g.x was cancelled for %v", cause)
		}
		if a, b := m.Input("g.x").Status, m.Input("other").Status; a != dag.Cancelled || b != dag.OK {
			t.Errorf("g.x %s, other %s", a, b)
		}
	})
}

func TestPanicIsTheStepsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			if task.Path == "a" {
				panic("boom")
			}
			return works(time.Second)(ctx, task, rec)
		})
		var stack string
		o := local.Options{Panic: func(path string, s []byte) { stack = path + string(s) }}
		m, err := run(t, plan(1, step("a"), step("b")), x, &journal{}, o)
		if err != nil || m.Status() != dag.RunFailed || m.Input("b").Status != dag.OK {
			t.Errorf("%v %s", err, states(m))
		}
		if s := m.Steps()[0]; s.Reason != "panic: boom" || !strings.Contains(stack, "local_test.go") {
			t.Errorf("%q, stack %q", s.Reason, stack)
		}
		if _, err := run(t, plan(1, step("a")), x, &journal{}, local.Options{}); err != nil {
			t.Errorf("nobody wants the stack: %v", err)
		}
	})
}

// Whatever is wrong with flow itself ends the run with an error, after all has ended.
func TestBroken(t *testing.T) {
	errExec := errors.New("no workspace")
	failing := func(err error) exec {
		return func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			if task.Path == "b" {
				return dag.Fact{}, err
			}
			return works(time.Hour)(ctx, task, rec)
		}
	}
	says := func(kind dag.Kind) exec {
		return func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			if task.Path == "b" {
				return answer(task, kind), nil
			}
			return works(time.Hour)(ctx, task, rec)
		}
	}
	for _, c := range []struct {
		name  string
		x     exec
		fails dag.Kind
		want  string
		is    error
	}{
		{"executor", failing(errExec), "", `step b: no workspace`, errExec},
		{"cancelled by itself", failing(context.Canceled), "", `step b: context canceled`, context.Canceled},
		{"journal, start", works(time.Hour), dag.Started, "store the fact started: disk full", errDisk},
		{"journal, end", says(dag.Skipped), dag.Skipped, "store the fact skipped: disk full", errDisk},
		{"succeeded without a start", says(dag.Succeeded), "", "the executor returned succeeded", nil},
		{"no end", says(dag.Started), "", "the executor returned started", nil},
		{"opened a step", says(dag.Opened), "", "the executor returned opened", nil},
		{"nothing", says(""), "", "the executor returned  of", nil},
		{"fails without a start", says(dag.Failed), "", "the executor returned failed", nil},
		{"ends its goroutine", func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			if task.Path == "b" {
				runtime.Goexit()
			}
			return works(time.Hour)(ctx, task, rec)
		}, "", "ended its goroutine", nil},
		{"hides that it cannot be stored", func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			_ = rec(ctx, answer(task, dag.Started))
			f := answer(task, dag.Failed)
			f.Final = true
			return f, nil
		}, dag.Started, "disk full", errDisk},
		{"starts twice", func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			_ = rec(ctx, answer(task, dag.Started))
			return answer(task, dag.Succeeded), rec(ctx, answer(task, dag.Started))
		}, "", "the executor recorded started", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				j := &journal{fails: c.fails}
				_, err := run(t, plan(2, step("a"), step("b"), step("c", "a")), c.x, j, local.Options{})
				if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if time.Since(start) != 0 {
					t.Errorf("took %s", time.Since(start))
				}
			})
		})
	}
}

// A plan that can never end is an error, not a hang.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(1, step("a"), step("b", "c"), step("c", "b"))
		_, err := run(t, p, works(0), &journal{}, local.Options{})
		if err == nil || !strings.Contains(err.Error(), "b needs c, c needs b") {
			t.Error(err)
		}
	})
}

// Tasks that wait in the driver for room are cancelled, too, when fail-fast strikes.
func TestFailFastInBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []pipeline.Step{step("bad")}
		for i := range 1000 {
			steps = append(steps, group(fmt.Sprint("g", i)))
		}
		p := plan(1, steps...)
		p.FailFast = true
		x := exec(func(ctx context.Context, task dag.Task, _ local.Recorder) (dag.Fact, error) {
			if task.Path != "bad" {
				<-ctx.Done()
				return dag.Fact{}, context.Cause(ctx)
			}
			<-time.After(time.Minute)
			f := answer(task, dag.Failed)
			f.Final = true
			return f, nil
		})
		j := &journal{}
		m, err := run(t, p, x, j, local.Options{})
		if err != nil || m.Status() != dag.RunFailed || j.kinds("g999") != "stopped" {
			t.Errorf("%v %s, g999 %s", err, m.Status(), j.kinds("g999"))
		}
	})
}

// A journal that is slow holds the run back before it is a thousand facts behind.
func TestSlowJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []pipeline.Step
		for i := range 1000 {
			steps = append(steps, step(fmt.Sprint("s", i)))
		}
		x := exec(func(_ context.Context, task dag.Task, _ local.Recorder) (dag.Fact, error) {
			return answer(task, dag.Skipped), nil
		})
		j := &journal{takes: time.Second}
		m, err := run(t, plan(4, steps...), x, j, local.Options{})
		if err != nil || m.Status() != dag.RunSucceeded || j.most < 200 || j.most > 300 {
			t.Errorf("%v %s, %d facts under way", err, m.Status(), j.most)
		}
	})
}

// Groups need no slot, but even a thousand of them do not make a thousand goroutines.
func TestGoroutinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []pipeline.Step
		for i := range 1000 {
			steps = append(steps, group(fmt.Sprint("g", i), step("s")))
		}
		var mu sync.Mutex
		var now, most int
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return works(0)(ctx, task, rec)
		})
		m, err := run(t, plan(8, steps...), x, &journal{}, local.Options{})
		if err != nil || m.Status() != dag.RunSucceeded || most > 300 {
			t.Errorf("%v %s, %d at once", err, m.Status(), most)
		}
	})
}

func BenchmarkRun(b *testing.B) {
	x := exec(func(ctx context.Context, t dag.Task, rec local.Recorder) (dag.Fact, error) {
		return answer(t, dag.Succeeded), rec(ctx, answer(t, dag.Started))
	})
	for _, n := range []int{1000, 10_000} {
		for _, shape := range []string{"wide", "chain", "layered"} {
			p := shaped(shape, n)
			b.Run(fmt.Sprintf("%s-%d", shape, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m := dag.New(p, dag.Options{})
					if err := local.Run(b.Context(), m, x, &journal{}, local.Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/step")
			})
		}
	}
}

// shaped makes a plan of steps without needs, or each after the one before, or in
// layers of 50 with up to three needs in the layer before.
func shaped(shape string, n int) *pipeline.Plan {
	steps := make([]pipeline.Step, n)
	for i := range steps {
		steps[i] = step(fmt.Sprint("s", i))
		switch {
		case shape == "chain" && i > 0:
			steps[i].Needs = []string{steps[i-1].ID}
		case shape == "layered" && i >= 50:
			for k := range 1 + i%3 {
				steps[i].Needs = append(steps[i].Needs, steps[i-i%50-50+(i*7+k*13)%50].ID)
			}
		}
	}
	return plan(4, steps...)
}

// A run that is to stop starts nothing more, and lets what runs come to its end.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan error, 1)
		works := works(time.Minute)
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			if task.Path == "a" {
				stop <- errors.New("enough")
				return answer(task, dag.Stopped), nil
			}
			return works(ctx, task, rec)
		})
		j := &journal{takes: time.Second}
		m, err := run(t, plan(0, step("a"), step("long"), step("b", "long")), x, j, local.Options{Stop: stop})
		if err != nil {
			t.Fatal(err)
		}
		if m.Status() != dag.RunCancelled || j.kinds("long") != "started succeeded" || j.kinds("b") != "" || j.kinds("") != "stopped" {
			t.Errorf("%s: long %q, b %q, the run %q", m.Status(), j.kinds("long"), j.kinds("b"), j.kinds(""))
		}
	})
	synctest.Test(t, func(t *testing.T) { // nor does it matter that it is cancelled besides
		stop := make(chan error, 1)
		stop <- errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("by hand"))
		m := dag.New(plan(0, step("a")), dag.Options{})
		j := &journal{}
		if err := local.Run(ctx, m, works(time.Minute), j, local.Options{Stop: stop}); err != nil || j.kinds("") != "stopped" {
			t.Errorf("%v, the run %q", err, j.kinds(""))
		}
	})
}
