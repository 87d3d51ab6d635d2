package steps

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"flow/agents"
	"flow/pipeline/dag"
)

// succeeded is the fact of a verified result.
func (a *attempt) succeeded(r Result) dag.Fact {
	return dag.Fact{Kind: dag.Succeeded, Result: a.charged(r)}
}

// failed is the fact of a failed attempt, final or to be tried again.
func (a *attempt) failed(p *agents.Problem, r Result) dag.Fact {
	r.Error, r.Cause, r.Hint = p.Message, string(p.Cause), p.Hint
	f := dag.Fact{Kind: dag.Failed, Reason: p.Message, Cause: string(p.Cause), Result: a.charged(r)}
	failures := a.x.ledger.get(a.task.Path).failures
	if failures >= a.step.Retry.Max || !retried(p.Cause, a.step.Retry.On) {
		f.Final = true
		return f
	}
	f.RetryAt = a.x.Now().Add(backoff(time.Duration(a.step.Retry.Backoff), failures))
	if p.RetryAfter.After(f.RetryAt) {
		f.RetryAt = p.RetryAfter
	}
	return f
}

// stopped is the fact of an attempt that was cancelled.
func (a *attempt) stopped(reason string, r Result) dag.Fact {
	r.Error, r.Cause = reason, string(agents.CauseCancelled)
	return dag.Fact{Kind: dag.Stopped, Reason: reason, Cause: r.Cause, Result: a.charged(r)}
}

func (a *attempt) charged(r Result) []byte {
	r.DurationMS = a.elapsed()
	a.x.ledger.get(a.task.Path).charge(&r)
	return r.encode()
}

// retried reports whether a failure of this cause is tried again. Without a list
// these are the causes that may pass by themselves.
func retried(c agents.Cause, on []string) bool {
	if len(on) > 0 {
		return slices.Contains(on, string(c))
	}
	return c.Transient() || c == agents.CauseExit || c == agents.CauseTimeout
}

const (
	defaultBackoff = time.Second
	maxBackoff     = 5 * time.Minute
)

// backoff is the wait before the next attempt: base, doubled with every failure so
// far, at most five minutes, and up to a fifth more so that steps which failed
// together do not come back together.
func backoff(base time.Duration, failures int) time.Duration {
	if base <= 0 {
		base = defaultBackoff
	}
	wait := min(base<<min(failures, 16), maxBackoff)
	if base > maxBackoff {
		wait = base
	}
	return wait + rand.N(wait/5+1)
}

var (
	errTimeout = errors.New("timeout")      //nolint:gochecknoglobals // a sentinel
	errIdle    = errors.New("idle timeout") //nolint:gochecknoglobals // a sentinel
)

// withTimeout bounds ctx; the cause of its end is then errTimeout.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// intent says why flow ended a process under ctx, if it did.
func intent(ctx context.Context) agents.Intent {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return agents.IntentNone
	case errors.Is(cause, errTimeout):
		return agents.IntentTimeout
	case errors.Is(cause, errIdle):
		return agents.IntentIdle
	default:
		return agents.IntentCancel
	}
}
