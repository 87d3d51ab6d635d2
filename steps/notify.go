package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
	"flow/state/disk"
	"flow/state/failpoint"
)

// notifyTime is how long a script that tells of something may take.
const notifyTime = time.Minute

var errNotifyTime = errors.New("ended, for it took longer than " + notifyTime.String())

// Notified is the data of a "notified" record: the scripts that tell how a step, or the run
// (with the empty path), has ended are started if Begun is set, else they have ended. Should
// flow die in between, they run again: people are told twice rather than never.
type Notified struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	Begun  bool   `json:"begun,omitempty"` // older flows know no such record, and wrote the other one first
}

// A notifier runs the scripts of `notify` beside everything else.
type notifier struct {
	group sync.WaitGroup

	mu    sync.Mutex
	known map[string]*attempt // the attempts of steps that want to be told of, by path
}

// expect keeps what the scripts of the attempt's step will see.
func (n *notifier) expect(a *attempt) {
	if len(a.step.Notify) == 0 || outermost(a.task.Path) != a.task.Path {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[a.task.Path] = a
}

func (n *notifier) of(path string) *attempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[path]
}

// NotifyFact takes in a fact that the machine has applied: if a step has ended with it that
// wants to be told of, its script is started. It does not wait for the script.
func (x *Executor) NotifyFact(m *dag.Machine, f dag.Fact) {
	for path := f.Path; path != ""; path = around(path) {
		a := x.notifier.of(path)
		if a == nil {
			continue
		}
		in := m.Input(path)
		reason := f.Reason
		if path != f.Path {
			reason = ""
		}
		x.tell(a, path, a.step.Notify, string(in.Status), reason)
		x.notifier.forget(path, in.Status)
	}
}

// around is the path of the node that holds the one at path, "" for the run.
func around(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// forget gives up what was kept for a step that has ended.
func (n *notifier) forget(path string, s dag.Status) {
	switch s {
	case dag.OK, dag.Failure, dag.Cancelled, dag.SkippedStep:
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.known, path)
	default:
	}
}

// NotifyEnd tells of what the run has come to: of the steps that have ended with others
// (groups, lists, what was skipped), and of the run itself. It returns when all scripts
// have ended.
func (x *Executor) NotifyEnd(m *dag.Machine, status, reason string) {
	for _, s := range m.Steps() {
		if len(s.Step.Notify) == 0 || outermost(s.Path) != s.Path {
			continue
		}
		a := x.notifier.of(s.Path)
		if a == nil { // an earlier process of the run had it
			a = x.stranger(m, s)
		}
		x.tell(a, s.Path, s.Step.Notify, string(s.Status), s.Reason)
	}
	if len(x.Plan.Notify) > 0 {
		x.tell(x.stranger(m, dag.StepState{Step: &pipeline.Step{}}), "", x.Plan.Notify, status, reason)
	}
	x.notifier.group.Wait()
}

// stranger stands for an attempt that this process knows nothing of. What it sees are
// the run and, unless its pipeline is a called one, the steps at the top.
func (x *Executor) stranger(m *dag.Machine, s dag.StepState) *attempt {
	a := &attempt{x: x, task: dag.Task{Path: s.Path, Step: s.Step}, step: s.Step, scope: scope{frame: x.frameAt(s.Path)}}
	inputs := map[string]dag.Input{}
	if a.frame == x.root {
		inputs = x.topSteps(m)
	}
	var err error
	if a.data, err = x.stepsIn(a.frame, inputs); err != nil {
		a.data = x.runData(a.frame)
	}
	return a
}

// tell starts the scripts that are about this end, unless that was done before.
func (x *Executor) tell(a *attempt, path string, notify []pipeline.Notify, status, reason string) {
	scripts := slices.DeleteFunc(slices.Clone(notify), func(n pipeline.Notify) bool { return !slices.Contains(n.On, status) })
	if len(scripts) == 0 || !x.ledger.tell(path, status) {
		return
	}
	told := Notified{Path: path, Status: status}
	if err := x.noteNotified(Notified{Path: path, Status: status, Begun: true}); err != nil {
		x.notifyFailed(a, told, err)
		return
	}
	x.notifier.group.Go(func() {
		var broken errgroup.Group // flow itself is, and not the script
		for _, n := range scripts {
			broken.Go(func() error { return x.runNotify(a, told, n, reason) })
		}
		err := broken.Wait()
		if err == nil {
			failpoint.Reach("scripts-done")
			err = x.noteNotified(told)
		}
		if err != nil {
			x.notifyFailed(a, told, err)
		}
	})
}

