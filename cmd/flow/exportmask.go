package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"flow/state"
	"flow/steps"
	"flow/steps/mask"
)

// An exportChange is what state.View.ExportThrough wants.
type exportChange = func(rel string, file io.ReaderAt, size int64) (io.Reader, error)

// exportMasked masks what an archive of a run gets, with the secrets that the environment has:
// a killed flow, or `keep-raw`, leaves some in what processes printed. It refuses a run that
// may have secrets which the environment does not have.
func (a *app) exportMasked(v *state.View) (exportChange, error) {
	plan, _, err := frozen(v)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(plan.AllSecrets(), func(name string) bool { return a.getenv(name) != "" })
	if len(missing) > 0 {
		left, err := steps.Unmasked(v)
		if err != nil {
			return nil, err
		}
		if id := v.Header().ID; plan.KeepRaw || left {
			return nil, fmt.Errorf("run %s has output of processes in which secrets may not be masked yet\nhint: export %s, so that they are masked in the archive", id, strings.Join(missing, ", "))
		}
	}
	m, err := a.known(v)
	if err != nil || m.Empty() {
		return nil, err
	}
	return func(rel string, file io.ReaderAt, size int64) (io.Reader, error) {
		top, _, _ := strings.Cut(rel, "/")
		if !slices.Contains([]string{"attempts", "agents", "simulated", "answers"}, top) {
			return io.NewSectionReader(file, 0, size), nil // it was masked when it was written
		}
		spans, err := m.Find(io.NewSectionReader(file, 0, size))
		return mask.Reader(io.NewSectionReader(file, 0, size), spans), err
	}, nil
}
