package steps

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"flow/agents"
	"flow/agents/proc"
	"flow/state/disk"
	"flow/state/failpoint"
)

// A Launch is what is kept of how a process of an agent was started, beside its
// output: enough to translate that output again.
type Launch struct {
	Use     string         `json:"use"`
	Path    string         `json:"path"`
	Args    []string       `json:"args"`
	Request agents.Request `json:"request"`
	For     purpose        `json:"for,omitempty"` // "": the step's own prompt
	// Leaves are the directories of agents.Command.Leaves that did not exist before,
	// absolute: what is to be removed when the process was killed.
	Leaves []string `json:"leaves,omitempty"`
}

// turn starts the agent once as planned and follows it to its end.
func (a *attempt) turn(ctx context.Context, p turnPlan) (agents.Outcome, error) {
	if out := a.reserve(ctx); out != nil {
		return *out, nil
	}
	spec := a.spec()
	req := a.request(p.session, a.x.Mask.Text(p.prompt))
	a.reserved = false
	return a.process(ctx, spec, req, p.purpose)
}

// process starts the agent as a request wants it and follows it to its end.
func (a *attempt) process(ctx context.Context, spec proc.Spec, req agents.Request, purpose purpose) (agents.Outcome, error) {
	adapter := a.adapter()
	cmd, err := adapter.Command(req)
	if err != nil {
		return agents.Outcome{Reason: agents.Failed, Problem: configProblem(err)}, nil
	}
	launch := a.launch(&spec, cmd, req)
	launch.For = purpose
	if err := a.equip(&spec, cmd, &launch); err != nil {
		return unequipped(err)
	}
	failpoint.Reach("launch-stored")
	ctx, watch := watchIdle(ctx, time.Duration(a.step.IdleTimeout))
	defer watch.stop()
	l := a.listener(launch.Request, watch)
	res, cause, err := a.accompany(ctx, spec, l)
	if err == nil {
		err = syncOutput(spec)
	}
	if err != nil {
		return agents.Outcome{}, err
	}
	a.heldTo(res, l.tr.SessionID())
	exit := agents.Exit{Code: res.Code, Signal: res.Signal, Intent: a.intent(cause), Stderr: res.StderrTail, Err: res.Err, Overflow: res.Overflow}
	if exit.Intent != agents.IntentNone {
		exit.Err = nil // it was not started because its time was up
	}
	if exit.Intent == agents.IntentDone && !l.tr.Stuck() {
		l.tr.Emit(agents.System{Subtype: noticeExit, Message: "the agent did not exit after its turn, and was ended"})
	}
	out := l.guard.verdict(l.tr.End(exit), a.step.Agent)
	if l.guard.broken != nil {
		a.notice(noticePolicy, out.Problem.Message)
	}
	if exit.Intent != agents.IntentNone || exit.Signal != "" || cmd.Talks { // flow ends every agent that talks
		launch.sweep()
	}
	a.result.Stderr = lastWords(out.Problem, exit.Stderr)
	a.result.Leftovers = append(a.result.Leftovers, res.Leftovers...)
	a.took(out)
	return out, nil
}

// equip makes everything ready for the process to start, or to be played.
func (a *attempt) equip(spec *proc.Spec, cmd agents.Command, l *Launch) error {
	if a.x.Recording != nil {
		return a.rehearse(spec, cmd, l)
	}
	if err := a.confineAgent(spec, l.Request, cmd.Writable); err != nil {
		return err
	}
	return errors.Join(a.write(*spec, cmd, *l), prepare(scratchOf(a.x.Store.Dir()), l.Request.Home, cmd.Prepare))
}

// unequipped is the outcome of a process that equip has a problem with, or its error.
func unequipped(err error) (agents.Outcome, error) {
	if p, ok := errors.AsType[*agents.Problem](err); ok {
		return agents.Outcome{Reason: agents.Failed, Problem: p}, nil
	}
	return agents.Outcome{}, err
}

