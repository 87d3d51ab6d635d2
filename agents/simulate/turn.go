package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"flow/agents"
)

// The modes of a turn.
const (
	modeNew    = "new"
	modeResume = "resume"
	modeFork   = "fork"
)

// A turn is one prompt on its way to an answer.
type turn struct {
	*process
	*stream
	store   store
	session *session
	script  script
	mode    string
	prompt  string
	dir     string          // where tools work, absolute
	schema  json.RawMessage // of the answer, or nil
	// survives says that a running command outlives an interrupted turn.
	survives bool
	left     []running // commands that did
	cancel   context.CancelCauseFunc
	gone     bool // the process ended with the turn, as the script wants it

	odd      oddities
	faults   map[string]fault // that hold
	requests int              // made of the model so far
	spent    agents.Usage     // by them, once the turn is charged
	counted  map[string]bool  // what store.first said of each key
}

// A voice is how one CLI speaks: what it prints when something happens. Functions
// that end the turn return the exit status.
type voice interface {
	open()                          // the first lines, before the model is asked
	say(text string)                // a message that is not the answer
	begin(c call) (call, bool)      // tells of a call; how it is to be made, if it may be
	end(c call, r result)           // what became of a call that was made
	answer(a answer) int            // the answer, and the end
	fail(cause agents.Cause) int    // a failure, and the end
	interrupt(cause error) int      // a signalled error or errClosed
	fails(cause agents.Cause) error // nil if the CLI can fail by cause
}

// prepare reads the script for a turn whose other fields are set.
func (t *turn) prepare(v voice) (err error) {
	own := t.env(EnvScript + "_" + strings.ToUpper(t.name))
	if t.script, err = parseScript(cmp.Or(own, t.env(EnvScript))); err != nil {
		return err
	}
	if t.stream == nil {
		t.stream = &stream{w: t.stdout}
	}
	t.pace, t.ctx, t.err = t.script.delay, context.Background(), nil
	if t.counted == nil {
		t.counted = map[string]bool{}
	}
	if t.script.failing.set {
		return v.fails(t.script.cause)
	}
	return nil
}

// accept keeps the prompt, before anything is answered.
func (t *turn) accept() error {
	t.session.Turns = append(t.session.Turns, turnRecord{Prompt: t.prompt})
	save := t.store.save
	if t.mode != modeResume {
		save = t.store.create
	}
	if err := save(t.session); err != nil {
		return err
	}
	return t.note(false)
}

// run plays the turn and returns the exit status.
func (t *turn) run(v voice) (int, error) {
	ctx, stop := watch()
	defer stop()
	return t.play(ctx, v)
}

// play is run in a process that watches for signals itself.
func (t *turn) play(ctx context.Context, v voice) (int, error) {
	if err := t.arm(); err != nil {
		return 0, err
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	defer t.cancel(nil)
	if t.has(faultDeaf) {
		t.ctx, t.cancel = context.Background(), func(error) {}
	}
	t.begins(v)
	for _, part := range []func(voice) (int, bool, error){t.disturb, t.misbehave, t.inquire, t.useTools, t.breakOff} {
		status, ended, err := part(v)
		if ended || err != nil {
			return status, err
		}
		if cause := t.interrupted(); cause != nil {
			return v.interrupt(cause), nil
		}
	}
	return t.finish(v)
}

// disturb does what stands in the way without ending the turn.
func (t *turn) disturb(voice) (int, bool, error) {
	stall, err1 := t.holds(t.script.stalling)
	orphan, err2 := t.holds(t.script.orphaning)
	rubbish, err3 := t.holds(t.script.rubbish)
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, true, err
	}
	if orphan {
		if err := leaveOrphan(t.script.orphan); err != nil {
			return 0, true, err
		}
	}
	if stall {
		t.pause(t.script.stall)
	}
	if rubbish {
		t.write([]byte("this line is no JSON\n"))
		t.write([]byte(`{"type":"torn","text":"the line ends he` + "\n"))
	}
	return 0, false, nil
}

