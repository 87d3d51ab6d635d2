// Package replay stands in for package proc where nothing is to be started: a process is
// played from what one like it printed before. Played lines go through the same files and
// sinks as those of a process.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"flow/agents/proc"
	"flow/state/disk"
)

// A Tape is what is on record of one process.
type Tape struct {
	Stdout, Stderr io.ReadCloser // what it printed; nil: nothing
	Result         proc.Result   // how it ended; StderrTail is made anew
}

// A Launcher runs processes from tapes. It may be used concurrently if Find may.
type Launcher struct {
	// Find returns the tape of the process with that label. Its error is one of flow's own:
	// whoever has nothing on record does not run the process.
	Find func(label string) (Tape, error)
}

// Run plays one process: it copies what that printed to the files of s, then has sink take
// the lines, those of standard output first. Nothing else of s is of account; what s.Input
// is told goes nowhere, for the answers are on the tape. A ctx that ends does not stop the
// tape: what came after was printed all the same, and heard.
func (l Launcher) Run(_ context.Context, s proc.Spec, sink proc.Sink) (proc.Result, error) {
	tape, err := l.Find(s.Label)
	if err != nil {
		return proc.Result{Code: -1}, err
	}
	_, outErr := play(tape.Stdout, s.Stdout, sink.Stdout)
	tail, errErr := play(tape.Stderr, s.Stderr, sink.Stderr)
	if err := errors.Join(outErr, errErr); err != nil {
		return proc.Result{Code: -1}, fmt.Errorf("play %s: %w", s.Label, err)
	}
	res := tape.Result
	res.StderrTail = tail
	return res, nil
}

// play copies what is on the tape to a new file, hands its lines to deliver, and returns
// its end as proc does.
func play(from io.ReadCloser, to string, deliver func(proc.Line)) (tail string, err error) {
	if from == nil {
		return "", nil
	}
	defer from.Close()
	if to == "" {
		return "", nil
	}
	f, err := disk.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := io.Copy(f, from)
	if err != nil {
		return "", err
	}
	if deliver != nil {
		if err := Lines(io.NewSectionReader(f, 0, size), MaxLine, deliver); err != nil {
			return "", err
		}
	}
	return end(f, size)
}
