package local

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// slotless is how many goroutines may be without a slot: those that wait for the journal,
// and those that open and close nodes. When the journal is that far behind, nothing new
// is started until it has caught up. Questions that wait for a person do not count: they
// must not keep others from going on.
const slotless = 256

// A driver owns the machine. Only the goroutine of run touches its fields, but for those
// that never change.
type driver struct {
	m       *dag.Machine
	x       Executor
	j       Journal
	o       Options
	caller  context.Context // as Run got it
	storing context.Context // the same, never done: for the journal
	group   *errgroup.Group
	ctx     context.Context // of the group: also done when flow is broken
	inbox   chan message

	backlog []dag.Task      // taken, and not yet under way
	running map[string]*job // one for each goroutine, by the path of its task
	beside  int             // how many of them are without a slot
	asking  int             // how many wait for a person
	told    bool            // all of those know that nobody is there
	halted  bool            // nothing new starts
	reason  error           // why the run is to stop while what runs goes on, or nil
	marked  bool            // it is stored that the run was stopped
	timer   *time.Timer
	wake    time.Time // when timer fires; zero: it does not
}

// A job is a goroutine: one that does a task, or, with the empty path, the one that
// stores that the run was stopped.
type job struct {
	cancel context.CancelCauseFunc
	beside bool // it has no slot, or none any more
	asking bool // it waits for a person
}

func newDriver(ctx context.Context, m *dag.Machine, x Executor, j Journal, o Options) *driver {
	d := &driver{
		m: m, x: x, j: j, o: o, caller: ctx, storing: context.WithoutCancel(ctx),
		inbox: make(chan message, 64), running: map[string]*job{},
		timer: time.NewTimer(time.Hour),
	}
	d.timer.Stop()
	if o.Now == nil {
		d.o.Now = time.Now
	}
	d.group, d.ctx = errgroup.WithContext(ctx)
	return d
}

// run is the loop: start what can start, then wait for something to happen.
func (d *driver) run() error {
	defer d.timer.Stop()
	done := d.ctx.Done()
	for {
		if d.ctx.Err() != nil && done != nil {
			done = nil // once
			d.halt()
		}
		d.heed()
		d.launch()
		if len(d.running) == 0 && len(d.backlog) == 0 && d.ended() {
			if d.reason == nil || !d.mark(d.reason) {
				return d.group.Wait()
			}
		}
		select {
		case msg := <-d.inbox:
			d.handle(msg)
		case <-d.timer.C:
			d.wake = time.Time{}
		case <-done:
		case reason := <-d.o.Stop:
			d.stop(reason)
		}
	}
}

// heed looks whether the run is to stop, before anything else starts.
func (d *driver) heed() {
	select {
	case reason := <-d.o.Stop:
		d.stop(reason)
	default:
	}
}

// stop keeps anything new from starting. What runs comes to its end, and only then is the
// run marked as stopped: the machine wants everything cancelled that runs beyond that.
func (d *driver) stop(reason error) {
	if !d.halted {
		d.halted, d.reason = true, reason
	}
}

// ended says, when nothing runs, that nothing will.
func (d *driver) ended() bool {
	if d.halted || d.m.Done() || d.m.Status() == dag.RunWaiting {
		return true
	}
	if !d.wake.IsZero() {
		return false
	}
	d.fail(fmt.Errorf("the run is stuck, nothing runs and nothing can start: %s; its plan is damaged", d.stuck()))
	return true
}

// stuck names the steps that wait for ever.
func (d *driver) stuck() string {
	var all []string
	for _, s := range d.m.Steps() {
		if why := d.m.Waiting(s.Path); why != "" {
			all = append(all, s.Path+" "+why)
		}
	}
	return strings.Join(all, ", ")
}

// fail ends the run with err: nothing new starts, and what runs is cancelled. The first
// error is the one that is returned.
func (d *driver) fail(err error) {
	d.halted = true
	d.group.Go(func() error { return err })
}

// halt keeps anything new from starting. If it was the caller who wants to end, the run is
// marked as stopped, so that a resume knows.
func (d *driver) halt() {
	d.halted = true
	if d.caller.Err() != nil {
		d.mark(context.Cause(d.caller))
	}
}

// mark stores that the run was stopped. It reports false when there is nothing to be said:
// it has been, or the run was over.
func (d *driver) mark(reason error) bool {
	if d.marked || d.m.Done() {
		return false
	}
	d.marked = true
	f := dag.Fact{Kind: dag.Stopped, Reason: reason.Error()}
	d.spawn("", true, func(context.Context) {
		d.inbox <- message{event: ended, fact: f, err: d.store(f)}
	})
	return true
}

