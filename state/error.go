package state

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"
)

// What errors.Is finds in the errors of this package.
var (
	ErrNotFound  = errors.New("no such run")
	ErrAmbiguous = errors.New("the beginning of several ids")
	ErrExists    = errors.New("run exists already")
	ErrNewer     = errors.New("written by a newer flow")
	ErrClosed    = errors.New("run is closed")
	ErrGone      = errors.New("the file was deleted while the run was under way")
	ErrUnlisted  = errors.New("the list of runs does not say it yet")
)

// Error says what is wrong with the state and what to do about it.
type Error struct {
	Path string // the file or directory
	Msg  string // what is wrong
	Hint string // what to do next, or ""
	Err  error  // the cause, or nil
}

// Error returns one line: path, message and cause. The hint is left to the caller.
func (e *Error) Error() string {
	parts := []string{e.Path, e.Msg}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CorruptError is the cause of an Error about a file that was damaged. The file
// has not been touched.
type CorruptError struct {
	Offset int64 // the first byte that cannot be trusted
	Reason string
}

// Error returns the place and the reason.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("damaged at byte %d: %s", e.Offset, e.Reason)
}

// LockedError says who uses a run.
type LockedError struct {
	ID    string    // the run
	PID   int       // 0 when the lock does not say
	Host  string    // where PID lives
	Since time.Time // when it took the lock
	// Dead means that PID has ended, but what it started still holds the lock.
	Dead bool
}

// Error names the process that holds the lock.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("run %s is in use by another process", e.ID)
	}
	since := e.Since.UTC().Format(time.RFC3339)
	if e.Dead {
		return fmt.Sprintf("run %s is held by what process %d on %s (since %s, now ended) left behind",
			e.ID, e.PID, e.Host, since)
	}
	return fmt.Sprintf("run %s is in use by process %d on %s since %s", e.ID, e.PID, e.Host, since)
}

// wrap makes an Error of err, unless it says already what this package has to say.
func wrap(path, msg string, err error) error {
	var known *Error
	var locked *LockedError
	if err == nil || errors.As(err, &known) || errors.As(err, &locked) {
		return err
	}
	return &Error{Path: path, Msg: msg, Hint: hintFor(err), Err: err}
}

func hintFor(err error) string { return hintThen(err, "resume the run") }

// hintThen says what to do about err, and what is possible then.
func hintThen(err error, next string) string {
	switch {
	case errors.Is(err, ErrGone):
		return "begin a new run"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space, then " + next
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "make the directory writable, or choose another with FLOW_STATE_DIR"
	default:
		return "check the disk, then " + next
	}
}

// corrupt makes the error for a damaged file that must not be written.
func corrupt(path string, offset int64, reason string) error {
	return &Error{
		Path: path, Msg: "cannot be trusted", Err: &CorruptError{Offset: offset, Reason: reason},
		Hint: "nothing was changed; restore the file, or keep what is whole: flow state repair RUN --to DIR",
	}
}
