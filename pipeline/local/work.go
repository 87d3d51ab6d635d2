package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"flow/pipeline/dag"
)

var errGoexit = errors.New("the executor ended its goroutine instead of returning")

// work does t, on a goroutine of its own, and stores how it ended.
func (d *driver) work(ctx context.Context, t dag.Task) {
	last := message{event: ended, path: t.Path, err: errGoexit}
	defer func() { d.inbox <- last }() // also when runtime.Goexit unwinds
	fact, err := d.answer(ctx, t)
	d.inbox <- message{event: returned, path: t.Path}
	if err == nil {
		err = d.store(fact)
	}
	last.fact, last.err = fact, nil
	if err != nil {
		last.err = fmt.Errorf("step %s: %w", t.Path, err)
	}
}

// store appends f to the journal, whatever has been cancelled.
func (d *driver) store(f dag.Fact) error {
	if err := d.j.Append(d.storing, f); err != nil {
		return fmt.Errorf("store the fact %s: %w", f.Kind, err)
	}
	return nil
}

// answer returns how t ended, in a fact that can be stored.
func (d *driver) answer(ctx context.Context, t dag.Task) (dag.Fact, error) {
	if ctx.Err() != nil && !dismissed(ctx, t) {
		return stopped(ctx, t), nil
	}
	a := attempt{task: t}
	f, err := d.exec(ctx, t, a.recorder(d))
	switch {
	case a.broken != nil: // whatever the executor made of it
		return f, a.broken
	case err != nil && passesOn(ctx, err):
		return stopped(ctx, t), nil
	case err != nil:
		return f, err
	}
	return f, a.check(f)
}

// stopped is how t ends because ctx did.
func stopped(ctx context.Context, t dag.Task) dag.Fact {
	f := dag.Fact{Kind: dag.Stopped, Path: t.Path, Attempt: t.Attempt, Reason: context.Cause(ctx).Error()}
	if dismissed(ctx, t) {
		f.Kind = dag.Suspended
	}
	return f
}

// dismissed says that t is a question that nobody is there to answer.
func dismissed(ctx context.Context, t dag.Task) bool {
	return asks(t) && errors.Is(context.Cause(ctx), ErrNobody)
}

// passesOn says that err is no more than the end of ctx.
func passesOn(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// exec calls the executor. A panic is the step's failure.
func (d *driver) exec(ctx context.Context, t dag.Task, rec Recorder) (f dag.Fact, err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if d.o.Panic != nil {
			d.o.Panic(t.Path, debug.Stack())
		}
		f = dag.Fact{Kind: dag.Failed, Path: t.Path, Attempt: t.Attempt, Final: true}
		f.Reason, err = fmt.Sprintf("panic: %v", r), nil
	}()
	return d.x.Exec(ctx, t, rec)
}

// An attempt watches over what an executor says of its task, because what has once been
// stored cannot be refused any more.
type attempt struct {
	task    dag.Task
	started bool
	broken  error // what went wrong with recording
}

// recorder returns the Recorder of the attempt.
func (a *attempt) recorder(d *driver) Recorder {
	return func(_ context.Context, f dag.Fact) error {
		a.broken = cmp.Or(a.broken, a.begins(f))
		if a.broken == nil {
			a.broken = d.store(f)
		}
		if a.broken != nil {
			return a.broken
		}
		a.started = true
		d.inbox <- message{event: recorded, path: f.Path, fact: f}
		return nil
	}
}

// begins returns an error if f cannot be how the attempt begins.
func (a *attempt) begins(f dag.Fact) error {
	if f.Kind != dag.Started || a.started || a.task.Action != dag.Execute || !a.mine(f) {
		return a.wrong("recorded", f)
	}
	return nil
}

// check returns an error if f cannot be how the task ended.
func (a *attempt) check(f dag.Fact) error {
	var ok bool
	switch f.Kind {
	case dag.Succeeded:
		ok = a.started || a.task.Action == dag.Close
	case dag.Failed:
		ok = a.started || f.Final
	case dag.Skipped:
		ok = !a.started && a.task.Action != dag.Close
	case dag.Opened:
		ok = a.task.Action == dag.Open
	case dag.Continued:
		ok = a.task.Action == dag.Close && a.task.Form == dag.Loop
	case dag.Suspended:
		ok = asks(a.task)
	case dag.Stopped:
		ok = true
	default:
	}
	if !ok || !a.mine(f) {
		return a.wrong("returned", f)
	}
	return nil
}

func (a *attempt) mine(f dag.Fact) bool {
	return f.Path == a.task.Path && f.Attempt == a.task.Attempt
}

func (a *attempt) wrong(did string, f dag.Fact) error {
	return fmt.Errorf("the executor %s %s of %q, attempt %d, for attempt %d (started: %t)",
		did, f.Kind, f.Path, f.Attempt, a.task.Attempt, a.started)
}
