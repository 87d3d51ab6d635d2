package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flow/pipeline/dag"
)

// An Order is that in which the tasks of a run ended once.
type Order interface {
	// Next says which of the tasks that could be done is done now, by its index, or -1 that
	// none of them is to be done: the run then stops.
	Next(tasks []dag.Task) int
	// Ends reports whether t came to an end, and must do so now although fail-fast or
	// another candidate would cancel it: it was quicker then.
	Ends(t dag.Task) bool
}

// ErrPlayed is the reason for which Play stops a run when its Order takes no task.
var ErrPlayed = errors.New("what was recorded ends here")

// Play drives m as Run does, but does one task at a time, in order, and
// waits for no time to come: a retry is due at once. So a run that was recorded comes to
// the same decisions again, whatever happened at the same time in it.
//
// Nothing is suspended for want of a person: a question that nobody is to answer is not to
// be chosen.
func Play(ctx context.Context, m *dag.Machine, x Executor, j Journal, order Order, o Options) error {
	p := &player{driver: newDriver(ctx, m, x, j, o), order: order}
	p.timer.Stop()
	return p.play()
}

// A player is a driver that does one task at a time. Of the driver it uses what executes a
// task and what stores and applies a fact, but none of its goroutines.
type player struct {
	*driver
	order  Order
	held   []dag.Task // taken, and not yet done
	broken error
}

// endOfTime is when every retry is due.
func endOfTime() time.Time { return time.Now().AddDate(1000, 0, 0) }

func (p *player) play() error {
	for p.broken == nil {
		p.held = append(p.held, p.m.Take(endOfTime())...)
		p.drop()
		reason := p.why()
		i := -1
		if reason == nil && len(p.held) > 0 {
			i = p.order.Next(p.held)
		}
		switch {
		case p.broken != nil:
		case i >= 0:
			t := p.held[i]
			p.held = slices.Delete(p.held, i, i+1)
			p.do(t)
		case len(p.held) == 0 && p.m.Done():
			return nil
		case p.marked:
			return nil
		default:
			p.halt(reason)
		}
	}
	return p.broken
}

// why is the reason for which the run is to stop, nil if it is not.
func (p *player) why() error {
	if p.caller.Err() != nil {
		return context.Cause(p.caller)
	}
	select {
	case p.reason = <-p.o.Stop:
	default:
	}
	return p.reason
}

// halt marks the run as stopped. The machine then wants what is held dropped.
func (p *player) halt(reason error) {
	if reason == nil {
		reason = ErrPlayed
	}
	p.marked = true
	p.take(dag.Fact{Kind: dag.Stopped, Reason: reason.Error()})
}

// drop answers the tasks that must not be done any more.
func (p *player) drop() {
	for _, path := range p.m.Cancels() {
		i := slices.IndexFunc(p.held, func(t dag.Task) bool { return t.Path == path })
		if i < 0 || p.broken != nil || !p.marked && p.order.Ends(p.held[i]) {
			continue
		}
		t := p.held[i]
		p.held = slices.Delete(p.held, i, i+1)
		p.m.Release(path)
		p.take(dag.Fact{Kind: dag.Stopped, Path: path, Attempt: t.Attempt, Reason: p.dropped(path).Error()})
	}
}

// dropped is why the task of the node at path is not done any more.
func (p *player) dropped(path string) error {
	switch {
	case p.marked:
		return ErrPlayed
	case p.m.Beaten(path):
		return ErrBeaten
	default:
		return ErrFailFast
	}
}

// do does a task.
func (p *player) do(t dag.Task) {
	a := attempt{task: t}
	fact, err := p.exec(p.ctx, t, func(_ context.Context, f dag.Fact) error {
		if err := a.begins(f); err != nil {
			return err
		}
		a.started = true
		p.take(f)
		return p.broken
	})
	if err == nil {
		err = a.check(fact)
	}
	p.m.Release(t.Path)
	if err != nil {
		p.broken = fmt.Errorf("step %s: %w", t.Path, err)
		return
	}
	p.take(fact)
}

// take stores a fact and tells the machine.
func (p *player) take(f dag.Fact) {
	if p.broken = p.store(f); p.broken != nil {
		return
	}
	if err := p.m.Apply(f); err != nil {
		p.broken = fmt.Errorf("the journal holds a fact that the run cannot have: %w", err)
		return
	}
	if p.o.Observe != nil {
		p.o.Observe(f)
	}
}
