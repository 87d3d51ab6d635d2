package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"flow/agents"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// budgets follows what attempts under way have used and may yet use. What earlier
// attempts used is in the ledger.
type budgets struct {
	mu      sync.Mutex
	running map[string]*reservation // by path
	changed chan struct{}           // closed when something has settled
	warned  map[string]bool         // by path: budgets of which it was said that they are used up
}

// A reservation is what an attempt has used, and what its turn under way may use.
type reservation struct {
	used, held spending
	turn       bool
}

// A purse is what an attempt has to do with budgets.
type purse struct {
	reserved bool   // what the next turn may use is reserved
	bound    *limit // the budget that MaxCostUSD of the latest turn comes from, or nil
	over     *limit // the budget that a turn could not begin for, or nil
}

func newBudgets() *budgets {
	return &budgets{running: map[string]*reservation{}, changed: make(chan struct{}), warned: map[string]bool{}}
}

// settle ends the turn under way of an attempt, which used what it used.
func (b *budgets) settle(path string, used spending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(path)
	*r = reservation{used: r.used.plus(used)}
	b.news()
}

// spent takes in what a turn of the attempt used.
func (a *attempt) spent(turn spending) {
	a.x.budgets.settle(a.task.Path, turn)
	if d := a.result.Dearest; d != nil {
		turn = turn.atLeast(spending{d.USD, d.Tokens})
	}
	if turn != (spending{}) {
		a.result.Dearest = &TurnCost{turn.usd, turn.tokens}
	}
}

// release forgets an attempt whose result is in the ledger.
func (b *budgets) release(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[path] != nil {
		delete(b.running, path)
		b.news()
	}
}

func (b *budgets) of(path string) *reservation {
	if b.running[path] == nil {
		b.running[path] = &reservation{}
	}
	return b.running[path]
}

// news wakes all who wait for something to settle.
func (b *budgets) news() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// underWay is what attempts that l covers have used, what their turns may yet use, and
// whether there are such turns but that of path.
func (b *budgets) underWay(l limit, path string) (used, held spending, others bool) {
	for p, r := range b.running {
		if !l.covers(p) {
			continue
		}
		used = used.plus(r.used)
		if p != path && r.turn {
			held, others = held.plus(r.held), true
		}
	}
	return used, held, others
}

// firstWarning reports whether l is exceeded for the first time.
func (b *budgets) firstWarning(l limit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.warned[l.path]
	b.warned[l.path] = true
	return first
}

// limits are the budgets that the attempt counts against, from outside in.
func (a *attempt) limits() []limit {
	var all []limit
	add := func(path string, b *pipeline.Budget) {
		if b != nil {
			all = append(all, limit{path: path, budget: b})
		}
	}
	add("", a.x.Plan.Budget)
	last := ""
	for _, e := range append(slices.Clip(a.task.Around), dag.Enclosing{Path: a.task.Path, Step: a.task.Step}) {
		if path := outermost(e.Path); path != last {
			add(path, e.Step.Budget)
			last = path
		}
		if isCall(e) {
			add(e.Path, e.Step.Call.Plan.Budget)
		}
	}
	return all
}

// reserve sets aside what the next turn may use, in every budget that it counts against.
// While others may yet use what is left, it waits for what they do. It returns how the
// attempt ends when there is no room, nil otherwise.
func (a *attempt) reserve(ctx context.Context) *agents.Outcome {
	limits := a.limits()
	if a.reserved || len(limits) == 0 {
		return nil
	}
	for {
		full, changed := a.tryReserve(limits)
		switch {
		case full == nil:
			a.reserved = true
			return nil
		case changed == nil && full.budget.OnExceed == "warn":
			if a.x.budgets.firstWarning(*full) {
				a.notice(noticeBudget, full.name()+" is used up; the run goes on")
			}
			limits = without(limits, *full)
		case changed == nil:
			a.over = full
			return &agents.Outcome{Reason: agents.Failed, Problem: &agents.Problem{
				Agent: a.step.Agent, Cause: agents.CauseBudget, Message: a.spentOf(*full),
			}}
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return a.gaveUpWaiting(ctx)
			}
		}
	}
}

// gaveUpWaiting is the outcome of a turn that did not begin before its time was up.
func (a *attempt) gaveUpWaiting(ctx context.Context) *agents.Outcome {
	cause := agents.CauseTimeout
	if a.intent(context.Cause(ctx)) == agents.IntentCancel {
		cause = agents.CauseCancelled
	}
	return &agents.Outcome{Reason: agents.Failed, Problem: &agents.Problem{
		Agent: a.step.Agent, Cause: cause, Message: "waited for other agents to say how much of the budget they leave",
	}}
}

