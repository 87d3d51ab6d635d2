package state

import (
	"errors"

	"golang.org/x/sys/unix"

	"flow/state/disk"
	"flow/state/failpoint"
)

// adopt makes a run of files that come from elsewhere. fill writes them into a directory;
// the run appears, durably, when it can be read. A run of the same id makes adopt fail with
// ErrExists.
func (s *Store) adopt(id string, fill func(dir string) error) error {
	temp := s.path(tempDir, tempName(id+"."))
	lock, err := s.reserve(temp, id)
	if err == nil {
		if err = fill(temp); err == nil {
			err = s.settle(temp, id)
		}
		if err == nil {
			return unlockRun(lock)
		}
		err = errors.Join(err, lock.Close())
	}
	err = errors.Join(err, disk.RemoveAll(temp))
	if errors.Is(err, ErrExists) {
		return &Error{Path: s.path(runsDir, id), Msg: id, Hint: "choose another state directory with --state-dir", Err: ErrExists}
	}
	return wrap(temp, "cannot take in the run", err)
}

// settle checks the run in temp, makes it durable and gives it its name.
func (s *Store) settle(temp, id string) error {
	v, err := ReadRun(temp)
	if err != nil {
		return err
	}
	if err := checkPlace(v, id); err != nil {
		return err
	}
	if err := syncTree(temp); err != nil {
		return err
	}
	failpoint.Reach("run-copied")
	if err := s.publish(temp, v.header); err != nil {
		return err
	}
	status, at := finishedStatus(v.records[len(v.records)-1])
	if status == StatusRunning {
		return nil
	}
	return s.addIndex(finishedEntry(id, status, at))
}

// Remove takes a run away, with all that is in its directory. A process that has it open
// makes it fail with a *LockedError. A crash in between leaves the run whole or gone.
func (s *Store) Remove(r *Run) error {
	temp := s.path(tempDir, tempName(r.header.ID+"."))
	err := s.moveAway(r.dir, temp)
	if err == nil {
		err = r.Close()
	}
	return wrap(r.dir, "cannot remove the run", errors.Join(err, removeAll(temp)))
}

// moveAway takes the name of a run away, durably.
func (s *Store) moveAway(dir, temp string) error {
	unlock, err := s.lock(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	if err := disk.Rename(dir, temp); err != nil {
		return err
	}
	failpoint.Reach("run-moved-away")
	return syncAll(s.path(runsDir), s.path(tempDir))
}
