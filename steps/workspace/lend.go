package workspace

import "path/filepath"

// Lend copies the records of the workspaces in one run's directory to that of another,
// which can then load them, to merge them. keep chooses them by the path of their step.
// They still belong to the run that made them, which alone lists and removes them.
func Lend(to, from string, keep func(path string) bool) error {
	all, err := records(from)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Mode == Merging || !keep(w.Path) {
			continue
		}
		w.file = recordFile(to, w.Path, w.Mode)
		if err := w.save(); err != nil {
			return err
		}
	}
	return nil
}

// lent reports whether the workspace belongs to another run than that in a directory.
func (w *Workspace) lent(runDir string) bool { return w.Run != filepath.Base(runDir) }

// Lenders returns the runs whose workspaces the run in a directory may load.
func Lenders(runDir string) ([]string, error) {
	all, err := records(runDir)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, w := range all {
		if w.lent(runDir) {
			runs = append(runs, w.Run)
		}
	}
	return runs, nil
}