func without(limits []limit, l limit) []limit {
	var rest []limit
	for _, other := range limits {
		if other.budget != l.budget {
			rest = append(rest, other)
		}
	}
	return rest
}

// tryReserve reserves, or returns the first budget that has no room, and, when others
// that are under way may leave some, what tells that one of them has settled.
func (a *attempt) tryReserve(limits []limit) (full *limit, changed <-chan struct{}) {
	b := a.x.budgets
	b.mu.Lock()
	defer b.mu.Unlock()
	want := a.x.ledger.likely(a.task.Path, a.step.Agent)
	bounded := a.adapter().Info().Capabilities.MaxCost
	a.bound = nil
	for _, l := range limits {
		used, held, others := b.underWay(l, a.task.Path)
		spent := a.x.ledger.spent(l).plus(used)
		if l.exceeds(spent.plus(held), want) {
			if others {
				return &l, b.changed
			}
			return &l, nil
		}
		l.left = l.budget.USD - spent.usd - held.usd
		if bounded && l.budget.USD > 0 && l.budget.OnExceed != "warn" && (a.bound == nil || l.left < a.bound.left) {
			a.bound = &l
		}
	}
	if most := a.profile().MaxCostUSD; most > 0 {
		if a.bound == nil || most <= a.bound.left {
			a.bound = nil // the profile's own bound comes first
		} else {
			most = a.bound.left
		}
		want.usd = max(want.usd, most)
	}
	r := b.of(a.task.Path)
	r.held, r.turn = want, true
	return nil, nil
}

// spentOf says how a budget stands that has no room for the next turn.
func (a *attempt) spentOf(l limit) string {
	spent := a.x.ledger.spent(l)
	a.x.budgets.mu.Lock()
	used, _, _ := a.x.budgets.underWay(l, "")
	a.x.budgets.mu.Unlock()
	spent = spent.plus(used)
	var parts []string
	if l.budget.USD > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", spent.usd))
	}
	if l.budget.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", spent.tokens))
	}
	text := fmt.Sprintf("%s has no room for another turn: %s spent", l.name(), strings.Join(parts, " and "))
	if want := a.x.ledger.likely(a.task.Path, a.step.Agent); want != (spending{}) {
		text += fmt.Sprintf(", and a turn may use %s", likelyText(l, want))
	}
	return text
}

func likelyText(l limit, want spending) string {
	if l.budget.USD > 0 && want.usd > 0 {
		return fmt.Sprintf("$%.4f", want.usd)
	}
	return fmt.Sprintf("%d tokens", want.tokens)
}

// exceeded is the budget that ended the attempt, nil when something else did: one that
// kept a turn from beginning, or the one whose remainder bounded the agent.
func (a *attempt) exceeded(c agents.Cause) *limit {
	if c != agents.CauseBudget {
		return nil
	}
	return cmp.Or(a.over, a.bound)
}

// A BudgetError is why a run was stopped whose budget is used up.
type BudgetError struct {
	Message string
	Hint    string
}

func (e *BudgetError) Error() string { return e.Message }

// overBudget is the fact of an attempt that a budget ended: by `on-exceed` it stops the
// whole run, for a resume with a larger budget to go on, or fails for good.
func (a *attempt) overBudget(l limit, message string) dag.Fact {
	if a.over == nil {
		message = l.name() + " is used up: " + message
	}
	if l.budget.OnExceed == "fail" {
		return a.refused(&agents.Problem{Agent: a.step.Agent, Cause: agents.CauseBudget, Message: message, Hint: "raise `budget`, or ask for less"})
	}
	e := &BudgetError{Message: message, Hint: "raise `budget` in the pipeline: flow resume " + a.x.RunID + " --update"}
	if l.path == "" {
		e.Hint = "raise it: flow resume " + a.x.RunID + " " + l.flag()
	}
	if a.x.Stop != nil {
		a.x.Stop(e)
	}
	a.result.Error, a.result.Cause, a.result.Hint = head(message, messageMax), string(agents.CauseBudget), e.Hint
	return dag.Fact{Kind: dag.Stopped, Reason: a.result.Error, Cause: a.result.Cause, Result: a.charged()}
}

// flag raises the budget to twice what it is.
func (l limit) flag() string {
	if l.budget.USD > 0 {
		return "--budget-usd " + strconv.FormatFloat(2*l.budget.USD, 'f', -1, 64)
	}
	return "--budget-tokens " + strconv.FormatInt(2*l.budget.Tokens, 10)
}