// useTools makes the calls of the script.
func (t *turn) useTools(v voice) (int, bool, error) {
	for _, c := range t.script.calls {
		t.requests++
		if err := t.look(&c); err != nil {
			return 0, true, err
		}
		c, ok := v.begin(c)
		if t.interrupted() != nil {
			return 0, false, nil
		}
		if !ok {
			continue
		}
		r, err := t.call(c)
		if err != nil {
			return 0, true, err
		}
		if t.interrupted() != nil {
			return 0, false, nil
		}
		v.end(c, r)
	}
	return 0, false, nil
}

// breakOff ends the turn in one of the ways that give no answer.
func (t *turn) breakOff(v voice) (int, bool, error) {
	for _, way := range []struct {
		when when
		end  func() int
	}{
		{t.script.crashing, func() int { return crash(t.script.signal) }},
		{t.script.exiting, func() int { return t.script.status }},
		{t.script.silent, func() int { return 0 }},
	} {
		holds, err := t.holds(way.when)
		if err != nil {
			return 0, true, err
		}
		if holds {
			v.say("I am working on it.")
			t.gone = true
			if t.has(faultCut) {
				t.tear()
			}
			return way.end(), true, nil
		}
	}
	holds, err := t.holds(t.script.failing)
	if err != nil || !holds {
		return 0, err != nil, err
	}
	worked := []agents.Cause{agents.CauseBudget, agents.CauseMaxTurns, agents.CauseRefusal} // the model, that is
	if slices.Contains(worked, t.script.cause) {
		if err := t.charge(""); err != nil {
			return 0, true, err
		}
	}
	status := v.fail(t.script.cause)
	if t.err != nil {
		status = v.interrupt(t.err)
	}
	return t.ends(v, status), true, nil
}

// finish answers.
func (t *turn) finish(v voice) (int, error) {
	a, err := t.compose()
	if err != nil {
		return 0, err
	}
	t.requests++
	if err := t.keep(a.text); err != nil {
		return 0, err
	}
	status := v.answer(a)
	if t.err != nil { // something was not printed; a signal after the last line changes nothing
		return v.interrupt(t.err), nil
	}
	return t.ends(v, status), t.note(true)
}

// keep records the answer and what it cost, before it is printed.
func (t *turn) keep(answer string) error {
	last := &t.session.Turns[len(t.session.Turns)-1]
	last.Answer, last.Answered = answer, true
	return t.charge(answer)
}

// charge adds what the turn used to the session.
func (t *turn) charge(answer string) error {
	t.spent = t.used(answer)
	t.session.Usage = t.session.Usage.Add(t.spent)
	return t.store.save(t.session)
}

// used is what the turn needs for an answer: the same for the same prompt, tools
// and answer. A token is taken to be four characters.
func (t *turn) used(answer string) agents.Usage {
	if t.script.tokens != nil {
		return *t.script.tokens
	}
	requests := int64(max(1, t.requests))
	in := requests * int64(100+utf8.RuneCountInString(t.prompt)/4)
	out := 20*(requests-1) + 10 + int64(utf8.RuneCountInString(answer)/4)
	return agents.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
}

// holds reports whether an item holds in this turn.
func (t *turn) holds(w when) (bool, error) {
	if !w.set || w.first == 0 {
		return w.set, nil
	}
	if w.key == "" {
		return t.session.turn() <= w.first, nil
	}
	if known, asked := t.counted[w.key]; asked {
		return known, nil
	}
	first, err := t.store.first(w.first, w.key)
	t.counted[w.key] = first
	return first, err
}

// refuses reports whether the item `no` holds for the answer of this turn.
func (t *turn) refuses() (bool, error) {
	w := t.script.refusing
	if !w.set || w.key == "" {
		return t.holds(w)
	}
	return t.store.among(w.first, w.key, t.dir, t.session.ID)
}

// missing reports whether err says that a session does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
