package dag

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/pipeline"
)

// FuzzMachine makes a plan and a life of it from bytes: tasks are taken and answered, facts
// are stored in one order and applied in another, flow crashes and resumes, the run is
// stopped, facts that cannot be are offered. What must hold is checked all along.
func FuzzMachine(f *testing.F) {
	for i := range 40 {
		seed := make([]byte, 160)
		x := uint32(i*2654435761 + 1)
		for j := range seed {
			x = x*1664525 + 1013904223
			seed[j] = byte(x >> 24)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &input{data}
		l := newLife(t, in.plan())
		for steps := 0; len(in.data) > 0 && steps < 300; steps++ {
			l.live(in)
			l.check()
		}
		l.finish()
	})
}

// input hands out bytes, zero when there are no more.
type input struct{ data []byte }

func (in *input) n(below int) int {
	if len(in.data) == 0 {
		return 0
	}
	b := in.data[0]
	in.data = in.data[1:]
	return int(b) % below
}

func (in *input) yes(of int) bool { return in.n(of) == of-1 }

func (in *input) plan() *pipeline.Plan {
	p := &pipeline.Plan{Limit: 1 + in.n(4), FailFast: in.yes(3), AgentLimits: map[string]int{"a": 1 + in.n(2)}}
	left := 12
	p.Steps = in.steps("", &left, nil)
	return p
}

func (in *input) steps(prefix string, left *int, prompts []string) []pipeline.Step {
	var steps []pipeline.Step
	for *left > 0 && !in.yes(6) {
		*left--
		s := pipeline.Step{
			ID: fmt.Sprintf("s%d", len(steps)), Kind: pipeline.KindRun,
			ContinueOnError: in.yes(4), Handles: in.yes(4), FailFast: in.yes(3),
		}
		for _, other := range steps {
			if in.yes(3) {
				s.Needs = append(s.Needs, other.ID)
			}
		}
		s.Refs = s.Needs
		switch path := prefix + s.ID; in.n(4) {
		case 0:
			s.Kind = pipeline.KindGroup
			s.Steps = in.steps(path+".", left, prompts)
		case 1, 2:
			s.Kind, s.Agent = pipeline.KindPrompt, "a"
			if len(prompts) > 0 {
				mode := []pipeline.SessionMode{"", pipeline.SessionContinue, pipeline.SessionFork}[in.n(3)]
				s.Session = pipeline.Session{Mode: mode, Root: prompts[in.n(len(prompts))]}
			}
			prompts = append(prompts, path)
		}
		steps = append(steps, s)
	}
	return steps
}

// A life is a run that is driven by bytes.
type life struct {
	t       *testing.T
	plan    *pipeline.Plan
	m       *Machine
	now     time.Time
	journal []Fact // in the order in which they were stored
	applied []Fact // in the order in which the machine was told
	flight  []Fact // stored and not applied
	out     []*out // tasks that are out
}

type out struct {
	Task
	started, released, answered bool
}

func newLife(t *testing.T, p *pipeline.Plan) *life {
	t.Helper()
	return &life{t: t, plan: p, m: New(p, Options{}), now: time.Unix(1e9, 0)}
}

// live lets one thing happen.
func (l *life) live(in *input) {
	switch in.n(10) {
	case 0, 1, 2:
		l.take()
	case 3, 4:
		if len(l.out) > 0 {
			l.answer(l.out[in.n(len(l.out))], in.n(12))
		}
	case 5, 6:
		if len(l.flight) > 0 {
			l.land(in.n(len(l.flight)))
		}
	case 7:
		l.now = l.now.Add(time.Duration(in.n(20)) * time.Second)
	case 8:
		l.nonsense(in)
	case 9:
		switch in.n(6) {
		case 0:
			l.crash()
		case 1:
			l.store(Fact{Kind: Stopped}, !l.m.stopped && !l.flying(""))
		case 2, 3:
			l.resume()
		}
	}
}

// take takes tasks and checks each: its needs, and what it may use.
func (l *life) take() {
	twin, tasks := l.twin().Take(l.now), l.m.Take(l.now)
	if fmt.Sprint(paths(twin)) != fmt.Sprint(paths(tasks)) {
		l.t.Fatalf("takes %v, and when read back %v:\n%s", paths(tasks), paths(twin), dump(l.m))
	}
	l.out = slices.DeleteFunc(l.out, func(o *out) bool { return o.ended(l) })
	for _, task := range tasks {
		for _, o := range l.out {
			if o.Path == task.Path {
				l.t.Fatalf("%s was handed out twice", task.Path)
			}
		}
		l.ripe(task)
		l.out = append(l.out, &out{Task: task})
		l.fits()
	}
}

