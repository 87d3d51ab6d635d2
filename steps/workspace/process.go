package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"flow/agents/proc"
	"flow/state/disk"
)

// A Launcher runs processes; *proc.Supervisor is one.
type Launcher interface {
	Run(ctx context.Context, s proc.Spec, sink proc.Sink) (proc.Result, error)
}

// Processes runs git through a Launcher, so that it ends with flow. It may be used
// concurrently.
type Processes struct {
	Launcher Launcher
	Label    string // of its processes, which a number is appended to; unique in a run
	Scratch  string // a directory for the streams, made when it is needed

	count atomic.Int64
}

// errSignal is why git did not come to its end, and by what signal.
var errSignal = errors.New("killed")

// Run runs git once. See [Runner].
func (p *Processes) Run(ctx context.Context, c Cmd) (out Out, err error) {
	if err := disk.MkdirAll(p.Scratch, 0o700); err != nil {
		return Out{}, err
	}
	dir, err := disk.MkdirTemp(p.Scratch, scratchPrefix)
	if err != nil {
		return Out{}, err
	}
	defer func() { err = errors.Join(err, disk.RemoveAll(dir)) }()
	spec := proc.Spec{
		Label: p.Label + "." + strconv.FormatInt(p.count.Add(1), 10), Path: "git", Args: c.Args, Env: c.Env, Dir: c.Dir,
		Stdout: c.Stdout, Stderr: filepath.Join(dir, "stderr"),
	}
	if c.Stdout == "" {
		spec.Stdout = filepath.Join(dir, "stdout")
	}
	if c.Stdin != nil {
		spec.Stdin = filepath.Join(dir, "stdin")
		if err := disk.WriteFile(spec.Stdin, c.Stdin, 0o600); err != nil {
			return Out{}, err
		}
	}
	return p.launch(ctx, spec, c.Stdout == "")
}

// launch runs the process and reads what it printed.
func (p *Processes) launch(ctx context.Context, spec proc.Spec, read bool) (Out, error) {
	res, err := p.Launcher.Run(ctx, spec, proc.Sink{})
	if err != nil {
		return Out{}, err
	}
	if res.Code != 0 && ctx.Err() != nil {
		return Out{}, context.Cause(ctx)
	}
	out := Out{Code: res.Code, Stderr: res.StderrTail, Err: res.Err}
	if res.Signal != "" {
		out.Err = fmt.Errorf("%w by SIG%s", errSignal, res.Signal)
	}
	if read && res.Err == nil {
		out.Stdout, err = disk.ReadFile(spec.Stdout)
	}
	return out, err
}
