package steps

import (
	"sync"

	"flow/agents"
	"flow/pipeline/dag"
)

// A ledger follows what the facts say of each step's attempts: which sessions they
// used, how they ended and what they cost. It is fed by every fact, when it
// happens and when a run is read again, and may be used concurrently.
type ledger struct {
	mu    sync.Mutex
	steps map[string]*account
}

type account struct {
	failures   int // since the step was last given a fresh start
	last       attemptEnd
	usage      *agents.Usage
	costUSD    *float64
	durationMS int64
}

// attemptEnd is what is known of a step's latest attempt.
type attemptEnd struct {
	number  int
	session string
	result  Result
}

func newLedger() *ledger { return &ledger{steps: map[string]*account{}} }

func (l *ledger) note(f dag.Fact) error {
	result, err := DecodeResult(f.Result)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(f.Path)
	switch f.Kind {
	case dag.Started:
		a.last = attemptEnd{number: f.Attempt, session: f.Session}
	case dag.Reopened:
		a.failures = 0
	case dag.Failed, dag.Stopped, dag.Succeeded:
		if f.Kind == dag.Failed {
			a.failures++
		}
		if result.Session != "" {
			a.last.session = result.Session
		}
		a.last.result = result
		a.usage, a.costUSD, a.durationMS = result.Usage, result.CostUSD, result.DurationMS
	case dag.Opened, dag.Skipped, dag.Lost:
	}
	return nil
}

// sessionSeen notes the native session that an attempt under way has named.
func (l *ledger) sessionSeen(path string, attempt int, session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.account(path); a.last.number == attempt {
		a.last.session = session
	}
}

// recovered notes what the stored output of a lost attempt tells.
func (l *ledger) recovered(path string, attempt int, out agents.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(path)
	if a.last.number != attempt {
		return
	}
	if out.SessionID != "" {
		a.last.session = out.SessionID
	}
	a.last.result.Began = out.Began
}

func (l *ledger) get(path string) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.account(path)
}

func (l *ledger) account(path string) *account {
	a := l.steps[path]
	if a == nil {
		a = &account{}
		l.steps[path] = a
	}
	return a
}

// charge adds what the step's earlier attempts used to the result of this one.
func (a account) charge(r *Result) {
	r.DurationMS += a.durationMS
	if a.usage != nil {
		sum := *a.usage
		if r.Usage != nil {
			sum = sum.Add(*r.Usage)
		}
		r.Usage = &sum
	}
	if a.costUSD != nil {
		sum := *a.costUSD
		if r.CostUSD != nil {
			sum += *r.CostUSD
		}
		r.CostUSD = &sum
	}
}
