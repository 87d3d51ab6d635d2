package state

import (
	"errors"

	"flow/state/disk"
)

// Temporary makes a state directory that is there for a while, among the files in the
// making: remove takes it away, and if flow dies before, the next one does.
func (s *Store) Temporary() (t *Store, remove func() error, err error) {
	dir := s.path(tempDir, tempName("state."))
	lock, err := s.reserve(dir, "")
	if err != nil {
		return nil, nil, wrap(dir, "cannot make a temporary directory", errors.Join(err, disk.RemoveAll(dir)))
	}
	remove = func() error { return errors.Join(disk.RemoveAll(dir), lock.Close()) }
	if t, err = Open(dir); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return t, remove, nil
}
