package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"flow/pipeline/dag"
	"flow/state"
	"flow/state/failpoint"
)

// The types of the records that steps write to a run's journal.
const (
	recordFact    = "fact"    // a dag.Fact
	recordSession = "session" // a SessionSeen

	recordPermission = "permission" // a PermissionAsked

	recordNotified = "notified" // a Notified
)

// Journal stores facts durably before they are acted on. It is a local.Journal.
type Journal struct{ x *Executor }

// Journal returns the journal of the executor's run.
func (x *Executor) Journal() Journal { return Journal{x} }

// Append returns when the fact survives a crash of flow. What could not be learnt
// again from elsewhere (a session's id, a result) also survives one of the machine.
func (j Journal) Append(ctx context.Context, f dag.Fact) error {
	failpoint.Reach("fact-made")
	durable := f.Session != "" || len(f.Result) > 0
	if err := j.x.Store.Append(ctx, recordFact, f, durable); err != nil {
		return err
	}
	failpoint.Reach("fact-stored")
	if err := j.x.ledger.note(f); err != nil {
		return err
	}
	if f.Kind != dag.Started {
		j.x.budgets.release(f.Path)
	}
	return nil
}

// Facts returns the facts among a run's records, in order; an update is one.
func Facts(records []state.Record) iter.Seq2[dag.Fact, error] {
	return func(yield func(dag.Fact, error) bool) {
		for _, r := range records {
			if r.Type == recordFact && !yield(readFact(r)) || r.Type == recordUpdate && !yield(updatedFact(r)) {
				return
			}
		}
	}
}

func readFact(r state.Record) (f dag.Fact, err error) {
	if err := json.Unmarshal(r.Data, &f); err != nil {
		return f, fmt.Errorf("record %d of the journal is no fact: %w", r.Seq, err)
	}
	return f, nil
}
