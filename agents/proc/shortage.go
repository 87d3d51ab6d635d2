package proc

import (
	"errors"
	"syscall"
)

// temporary reports whether a start failed for what may pass: no descriptor, no
// process or no memory left, or a program that is being written.
func temporary(err error) bool {
	for _, n := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ETXTBSY} {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// A shortageError is a start that failed until nobody would wait any longer, for what may
// still pass.
type shortageError struct{ error }

func (e *shortageError) Unwrap() error { return e.error }

// Hint says what is to be done.
func (e *shortageError) Hint() string {
	switch {
	case errors.Is(e.error, syscall.EMFILE):
		return "flow may not open more files: raise the limit (ulimit -n), or lower `concurrency`"
	case errors.Is(e.error, syscall.ENFILE):
		return "the machine may not open more files: see who has so many (lsof), or raise fs.file-max"
	case errors.Is(e.error, syscall.EAGAIN):
		return "the user, or the container, may not have more processes: raise the limit (ulimit -u, pids.max), or lower `concurrency`"
	case errors.Is(e.error, syscall.ENOMEM):
		return "there is no memory for another process: lower `concurrency`, or give the machine more"
	default:
		return "the program is being written; run the step again when that is done"
	}
}
