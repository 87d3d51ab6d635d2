package native

import (
	"strings"
	"time"

	"flow/agents"
)

// Turns counts the turns of a session that a History reads, and what they use.
type Turns struct {
	messages int           // prompts, and answers to them
	total    *agents.Usage // used by all turns, nil when nothing is known
	used     *agents.Usage // by the turn under way
	partial  bool          // some turns were not seen
	open     bool          // a prompt has come and its turn has not ended
	answered bool          // the turn's answer is counted
}

// Prompt begins a turn. It returns the events that say so, the end of the turn before
// among them.
func (t *Turns) Prompt() []agents.Event {
	events := append(t.End(0), agents.Event{Body: agents.TurnStarted{}})
	t.open, t.answered = true, false
	t.messages++
	return events
}

// Answer notes a text of the agent.
func (t *Turns) Answer() {
	if !t.answered {
		t.answered = true
		t.messages++
	}
}

// Use adds what calls of the model used, and tells what the turn has used so far.
func (t *Turns) Use(u agents.Usage) []agents.Event {
	if u == (agents.Usage{}) {
		return nil
	}
	t.used, t.total = plus(t.used, u), plus(t.total, u)
	return []agents.Event{{Body: agents.UsageReport{Usage: *t.used}}}
}

// End ends the turn under way, if there is one.
func (t *Turns) End(took time.Duration) []agents.Event {
	if !t.open {
		return nil
	}
	done := agents.TurnCompleted{Usage: t.used, DurationMS: took.Milliseconds()}
	t.open, t.used = false, nil
	return []agents.Event{{Body: done}}
}

// Skip says that turns may be missing from here on.
func (t *Turns) Skip() { t.partial = true }

// Count returns the number of messages and what all turns have used: 0 and nil when that is
// not known.
func (t *Turns) Count() (messages int, total *agents.Usage) {
	if t.partial {
		return 0, nil
	}
	return t.messages, t.total
}

// plus returns the sum as a new value: the old one may stand in an event.
func plus(u *agents.Usage, v agents.Usage) *agents.Usage {
	if u != nil {
		v = v.Add(*u)
	}
	return &v
}

// titleMax is the longest title, in characters.
const titleMax = 100

// Title is the beginning of a prompt as one line.
func Title(prompt string) string {
	if len(prompt) > 8*titleMax {
		prompt = prompt[:8*titleMax] // what follows would be cut anyway
	}
	title := []rune(strings.Join(strings.Fields(prompt), " "))
	if len(title) > titleMax {
		return string(title[:titleMax-1]) + "…"
	}
	return string(title)
}
