package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"flow/state/disk"
)

// temporary makes a directory for the time of one command, which removes it. Runs have
// their own places for that, in the state directory.
func temporary(prefix string) (string, error) {
	dir, err := disk.MkdirTemp("", prefix)
	if err == nil {
		err = takesFiles(dir)
	}
	if err != nil {
		return "", usageError{fmt.Errorf("temporary files cannot be made: %w\nhint: let TMPDIR name a directory that flow can write", err)}
	}
	return dir, nil
}

// takesFiles removes dir if its disk is full: what a process then prints there is lost, and
// with it what it says of that.
func takesFiles(dir string) error {
	file := filepath.Join(dir, "room")
	err := disk.WriteFile(file, make([]byte, 4<<10), 0o600)
	if err != nil {
		return errors.Join(err, disk.RemoveAll(dir))
	}
	return disk.Remove(file)
}
