package steps

import (
	"encoding/json"

	"flow/state"
	"flow/steps/workspace"
)

// Carried returns what a run that takes over the work of another one records of a record
// of that, which is effective. It is false for what the new run says for itself.
func Carried(r state.Record) (state.Record, bool, error) {
	switch r.Type {
	case recordFact, recordSession:
		return r, recordPath(r) != "", nil
	case recordUpdate:
		u, err := readUpdate(r)
		if err != nil {
			return r, false, err
		}
		r.Data, err = json.Marshal(Update{Attempts: u.Attempts})
		return r, err == nil, err
	}
	return r, false, nil
}

// CarryWorkspaces lets the run in the directory to merge what the run in from did in
// workspaces of its own, but for the steps dropped. The workspaces stay those of from.
func CarryWorkspaces(to, from string, dropped []string) error {
	gone := map[string]bool{}
	for _, path := range dropped {
		gone[path] = true
	}
	return workspace.Lend(to, from, func(path string) bool { return !within(path, gone) })
}
