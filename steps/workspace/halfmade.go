package workspace

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// clearHalfMade removes what a git that was killed while it made a worktree of flow's has left
// of that in the repository: with an empty commondir there no git can make, list or remove
// any worktree. Nobody else may make one meanwhile: see alone.
func (r *Repo) clearHalfMade() error {
	dir := filepath.Join(r.common, "worktrees")
	entries, err := disk.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		known := filepath.Join(dir, e.Name())
		if common, err := disk.ReadFile(filepath.Join(known, "commondir")); err != nil || len(bytes.TrimSpace(common)) > 0 || !ofARun(known) {
			continue // git copes with a file that is not there
		}
		if err := disk.RemoveAll(known); err != nil {
			return err
		}
	}
	return err
}

// ofARun reports whether what git knows of a worktree says that it is in the directory of a
// run of flow.
func ofARun(known string) bool {
	link, err := disk.ReadFile(filepath.Join(known, "gitdir"))
	if err != nil {
		return false
	}
	trees := filepath.Dir(filepath.Dir(strings.TrimSpace(string(link))))
	_, err = disk.Stat(filepath.Join(filepath.Dir(trees), recordsDir))
	return err == nil && filepath.Base(trees) == treesDir
}
