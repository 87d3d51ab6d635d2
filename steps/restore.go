package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/valyala/fastjson"

	"flow/agents/proc"
	"flow/pipeline/dag"
	"flow/state"
)

// The types of the records that steps write to a run's journal.
const (
	recordFact    = "fact"    // a dag.Fact
	recordSession = "session" // a SessionSeen
)

// Journal stores facts durably before they are acted on. It is a local.Journal.
type Journal struct{ x *Executor }

// Journal returns the journal of the executor's run.
func (x *Executor) Journal() Journal { return Journal{x} }

// Append returns when the fact survives a crash of flow. What could not be learnt
// again from elsewhere (a session's id, a result) also survives one of the machine.
func (j Journal) Append(ctx context.Context, f dag.Fact) error {
	durable := f.Session != "" || len(f.Result) > 0
	if err := j.x.Store.Append(ctx, recordFact, f, durable); err != nil {
		return err
	}
	return j.x.ledger.note(f)
}

// Facts returns the facts among a run's records, in order.
func Facts(records []state.Record) iter.Seq2[dag.Fact, error] {
	return func(yield func(dag.Fact, error) bool) {
		for _, r := range records {
			if r.Type != recordFact {
				continue
			}
			var f dag.Fact
			err := json.Unmarshal(r.Data, &f)
			if err != nil {
				err = fmt.Errorf("record %d of the journal is no fact: %w", r.Seq, err)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// Restore brings the machine and the executor to where the records and events of
// an earlier process end. exits are what the guardian of that process left.
func (x *Executor) Restore(m *dag.Machine, records []state.Record, events func(func([]byte) error) error, exits []proc.Record) error {
	for f, err := range Facts(records) {
		if err != nil {
			return err
		}
		if err := m.Apply(f); err != nil {
			return fmt.Errorf("the journal contradicts itself: %w", err)
		}
		if err := x.ledger.note(f); err != nil {
			return err
		}
	}
	for _, r := range records {
		var s SessionSeen
		if r.Type == recordSession && json.Unmarshal(r.Data, &s) == nil {
			x.ledger.sessionSeen(s.Path, s.Attempt, s.Session)
		}
	}
	x.exits = map[string]proc.Record{}
	for _, e := range exits {
		x.exits[e.Label] = e
	}
	return x.restoreEvents(events)
}

// restoreEvents learns which native lines have become events already, and the last
// event's number.
func (x *Executor) restoreEvents(events func(func([]byte) error) error) error {
	x.recorded, x.endedBefore = map[string]int64{}, map[string]bool{}
	var (
		parser fastjson.Parser
		file   string // of the latest native line of each step's stream
		byStep = map[string]string{}
	)
	return events(func(line []byte) error {
		v, err := parser.ParseBytes(line)
		if err != nil {
			return fmt.Errorf("an event cannot be read: %w", err)
		}
		x.recorder.seq = max(x.recorder.seq, v.GetInt64("seq"))
		step := string(v.GetStringBytes("step"))
		if n := v.Get("native"); n != nil {
			file = string(n.GetStringBytes("file"))
			x.recorded[file] = max(x.recorded[file], n.GetInt64("offset")+n.GetInt64("length")+1)
			byStep[step] = file
		}
		if string(v.GetStringBytes("type")) == "sessionEnded" {
			x.endedBefore[byStep[step]] = true
		}
		return nil
	})
}
