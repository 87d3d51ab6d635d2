package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"flow/state"
	"flow/state/disk"
)

// A stoppedError is an error of flow itself that ended a run. The run can be resumed.
type stoppedError struct {
	run  string
	gone bool // what was recorded was deleted under way
	err  error
}

func (e *stoppedError) Error() string {
	if trouble := diskTrouble(e.err); trouble != "" {
		return fmt.Sprintf("run %s stopped: %s: %v", e.run, trouble, e.err)
	}
	return fmt.Sprintf("run %s stopped: %v", e.run, e.err)
}

func (e *stoppedError) Unwrap() error { return e.err }

// hint says how the run goes on.
func (e *stoppedError) hint() string {
	if e.gone {
		return "what was recorded of the run was deleted: begin a new one"
	}
	return "nothing that was recorded is lost; " + remedy(e.err) + ", then: flow resume " + e.run
}

func isStopped(err error) bool {
	_, ok := errors.AsType[*stoppedError](err)
	return ok
}

// broken is an error of flow itself, which leaves a run that can be resumed.
func (e *engine) broken(err error) error {
	_, there := disk.Lstat(e.run.Dir())
	gone := errors.Is(err, state.ErrGone) || errors.Is(there, fs.ErrNotExist)
	return &stoppedError{run: e.run.Header().ID, gone: gone, err: err}
}

// closed is the error of a run that was closed. When flow itself failed, the run cannot be
// closed well either, and that says nothing more.
func (e *engine) closed(err, closing error) error {
	if isStopped(err) {
		return err
	}
	return errors.Join(err, closing)
}

// diskTrouble says what is wrong with a disk that takes no more, "" if that is not what the
// error is about.
func diskTrouble(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full"
	case errors.Is(err, syscall.EDQUOT):
		return "the disk quota is used up"
	case errors.Is(err, syscall.EROFS):
		return "the disk is read-only"
	default:
		return ""
	}
}

// remedy is what to do about an error of the disk, or of flow itself.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space"
	case errors.Is(err, syscall.EROFS):
		return "make the disk writable again"
	default:
		return "mend the cause"
	}
}

// hintOf says what to do about an error, "" if nobody knows.
func hintOf(err error) string {
	if stopped, ok := errors.AsType[*stoppedError](err); ok {
		return stopped.hint()
	}
	if known, ok := errors.AsType[*state.Error](err); ok {
		return known.Hint
	}
	if locked, ok := errors.AsType[*state.LockedError](err); ok {
		return "flow show " + locked.ID + " tells how far it is"
	}
	if diskTrouble(err) != "" {
		return remedy(err) + ", or choose another state directory with FLOW_STATE_DIR"
	}
	if errors.Is(err, syscall.EIO) {
		return "check the disk, then try again"
	}
	return ""
}
