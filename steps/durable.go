package steps

import (
	"errors"
	"io/fs"
	"path/filepath"

	"flow/agents/proc"
	"flow/state/disk"
)

// syncOutput makes durable what a process printed: recorded events stand for its lines.
func syncOutput(spec proc.Spec) error {
	for _, name := range []string{spec.Stdout, spec.Stderr} {
		f, err := disk.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was not started
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Datasync(), f.Close()); err != nil {
			return err
		}
	}
	return disk.SyncDir(filepath.Dir(spec.Stdout))
}
