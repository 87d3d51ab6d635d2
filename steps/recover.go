package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline/dag"
)

// adopt reads what an attempt that was lost with flow left on disk. An agent that
// had finished has finished: its outcome is taken over and nothing runs twice.
// Otherwise the session that it named is noted, to be gone on with.
func (a *attempt) adopt() (agents.Outcome, bool, error) {
	if a.task.PreviousKind != dag.Lost {
		return agents.Outcome{}, false, nil
	}
	name, launch, err := a.lastLaunch()
	if err != nil || name == "" {
		return agents.Outcome{}, false, err
	}
	adapter, ok := a.x.Adapters[launch.Use]
	if !ok {
		return agents.Outcome{}, false, fmt.Errorf("attempt %s was run by agent %q, which this flow does not have", name, launch.Use)
	}
	out, err := a.replay(name, adapter.Dialog(launch.Request), launch)
	if err != nil {
		return agents.Outcome{}, false, err
	}
	a.x.ledger.recovered(a.task.Path, a.task.Previous, out)
	return out, out.Reason == agents.Completed, nil
}

// lastLaunch is the last process that the lost attempt started, "" if none.
func (a *attempt) lastLaunch() (name string, launch Launch, err error) {
	for turn := 1; ; turn++ {
		next := label(a.task.Path, a.task.Previous, turn)
		data, err := os.ReadFile(a.x.file(next, "json"))
		if errors.Is(err, fs.ErrNotExist) {
			return name, launch, nil
		}
		if err != nil {
			return "", launch, err
		}
		var l Launch
		if json.Unmarshal(data, &l) != nil {
			return name, launch, nil // cut short by the crash: that process never started
		}
		name, launch = next, l
	}
}

// replay translates the stored output of a process again. Events that were
// recorded before the crash are not recorded twice.
func (a *attempt) replay(name string, d agents.Dialog, launch Launch) (agents.Outcome, error) {
	var seen bool
	env := a.envelope(launch.Request.Session.ID)
	env.Attempt = a.task.Previous
	tr := agents.NewTranslator(d, env, a.x.Now, func(e agents.Event) {
		if !seen {
			a.x.recorder.record(e)
		}
	})
	feed := func(ext string, line func([]byte, agents.Native)) error {
		native := agents.Native{File: filepath.ToSlash(a.x.Store.AttemptPath(name, ext))}
		data, err := os.ReadFile(a.x.file(name, ext))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for text := range bytes.Lines(data) {
			native.Length = int64(len(bytes.TrimSuffix(text, []byte("\n"))))
			seen = native.Offset < a.x.recorded[native.File]
			line(text[:native.Length], native)
			native.Offset += int64(len(text))
		}
		return nil
	}
	if err := errors.Join(feed("stdout", tr.Stdout), feed("stderr", tr.Stderr)); err != nil {
		return agents.Outcome{}, err
	}
	seen = a.x.endedBefore[native(a.x.Store.AttemptPath(name, "stdout"))]
	return tr.End(a.x.exitOf(name)), nil
}

func native(path string) string { return filepath.ToSlash(path) }

// exitOf is how the process named ended, as far as the guardian could tell.
func (x *Executor) exitOf(name string) agents.Exit {
	stderr, _ := os.ReadFile(x.file(name, "stderr")) //nolint:errcheck // it only explains
	exit := agents.Exit{Code: -1, Signal: "KILL", Intent: agents.IntentCancel, Stderr: tail(string(stderr), 64<<10)}
	rec, ok := x.exits[name]
	if !ok {
		return exit
	}
	exit.Code, exit.Signal = rec.Code, rec.Signal
	if !rec.EndedByGuardian {
		exit.Intent = agents.IntentNone
	}
	return exit
}

// adoptShell takes over a script that ended by itself while flow was dying.
func (a *attempt) adoptShell(ctx context.Context) (dag.Fact, bool, error) {
	if a.task.PreviousKind != dag.Lost {
		return dag.Fact{}, false, nil
	}
	name := label(a.task.Path, a.task.Previous, 1)
	rec, ok := a.x.exits[name]
	if !ok || rec.EndedByGuardian {
		return dag.Fact{}, false, nil
	}
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, false, err
	}
	stderr, _, err := readHead(a.x.file(name, "stderr"), 64<<10)
	if err != nil {
		return dag.Fact{}, false, err
	}
	f, err := a.shellFact(ctx, a.x.file(name, "stdout"), proc.Result{Code: rec.Code, Signal: rec.Signal, StderrTail: stderr})
	return f, true, err
}

// file is the absolute name of a file of the process named.
func (x *Executor) file(name, ext string) string {
	return filepath.Join(x.Store.Dir(), x.Store.AttemptPath(name, ext))
}