func (x *Executor) noteNotified(n Notified) error {
	return x.Store.Append(context.Background(), recordNotified, n, false)
}

// notifyFailed says that nobody, or not everybody, has been told.
func (x *Executor) notifyFailed(of *attempt, n Notified, err error) {
	a := &attempt{x: x, task: dag.Task{Path: n.Path, Attempt: 1}, step: of.step, scope: scope{frame: of.frame}}
	a.notice(noticeNotify, "the script failed: "+err.Error())
	x.Logger.Warn("notify failed", "step", n.Path, "error", err)
}

// runNotify runs one script. Its failure is nobody's but its own; the error is one of flow.
func (x *Executor) runNotify(of *attempt, told Notified, n pipeline.Notify, reason string) error {
	ctx, done := context.WithTimeoutCause(context.Background(), notifyTime, errNotifyTime)
	defer done()
	a := &attempt{ // a process of its own, beside those of the step
		x: x, scope: scope{frame: of.frame, data: maps.Clone(of.data)}, location: location{dir: x.Workspace}, began: x.Now(),
		task: dag.Task{Path: "notify-" + told.Path, Attempt: 1}, step: &pipeline.Step{ID: of.step.ID, Kind: pipeline.KindRun, Env: of.step.Env},
	}
	defer func() { _ = a.seal(ctx) }() // a resume tries it again
	problem, err := a.notify(ctx, n.Run, []string{
		"FLOW_RUN_STATUS=" + runStatus(told.Path, told.Status), "FLOW_STEP=" + told.Path, "FLOW_STATUS=" + told.Status,
		"FLOW_ERROR=" + strings.ReplaceAll(reason, "\x00", ""), "FLOW_PIPELINE=" + x.Plan.Name,
	})
	if problem != nil {
		x.notifyFailed(of, told, problem)
	}
	return err
}

// runStatus is the status of the run, as far as it is known when a step has ended.
func runStatus(path, status string) string {
	if path == "" {
		return status
	}
	return string(dag.RunRunning)
}

// notify runs a script to its end. problem is why it told nobody, err that flow is broken.
func (a *attempt) notify(ctx context.Context, run pipeline.Text, variables []string) (problem, err error) {
	env, visible, err := a.x.environment(a.frame, a.step, a.data)
	if err != nil {
		return err, nil
	}
	a.data["env"] = visible
	script, err := a.frame.renderer.Script(run, a.data)
	if err != nil {
		return err, nil
	}
	a.x.notifier.mu.Lock() // two scripts of one step take different names
	spec := a.spec()
	err = reserveFile(spec.Stdout)
	a.x.notifier.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if spec.Path, spec.Args, err = a.command(script); err != nil {
		return nil, err
	}
	spec.Env, spec.Group = setEnv(env, variables...), true
	res, err := a.run(ctx, spec, proc.Sink{})
	if err != nil {
		return nil, err
	}
	if p := a.shellProblem(ctx, res); p != nil {
		return fmt.Errorf("%s (%s)", p.Message, a.x.Store.AttemptPath(a.label(), "stderr")), nil
	}
	return nil, nil
}

// reserveFile makes an empty file, so that its name is taken.
func reserveFile(name string) error {
	f, err := disk.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// tell reports whether nobody has been told yet that path has ended so, and notes that
// somebody is.
func (l *ledger) tell(path, status string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(path)
	news := a.told != status
	a.told = status
	return news
}

// told takes in what is on record. The scripts of one status may end after those of the next.
func (l *ledger) told(n Notified) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch a := l.account(n.Path); {
	case n.Begun:
		a.telling, a.told = n.Status, ""
	case a.telling == "" || a.telling == n.Status:
		a.told = n.Status
	}
}

// untell forgets that somebody was told of path, and of what it stands in up to the run:
// they go on.
func (l *ledger) untell(path string) {
	for ; path != ""; path = around(path) {
		l.account(path).told = ""
	}
	l.account("").told = ""
}

// restoreNotified takes in a record of an earlier process.
func (x *Executor) restoreNotified(r state.Record) error {
	var n Notified
	if err := json.Unmarshal(r.Data, &n); err != nil {
		return fmt.Errorf("record %d of the journal tells of nothing: %w", r.Seq, err)
	}
	x.ledger.told(n)
	return nil
}
