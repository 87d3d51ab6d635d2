package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"flow/agents"
	"flow/agents/proc"
)

var (
	errTimeout = errors.New("timeout")
	errIdle    = errors.New("idle timeout")
)

// An ending is why flow ended the latest process of an attempt, if it did.
type ending struct {
	why    agents.Intent
	reason string // who cancelled it
}

// withTimeout bounds ctx; the cause of its end is then errTimeout.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	ctx = context.WithValue(ctx, untimedKey{}, untimed(ctx))
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// untimedKey is that of the context without the timeout, for what comes after the work.
type untimedKey struct{}

// untimed is ctx without the bounds of withTimeout: it ends when the step is to stop.
func untimed(ctx context.Context) context.Context {
	if whole, ok := ctx.Value(untimedKey{}).(context.Context); ok {
		return whole
	}
	return ctx
}

// intent says why flow ended a process, given the cause, nil if it did not, and keeps that
// for the step's fact.
func (a *attempt) intent(cause error) agents.Intent {
	a.why, a.reason = agents.IntentNone, ""
	switch {
	case cause == nil:
	case errors.Is(cause, errTimeout):
		a.why = agents.IntentTimeout
	case errors.Is(cause, errIdle):
		a.why = agents.IntentIdle
	case errors.Is(cause, errPolicy):
		a.why = agents.IntentPolicy
	case errors.Is(cause, errParted):
		a.why = agents.IntentDone
	default:
		a.why, a.reason = agents.IntentCancel, cause.Error()
	}
	return a.why
}

// An idleWatch cancels a context when nothing has touched it for a while.
type idleWatch struct {
	timer  *time.Timer // nil: it waits for ever
	after  time.Duration
	ctx    context.Context // that cancel ends
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	held int // how many wait for a person: meanwhile silence means nothing
}

func watchIdle(ctx context.Context, after time.Duration) (context.Context, *idleWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &idleWatch{after: after, ctx: ctx, cancel: cancel}
	if after > 0 {
		w.timer = time.AfterFunc(after, func() { cancel(errIdle) })
	}
	return ctx, w
}

// cause is why the context has ended, nil while it has not.
func (w *idleWatch) cause() error { return context.Cause(w.ctx) }

// over is sink with every line a sign of life. A stream that sink does not take is
// read only for that.
func (w *idleWatch) over(sink proc.Sink) proc.Sink {
	if w.timer == nil {
		return sink
	}
	alive := func(next func(proc.Line)) func(proc.Line) {
		return func(l proc.Line) {
			w.touch()
			if next != nil {
				next(l)
			}
		}
	}
	return proc.Sink{Stdout: alive(sink.Stdout), Stderr: alive(sink.Stderr), Growing: w.touch}
}

// touch begins the time anew.
func (w *idleWatch) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && w.held == 0 {
		w.timer.Reset(w.after)
	}
}

// hold stops the time until release is called as often.
func (w *idleWatch) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held++; w.timer != nil {
		w.timer.Stop()
	}
}

func (w *idleWatch) release() {
	w.mu.Lock()
	w.held--
	w.mu.Unlock()
	w.touch()
}

func (w *idleWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
}
