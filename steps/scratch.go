package steps

import (
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// scratchPrefix begins the names of directories in the run's scratch/ that are not git's.
const scratchPrefix = "new-"

// scratch makes a directory for files in the making. It is on the file system of the state
// directory, so that what is in it can be moved to its place. The caller removes it.
func (x *Executor) scratch() (string, error) {
	dir := filepath.Join(x.Store.Dir(), "scratch")
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return disk.MkdirTemp(dir, scratchPrefix)
}

// sweep removes the files in the making that a flow which died left in the run's directory.
// On an error they are left for the next one.
func sweep(run string) {
	for dir, left := range map[string]func(name string) bool{
		"scratch":    func(name string) bool { return strings.HasPrefix(name, scratchPrefix) },
		"attempts":   func(name string) bool { return strings.HasPrefix(name, newPrefix) },
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
