package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"flow/pipeline/dag"
	"flow/state"
)

// recordUpdate is the type of an Update in a run's journal.
const recordUpdate = "updated"

// An Update says that a run goes on with another plan. What the steps in Dropped did
// before is history: it stays in the journal, and no longer counts.
type Update struct {
	// These three are blobs. One that was taken over from another run has none: of its
	// update only the numbers of the attempts hold.
	Pipeline string   `json:"pipeline,omitempty"`
	Plan     string   `json:"plan,omitempty"`
	Inputs   string   `json:"inputs,omitempty"`
	Dropped  []string `json:"dropped,omitempty"` // paths of steps of the plan, each with all within
	// Attempts is the highest number that an attempt has had. Steps that begin again
	// go on from there, so that files of two attempts are never mixed up.
	Attempts int `json:"attempts"`
}

// NewUpdate returns the update for a run with these records.
func NewUpdate(records []state.Record, dropped []string) (Update, error) {
	u := Update{Dropped: dropped}
	for f, err := range Facts(records) {
		if err != nil {
			return u, err
		}
		u.Attempts = max(u.Attempts, f.Attempt)
	}
	return u, nil
}

// Record is the record of u, as Store.Append takes it.
func (u Update) Record() (typ string, data any) { return recordUpdate, u }

// LastUpdate returns the update that a run goes by, nil if it goes by the plan that it
// began with.
func LastUpdate(records []state.Record) (*Update, error) {
	for _, r := range slices.Backward(records) {
		if r.Type != recordUpdate {
			continue
		}
		if u, err := readUpdate(r); err != nil || u.Plan != "" {
			return u, err
		}
	}
	return nil, nil //nolint:nilnil // most runs have none
}

func readUpdate(r state.Record) (*Update, error) {
	var u Update
	if err := json.Unmarshal(r.Data, &u); err != nil {
		return nil, fmt.Errorf("record %d of the journal is no update: %w", r.Seq, err)
	}
	return &u, nil
}

// Effective returns the records of a run without those that an update took back.
func Effective(records []state.Record) ([]state.Record, error) {
	var out []state.Record
	for _, r := range records {
		if r.Type == recordUpdate {
			u, err := readUpdate(r)
			if err != nil {
				return nil, err
			}
			out = Without(out, u.Dropped)
		}
		out = append(out, r)
	}
	return out, nil
}

// Without returns the records that are not about the steps at paths or within them.
func Without(records []state.Record, paths []string) []state.Record {
	dropped := pathSet(paths)
	return slices.DeleteFunc(slices.Clone(records), func(r state.Record) bool {
		return len(dropped) > 0 && within(recordPath(r), dropped)
	})
}

func pathSet(paths []string) map[string]bool {
	all := make(map[string]bool, len(paths))
	for _, path := range paths {
		all[path] = true
	}
	return all
}

// recordPath is the path of the node that a record is about, "" for the run.
func recordPath(r state.Record) string {
	switch r.Type {
	case recordFact, recordSession, recordNotified, recordChat:
	default:
		return ""
	}
	var at struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal(r.Data, &at) // whoever reads the record says what is wrong with it
	return at.Path
}

// within reports whether one of the steps holds the node at path.
func within(path string, steps map[string]bool) bool {
	for path = StaticPath(path); path != ""; path = around(path) {
		if steps[path] {
			return true
		}
	}
	return false
}

// StaticPath is the path of the step in the plan that the node at path is, or is part of:
// without the numbers of items, rounds and candidates.
func StaticPath(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "."), isNumber), ".")
}

// updatedFact is the fact of an update's record.
func updatedFact(r state.Record) (dag.Fact, error) {
	u, err := readUpdate(r)
	if err != nil {
		return dag.Fact{}, err
	}
	return u.fact(), nil
}

// fact tells a machine of the update.
func (u Update) fact() dag.Fact { return dag.Fact{Kind: dag.Updated, Attempt: u.Attempts} }