// ripe checks that task could be handed out.
func (l *life) ripe(task Task) {
	n := l.m.find(task.Path)
	for _, need := range n.needs {
		if need.out.status == "" || need.bars(need.out.status) && !task.Step.Handles {
			l.t.Fatalf("%s was handed out although it needs %s", task.Path, need.path)
		}
	}
	if task.NotBefore.After(l.now) {
		l.t.Fatalf("%s was handed out too early", task.Path)
	}
	if task.Attempt != n.attempts+1 || task.Previous != n.attempts {
		l.t.Fatalf("%s: attempt %d after %d", task.Path, task.Attempt, n.attempts)
	}
	for s := n.scope; s != nil; s = s.up() {
		if l.m.holds(s) {
			l.t.Fatalf("%s was handed out although nothing may start", task.Path)
		}
	}
}

// fits checks that the tasks that are out keep to limits and locks.
func (l *life) fits() {
	slots, agents := 0, 0
	writers, readers := map[string]int{}, map[string]int{}
	for _, o := range l.out {
		if o.Action == Open || o.ended(l) {
			continue
		}
		if !o.released {
			slots++
		}
		if !o.released && o.Step.Agent != "" {
			agents++
		}
		writers[o.Path]++
		switch s := o.Step.Session; s.Mode {
		case pipeline.SessionContinue:
			writers[s.Root]++
		case pipeline.SessionFork:
			readers[s.Root]++
		default:
		}
	}
	if slots > l.plan.Limit || agents > l.plan.AgentLimits["a"] {
		l.t.Fatalf("%d steps and %d of the agent at once", slots, agents)
	}
	for root, n := range writers {
		if n > 1 || n > 0 && readers[root] > 0 {
			l.t.Fatalf("session of %s: %d writers, %d readers", root, n, readers[root])
		}
	}
}

// ended says that the machine knows the end of the task.
func (o *out) ended(l *life) bool {
	return o.answered && !l.flying(o.Path)
}

func (l *life) flying(path string) bool {
	for _, f := range l.flight {
		if f.Path == path {
			return true
		}
	}
	return false
}

// answer stores the next fact of a task.
func (l *life) answer(o *out, how int) {
	f := Fact{Path: o.Path, Attempt: o.Attempt, Reason: fmt.Sprint(how)}
	switch {
	case o.answered:
		return
	case how == 0:
		f.Kind = Stopped
	case how == 1:
		f.Kind, f.Final = Failed, true
	case how == 2 && !o.started:
		f.Kind = Skipped
	case o.Action == Open:
		f.Kind = Opened
	case !o.started:
		o.started, f.Kind = true, Started
		l.store(f, true)
		return
	case how < 5:
		f.Kind, f.RetryAt = Failed, l.now.Add(time.Duration(how)*time.Second)
	default:
		f.Kind, f.Result = Succeeded, []byte("1")
	}
	if how%2 == 0 {
		l.m.Release(o.Path)
		o.released = true
	}
	o.answered = true
	l.store(f, true)
}

func (l *life) store(f Fact, when bool) {
	if when {
		l.journal = append(l.journal, f)
		l.flight = append(l.flight, f)
	}
}

// land applies a fact that was stored, the first of its step.
func (l *life) land(i int) {
	path := l.flight[i].Path
	for j, f := range l.flight {
		if f.Path == path {
			l.flight = append(l.flight[:j:j], l.flight[j+1:]...)
			l.apply(f)
			return
		}
	}
}

func (l *life) apply(f Fact) {
	if err := l.m.Apply(f); err != nil {
		l.t.Fatalf("%v\njournal %v", err, l.journal)
	}
	l.applied = append(l.applied, f)
}

func (l *life) landAll() {
	for len(l.flight) > 0 {
		l.land(0)
	}
}

// nonsense offers any fact to a copy of the machine. Refused, it must change nothing;
// accepted, the machine must be as if it had been read back.
func (l *life) nonsense(in *input) {
	kinds := []Kind{Started, Opened, Succeeded, Failed, Skipped, Stopped, Lost, Reopened, "boiled"}
	f := Fact{Kind: kinds[in.n(len(kinds))], Attempt: in.n(4), Final: in.yes(2)}
	paths := []string{"", "s0.nosuch", "nosuch"}
	for n := range l.m.root.all() {
		paths = append(paths, n.path)
	}
	f.Path = paths[in.n(len(paths))]
	m := l.replay(l.applied)
	before := dump(m)
	if m.Apply(f) == nil {
		before = dump(l.replay(append(slices.Clip(l.applied), f)))
	}
	if after := dump(m); after != before {
		l.t.Fatalf("%v, not as it was or should be:\n%s\n%s", f, before, after)
	}
}

