package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"flow/state"
	"flow/state/disk"
	"flow/steps"
)

// A reuse is the data of a "reused" record: the run begins with what another one did. The
// record comes before all that is taken over, and "carried" after it. Should flow die in
// between, a resume goes on with it: the same records give the same in the same order.
type reuse struct {
	Run     string   `json:"run"`
	Records int      `json:"records"` // how many of that run's count
	Dropped []string `json:"dropped"` // paths of steps of which nothing is taken over
}

// reuse begins to take over what the steps of another run have done.
func (e *engine) reuse(from *state.View, dropped []string) error {
	r := reuse{Run: from.Header().ID, Records: len(from.Records()), Dropped: dropped}
	if err := e.run.Append(context.Background(), recordReused, r, true); err != nil {
		return err
	}
	return e.carry(r, from, 0)
}

// carryOn takes over the rest of what an earlier process of the run began to.
func (e *engine) carryOn() error {
	r, done, err := carrying(e.records)
	if r == nil || err != nil {
		return err
	}
	from, err := e.view(r.Run)
	if err != nil {
		return fmt.Errorf("run %s has not taken over all of run %s: %w", e.run.Header().ID, r.Run, err)
	}
	return e.carry(*r, from, done)
}

// carrying returns what a run has begun to take over and not come to the end of, nil if there
// is nothing, and how many records it has taken over.
func carrying(records []state.Record) (r *reuse, done int, err error) {
	begun := slices.IndexFunc(records, func(r state.Record) bool { return r.Type == recordReused })
	if begun < 0 || slices.ContainsFunc(records, func(r state.Record) bool { return r.Type == recordCarried }) {
		return nil, 0, nil
	}
	if err := json.Unmarshal(records[begun].Data, &r); err != nil {
		return nil, 0, fmt.Errorf("record %d of the journal names no run to take over: %w", records[begun].Seq, err)
	}
	return r, len(records) - begun - 1, nil
}

// carry takes over what the steps of another run have done, but for those dropped: their
// facts, their events, the blobs and files that these name, their workspaces, and the
// sessions of the agents. The first records, as many as done, have been taken over before.
func (e *engine) carry(r reuse, from *state.View, done int) error {
	records, err := steps.Carried(from.Records()[:min(r.Records, len(from.Records()))], r.Dropped)
	if err != nil {
		return err
	}
	for _, record := range records[min(done, len(records)):] {
		if err := e.carryRecord(record, from); err != nil {
			return err
		}
	}
	if err := e.carryEvents(r, from); err != nil {
		return err
	}
	if err := steps.CarryWorkspaces(e.run.Dir(), from.Dir(), r.Dropped); err != nil {
		return err
	}
	for _, dir := range []string{"agents", "simulated"} {
		if err := copyDir(filepath.Join(e.run.Dir(), dir), filepath.Join(from.Dir(), dir)); err != nil {
			return fmt.Errorf("the sessions of run %s: %w", r.Run, err)
		}
	}
	return e.run.Append(context.Background(), recordCarried, struct{}{}, true)
}

func (e *engine) carryRecord(r state.Record, from *state.View) error {
	for _, ref := range blobRef.FindAllString(string(r.Data), -1) {
		if err := e.copyBlob(from, ref); err != nil {
			return err
		}
	}
	if err := steps.CarryFiles(r, e.run, from); err != nil {
		return err
	}
	if err := e.run.Append(context.Background(), r.Type, r.Data, false); err != nil {
		return err
	}
	e.records = append(e.records, r)
	return nil
}

// carryEvents copies the events that are not there yet.
func (e *engine) carryEvents(r reuse, from *state.View) error {
	there := 0
	if err := e.run.Events(func([]byte) error { there++; return nil }); err != nil {
		return err
	}
	return steps.CarryEvents(from.Events, r.Dropped, func(line []byte) error {
		if there--; there >= 0 {
			return nil
		}
		return e.run.AppendEvents(append(slices.Clip(line), '\n'))
	})
}

// blobRef is how results name a blob. It is never written to.
var blobRef = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// copyBlob copies a blob, unless what looked like its name is just a text.
func (e *engine) copyBlob(from *state.View, ref string) error {
	data, err := from.Blob(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = e.run.PutBlob(data)
	return err
}

// copyDir copies a directory, if it is there. What an attempt at that left goes.
func copyDir(to, from string) error {
	if _, err := disk.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := disk.RemoveAll(to); err != nil {
		return err
	}
	return disk.CopyFS(to, os.DirFS(from))
}
