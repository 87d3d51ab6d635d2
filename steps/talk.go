package steps

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"flow/agents"
	"flow/agents/proc"
	"flow/state/disk"
)

const (
	// politeWait is how long an agent may take to end its turn once it was asked to, before
	// it is asked by signals.
	politeWait = 5 * time.Second
	// partingWait is how long it may take to end once its turn is over and its standard
	// input has ended.
	partingWait = 10 * time.Second
)

// errParted ends a process that goes on although there is nothing more to do for it.
var errParted = errors.New("its turn had ended")

// A talk drives the conversation with one process of an agent: it writes what the protocol
// wants written, has tool calls decided, and ends the conversation when the turn is over.
type talk struct {
	a     *attempt
	guard *guard
	watch *idleWatch
	input *proc.Input
	ctx   context.Context // of the turn: its end is that of the conversation
	// put puts a question to a person, who may take so long, 0 for ever, and has then told
	// what came of it. It returns what takes the question back.
	put func(q Question, wait time.Duration, then func(Answer, error)) context.CancelFunc

	mu     sync.Mutex // guards what follows; the dialog and its translator are for one goroutine
	conv   agents.Conversation
	tr     *agents.Translator
	record io.WriteCloser // what was written, for the record
	failed error          // why the record cannot be kept
	fresh  []agents.PermissionRequested
	asked  map[string]context.CancelFunc // requests that a person is asked about, by id
	stands map[string]bool               // ids of the permissions whose questions have not ended
	asking sync.WaitGroup
	over   bool // the turn has ended, or is not wanted any more
	timer  *time.Timer
	cancel context.CancelCauseFunc // ends the process
}

// newTalk begins the conversation of a process that spec describes. The process is to be
// run under the context that is returned: it ends later than ctx, once the agent was asked.
func (a *attempt) newTalk(ctx context.Context, c agents.Conversation, spec *proc.Spec) (*talk, context.Context, error) {
	record, err := disk.OpenFile(a.path("stdin"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	t := &talk{a: a, conv: c, record: record, input: proc.NewInput(), ctx: ctx, asked: map[string]context.CancelFunc{}, stands: map[string]bool{}}
	t.put = func(q Question, wait time.Duration, then func(Answer, error)) context.CancelFunc {
		ctx, stop := withTimeout(ctx, wait)
		t.asking.Go(func() {
			defer stop()
			then(a.personSays(ctx, q))
		})
		return stop
	}
	spec.Stdin, spec.Input = "", t.input
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t.cancel = cancel
	return t, running, nil
}

// begin says the first words. It returns what stops the talk from taking notice of the
// end of its context.
func (t *talk) begin(l *listener) (stop func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tr, t.guard, t.watch = l.tr, l.guard, l.watch
	t.conv.Open()
	t.flush()
	return context.AfterFunc(t.ctx, t.interrupt)
}

// sink is a sink whose lines are heard by the conversation.
func (t *talk) sink(s proc.Sink) proc.Sink {
	hear := func(next func(proc.Line)) func(proc.Line) {
		return func(l proc.Line) {
			t.mu.Lock()
			defer t.mu.Unlock()
			next(l)
			if t.tr.Stuck() {
				t.cancel(errParted)
			}
			t.proceed()
		}
	}
	return proc.Sink{Stdout: hear(s.Stdout), Stderr: hear(s.Stderr), Growing: s.Growing}
}

// heard takes in an event of the conversation. mu is held.
func (t *talk) heard(e agents.Event) {
	switch b := e.Body.(type) {
	case agents.PermissionRequested:
		t.fresh = append(t.fresh, b)
	case agents.PermissionDecided:
		if e.Native != nil { // not flow's own
			t.forget(b.RequestID)
			t.settled(b.RequestID)
		}
	}
}

// settled takes a request that needs no answer any more from those that are to be judged.
// What it was about is known, for the record, although the call was not announced.
func (t *talk) settled(id string) {
	i := slices.IndexFunc(t.fresh, func(r agents.PermissionRequested) bool { return r.RequestID == id })
	if i < 0 {
		return
	}
	t.guard.announced(t.fresh[i])
	t.fresh = slices.Delete(t.fresh, i, i+1)
}

// forget ends the question about a request.
func (t *talk) forget(id string) {
	if stop := t.asked[id]; stop != nil {
		stop()
		delete(t.asked, id)
	}
}

// proceed does what is to be done after something was heard or decided. mu is held.
func (t *talk) proceed() {
	for len(t.fresh) > 0 {
		r := t.fresh[0]
		t.fresh = t.fresh[1:]
		t.judge(r)
	}
	t.flush()
	if t.conv.Ended() {
		t.part()
	}
}

// flush writes what the conversation has to say, and keeps it. mu is held.
func (t *talk) flush() {
	for _, line := range t.conv.Take() {
		if _, err := t.record.Write(append(slices.Clip(line), '\n')); err != nil {
			t.fail(err)
		}
		t.input.Line(line)
	}
}

// fail ends the process: work that cannot be recorded must not go on. mu is held.
func (t *talk) fail(err error) {
	if t.failed == nil {
		t.failed = err
		t.cancel(err)
	}
}

// part ends the standard input of an agent whose turn is over, and the agent itself if it
// then goes on. mu is held.
func (t *talk) part() {
	if t.over {
		return
	}
	t.over = true
	if c, ok := t.conv.(agents.Closer); ok {
		c.Close()
		t.flush()
	}
	t.input.Close()
	t.after(partingWait, errParted)
}

// after cancels the process some time from now. mu is held.
func (t *talk) after(d time.Duration, cause error) {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(d, func() { t.cancel(cause) })
}

// interrupt asks the agent to end its turn, as its context has ended. One that broke the
// rules is not asked.
func (t *talk) interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	cause := context.Cause(t.ctx)
	if t.over {
		t.cancel(cause)
		return
	}
	if errors.Is(cause, errPolicy) || !t.conv.Interrupt() {
		t.over = true
		t.flush()
		t.input.Close()
		t.cancel(cause)
		return
	}
	t.after(politeWait, cause)
	t.proceed()
}

// end ends the talk after its process, and returns the error that stopped it, if one did.
func (t *talk) end() error {
	t.mu.Lock()
	t.over = true
	for id := range t.asked {
		t.forget(id)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.asking.Wait()
	t.cancel(nil)
	return errors.Join(t.failed, t.record.Close())
}
