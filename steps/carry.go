package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"flow/pipeline/dag"
	"flow/state"
	"flow/state/disk"
	"flow/steps/workspace"
)

// Carried returns the records of a run that another one takes over, but for those about
// the steps at the paths dropped. Of an update it takes over the number of attempts.
func Carried(records []state.Record, dropped []string) (carried []state.Record, err error) {
	effective, err := Effective(records)
	if err != nil {
		return nil, err
	}
	for _, r := range Without(effective, dropped) {
		switch {
		case r.Type == recordUpdate: // the plan is the new run's own
			u, err := readUpdate(r)
			if err != nil {
				return nil, err
			}
			if r.Data, err = json.Marshal(Update{Attempts: u.Attempts}); err != nil {
				return nil, err
			}
		case recordPath(r) == "":
			continue
		}
		carried = append(carried, r)
	}
	return carried, nil
}

// CarryFiles gives the run in the directory to what the processes of the one in from left
// in files, for a record that it takes over.
func CarryFiles(r state.Record, to, from runDir) error {
	if r.Type != recordFact {
		return nil
	}
	f, err := readFact(r)
	if err != nil || f.Kind != dag.Started {
		return err
	}
	if err := carryAttempt(f, to, from); err != nil {
		return fmt.Errorf("the files of attempt %d of %s: %w", f.Attempt, f.Path, err)
	}
	return nil
}

// CarryWorkspaces lets the run in the directory to merge what the run in from did in
// workspaces of its own, but for the steps dropped. The workspaces stay those of from.
func CarryWorkspaces(to, from string, dropped []string) error {
	gone := pathSet(dropped)
	return workspace.Lend(to, from, func(path string) bool { return !within(path, gone) })
}

// carryAttempt links the files: nobody writes to them any more.
func carryAttempt(f dag.Fact, to, from runDir) error {
	for turn := 1; ; turn++ {
		found := false
		for _, ext := range []string{"stdout", "stderr", "prompt", "script", launchExt, exitExt} {
			name := from.AttemptPath(label(f.Path, f.Attempt, turn), ext)
			err := disk.Link(filepath.Join(from.Dir(), name), filepath.Join(to.Dir(), name))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil && !errors.Is(err, fs.ErrExist):
				return err
			}
			found = true
		}
		if !found {
			return nil
		}
	}
}

// CarryEvents calls keep with the events of a run that another one takes over, one JSON
// line each, but for those of the steps at the paths dropped.
func CarryEvents(events func(func(line []byte) error) error, dropped []string, keep func(line []byte) error) error {
	gone := pathSet(dropped)
	return events(func(line []byte) error {
		var e struct {
			Step string `json:"step"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("an event cannot be read: %w", err)
		}
		if within(e.Step, gone) {
			return nil
		}
		return keep(line)
	})
}
