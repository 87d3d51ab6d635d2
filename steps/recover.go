package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"flow/agents"
	"flow/agents/proc"
	"flow/agents/replay"
	"flow/pipeline/dag"
	"flow/state/disk"
)

const (
	launchExt  = "json"   // of a Launch
	stderrTail = 64 << 10 // what an agent.Exit has of standard error, as in proc.Result
	maxLine    = replay.MaxLine
)

// adopt reads what attempts that were lost with flow left on disk, oldest first. If
// the agent had finished its task, or broken a rule, it returns that outcome: nothing is
// asked twice. A
// turn after that which had not begun (to mend what a check found, say) is asked for
// again by what follows. If the agent had not finished, the session that it named is
// noted, to be gone on with. Either way what it used counts.
//
// There are several when flow died again before the attempt after the lost one had
// come to anything. Files of this attempt itself are there when its beginning was recorded
// and not yet on the disk as that failed. Among an agent's turns there are processes of
// other kinds.
func (a *attempt) adopt() (out agents.Outcome, done bool, err error) {
	if out, err = a.answered(); err != nil {
		return out, false, err
	}
	for _, attempt := range append(slices.Clip(a.x.ledger.get(a.task.Path).open), a.task.Attempt) {
		own := a.x.before.own[attemptKey{a.task.Path, attempt}]
		for turn := 1; a.x.ran(label(a.task.Path, attempt, turn)); turn++ {
			name := label(a.task.Path, attempt, turn)
			launch, ok, err := a.x.readLaunch(name)
			if err != nil {
				return out, false, err
			}
			if !ok {
				continue
			}
			next, err := a.replay(name, attempt, launch, &own)
			if err != nil {
				return out, false, err
			}
			launch.sweep()
			a.took(next)
			if next.SessionID != "" {
				a.x.ledger.sessionSeen(a.task.Path, attempt, next.SessionID)
			}
			if out.Reason != agents.Completed || next.Reason == agents.Completed || next.Began || brokeRules(next) {
				out = next
				a.counted(launch.For)
			}
		}
	}
	return out, out.Reason == agents.Completed || brokeRules(out), nil
}

// answered is the outcome of an agent that had finished in an attempt which then came
// to no good end, zero if there is none.
func (a *attempt) answered() (out agents.Outcome, err error) {
	r := a.x.ledger.get(a.task.Path).answered
	if r == nil {
		return out, nil
	}
	text, err := r.Text.Load(a.x.Store)
	if err != nil {
		return out, err
	}
	output, err := r.Output.Load(a.x.Store)
	a.result.Session, a.result.Model, a.result.Version = r.Session, r.Model, r.Version
	return agents.Outcome{Reason: agents.Completed, SessionID: r.Session, Text: text, Output: json.RawMessage(output)}, err
}

// counted takes in what a turn that was adopted was for.
func (a *attempt) counted(p purpose) {
	a.repaired = p == forSchema
	if p == forCheck {
		a.checks++
	}
}

// readLaunch reads how the process named was started. It is false for one that was
// not: the record is written before the output, and one that a crash cut short was
// not followed by a start.
func (x *Executor) readLaunch(name string) (l Launch, ok bool, err error) {
	data, err := disk.ReadFile(x.file(name, launchExt))
	if errors.Is(err, fs.ErrNotExist) || !x.ran(name) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	if json.Unmarshal(data, &l) != nil {
		return l, false, nil
	}
	if _, known := x.Adapters[l.Use]; !known {
		return l, false, fmt.Errorf("attempt %s was run by agent %q, which this flow does not have; resume with the version of flow that began the run", name, l.Use)
	}
	return l, true, nil
}

