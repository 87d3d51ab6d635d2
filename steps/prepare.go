package steps

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"flow/agents"
	"flow/state/disk"
)

// prepare does what an agent's command wants done to the files that the agent keeps in
// home. New files are in place before old ones go: whatever a crash leaves, the next
// turn of the session prepares it again.
func prepare(scratch, home string, p *agents.Preparation) error {
	if p == nil {
		return nil
	}
	before, err := readAll(home, p.Read)
	if err != nil {
		return fmt.Errorf("the agent's files cannot be read: %w", err)
	}
	gone := map[string][]byte{}
	for _, f := range before {
		gone[f.Path] = f.Data
	}
	for _, f := range p.Make(before) {
		old, there := gone[f.Path]
		delete(gone, f.Path)
		if there && bytes.Equal(old, f.Data) {
			continue // it may be another session's, which is being written
		}
		if err := putFile(scratch, f); err != nil {
			return fmt.Errorf("the agent's files cannot be written: %w", err)
		}
	}
	for path := range gone {
		if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the agent's files cannot be removed: %w", err)
		}
	}
	return nil
}

// readAll reads the files of home that match a pattern.
func readAll(home, pattern string) ([]agents.File, error) {
	root, err := disk.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), pattern)
	if err != nil {
		return nil, err
	}
	var files []agents.File
	for _, name := range names {
		data, err := root.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, agents.File{Path: filepath.Join(home, name), Data: data})
	}
	return files, nil
}
