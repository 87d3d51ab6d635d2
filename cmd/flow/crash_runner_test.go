package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"flow/pipeline/dag"
	"flow/state"
	"flow/state/failpoint"
	"flow/steps"
)

// A story is a run that is disturbed on its way, and the model that watches it.
type story struct {
	*model
	plot   plot
	usual  time.Duration // that an undisturbed run takes
	random *rand.Rand
	score  *survived
	output *os.File // of all commands

	reached map[string]int // how often one process reached each failpoint at most
	deadly  []point        // flow, or its guardian, dies at the first of these that it reaches
	hits    []point        // those where one did
	died    bool           // at one of them, in the last command
}

// A blow is one disturbance of one command.
type blow struct {
	kind  string
	after time.Duration // since the command was started
}

func (b blow) String() string {
	if b.kind == "" {
		return "undisturbed"
	}
	return fmt.Sprintf("%s after %v", b.kind, b.after.Round(time.Millisecond))
}

// A point is a failpoint, reached for the n-th time.
type point struct {
	name string
	n    int
}

func (p point) String() string { return fmt.Sprintf("%s:%d", p.name, p.n) }

// kinds of blows: who is hit. Signals that ask flow to end go by their names. In the plots that
// are not sturdy, only flow itself and its guardian are.
func kinds(sturdy bool) []string {
	all := []string{"flow", "flow", "flow", "guardian", "flow and guardian", "SIGTERM", "SIGINT", "SIGHUP"}
	if sturdy {
		all = append(all, "an agent or script", "an agent or script", "a descendant", "a descendant")
	}
	return all
}

// blows are some at random moments; those after the first come sooner, for less is left to do.
func (s *story) blows(n int) []blow {
	var all []blow
	most, of := s.usual, kinds(s.plot.sturdy)
	for range n {
		all = append(all, blow{kind: of[s.random.IntN(len(of))], after: time.Duration(s.random.Int64N(int64(most)))})
		most = s.usual / 2
	}
	return all
}

// tell drives the run until it has succeeded: run, approve, resume, as its state wants. Each
// of the first commands is disturbed by one of the blows.
func (s *story) tell(t *testing.T, blows []blow) {
	t.Helper()
	most := 60 + len(s.deadly)
	for range most {
		args := s.next(t)
		if args == nil && s.died {
			args = []string{"resume", s.id} // it died after the end was on record
		}
		if args == nil {
			return
		}
		var b blow
		if len(blows) > 0 {
			b, blows = blows[0], blows[1:]
		}
		s.act(t, b, args...)
		s.invariants(t)
		if t.Failed() {
			return
		}
	}
	t.Errorf("the run has not succeeded after %d commands", most)
}

// next is the command that brings the run on, nil when it has succeeded.
func (s *story) next(t *testing.T) []string {
	t.Helper()
	v := s.open(t)
	if v == nil {
		return []string{"run", s.pipeline, "--simulate", "--run-id", s.id, "--ask-timeout", "1m"}
	}
	r, err := readReport(v)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status == string(dag.OK) {
		return nil
	}
	for _, step := range r.Steps {
		if r.Status == string(dag.Waiting) && step.Question != nil && !steps.Answered(v, step.Question.Key()) {
			return []string{"approve", s.id, step.path, "--ask-timeout", "1m"}
		}
	}
	return []string{"resume", s.id, "--ask-timeout", "1m"}
}

// act runs one command, strikes the blow, and returns how the command ended, when nothing is
// left of it.
func (s *story) act(t *testing.T, b blow, args ...string) *os.ProcessState {
	t.Helper()
	fmt.Fprintf(s.output, "\n$ flow %s # %v\n", strings.Join(args, " "), b)
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = s.output, s.output
	cmd.Env = append(cmd.Env, failpoint.LogVariable+"="+s.pointLog())
	if len(s.deadly) > 0 {
		cmd.Env = append(cmd.Env, failpoint.Variable+"="+strings.Join(each(s.deadly, point.String), ","))
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { s.permit(ended) })
	if b.kind != "" {
		beside.Go(func() { s.strike(b, cmd.Process.Pid, ended) })
	}
	late := time.AfterFunc(2*time.Minute, func() {
		t.Errorf("flow %v hangs", args)
		_ = cmd.Process.Signal(syscall.SIGQUIT)
	})
	_ = cmd.Wait() // how it ended, the state says
	late.Stop()
	close(ended)
	beside.Wait()
	s.settle(t)
	s.reach(t) // the guardian, too, has reached all that it will
	return cmd.ProcessState
}

// pointLog is the file in which a command notes the failpoints that it reaches.
func (s *story) pointLog() string { return s.dir + ".points" }

