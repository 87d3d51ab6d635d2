package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a pipeline, with the place where to put it right.
type Error struct {
	File string
	Pos  Pos
	Msg  string // what was found
	Hint string // what would be right, or ""
	// Source is the line in question where it does not stand in the pipeline's own
	// file, else "".
	Source string
}

// Error returns "file:line:col: msg", without the parts that are not known.
func (e Error) Error() string {
	at := e.where()
	if at != "" {
		at += ": "
	}
	return at + e.Msg
}

// where is the place of the mistake as "file:line:col", as far as it is known.
func (e Error) where() string {
	var parts []string
	if e.File != "" {
		parts = append(parts, e.File)
	}
	if e.Pos.Line > 0 {
		parts = append(parts, fmt.Sprintf("%d:%d", e.Pos.Line, e.Pos.Col))
	}
	return strings.Join(parts, ":")
}

// Errors are all mistakes of a pipeline, in the order of their places.
type Errors []Error

// Error joins the messages, one a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each mistake to errors.As.
func (es Errors) Unwrap() []error {
	all := make([]error, len(es))
	for i, e := range es {
		all[i] = e
	}
	return all
}

// A Warning is something that is allowed and most likely not meant.
type Warning Error

// String returns "file:line:col: warning: msg".
func (w Warning) String() string {
	w.Msg = "warning: " + w.Msg
	return Error(w).Error()
}

// sorted returns the errors in the order of their places, each once, or nil.
func sorted(es Errors) Errors {
	slices.SortStableFunc(es, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col), cmp.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(es)
}
