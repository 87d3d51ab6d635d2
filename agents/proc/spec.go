package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// attemptVar is the environment variable that carries Spec.Label. Orphans are
// attributed by it.
const attemptVar = "FLOW_ATTEMPT"

// A Spec describes one process to run.
type Spec struct {
	// Label names the process uniquely among those that run now. It is in the
	// environment of the process and its descendants as FLOW_ATTEMPT.
	Label string
	// Path is the program: with a slash a file (a relative one is below Dir),
	// otherwise looked up on the PATH of Env.
	Path string
	// Args are the arguments, without argv[0], which is Path.
	Args []string
	// Env is the whole environment; only FLOW_ATTEMPT is added.
	Env []string
	// Dir is the working directory; "" is flow's own.
	Dir string
	// Settled says that Dir is a path without symbolic links. If it has one by the time the
	// process is started, somebody has swapped a directory, and nothing is started.
	Settled bool
	// Stdin, Stdout and Stderr are files; "" is /dev/null. The output files are
	// created with mode 0600, or appended to. Of standard error the middle is replaced by
	// a line that says so if it is long: see Options.MaxStderr.
	Stdin, Stdout, Stderr string
	// Input, if set, is standard input instead of a file.
	Input *Input
	// Ladder is how the process is asked to end once the context is done; nil is
	// INT, 10 s, TERM, 5 s. After the last rung the whole tree is killed.
	Ladder []Rung
	// Group sends the signals of the ladder to the whole process group rather than
	// to the process alone.
	Group bool
	// Sandbox bounds what the process can do; nil does not.
	Sandbox *Sandbox
}

// A Rung is one step of a Ladder: a signal, and how long to wait for the end.
type Rung struct {
	Signal syscall.Signal
	Wait   time.Duration
}

// A Sink takes the lines a process prints. A stream without a function is not
// read. The functions of one Run are never called at the same time, but from
// different goroutines. While one blocks, no lines are delivered to other Runs
// either; nothing is lost, the files take it.
type Sink struct {
	Stdout, Stderr func(Line)
	// Growing is called when standard error has become longer and its lines are not
	// delivered before the end: what follows the first Options.MaxStderr bytes may be
	// dropped. It is called only for a stream that is read, and may be nil.
	Growing func()
}

// A Line is one line of output. Offset and Length locate it in the file, in bytes
// and without its newline. Data is valid only during the call.
type Line struct {
	Data   []byte
	Offset int64
	Length int64
	// Oversized says that the line is longer than Options.MaxLine; Data then holds
	// its first 64 KiB.
	Oversized bool
}

// A Result says how a process ended.
type Result struct {
	// Code is the exit code, or -1 for a process that was ended by a signal or not
	// started.
	Code int
	// Signal is the name of the signal that ended the process, such as "KILL".
	Signal string
	// Err says why the process could not be started.
	Err error
	// Sandbox says for people what a process with Spec.Sandbox was held to, and what
	// of that could not be enforced on this machine.
	Sandbox string
	// StderrTail is the last 64 KiB the process wrote to its Stderr file, with
	// invalid UTF-8 replaced.
	StderrTail string
	// Overflow says that the process was killed since it printed more than
	// Options.MaxOutput.
	Overflow bool
	// Leftovers names the descendants that outlived the process and were killed, at
	// most 32; a further entry counts the others. A process that was killed with its
	// whole tree leaves none.
	Leftovers []string
	// Started and Ended are by the wall clock; their distance is true even if that
	// clock is changed meanwhile.
	Started, Ended time.Time
	// UserTime and SystemTime are the CPU time of the process and of the children
	// it waited for.
	UserTime, SystemTime time.Duration
	// MaxRSS is the largest resident set, in bytes. The kernel counts what the
	// guardian had when it forked, so it is never below a few MB.
	MaxRSS int64
}

// defaultLadder is the way up to killing for a Spec that has none.
func defaultLadder() []Rung {
	return []Rung{{syscall.SIGINT, 10 * time.Second}, {syscall.SIGTERM, 5 * time.Second}}
}

// request turns the spec into what the guardian is asked: absolute paths, the
// program found, the label in the environment.
func (s Spec) request() (start, error) {
	dir, err := absolute(s.Dir)
	if err != nil {
		return start{}, err
	}
	program, err := findProgram(s.Path, dir, s.Env)
	if err != nil {
		return start{}, err
	}
	m := start{
		Label: s.Label, Program: program, Argv: append([]string{s.Path}, s.Args...),
		Env: withLabel(s.Env, s.Label), Dir: dir, Settled: s.Settled,
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
	}
	for _, file := range []*string{&m.Stdin, &m.Stdout, &m.Stderr} {
		if *file == "" {
			continue
		}
		if *file, err = absolute(*file); err != nil {
			return start{}, err
		}
	}
	return m, nil
}

// check refuses a spec no process could be recognised by.
func (s Spec) check() error {
	switch {
	case s.Label == "":
		return errors.New("a process needs a label")
	case strings.IndexByte(s.Label, 0) >= 0:
		return fmt.Errorf("label %q holds a NUL byte", s.Label)
	}
	return nil
}

// absolute is path seen from flow's working directory, which need not be the
// guardian's.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the working directory of flow is gone; change to another: %w", err)
	}
	return filepath.Join(wd, path), nil
}

// withLabel is env with the label in place of any inherited one.
func withLabel(env []string, label string) []string {
	out := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if !strings.HasPrefix(entry, attemptVar+"=") {
			out = append(out, entry)
		}
	}
	return append(out, attemptVar+"="+label)
}
