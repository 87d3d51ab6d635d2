package steps

import (
	"encoding/json"
	"slices"
	"sync"

	"flow/agents"
	"flow/pipeline/dag"
)

// A ledger follows what the facts say of each step's attempts: which sessions they
// used, how they ended and what they cost. It is fed by every fact, when it
// happens and when a run is read again, and may be used concurrently.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account      // by step path
	largest  map[string]spending      // what the dearest turn used: by "step" and path without numbers, and by "agent" and profile
	totals   map[string]*agents.Usage // by native session: what it has used so far, where its agent counts so
	versions map[string]string        // by profile: that its CLI said last
	ends     int                      // how many steps have succeeded
	dropped  map[string]spending      // by path: what was used for work that an update took back
}

// An account is what is known of a step's attempts. Its values are never changed in
// place, so a copy is a snapshot.
type account struct {
	failures int   // since the step was last given a fresh start
	open     []int // attempts that began and left no result: flow died
	first    int   // the attempt that the step began with, by the plan of today
	attempt  int   // the latest that began
	session  string
	cause    agents.Cause    // of the latest failure
	opened   json.RawMessage // the result of its Opened fact
	question *Question       // that stands: it was asked and not answered
	// workspace is the step's own, once it has been made.
	workspace *Workspace
	tree      string // of the workspace before its first attempt
	succeeded int    // when, counted over all steps; 0: it has not
	told      string // the status that somebody was told of
	telling   string // the status that scripts were started for last, by the journal
	lookup    string // the cache's entry that an attempt was about to take
	// held is the session whose history holds the step's prompt, "" if none.
	held string
	// answered is the result of an attempt whose agent had finished, nil if there is
	// nothing to take over.
	answered *Result
	// agent is the profile that the step is on, "" for its own; fellBack says that it
	// stands in for another one. next and failed are of the latest attempt, if it failed.
	agent    string
	fellBack bool
	next     *Next
	failed   *Result

	usage      *agents.Usage // these three add up over all attempts with a result
	costUSD    *float64
	durationMS int64
}

func newLedger() *ledger {
	return &ledger{accounts: map[string]*account{}, largest: map[string]spending{}, totals: map[string]*agents.Usage{}, versions: map[string]string{}, dropped: map[string]spending{}}
}

// note takes in a fact. One without a result says nothing of sessions and costs: the
// driver's own word that an attempt was stopped, say.
func (l *ledger) note(f dag.Fact) error {
	if f.Kind == dag.Opened {
		l.opened(f)
		return nil
	}
	result, err := DecodeResult(f.Result)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(f.Path)
	switch f.Kind {
	case dag.Started:
		a.begin(f, result)
		return nil
	case dag.Reopened:
		a.reopen()
		told := a.told
		l.untell(f.Path)
		if told == string(dag.Waiting) {
			a.told = told // the question still stands
		}
	case dag.Updated:
		l.untell("")
	case dag.Failed:
		if result.Next == nil {
			a.failures++
		}
		a.failed, a.question = &result, nil
	case dag.Succeeded:
		l.ends++
		a.succeeded, a.question, a.failed = l.ends, nil, nil
	case dag.Stopped:
		a.failed = nil
	default:
	}
	if len(f.Result) > 0 && a.attempt > 0 {
		l.settle(a, f.Path, f.Attempt, result)
	}
	return nil
}

// takeBack forgets the steps at paths and all within them, but not what they used.
func (l *ledger) takeBack(paths map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path := range paths {
		l.untell(path)
	}
	for path, a := range l.accounts {
		if !within(path, paths) {
			continue
		}
		if a.attempt > 0 { // a node that only holds others repeats what these used
			l.dropped[path] = l.dropped[path].plus(spendingOf(a.usage, a.costUSD))
		}
		delete(l.accounts, path)
	}
}

// opened keeps what the node has found out when it was opened.
func (l *ledger) opened(f dag.Fact) {
	if len(f.Result) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(f.Path).opened = f.Result
}

// begin takes in that an attempt was started.
func (a *account) begin(f dag.Fact, r Result) {
	a.open = append(slices.Clip(a.open), f.Attempt)
	a.attempt, a.session, a.cause = f.Attempt, f.Session, ""
	if a.first == 0 {
		a.first = f.Attempt
	}
	if r.Question != nil {
		a.question = r.Question
	}
	if r.Workspace != nil {
		a.workspace = r.Workspace
	}
	if r.Tree != "" {
		a.tree = r.Tree
	}
	a.lookup = r.Lookup
}

// reopen gives the step a fresh start: once all agents that could take over have
// failed, the first one has another chance.
func (a *account) reopen() {
	a.failures, a.next = 0, nil
	if a.fellBack && a.failed != nil {
		a.agent, a.fellBack, a.session, a.held, a.answered = "", false, "", "", nil
	}
}

func (l *ledger) settle(a *account, path string, attempt int, r Result) {
	if a.attempt == attempt { // not one that was refused before it began
		a.open = nil
	}
	if r.Session != "" {
		a.session = r.Session
	}
	if r.Began {
		a.held = r.Session
	}
	if r.Session != "" && r.SessionUsage != nil {
		l.totals[r.Session] = r.SessionUsage
	}
	if a.answered = nil; r.Answered {
		a.answered = &r
	}
	if r.Version != "" {
		l.versions[r.Agent] = r.Version
	}
	a.cause = agents.Cause(r.Cause)
	a.next = r.Next
	if a.next != nil && a.next.Agent != "" {
		a.agent, a.fellBack, a.session, a.held = a.next.Agent, true, "", ""
	} else if r.Agent != "" {
		a.agent = r.Agent
	}
	l.measure(path, r)
	a.usage, a.costUSD, a.durationMS = r.Usage, r.CostUSD, r.DurationMS
}

// upgraded notes the version of a profile's CLI, and returns the one before if that was
// another.
func (l *ledger) upgraded(profile, version string) (before string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before = l.versions[profile]; before == version {
		before = ""
	}
	l.versions[profile] = version
	return before
}

// sessionSeen notes the native session that an attempt has named.
func (l *ledger) sessionSeen(path string, attempt int, session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.account(path); a.attempt == attempt {
		a.session = session
	}
}

// used notes the total of a session, as far as it is known.
func (l *ledger) used(session string, total *agents.Usage) {
	if session == "" || total == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals[session] = total
}

// total is what a session has used, nil when that is not known.
func (l *ledger) total(session string) *agents.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals[session]
}

// get returns a snapshot of a step's account.
func (l *ledger) get(path string) account {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[path]; a != nil {
		return *a
	}
	return account{}
}

func (l *ledger) account(path string) *account {
	a := l.accounts[path]
	if a == nil {
		a = &account{}
		l.accounts[path] = a
	}
	return a
}

// charge adds what the step's earlier attempts used to the result of this one.
func (a account) charge(r *Result) {
	r.DurationMS += a.durationMS
	r.Usage = sumUsage(a.usage, r.Usage)
	r.CostUSD = sumCost(a.costUSD, r.CostUSD)
}

// sumUsage adds two counts, either of which may be unknown. It shares neither.
func sumUsage(u, v *agents.Usage) *agents.Usage {
	if u == nil {
		u, v = v, nil
	}
	if u == nil {
		return nil
	}
	sum := *u
	if v != nil {
		sum = sum.Add(*v)
	}
	return &sum
}

// sumCost adds two prices, either of which may be unknown.
func sumCost(x, y *float64) *float64 {
	if x == nil {
		x, y = y, nil
	}
	if x == nil {
		return nil
	}
	sum := *x
	if y != nil {
		sum += *y
	}
	return &sum
}
