package main

import (
	"bytes"
	"os"
	"path/filepath"

	"flow/state"
)

// remarkChange says so when the pipeline's file is not what the run goes by any more. It is
// not read as a pipeline: what stands in it today is nothing to this run.
func (e *engine) remarkChange() {
	file := fileOf(e.run.Header())
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	frozen, err := frozenSource(&e.run.View)
	if err != nil {
		return
	}
	if today, err := os.ReadFile(file); err == nil && !bytes.Equal(today, frozen) {
		e.progress.note(e.run.Header().File + " has changed since the run began, which goes on as it began; flow resume " + e.run.Header().ID + " --update goes by the file of today")
	}
}

// fileOf is the absolute path of the pipeline that a run began with.
func fileOf(h state.Header) string {
	if filepath.IsAbs(h.File) {
		return h.File
	}
	return filepath.Join(h.Workspace, h.File)
}
