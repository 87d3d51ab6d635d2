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
	g := gardener{input: in, left: 12}
	p.Steps = g.steps("", 2, nil)
	return p
}

// A gardener makes the steps of a plan.
type gardener struct {
	*input
	left int // steps to make
}

// steps makes the steps of a group, in which so many more steps may grow instances, and
// which may share the sessions of the prompts around it.
func (g *gardener) steps(prefix string, grow int, prompts []string) []pipeline.Step {
	var steps []pipeline.Step
	for g.left > 0 && !g.yes(6) {
		g.left--
		s := pipeline.Step{
			ID: fmt.Sprintf("s%d", len(steps)), Kind: pipeline.KindRun,
			ContinueOnError: g.yes(4), Handles: g.yes(4), FailFast: g.yes(3),
		}
		for _, other := range steps {
			if g.yes(3) {
				s.Needs = append(s.Needs, other.ID)
			}
		}
		s.Refs, s.Previous = s.Needs, g.yes(2)
		inner := grow
		if grow > 0 && g.yes(3) {
			inner--
			g.many(&s)
		}
		path := prefix + s.ID
		g.kind(&s, path, inner, prompts)
		if s.Kind == pipeline.KindPrompt && s.Foreach == nil {
			prompts = append(slices.Clip(prompts), path)
		}
		steps = append(steps, s)
	}
	return steps
}

// many makes many of s.
func (g *gardener) many(s *pipeline.Step) {
	how := 1 + g.n(3)
	if how&1 > 0 {
		s.Foreach = &pipeline.Foreach{MaxParallel: g.n(3)}
	}
	if how&2 > 0 {
		s.Repeat = &pipeline.Repeat{Max: 3}
	}
}

