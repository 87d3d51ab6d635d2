package main

import (
	"io"
	"os"
	"slices"

	"flow/pipeline"
)

// A problem is a mistake or a warning as `-o json` prints it.
type problem struct {
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"` // from 1; absent: it concerns the file as a whole
	Col      int    `json:"col,omitempty"`  // from 1, in characters
	Severity string `json:"severity"`       // error or warning
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

func newProblem(e pipeline.Error, severity string) problem {
	return problem{File: e.File, Line: e.Pos.Line, Col: e.Pos.Col, Severity: severity, Message: e.Msg, Hint: e.Hint}
}

// explain prints mistakes, each with its line of the file that it stands in.
func (a *app) explain(errs pipeline.Errors) {
	for len(errs) > 0 {
		file := errs[0].File
		n := slices.IndexFunc(errs, func(e pipeline.Error) bool { return e.File != file })
		if n < 0 {
			n = len(errs)
		}
		pipeline.Format(a.stderr, errs[:n], sourceOf(file))
		errs = errs[n:]
	}
}

// sourceOf is the text of a file with mistakes, of a very large one the beginning; nil if it
// cannot be had: the places will do. The mistake may be that it is a named pipe, which would
// be waited for.
func sourceOf(file string) []byte {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, pipeline.MaxFileBytes))
	if err != nil {
		return nil
	}
	return source
}

// warn prints warnings as explain prints mistakes.
func (a *app) warn(warnings []pipeline.Warning) {
	errs := make(pipeline.Errors, len(warnings))
	for i, w := range warnings {
		errs[i] = pipeline.Error(w)
		errs[i].Msg = "warning: " + w.Msg
	}
	a.explain(errs)
}
