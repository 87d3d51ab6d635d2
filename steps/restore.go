package steps

import (
	"encoding/json"
	"errors"
	"fmt"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps/workspace"
)

// Restore brings the machine and the executor to where the records and events of
// an earlier process end. The machine follows the records that count; what agents used
// counts also where an update took the records of it back. exits are what the guardian
// of that process left. It must come before the first Exec.
func (x *Executor) Restore(m *dag.Machine, records []state.Record, events func(func([]byte) error) error, exits []proc.Record) error {
	effective, err := Effective(records)
	if err != nil {
		return err
	}
	for f, err := range Facts(effective) {
		if err != nil {
			return err
		}
		if err := m.Apply(f); err != nil {
			return fmt.Errorf("the journal contradicts itself: %w", err)
		}
	}
	for _, r := range records {
		if err := x.restore(r); err != nil {
			return err
		}
	}
	pending, err := PendingPermissions(records)
	if err != nil {
		return err
	}
	x.answers.restore(pending)
	x.exits = map[string]proc.Record{}
	for _, e := range exits {
		x.exits[e.Label] = e
		x.clearTemporary(e.Label)
	}
	if x.half.left, err = workspace.HalfMerges(x.Store.Dir()); err != nil {
		return err
	}
	return errors.Join(x.restoreEvents(events), x.sealLeft())
}

// restore takes in what a record says of attempts.
func (x *Executor) restore(r state.Record) error {
	switch r.Type {
	case recordNotified:
		return x.restoreNotified(r)
	case recordUpdate:
		u, err := readUpdate(r)
		if err != nil {
			return err
		}
		if u.Plan != "" { // not one of the run that this one took over
			x.updated = u.Attempts
		}
		x.ledger.takeBack(pathSet(u.Dropped))
		return x.ledger.note(u.fact())
	case recordFact:
		f, err := readFact(r)
		if err != nil {
			return err
		}
		return x.ledger.note(f)
	case recordSession:
		var s SessionSeen
		if err := json.Unmarshal(r.Data, &s); err != nil {
			return fmt.Errorf("record %d of the journal names no session: %w", r.Seq, err)
		}
		x.ledger.sessionSeen(s.Path, s.Attempt, s.Session)
	case recordChat:
		return x.noteChat(r)
	case recordMasked:
		return x.restoreMasked(r)
	}
	return nil
}

// past is what an earlier process of the run has recorded as events. It is only read
// once Restore has returned.
type past struct {
	marks map[string]mark    // by native file
	own   map[attemptKey]int // events that stand in no native file, apart from notices
	// permits are the calls that were permitted, by tool id.
	permits map[attemptKey]map[string]bool
	decided map[requestKey]bool // requests for permission
}

// printed reports whether events stand for lines of a native file. The file itself may have
// been lost in a power failure.
func (p *past) printed(file string) bool { return p.marks[file] != (mark{}) }

// A requestKey names a request for permission. The ids of requests begin anew in each
// process of an attempt.
type requestKey struct {
	attemptKey
	request, tool string
}

// unanswered reports whether an event that is read again is a request for permission that
// flow died before answering. fresh says that it was not on record.
func (p *past) unanswered(key attemptKey, b agents.Body, fresh bool) bool {
	r, ok := b.(agents.PermissionRequested)
	return ok && (fresh || !r.Preliminary && !p.decided[requestKey{key, r.RequestID, r.ToolID}])
}

// permit notes a decision about a call.
func (p *past) permit(key attemptKey, tool, decision string) {
	if tool == "" || decision != agents.EffectAllow {
		return
	}
	if p.permits[key] == nil {
		p.permits[key] = map[string]bool{}
	}
	p.permits[key][tool] = true
}

// A mark is the last native line of a file that has become events, and how many: a
// crash may have come between two events of one line.
type mark struct {
	offset int64
	events int
}

type attemptKey struct {
	step    string
	attempt int
}

// restoreEvents learns what has been recorded, and the last event's number.
func (x *Executor) restoreEvents(events func(func([]byte) error) error) error {
	x.before = past{map[string]mark{}, map[attemptKey]int{}, map[attemptKey]map[string]bool{}, map[requestKey]bool{}}
	return events(func(line []byte) error {
		// encoding/json, because what an agent sent may be nested deeper than fastjson reads.
		var e struct {
			Seq     int64          `json:"seq"`
			Type    string         `json:"type"`
			Step    string         `json:"step"`
			Attempt int            `json:"attempt"`
			Native  *agents.Native `json:"native"`

			RequestID string `json:"requestId"` // of a decision
			ToolID    string `json:"toolId"`    // of a decision
			Decision  string `json:"decision"`  // of a decision
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("an event cannot be read: %w", err)
		}
		x.recorder.seq = max(x.recorder.seq, e.Seq)
		x.recorder.note(e.Step, e.Seq)
		if e.Decision != "" {
			x.before.decided[requestKey{attemptKey{e.Step, e.Attempt}, e.RequestID, e.ToolID}] = true
		}
		if e.Native == nil {
			if isNotice(e.Type) || isDelta(e.Type) {
				x.before.permit(attemptKey{e.Step, e.Attempt}, e.ToolID, e.Decision)
				return nil
			}
			x.before.own[attemptKey{e.Step, e.Attempt}]++
			return nil
		}
		m, ok := x.before.marks[e.Native.File]
		if !ok || e.Native.Offset > m.offset {
			m = mark{offset: e.Native.Offset}
		}
		m.events++
		x.before.marks[e.Native.File] = m
		return nil
	})
}

// A filter passes on the events of a stream that is translated again, but for those
// that were recorded the first time. The same lines give the same events, so that
// counting them is enough.
type filter struct {
	marks map[string]mark
	own   *int           // events of flow's own still to be left out
	at    map[string]int // by native file: events left out of the line at its mark
	pass  func(agents.Event)
	skip  func(agents.Event) // is given the others
}

// event reports whether it passed the event on.
func (f *filter) event(e agents.Event) bool {
	fresh := !f.recorded(e.Native)
	if fresh {
		f.pass(e)
	} else {
		f.skip(e)
	}
	return fresh
}

func (f *filter) recorded(n *agents.Native) bool {
	if n == nil {
		*f.own--
		return *f.own >= 0
	}
	m, ok := f.marks[n.File]
	if !ok || n.Offset != m.offset {
		return ok && n.Offset < m.offset
	}
	f.at[n.File]++
	return f.at[n.File] <= m.events
}