// kind makes s do something.
func (g *gardener) kind(s *pipeline.Step, path string, grow int, prompts []string) {
	if g.yes(5) {
		s.Isolation = &pipeline.Isolation{Mode: "worktree"}
	}
	switch g.n(8) {
	case 0:
		s.Kind = pipeline.KindGroup
		s.Steps = g.steps(path+".", grow, prompts)
	case 1:
		s.Kind = pipeline.KindCall
		agents := map[string]pipeline.Profile{"b": {Name: "b", Use: "a"}}
		s.Call = &pipeline.Call{Plan: &pipeline.Plan{FailFast: g.yes(3), Agents: agents}}
		s.Call.Plan.Steps = g.steps("", grow, nil)
	case 2:
		s.Kind, s.Isolation = pipeline.KindAsk, nil
	case 3, 4, 5:
		s.Kind, s.Agent = pipeline.KindPrompt, "a"
		switch {
		case g.yes(4):
			s.Contest = &pipeline.Contest{Agents: []string{"a", "a", "c"}, Race: g.yes(2)}
			if !s.Contest.Race && g.yes(2) {
				s.Contest.Judge = &pipeline.Step{ID: "judge", Kind: pipeline.KindPrompt, Agent: "a"}
			}
		case s.Repeat != nil && g.yes(3):
			s.Session = pipeline.Session{Mode: pipeline.SessionContinue, Step: s.ID, Root: path}
		case len(prompts) > 0:
			mode := []pipeline.SessionMode{"", pipeline.SessionContinue, pipeline.SessionFork}[g.n(3)]
			s.Session = pipeline.Session{Mode: mode, Root: prompts[g.n(len(prompts))]}
		}
	}
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
	floor   int    // of the last Updated
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
			l.answer(l.out[in.n(len(l.out))], in.n(16))
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
		switch in.n(7) {
		case 0:
			l.crash()
		case 4:
			if l.landAll(); l.m.Idle() {
				l.floor++
				l.store(Fact{Kind: Updated, Attempt: l.floor}, true)
				l.landAll()
			}
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
	for _, need := range n.needs { // of a node that is open, a need may have been reopened
		if n.opened {
			break
		}
		if need.out.status == "" || need.bars(need.out.status) && !task.Step.Handles {
			l.t.Fatalf("%s was handed out although it needs %s", task.Path, need.path)
		}
	}
	if task.NotBefore.After(l.now) {
		l.t.Fatalf("%s was handed out too early", task.Path)
	}
	due := n.attempts + 1
	if n.attempts == 0 {
		due += l.floor
	}
	if task.Action == Close {
		due = n.inner.attempt
		l.ripeToClose(task, n)
	}
	if task.Attempt != due || task.Previous != n.attempts {
		l.t.Fatalf("%s: attempt %d after %d", task.Path, task.Attempt, n.attempts)
	}
	for s := n.scope; s != nil; s = s.up() {
		if l.m.holds(s) {
			l.t.Fatalf("%s was handed out although nothing may start", task.Path)
		}
	}
	l.surroundings(task)
}

// ripeToClose checks that all that counts in n has ended well.
func (l *life) ripeToClose(task Task, n *node) {
	for _, c := range n.inner.nodes {
		if c.out.status == "" {
			l.t.Fatalf("%s is to be closed although %s has not ended", task.Path, c.path)
		}
		if !n.inner.of(Contest) && c.bars(c.out.status) && c.out.status != SkippedStep {
			l.t.Fatalf("%s is to be closed although %s is %s", task.Path, c.path, c.out.status)
		}
	}
	if task.Inner == nil || n.form == Loop && task.Inner.Rounds != len(n.inner.nodes) {
		l.t.Fatalf("%s is to be closed with %v", task.Path, task.Inner)
	}
}

// surroundings checks what task says of where it stands against its path.
func (l *life) surroundings(task Task) {
	path := ""
	var before *string
	for i, e := range task.Around {
		switch e.Form {
		case Group:
			path = strings.TrimPrefix(e.Path+".", ".")
			continue
		case Loop:
			if before = nil; e.Index > 1 {
				before = new(fmt.Sprintf("%s.%d", e.Path, e.Index-1))
			}
		default:
		}
		name := fmt.Sprint(e.Index)
		if e.Index < 0 {
			name = "judge"
		}
		if path = e.Path + "." + name; i+1 < len(task.Around) && task.Around[i+1].Path != path {
			l.t.Fatalf("%s stands in %v", task.Path, task.Around)
		}
		path += "."
	}
	if n := len(task.Around); n > 0 && task.Around[n-1].Form != Group && path != task.Path+"." {
		l.t.Fatalf("%s stands in %v", task.Path, task.Around)
	}
	if !strings.HasPrefix(task.Path+".", path) {
		l.t.Fatalf("%s stands in %v", task.Path, task.Around)
	}
	if task.Action == Close && task.Form == Loop {
		if before = nil; task.Inner.Rounds > 1 {
			before = new(fmt.Sprintf("%s.%d", task.Path, task.Inner.Rounds-1))
		}
	}
	if want := before != nil && task.Step.Previous; want != (task.Before != nil) || want && task.Before.Path != *before {
		l.t.Fatalf("%s: the round before is %v", task.Path, task.Before)
	}
}

// fits checks that the tasks that are out keep to limits and locks.
func (l *life) fits() {
	slots, agents := 0, 0
	writers, readers := map[string]int{}, map[string]int{}
	items := map[string]map[int]bool{}
	for _, o := range l.out {
		if o.ended(l) {
			continue
		}
		for _, e := range o.Around {
			if e.Form == Each && e.Step.Foreach.MaxParallel > 0 {
				if items[e.Path] == nil {
					items[e.Path] = map[int]bool{}
				}
				if items[e.Path][e.Index] = true; len(items[e.Path]) > e.Step.Foreach.MaxParallel {
					l.t.Fatalf("%s: items %v at once", e.Path, items[e.Path])
				}
			}
		}
		if o.Action != Execute || o.Step.Kind == pipeline.KindAsk {
			continue
		}
		if !o.released {
			slots++
		}
		if !o.released && o.Step.Agent == "a" {
			agents++
		}
		if n := len(o.Around); n > 0 && o.Around[n-1].Form == Contest {
			readers[o.ownSession()]++ // each candidate has one of its own
		} else {
			writers[o.ownSession()]++
		}
		switch s := o.Step.Session; {
		case o.sharedSession() == o.ownSession():
		case s.Mode == pipeline.SessionContinue:
			writers[o.sharedSession()]++
		case s.Mode == pipeline.SessionFork:
			readers[o.sharedSession()]++
		}
	}
	if slots > l.plan.Limit || agents > l.plan.AgentLimits["a"] {
		l.t.Fatalf("%d steps and %d of the agent at once", slots, agents)
	}
	for root, n := range writers {
		if n > 1 || n > 0 && readers[root] > 0 {
			l.t.Fatalf("session of %s: %d writers, %d readers\n%s", root, n, readers[root], dump(l.m))
		}
	}
}

// ownSession returns the path that stands for the session that the task begins: the step's,
// or that of its item.
func (o *out) ownSession() string {
	own := o.Path
	if n := len(o.Around); n > 0 && o.Around[n-1].Index < 0 {
		return own // a judge
	}
	for i := len(o.Around) - 1; i >= 0 && o.Around[i].Form != Group && o.Around[i].Form != Each; i-- {
		own = o.Around[i].Path
	}
	return own
}

// sharedSession returns the path that stands for the session that the task continues or
// forks: the same step's, or a sibling's of one of the groups around it.
func (o *out) sharedSession() string {
	if o.Step.Session.Step == o.Step.ID {
		return o.ownSession()
	}
	static, instance, found := "", "", ""
	root := o.Step.Session.Root
	id := root[strings.LastIndex(root, ".")+1:]
	see := func() {
		if static+id == root {
			found = instance + id
		}
	}
	see()
	for _, e := range o.Around {
		switch {
		case e.Form != Group:
			continue
		case e.Step.Kind == pipeline.KindCall:
			static, found = "", ""
		default:
			static += e.Step.ID + "."
		}
		instance = e.Path + "."
		see()
	}
	return found
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
	case how == 2 && !o.started && o.conditional():
		f.Kind = Skipped
	case o.Action == Open:
		f.Kind, f.Count, f.Result = Opened, how%4, []byte("0")
	case o.Action == Close && o.Form == Loop && how > 11 && o.Inner.Rounds < 3:
		f.Kind, f.Count = Continued, o.Inner.Rounds+1
	case o.Step.Kind == pipeline.KindAsk && how > 12:
		f.Kind = Suspended
	case o.Action == Close:
		f.Kind, f.Result = Succeeded, []byte("1")
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

// conditional says that the task may be one that asks the step's condition.
func (o *out) conditional() bool {
	if n := len(o.Around); n > 0 && o.Path[strings.LastIndex(o.Path, ".")+1:] != "judge" {
		return o.Action != Close && o.Around[n-1].Form != Loop && o.Around[n-1].Form != Contest
	}
	return o.Action != Close
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
	kinds := []Kind{
		Started, Opened, Continued, Succeeded, Failed, Skipped, Stopped,
		Lost, Reopened, Suspended, Updated, "boiled",
	}
	f := Fact{Kind: kinds[in.n(len(kinds))], Attempt: in.n(4), Final: in.yes(2), Count: in.n(4)}
	paths := []string{"", "s0.nosuch", "nosuch", "s0.0", "s0.1", "s0.01", "s0.-1", "s1.0.0", "s0.judge"}
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
	if !l.m.Done() && l.m.Status() != RunWaiting {
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
	waiting := l.m.Status() == RunWaiting
	if took := len(twin.Take(l.now)) > 0; took == waiting || waiting != (len(l.m.Waits()) > 0 && !took) {
		l.t.Fatalf("stuck, or not waiting:\n%s", dump(l.m))
	}
}

// twin returns a machine that was told the same facts and has the same tasks out.
func (l *life) twin() *Machine {
	m := l.replay(l.applied)
	for _, n := range l.m.active {
		twin := m.find(n.path)
		m.activate(twin, !n.slotless())
		if !n.slot {
			m.release(twin)
		}
	}
	m.again(m.root)
	m.settle()
	m.admit()
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
		if l.m.Status() == RunWaiting {
			l.resume()
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
		if s.Status == Pending || s.Status == Running || s.Status == Retrying || s.Status == Waiting {
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
		fmt.Fprintf(&out, "%s %s %s %d %q %q %v %s | %d %d %v %v %d", s.Path, s.Form, s.Status, s.Attempts, s.Reason, s.Root,
			n.active, n.previous, n.waits, n.barred, n.failing, n.retryAt.Unix(), len(n.locks))
		if in := n.inner; in != nil {
			fmt.Fprintf(&out, " | %d %d %d %d %d %s", in.attempt, in.pending, in.cut, in.failing, in.won, in.opening)
		}
		why := m.Waiting(s.Path)
		if !n.retryAt.IsZero() {
			why = "" // depends on when tasks were last taken
		}
		fmt.Fprintf(&out, " %v %s\n", n.admitted, why)
	}
	fmt.Fprintf(&out, "%s %v %v %v %d %d %d %v", m.Status(), m.Cancels(), m.Unfinished(), m.Stopping(),
		m.busy, m.struck, m.waiting, m.Waits())
	return out.String()
}
