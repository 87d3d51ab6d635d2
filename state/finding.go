package state

import (
	"errors"
	"fmt"
)

// A Finding is something about the files of a run, or of the state directory, that is not
// as docs/state.md says.
type Finding struct {
	Path string `json:"path"`
	What string `json:"what"` // what was found
	Hint string `json:"hint"` // what to do about it
	// Harmless means that the next flow that works there sets it right by itself, as it does
	// with what a kill left.
	Harmless bool `json:"harmless,omitempty"`
}

// String returns one line: path, what was found, and the hint.
func (f Finding) String() string { return fmt.Sprintf("%s: %s; %s", f.Path, f.What, f.Hint) }

// finding describes an error about a file. repair says how to go on without what is damaged.
func finding(path string, err error, repair string) Finding {
	var known *Error
	if !errors.As(err, &known) {
		return Finding{Path: path, What: err.Error(), Hint: "restore the file from a copy"}
	}
	if bad, ok := errors.AsType[*CorruptError](err); ok {
		return Finding{Path: known.Path, What: bad.Error(), Hint: repair}
	}
	f := Finding{Path: known.Path, What: known.Msg, Hint: known.Hint}
	if known.Err != nil && !errors.Is(err, ErrNewer) {
		f.What += ": " + known.Err.Error()
	}
	return f
}