// reach reads which failpoints the command has reached, and which one it died at.
func (s *story) reach(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(s.pointLog())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	_ = os.Remove(s.pointLog())
	s.died = false
	for line := range strings.Lines(string(data)) {
		var pid int
		var p point
		if _, err := fmt.Sscan(line, &pid, &p.name, &p.n); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		s.reached[p.name] = max(s.reached[p.name], p.n)
		if at := slices.Index(s.deadly, p); at >= 0 {
			s.kills++
			s.died = true
			s.hits = append(s.hits, p)
			s.deadly = slices.Delete(s.deadly, at, at+1)
			fmt.Fprintf(s.output, "# died at %v\n", p)
		}
	}
}

// strike waits for the moment and hits, unless the command has ended by then.
func (s *story) strike(b blow, pid int, ended <-chan struct{}) {
	select {
	case <-ended:
		s.score.missed()
		return
	case <-time.After(b.after):
	}
	if s.hit(b.kind, pid) {
		s.kills++
		if strings.HasPrefix(b.kind, "a") {
			s.strays++
		}
		s.score.killed(b.kind)
	} else {
		s.score.missed()
	}
}

// hit kills who is meant, as far as there is one.
func (s *story) hit(kind string, flow int) bool {
	all := readProcesses()
	guardian := all.guardian(flow)
	switch kind {
	case "flow":
		return kill(flow, syscall.SIGKILL)
	case "guardian":
		return kill(guardian, syscall.SIGKILL)
	case "flow and guardian":
		hit := kill(guardian, syscall.SIGKILL)
		return kill(flow, syscall.SIGKILL) || hit
	case "SIGTERM":
		return kill(flow, syscall.SIGTERM)
	case "SIGINT":
		return kill(flow, syscall.SIGINT)
	case "SIGHUP":
		return kill(flow, syscall.SIGHUP)
	case "an agent or script":
		return s.killOne(all.below(guardian, 1))
	case "a descendant":
		return s.killOne(all.below(guardian, 9))
	}
	return false
}

func (s *story) killOne(pids []int) bool {
	return len(pids) > 0 && kill(pids[s.random.IntN(len(pids))], syscall.SIGKILL)
}

// permit allows every call that an agent asks about, by flow approve, until the command ends.
func (s *story) permit(ended <-chan struct{}) {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		for _, q := range s.asked() {
			cmd := s.command("approve", s.id, q.Path, "--permission", q.Permission.ID, "--no-resume")
			cmd.Stdout, cmd.Stderr = s.output, s.output
			_ = cmd.Run() // the run may have ended meanwhile
		}
	}
}

// asked are the calls that agents of the run wait for a person to permit.
func (s *story) asked() []steps.Question {
	v, err := state.ReadRun(filepath.Join(s.state(), "runs", s.id))
	if err != nil {
		return nil
	}
	all, err := steps.PendingPermissions(v.Records())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(q steps.Question) bool { return steps.Answered(v, q.Key()) })
}

// settle waits until nothing of the run lives.
func (s *story) settle(t *testing.T) {
	t.Helper()
	left, took := s.left()
	if len(left) > 0 {
		t.Errorf("still alive after %v: %v", took, left)
	}
	s.score.settled(len(left), took)
}

// A survived counts what the stories have survived. Its methods may be called concurrently.
type survived struct {
	mu      sync.Mutex
	began   time.Time
	kills   map[string]int
	points  map[string]int // kills at failpoints, by name
	claimed map[string]bool
	misses  int
	stories int
	plots   int
	checks  int
	left    int
	slowest time.Duration
}

func newSurvived() *survived {
	return &survived{began: time.Now(), kills: map[string]int{}, points: map[string]int{}, claimed: map[string]bool{}}
}

func (y *survived) missed() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.misses++
}

func (y *survived) killed(kind string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.kills[kind]++
}

func (y *survived) settled(left int, took time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.left += left
	y.slowest = max(y.slowest, took)
}

// claim reports whether no other errand dies at that failpoint.
func (y *survived) claim(name string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	first := !y.claimed[name]
	y.claimed[name] = true
	return first
}

// told takes in a story that has come to its end.
func (y *survived) told(s *story) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.stories++
	y.checks += s.checks
	for _, p := range s.hits {
		y.points[p.name]++
	}
}

// String is a table of all that was survived.
func (y *survived) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	line := func(what string, n any) { fmt.Fprintf(w, "%v\t%s\t\n", n, what) }
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(y.kills)) {
		line("kills of "+kind, y.kills[kind])
		total += y.kills[kind]
	}
	line("kills at random moments in all", total)
	points := 0
	for _, n := range y.points {
		points += n
	}
	line(fmt.Sprintf("kills at %d failpoints", len(y.points)), points)
	line("blows that came too late", y.misses)
	line("stories", y.stories)
	line("pipelines", y.plots)
	line("invariants checked", y.checks)
	line("processes left", y.left)
	line("until the last process had ended, at most", y.slowest.Round(time.Millisecond))
	line("in all", time.Since(y.began).Round(time.Second))
	_ = w.Flush()
	return b.String()
}

// seedOf is the seed that was given, or another one each time.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	if *seed != 0 {
		return *seed
	}
	s := uint64(time.Now().UnixNano()) % 1e9
	t.Logf("-seed %d repeats this", s)
	return s
}