// replay translates the stored output of a process again. Events that were
// recorded before the crash are not recorded twice; own counts those of flow's own
// that are still to be left out.
func (a *attempt) replay(name string, attempt int, launch Launch, own *int) (agents.Outcome, error) {
	dialog := a.x.Adapters[launch.Use].Dialog(launch.Request)
	if c, ok := dialog.(agents.Conversation); ok {
		c.Open()
	}
	f := filter{marks: a.x.before.marks, own: own, at: map[string]int{}, skip: a.x.recorder.skip, pass: func(e agents.Event) {
		_ = a.x.recorder.record(e) // Exec returns the error
	}}
	guard := newGuard(a.x.Adapters[launch.Use], launch.Request, a.x.home())
	guard.permits = a.x.before.permits[attemptKey{a.task.Path, attempt}]
	key, unheard := attemptKey{a.task.Path, attempt}, false
	tr := agents.NewTranslator(dialog, a.envelope(attempt, launch.Request.Session.ID), a.x.Now, func(e agents.Event) {
		fresh := f.event(e)
		guard.sees(e)
		if b, ok := e.Body.(agents.ToolCompleted); ok {
			guard.unasked(e, b) // that is on record, if there was anything to rule
		}
		unheard = unheard || a.x.before.unanswered(key, e.Body, fresh)
	})
	sink := a.x.translate(tr, name)
	err := errors.Join(
		eachLine(a.x.file(name, "stdout"), maxLine, sink.Stdout),
		eachLine(a.x.file(name, "stderr"), maxLine, sink.Stderr),
		syncOutput(proc.Spec{Stdout: a.x.file(name, "stdout"), Stderr: a.x.file(name, "stderr")}))
	if err != nil {
		return agents.Outcome{}, err
	}
	exit, err := a.x.exitOf(name)
	if err != nil {
		return agents.Outcome{}, err
	}
	out := guard.verdict(tr.End(exit), a.step.Agent)
	if unheard && out.Reason == agents.Completed { // it took the silence for a denial
		out.Reason, out.Problem = agents.Cancelled, &agents.Problem{
			Agent: a.step.Agent, Cause: agents.CauseCancelled, Message: "flow ended before it had answered the agent",
		}
	}
	return out, nil
}

// exitOf is how the process named ended, as far as the guardian could tell. One
// that it says nothing of is taken for ended with flow.
func (x *Executor) exitOf(name string) (agents.Exit, error) {
	stderr, err := readTail(x.file(name, "stderr"), stderrTail)
	exit := agents.Exit{Code: -1, Signal: "KILL", Intent: agents.IntentCancel, Stderr: stderr}
	rec, ok := x.exits[name]
	if !ok {
		return exit, err
	}
	exit.Code, exit.Signal = rec.Code, rec.Signal
	if !rec.EndedByGuardian {
		exit.Intent = agents.IntentNone
	}
	return exit, err
}

// adoptShell takes over a script that ended by itself while flow was dying.
func (a *attempt) adoptShell(ctx context.Context) (dag.Fact, bool, error) {
	name := a.lastScript()
	rec, ok := a.x.exits[name]
	if !ok || rec.EndedByGuardian {
		return dag.Fact{}, false, nil
	}
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, false, err
	}
	stderr, err := readTail(a.x.file(name, "stderr"), stderrMax)
	if err != nil {
		return dag.Fact{}, false, err
	}
	f, err := a.shellFact(ctx, a.x.file(name, "stdout"), a.x.maskedResult(proc.Result{Code: rec.Code, Signal: rec.Signal, StderrTail: stderr}))
	return f, true, err
}

// lastScript is the last process that a lost attempt started, "" if none did.
func (a *attempt) lastScript() string {
	for _, attempt := range slices.Backward(a.x.ledger.get(a.task.Path).open) {
		last := ""
		for turn := 1; a.x.ran(label(a.task.Path, attempt, turn)); turn++ {
			last = label(a.task.Path, attempt, turn)
		}
		if last != "" {
			return last
		}
	}
	return ""
}

// ran reports whether a process of this name was started: its output is there.
func (x *Executor) ran(name string) bool {
	_, err := disk.Lstat(x.file(name, "stdout"))
	return err == nil
}

// file is the absolute name of a file of the process named.
func (x *Executor) file(name, ext string) string {
	return filepath.Join(x.Store.Dir(), x.Store.AttemptPath(name, ext))
}
