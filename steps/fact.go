package steps

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"flow/agents"
	"flow/pipeline/dag"
	"flow/state/failpoint"
)

// finished is the fact of a step whose work is done and has passed: it succeeded, if it
// left the artifacts that it was to leave.
func (a *attempt) finished(ctx context.Context) (dag.Fact, error) {
	a.result.Answered = false
	problem, err := a.keepArtifacts()
	if problem == nil && err == nil {
		failpoint.Reach("artifacts-stored")
		problem, err = a.keep(ctx)
		failpoint.Reach("changes-kept")
		a.result.Answered = problem != nil // git came to no end, the agent did
	}
	switch {
	case problem != nil && problem.Cause == agents.CauseCancelled:
		return a.stopped(problem.Message), err
	case problem != nil:
		return a.failed(problem), err
	case err == nil:
		a.remember(ctx)
	}
	return a.succeeded(), err
}

// unfinished is the fact of a step whose process failed. What it left of its artifacts is
// kept, for whoever wants to know why.
func (a *attempt) unfinished(p *agents.Problem) (dag.Fact, error) {
	if _, err := a.keepArtifacts(); err != nil {
		return dag.Fact{}, err
	}
	return a.failed(p), nil
}

// succeeded is the fact of a verified result.
func (a *attempt) succeeded() dag.Fact {
	return dag.Fact{Kind: dag.Succeeded, Result: a.charged()}
}

// failed is the fact of a failed attempt, final or to be tried again.
func (a *attempt) failed(p *agents.Problem) dag.Fact {
	f := dag.Fact{Kind: dag.Failed, Cause: string(p.Cause)}
	a.result.Next = nil
	a.follow(&f, p)
	return a.failure(f, p)
}

// failure completes the fact of a failed attempt.
func (a *attempt) failure(f dag.Fact, p *agents.Problem) dag.Fact {
	a.result.Error, a.result.Cause, a.result.Hint = head(p.Message, messageMax), string(p.Cause), p.Hint
	f.Reason, f.Result = a.result.Error, a.charged()
	return f
}

// messageMax is the longest message of a failure that a fact keeps, in bytes.
const messageMax = 4 << 10

// head is the beginning of s, at most limit bytes, with a mark where it was cut.
func head(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// refused is the fact of an attempt that could not even begin: a template or the
// configuration is wrong, and trying again would not help, whatever `retry` says.
func (a *attempt) refused(p *agents.Problem) dag.Fact {
	return a.failure(dag.Fact{Kind: dag.Failed, Cause: string(p.Cause), Final: true}, p)
}

// stopped is the fact of an attempt that was cancelled.
func (a *attempt) stopped(reason string) dag.Fact {
	a.result.Error, a.result.Cause = reason, string(agents.CauseCancelled)
	return dag.Fact{Kind: dag.Stopped, Reason: reason, Cause: a.result.Cause, Result: a.charged()}
}

// charged is the result with what the step's earlier attempts used.
func (a *attempt) charged() []byte {
	r := a.result
	r.Began = r.Session != "" && r.Session == a.held
	r.SessionUsage = a.x.ledger.total(r.Session)
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
// far, at most five minutes or base, and up to a fifth more so that steps which
// failed together do not come back together.
func backoff(base time.Duration, failures int) time.Duration {
	if base <= 0 {
		base = defaultBackoff
	}
	wait := base
	for range failures {
		if wait >= maxBackoff {
			break
		}
		wait = min(2*wait, maxBackoff)
	}
	return wait + rand.N(wait/5+1) //nolint:gosec // jitter is no secret
}