// A listener follows one process of an agent: it has its events recorded and its calls
// judged.
type listener struct {
	dialog agents.Dialog
	tr     *agents.Translator
	guard  *guard
	watch  *idleWatch
	talk   *talk // nil: the agent does not listen
}

// listener returns the one for the process that req starts.
func (a *attempt) listener(req agents.Request, watch *idleWatch) *listener {
	l := &listener{dialog: a.adapter().Dialog(req), guard: newGuard(a.adapter(), req, a.x.home()), watch: watch}
	l.tr = agents.NewTranslator(l.dialog, a.envelope(a.task.Attempt, req.Session.ID), a.x.Now, func(e agents.Event) {
		if err := a.x.recorder.record(e); err != nil {
			watch.cancel(err) // work that cannot be recorded must not go on
		}
		if l.talk != nil {
			l.talk.heard(e)
		}
		if d := l.guard.sees(e); d != nil {
			watch.cancel(errPolicy)
		}
		a.rulings(l, e)
	})
	return l
}

// rulings records what an event says of calls that flow did not decide on: one that was
// made or refused unasked, and one that the agent itself says was decided.
func (a *attempt) rulings(l *listener, e agents.Event) {
	var r ruling
	var ok bool
	switch b := e.Body.(type) {
	case agents.ToolCompleted:
		if r, ok = l.guard.unasked(e, b); ok {
			l.tr.Emit(r.event())
		}
	case agents.PermissionDecided:
		if e.Native != nil {
			r, ok = l.guard.reported(b)
		}
	}
	if !ok {
		return
	}
	if err := a.audit(r); err != nil {
		l.watch.cancel(err)
	}
}

// accompany runs the process to its end. cause is why flow ended it, nil when it ended by
// itself.
func (a *attempt) accompany(ctx context.Context, spec proc.Spec, l *listener) (res proc.Result, cause, err error) {
	sink := a.listen(ctx, l.tr)
	conversation, ok := l.dialog.(agents.Conversation)
	if !ok {
		running, end := context.WithCancelCause(ctx)
		defer end(nil)
		sink, stop := parting(l.dialog, sink, end)
		defer stop()
		res, err = a.runWatched(running, l.watch, spec, sink)
		return res, context.Cause(running), err
	}
	t, running, err := a.newTalk(ctx, conversation, &spec)
	if err != nil {
		return res, nil, err
	}
	l.talk = t
	stop := t.begin(l)
	res, err = a.runWatched(running, l.watch, spec, t.sink(sink))
	stop()
	if cause = context.Cause(ctx); cause == nil {
		cause = context.Cause(running)
	}
	return res, cause, errors.Join(err, t.end())
}

// request is what the turn asks of the agent.
func (a *attempt) request(session agents.Session, prompt string) agents.Request {
	req := stepRequest(a.frame.plan, a.step, a.workspace(), a.adapter())
	req.Dir, req.Schema, req.Scratch = a.dir, a.step.Output, a.path("d")
	req.Home = filepath.Join(a.x.Store.Dir(), "agents", a.profile().Use)
	req.Session, req.Prompt = session, prompt
	req.Key = setKey(a.adapter().Info(), a.env)
	if req.Ruled() {
		req.Protected = append(req.Protected, a.x.pipelineFiles(a.frame.plan, a.workspace())...)
	}
	req.Confined = a.confines(req)
	if a.bound != nil {
		req.MaxCostUSD = a.bound.left
	}
	return req
}

func (a *attempt) envelope(attempt int, session string) agents.Envelope {
	return agents.Envelope{
		Agent: a.profile().Use, Run: a.x.RunID, Step: a.task.Path, Attempt: attempt, Session: session,
	}
}

// launch completes spec with what the agent's command says.
func (a *attempt) launch(spec *proc.Spec, cmd agents.Command, req agents.Request) Launch {
	profile := a.profile()
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
	l := Launch{Use: profile.Use, Path: spec.Path, Args: spec.Args, Request: req}
	for _, name := range cmd.Leaves {
		dir := filepath.Join(spec.Dir, name)
		if _, err := disk.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			l.Leaves = append(l.Leaves, dir)
		}
	}
	return l
}

