package agents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Translator drives a Dialog over the lines of one process and completes what
// it says: envelopes, tools that were left open, and the SessionEnded event at
// the end. One goroutine may use it at a time.
type Translator struct {
	dialog   Dialog
	envelope Event // the fields that all events share
	now      func() time.Time
	seq      int64
	emit     func(Event)
	open     map[string]int64 // tools that have not completed, by id: the seq of their start
	session  string
	unread   int    // lines that could not be read
	why      string // of the last of them
	stuck    int64  // bytes of a line that was not read and cannot be done without; 0: there is none
}

// Envelope is what a Translator puts on every event.
type Envelope struct {
	Agent   string
	Run     string
	Step    string
	Attempt int
	Session string // known before the agent says it, or ""
}

// NewTranslator returns a translator that calls emit for every event. Events
// without a time of their own get one from now; they are numbered from 1, and
// whoever joins several streams numbers them anew.
func NewTranslator(d Dialog, env Envelope, now func() time.Time, emit func(Event)) *Translator {
	return &Translator{
		dialog:   d,
		envelope: Event{AgentType: env.Agent, Run: env.Run, Step: env.Step, Attempt: env.Attempt},
		now:      now, emit: emit, session: env.Session, open: map[string]int64{},
	}
}

// A SessionNamer is a Dialog that can tell its session's id before the end.
type SessionNamer interface{ SessionID() string }

// An Ender is a Dialog that can tell whether the turn has ended although the process goes
// on. A further turn in the same process may make that false again.
type Ender interface{ Ended() bool }

// Stdout translates one line of standard output, found at native. One that is no UTF-8 is
// said to be malformed besides: the texts of its events have U+FFFD where they differ from
// the native line, since JSON holds nothing else.
func (t *Translator) Stdout(line []byte, native Native) {
	if !utf8.Valid(line) {
		t.send([]Event{{Body: NewMalformed("the line is not valid UTF-8", line)}}, &native)
	}
	t.send(t.dialog.Line(line), &native)
}

// Sent translates one line that another client wrote to the agent, found at native. The
// dialog must be a Conversation.
func (t *Translator) Sent(line []byte, native Native) {
	if c, ok := t.dialog.(Conversation); ok {
		t.send(c.Sent(line), &native)
	}
}

// Oversized reports a line of which only the beginning, line, was kept.
func (t *Translator) Oversized(line []byte, native Native) {
	m := NewMalformed("line of "+strconv.FormatInt(native.Length, 10)+" bytes is over the decode cap", line)
	m.Truncated = true
	if _, talks := t.dialog.(Conversation); talks && t.stuck == 0 && awaited(line) {
		t.stuck = native.Length
	}
	t.send([]Event{{Body: m}}, &native)
}

// Stderr translates one line of standard error, found at native.
func (t *Translator) Stderr(line []byte, native Native) {
	t.send(t.dialog.Stderr(line), &native)
}

// Emit sends an event of flow's own.
func (t *Translator) Emit(b Body) { t.send([]Event{{Body: b}}, nil) }

// SessionID is the native session id as far as it is known.
func (t *Translator) SessionID() string { return t.session }

// End closes what is open and says what the process's end means.
func (t *Translator) End(exit Exit) Outcome {
	out := t.dialog.End(exit)
	out.seen(exit)
	if p := out.Problem; p != nil && t.Stuck() && exit.Intent == IntentDone {
		out.Reason, out.Problem = Failed, t.untold(p.Agent)
	}
	if out.SessionID != "" {
		t.session = out.SessionID
	}
	t.closeTools("no result before the session ended")
	t.tellUnread(&out)
	t.Emit(ended(out, exit))
	return out
}

// seen adds to an outcome that is no success what every agent's end may mean.
func (o *Outcome) seen(exit Exit) {
	switch {
	case o.Problem == nil:
	case exit.Overflow:
		o.Reason, o.Problem = Failed, Overflowed(o.Problem.Agent)
	case exit.Err != nil && HintOf(exit.Err) != "":
		p := *o.Problem
		p.Hint = HintOf(exit.Err)
		o.Problem = &p
	}
}

// tellUnread says of lines that could not be read, where they may be why there is no result.
func (t *Translator) tellUnread(out *Outcome) {
	if t.unread == 0 || t.Stuck() && out.Problem != nil { // that is said already
		return
	}
	text := fmt.Sprintf("%d of the lines that it printed could not be read, the last of them: %s", t.unread, t.why)
	if p := out.Problem; p != nil && (p.Cause == CauseIncomplete || p.Cause == CauseProtocol || p.Cause == CauseTimeout) {
		p.Message += "; " + text
		return
	}
	t.Emit(System{Subtype: "warning", Message: text})
}

// closeTools ends the tools that are open, without a result for the reason why.
func (t *Translator) closeTools(why string) {
	begun := func(a, b string) int { return cmp.Compare(t.open[a], t.open[b]) }
	for _, id := range slices.SortedFunc(maps.Keys(t.open), begun) {
		t.Emit(ToolCompleted{ToolID: id, Error: why})
	}
}

func ended(o Outcome, exit Exit) SessionEnded {
	e := SessionEnded{
		Reason: o.Reason, Model: o.Model, Text: o.Text, Output: o.Output,
		FinalUsage: o.Usage, CostUSD: o.CostUSD, DurationMS: o.Duration.Milliseconds(), Signal: exit.Signal,
	}
	if exit.Signal == "" && exit.Err == nil {
		e.ExitCode = &exit.Code
	}
	if p := o.Problem; p != nil {
		e.Cause, e.Error, e.Hint = p.Cause, p.Message, p.Hint
		if !p.RetryAfter.IsZero() {
			e.RetryAfter = &p.RetryAfter
		}
	}
	return e
}

func (t *Translator) send(events []Event, native *Native) {
	if n, ok := t.dialog.(SessionNamer); ok && n.SessionID() != "" {
		t.session = n.SessionID()
	}
	for _, e := range events {
		if e.Body == nil || !t.track(e.Body) {
			continue
		}
		at := e.Time
		if at.IsZero() {
			at = t.now()
		}
		body := e.Body
		e = t.envelope
		e.Type, e.SessionID, e.Time, e.Native, e.Body = body.Type(), t.session, at, native, body
		t.seq++
		t.emit(e.Numbered(t.seq))
	}
}

// Numbered returns e as the seq-th event of its stream or run.
func (e Event) Numbered(seq int64) Event {
	e.Seq, e.ID = seq, strconv.FormatInt(seq, 10)
	return e
}

// track follows which tools are open, and reports whether the event is to be
// sent: the second end of a tool is not.
func (t *Translator) track(b Body) bool {
	switch x := b.(type) {
	case Malformed:
		t.unread, t.why = t.unread+1, x.Error
	case ToolStarted:
		if _, open := t.open[x.ToolID]; open {
			return false
		}
		t.open[x.ToolID] = t.seq
	case ToolCompleted:
		if _, open := t.open[x.ToolID]; !open {
			return false
		}
		delete(t.open, x.ToolID)
	}
	return true
}
