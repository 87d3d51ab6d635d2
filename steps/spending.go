package steps

import (
	"fmt"
	"strconv"
	"strings"

	"flow/agents"
	"flow/pipeline"
)

// A spending is what agents used, or may use.
type spending struct {
	usd    float64
	tokens int64
}

// A TurnCost is what one turn of an agent used.
type TurnCost struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
}

func (s spending) plus(t spending) spending { return spending{s.usd + t.usd, s.tokens + t.tokens} }

func (s spending) atLeast(t spending) spending {
	return spending{max(s.usd, t.usd), max(s.tokens, t.tokens)}
}

// spendingOf is what is known of a use. An agent that names no cost has none.
func spendingOf(u *agents.Usage, usd *float64) (s spending) {
	if u != nil {
		s.tokens = u.TotalTokens
	}
	if usd != nil {
		s.usd = *usd
	}
	return s
}

// A limit is a budget with the node that it is about: what is spent there and within.
type limit struct {
	path   string // "" is the whole run
	budget *pipeline.Budget
	left   float64 // dollars, when a turn was let begin
}

func (l limit) covers(path string) bool {
	return l.path == "" || path == l.path || strings.HasPrefix(path, l.path+".")
}

// exceeds reports whether the budget has no room for want beside what is spent.
func (l limit) exceeds(spent, want spending) bool {
	b := l.budget
	return b.USD > 0 && (spent.usd >= b.USD || spent.usd+want.usd > b.USD) ||
		b.Tokens > 0 && (spent.tokens >= b.Tokens || spent.tokens+want.tokens > b.Tokens)
}

// name is the budget in messages.
func (l limit) name() string {
	var of []string
	if l.budget.USD > 0 {
		of = append(of, dollars(l.budget.USD))
	}
	if l.budget.Tokens > 0 {
		of = append(of, fmt.Sprintf("%d tokens", l.budget.Tokens))
	}
	text := "the budget of " + strings.Join(of, " and ")
	if l.path != "" {
		text += " of step " + l.path
	}
	return text
}

func dollars(usd float64) string { return "$" + strconv.FormatFloat(usd, 'f', -1, 64) }

// spent is what all attempts with a result used at a node and within.
func (l *ledger) spent(at limit) (sum spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, a := range l.accounts {
		if a.attempt > 0 && at.covers(path) { // a node that only holds others repeats what these used
			sum = sum.plus(spendingOf(a.usage, a.costUSD))
		}
	}
	for path, used := range l.dropped {
		if at.covers(path) {
			sum = sum.plus(used)
		}
	}
	return sum
}

// measure learns from a result what a turn of its step, and one of its agent, may use.
func (l *ledger) measure(path string, r Result) {
	if r.Dearest == nil {
		return
	}
	used := spending{r.Dearest.USD, r.Dearest.Tokens}
	for _, key := range []string{stepKey(path), "agent " + r.Agent} {
		l.largest[key] = l.largest[key].atLeast(used)
	}
}

// likely is what a turn of a step may use: as much as the dearest one of that step
// so far, or else of its agent.
func (l *ledger) likely(path, agent string) spending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.largest[stepKey(path)]; s != (spending{}) {
		return s
	}
	return l.largest["agent "+agent]
}

// stepKey is the same for all items, rounds and candidates of a step.
func stepKey(path string) string { return "step " + StaticPath(path) }

// outermost is the path of a step without the numbers of its items and rounds.
func outermost(path string) string {
	for {
		element := path[strings.LastIndexByte(path, '.')+1:]
		if !isNumber(element) {
			return path
		}
		path = strings.TrimSuffix(path, "."+element)
	}
}

func isNumber(element string) bool { return element != "" && element[0] >= '0' && element[0] <= '9' }