// replay returns a machine that was told facts.
func (l *life) replay(facts []Fact) *Machine {
	m := New(l.plan, Options{})
	for _, f := range facts {
		if err := m.Apply(f); err != nil {
			l.t.Fatalf("read back: %v\n%v", err, facts)
		}
	}
	return m
}

// crash forgets everything but the journal.
func (l *life) crash() {
	l.landAll()
	ordered := dump(l.replay(l.applied))
	l.m = l.replay(l.journal)
	if stored := dump(l.m); stored != ordered {
		l.t.Fatalf("the order in which facts were stored makes a difference:\n%s\n%s", ordered, stored)
	}
	l.out = nil
	l.applied = append([]Fact(nil), l.journal...)
	for _, path := range l.m.Unfinished() {
		l.store(Fact{Kind: Lost, Path: path}, true)
	}
	l.landAll()
	if !l.m.Idle() || l.m.busy != 0 {
		l.t.Fatal("something runs after a crash")
	}
}

// resume reopens a run that has ended.
func (l *life) resume() {
	l.landAll()
	if !l.m.Done() {
		return
	}
	before := l.m.Status()
	facts := l.m.Reopenable()
	for _, f := range facts {
		l.store(f, true)
	}
	l.landAll()
	switch again := l.m.Reopenable(); {
	case len(again) > 0:
		l.t.Fatalf("resumed twice: %v then %v", facts, again)
	case before == RunSucceeded && (len(facts) > 1 || len(facts) == 1 && facts[0].Path != ""):
		l.t.Fatalf("a run that succeeded is resumed: %v", facts)
	case before != RunSucceeded && l.m.Done():
		l.t.Fatalf("resumed, and nothing to do: %v\n%s", facts, dump(l.m))
	}
}

// check compares the machine with its twin and sees that it is not stuck.
func (l *life) check() {
	twin := l.twin()
	if a, b := dump(l.m), dump(twin); a != b {
		l.t.Fatalf("not as when read back:\n%s\n%s", a, b)
	}
	if len(l.flight) > 0 || !l.m.Idle() || l.m.Done() || !l.m.Wake(l.now).IsZero() {
		return
	}
	if len(twin.Take(l.now)) == 0 {
		l.t.Fatalf("stuck:\n%s", dump(l.m))
	}
}

// twin returns a machine that was told the same facts and has the same tasks out.
func (l *life) twin() *Machine {
	m := l.replay(l.applied)
	for _, n := range l.m.active {
		twin := m.find(n.path)
		m.activate(twin, n.inner == nil)
		if !n.slot {
			m.release(twin)
		}
	}
	m.again(m.root)
	m.settle()
	return m
}

func paths(tasks []Task) (all []string) {
	for _, t := range tasks {
		all = append(all, t.Path)
	}
	return all
}

// finish answers everything with success and sees that each step comes to an end.
func (l *life) finish() {
	for range 1000 {
		l.landAll()
		l.take()
		if l.m.Done() {
			break
		}
		for _, o := range l.out {
			l.answer(o, 11)
		}
		l.now = l.now.Add(time.Minute)
	}
	if !l.m.Done() || !l.m.Idle() || l.m.busy != 0 {
		l.t.Fatalf("does not end:\n%s", dump(l.m))
	}
	for _, s := range l.m.Steps() {
		if s.Status == Pending || s.Status == Running || s.Status == Retrying {
			l.t.Fatalf("%s is %s at the end", s.Path, s.Status)
		}
	}
	if l.m.Status() == RunRunning {
		l.t.Fatal("done, and running")
	}
}

// dump tells all there is to know of m.
func dump(m *Machine) string {
	var out strings.Builder
	for _, s := range m.Steps() {
		n := m.find(s.Path)
		fmt.Fprintf(&out, "%s %s %d %q %q %v %s | %d %d %v %v %d\n", s.Path, s.Status, s.Attempts, s.Reason, s.Root,
			n.active, n.previous, n.waits, n.barred, n.failing, n.retryAt.Unix(), len(n.locks))
	}
	fmt.Fprintf(&out, "%s %v %v %v %d %d", m.Status(), m.Cancels(), m.Unfinished(), m.Stopping(), m.busy, m.struck)
	return out.String()
}