// sweep removes what a killed agent left in the workspace. Directories that are not
// empty stay: Remove refuses them.
func (l Launch) sweep() {
	for _, dir := range l.Leaves {
		_ = disk.Remove(dir)
	}
}

// commandLine is the executable of an agent and what stands before its arguments.
// A relative path in a profile is one of the workspace, whatever the step's cwd.
func (x *Executor) commandLine(use string, command []string) []string {
	switch {
	case x.Simulate != nil:
		return x.Simulate(use)
	case len(command) == 0:
		return []string{x.Adapters[use].Info().Executable}
	}
	return append([]string{inWorkspace(x.Workspace, command[0])}, command[1:]...)
}

// inWorkspace makes a relative path one of the workspace; a mere name stays.
func inWorkspace(workspace, name string) string {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		return filepath.Join(workspace, name)
	}
	return name
}

// write puts the turn's files in place: prompt, launch record, and what the agent
// reads (settings, schemas).
func (a *attempt) write(spec proc.Spec, cmd agents.Command, launch Launch) error {
	if err := disk.MkdirAll(launch.Request.Scratch, 0o700); err != nil {
		return err
	}
	record, err := json.Marshal(launch)
	if err != nil {
		return err
	}
	files := append([]agents.File{{Path: spec.Stdin, Data: []byte(cmd.Stdin)}, {Path: a.path(launchExt), Data: record}}, cmd.Files...)
	for _, f := range files {
		if err := putFile(scratchOf(a.x.Store.Dir()), f); err != nil {
			return err
		}
	}
	return nil
}

// putFile writes f in one step, for an agent of another turn may be reading it. It
// need not survive a power failure: the next attempt writes its own.
func putFile(scratch string, f agents.File) error {
	if err := disk.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	temp, err := createScratch(scratch)
	if err != nil {
		return err
	}
	_, err = temp.Write(f.Data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = disk.Rename(temp.Name(), f.Path)
	}
	if err != nil {
		return errors.Join(err, disk.Remove(temp.Name()))
	}
	return nil
}

// listen passes the process's lines to the translator, and notes the native session
// as soon as the agent names it.
func (a *attempt) listen(ctx context.Context, tr *agents.Translator) proc.Sink {
	sink := a.x.translate(tr, a.label())
	known, stdout := tr.SessionID(), sink.Stdout
	sink.Stdout = func(l proc.Line) {
		stdout(l)
		if id := tr.SessionID(); id != known {
			known = id
			a.sessionSeen(ctx, id)
		}
	}
	return sink
}

// translate passes the lines of the process named to the translator.
func (x *Executor) translate(tr *agents.Translator, name string) proc.Sink {
	native := func(ext string, l proc.Line) agents.Native {
		file := filepath.ToSlash(x.Store.AttemptPath(name, ext))
		return agents.Native{File: file, Offset: l.Offset, Length: l.Length}
	}
	return proc.Sink{
		Stdout: func(l proc.Line) {
			if l.Oversized {
				tr.Oversized(l.Data, native("stdout", l))
				return
			}
			tr.Stdout(l.Data, native("stdout", l))
		},
		Stderr: func(l proc.Line) { tr.Stderr(l.Data, native("stderr", l)) },
	}
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
func (a *attempt) sessionSeen(ctx context.Context, id string) {
	failpoint.Reach("session-seen")
	seen := SessionSeen{Path: a.task.Path, Attempt: a.task.Attempt, Session: id}
	if err := a.x.Store.Append(context.WithoutCancel(ctx), recordSession, seen, false); err != nil {
		a.x.Logger.Warn("the session could not be recorded", "step", a.task.Path, "error", err)
	}
	failpoint.Reach("session-stored")
	a.x.ledger.sessionSeen(a.task.Path, a.task.Attempt, id)
}
