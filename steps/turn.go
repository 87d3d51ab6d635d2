package steps

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"flow/agents"
	"flow/agents/proc"
)

// A Launch is what is kept of how a process of an agent was started, beside its
// output: enough to translate that output again.
type Launch struct {
	Use     string         `json:"use"`
	Path    string         `json:"path"`
	Args    []string       `json:"args"`
	Request agents.Request `json:"request"`
}

// turn starts the agent once and follows it to its end.
func (a *attempt) turn(ctx context.Context, req agents.Request) (agents.Outcome, error) {
	spec := a.spec()
	req.Scratch = a.path("d")
	adapter := a.adapter()
	cmd, err := adapter.Command(req)
	if err != nil {
		return commandProblem(a.step.Agent, err), nil
	}
	launch := a.launch(&spec, cmd, req)
	if err := a.write(spec, cmd, launch); err != nil {
		return agents.Outcome{}, err
	}
	tr := agents.NewTranslator(adapter.Dialog(req), a.envelope(req.Session.ID), a.x.Now, a.x.recorder.record)
	ctx, watch := watchIdle(ctx, time.Duration(a.step.IdleTimeout))
	defer watch.stop()
	res, err := a.x.Launcher.Run(ctx, spec, a.sink(tr, watch))
	if err != nil {
		return agents.Outcome{}, err
	}
	exit := agents.Exit{Code: res.Code, Signal: res.Signal, Intent: intent(ctx), Stderr: res.StderrTail, Err: res.Err}
	if exit.Intent != agents.IntentNone {
		exit.Err = nil // it was not started because its time was up
	}
	a.cancelled = exit.Intent == agents.IntentCancel
	return tr.End(exit), nil
}

func (a *attempt) envelope(session string) agents.Envelope {
	return agents.Envelope{
		Agent: a.x.Plan.Agents[a.step.Agent].Use, Run: a.x.RunID, Step: a.task.Path, Attempt: a.task.Attempt, Session: session,
	}
}

// launch completes spec with what the agent's command says.
func (a *attempt) launch(spec *proc.Spec, cmd agents.Command, req agents.Request) Launch {
	profile := a.x.Plan.Agents[a.step.Agent]
	line := a.x.commandLine(profile.Use, profile.Command)
	spec.Path, spec.Args = line[0], append(line[1:], cmd.Args...)
	spec.Env = setEnv(a.env, cmd.Env...)
	spec.Stdin = a.path("prompt")
	if cmd.Interrupt == "TERM" {
		spec.Ladder = []proc.Rung{{Signal: syscall.SIGTERM, Wait: 10 * time.Second}}
	}
	if cmd.Dir != "" {
		spec.Dir = cmd.Dir
	}
	return Launch{Use: profile.Use, Path: spec.Path, Args: spec.Args, Request: req}
}

// commandLine is the executable of an agent and what stands before its arguments.
func (x *Executor) commandLine(use string, command []string) []string {
	switch {
	case x.Simulate != nil:
		return x.Simulate(use)
	case len(command) > 0:
		return append([]string{}, command...)
	default:
		return []string{x.Adapters[use].Info().Executable}
	}
}

// write puts the turn's files in place: prompt, launch record, and what the agent
// reads (settings, schemas).
func (a *attempt) write(spec proc.Spec, cmd agents.Command, launch Launch) error {
	if err := os.MkdirAll(launch.Request.Scratch, 0o700); err != nil {
		return err
	}
	record, err := json.Marshal(launch)
	if err != nil {
		return err
	}
	files := append([]agents.File{{Path: spec.Stdin, Data: []byte(cmd.Stdin)}, {Path: a.path("json"), Data: record}}, cmd.Files...)
	for _, f := range files {
		if err := os.WriteFile(f.Path, f.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sink passes the process's lines to the translator, and notes signs of life and
// the native session as soon as the agent names it.
func (a *attempt) sink(tr *agents.Translator, watch *idleWatch) proc.Sink {
	stdout, stderr := a.native("stdout"), a.native("stderr")
	known := tr.SessionID()
	return proc.Sink{
		Stdout: func(l proc.Line) {
			watch.touch()
			stdout.Offset, stdout.Length = l.Offset, l.Length
			if l.Oversized {
				tr.Oversized(l.Data, stdout)
				return
			}
			tr.Stdout(l.Data, stdout)
			if id := tr.SessionID(); id != known {
				known = id
				a.sessionSeen(id)
			}
		},
		Stderr: func(l proc.Line) {
			watch.touch()
			stderr.Offset, stderr.Length = l.Offset, l.Length
			tr.Stderr(l.Data, stderr)
		},
	}
}

// native is the name of one of the turn's files as events give it.
func (a *attempt) native(ext string) agents.Native {
	return agents.Native{File: filepath.ToSlash(a.x.Store.AttemptPath(a.label(), ext))}
}

// SessionSeen is the data of a "session" record: an agent that names its sessions
// itself has named the one of an attempt under way.
type SessionSeen struct {
	Path    string `json:"path"`
	Attempt int    `json:"attempt"`
	Session string `json:"session"`
}

// sessionSeen records the session without waiting for the disk: should the record
// be lost, the native line that names it is read again on resume.
func (a *attempt) sessionSeen(id string) {
	seen := SessionSeen{Path: a.task.Path, Attempt: a.task.Attempt, Session: id}
	if err := a.x.Store.Append(context.Background(), recordSession, seen, false); err != nil {
		a.x.Logger.Warn("the session could not be recorded", "step", a.task.Path, "error", err)
	}
	a.x.ledger.sessionSeen(a.task.Path, a.task.Attempt, id)
}

// An idleWatch cancels a context when nothing has touched it for a while.
type idleWatch struct {
	timer *time.Timer
	after time.Duration
	done  context.CancelCauseFunc
}

func watchIdle(ctx context.Context, after time.Duration) (context.Context, *idleWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &idleWatch{after: after, done: cancel}
	if after > 0 {
		w.timer = time.AfterFunc(after, func() { cancel(errIdle) })
	}
	return ctx, w
}

func (w *idleWatch) touch() {
	if w.timer != nil {
		w.timer.Reset(w.after)
	}
}

func (w *idleWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.done(nil)
}