// launch starts what the machine has to offer, as far as there is room.
func (d *driver) launch() {
	if !d.halted && len(d.backlog) == 0 {
		d.backlog = d.take()
	}
	for len(d.backlog) > 0 && d.beside < slotless {
		d.start(d.backlog[0])
		d.backlog = d.backlog[1:]
	}
	d.prune() // a task may have been in the backlog when fail-fast struck
	d.dismiss()
}

// longestSleep is how long the driver sleeps at most while a retry waits: its timer stops
// while the machine is suspended, and the wall clock does not.
const longestSleep = 10 * time.Second

// take asks the machine for tasks. A retry may start when either clock says that its time
// has come: the wall clock, which goes on while the machine is suspended and is what a
// provider means by the reset of a limit; or the monotonic one, which nobody sets back.
func (d *driver) take() []dag.Task {
	now := d.o.Now()
	tasks := append(d.m.Take(now.Round(0)), d.m.Take(now)...)
	d.alarm(d.m.Wake(now), now)
	return tasks
}

// prune cancels what must not go on.
func (d *driver) prune() {
	for _, path := range d.m.Cancels() {
		j := d.running[path]
		switch {
		case j == nil:
		case d.m.Beaten(path):
			j.cancel(ErrBeaten)
		default:
			j.cancel(ErrFailFast)
		}
	}
}

// dismiss ends the wait for answers when nothing else is left to do and nobody is there.
func (d *driver) dismiss() {
	left := d.asking < len(d.running) || len(d.backlog) > 0 || !d.wake.IsZero()
	if d.o.Interactive || d.told || left {
		return
	}
	for _, j := range d.running {
		j.cancel(ErrNobody)
	}
	d.told = true
}

// alarm sets the timer.
func (d *driver) alarm(wake, now time.Time) {
	if wake.Equal(d.wake) {
		return
	}
	d.wake = wake
	d.timer.Stop()
	if !wake.IsZero() {
		d.timer.Reset(min(wake.Sub(now), longestSleep))
	}
}

func (d *driver) start(t dag.Task) {
	d.spawn(t.Path, t.Action != dag.Execute, func(ctx context.Context) { d.work(ctx, t) })
	if asks(t) {
		d.running[t.Path].asking = true
		d.asking++
		d.told = false
	}
	if d.reason != nil { // it was in the backlog when the run was to stop
		d.running[t.Path].cancel(d.reason)
	}
}

// asks says that t is a question to a person.
func asks(t dag.Task) bool { return t.Action == dag.Execute && t.Step.Kind == pipeline.KindAsk }

func (d *driver) spawn(path string, beside bool, work func(context.Context)) {
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.running[path] = &job{cancel: cancel}
	if beside {
		d.aside(d.running[path])
	}
	d.group.Go(func() error {
		work(ctx)
		return nil // errors come through the inbox, one after the other
	})
}

// aside takes in that j has no slot.
func (d *driver) aside(j *job) {
	if !j.beside {
		j.beside = true
		d.beside++
	}
}

// answered takes in that j does not wait for a person any more.
func (d *driver) answered(j *job) {
	if j.asking {
		j.asking = false
		d.asking--
	}
}

// A message tells the driver what a goroutine has come to.
type message struct {
	event event
	path  string
	fact  dag.Fact // stored: for recorded, and for ended without an error
	err   error    // for ended: flow is broken
}

type event int

const (
	recorded event = iota // the task goes on
	returned              // Exec has returned: the slot is free
	ended                 // the goroutine ends
)

func (d *driver) handle(msg message) {
	j := d.running[msg.path]
	switch msg.event {
	case recorded:
		d.apply(msg.fact)
	case returned:
		d.m.Release(msg.path)
		d.answered(j)
		d.aside(j)
	case ended:
		d.end(j, msg)
	}
}

func (d *driver) end(j *job, msg message) {
	j.cancel(nil)
	delete(d.running, msg.path)
	d.answered(j) // when its goroutine just ended
	if j.beside {
		d.beside--
	}
	if msg.err != nil {
		d.fail(msg.err)
		return
	}
	d.apply(msg.fact)
}

// apply tells the machine, and then whoever watches.
func (d *driver) apply(f dag.Fact) {
	if err := d.m.Apply(f); err != nil {
		d.fail(fmt.Errorf("the journal holds a fact that the run cannot have: %w", err))
		return
	}
	if d.o.Observe != nil {
		d.o.Observe(f)
	}
}
