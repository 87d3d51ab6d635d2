package steps

import (
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// Files and directories in the making stand in a directory of the run until they are
// renamed to their place: what a kill leaves of them is all in one place, and the next
// process that goes on with the run removes it.
const (
	scratchDir    = "scratch" // in the run's directory; git's temporary files are there too
	scratchPrefix = ".new-"
)

func scratchOf(run string) string { return filepath.Join(run, scratchDir) }

// sweep removes what earlier processes of a run left in the making, records of workspaces
// among it. What cannot be removed now is left for the next one.
func sweep(run string) {
	for dir, left := range map[string]func(name string) bool{
		scratchDir:   func(name string) bool { return strings.HasPrefix(name, scratchPrefix) },
		"workspaces": func(name string) bool { return strings.HasSuffix(name, ".new") },
	} {
		entries, _ := disk.ReadDir(filepath.Join(run, dir))
		for _, e := range entries {
			if left(e.Name()) {
				_ = disk.RemoveAll(filepath.Join(run, dir, e.Name()))
			}
		}
	}
}

// createScratch makes a file in the making, with mode 0600.
func createScratch(scratch string) (*disk.File, error) {
	if err := disk.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	return disk.CreateTemp(scratch, scratchPrefix+"*")
}

// mkdirScratch makes a directory in the making.
func mkdirScratch(scratch string) (string, error) {
	if err := disk.MkdirAll(scratch, 0o700); err != nil {
		return "", err
	}
	return disk.MkdirTemp(scratch, scratchPrefix)
}
