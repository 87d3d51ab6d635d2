package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An errand is a command that works on a run that has succeeded. In its arguments RUN is the
// run's id, DIR a directory beside the state, and NEW one that is not there yet.
type errand struct {
	name   string
	args   string
	before func(t *testing.T, r crashRun) // nil: nothing
	made   string                         // the run that it makes; once that is there, resume goes on with it
	after  func(t *testing.T, r crashRun)
}

// errands are commands that write to the state directory.
func errands() []errand {
	shows := func(what ...string) func(*testing.T, crashRun) {
		return func(t *testing.T, r crashRun) { r.finish(t, what...) }
	}
	return []errand{
		{name: "reindex", args: "state reindex", before: func(t *testing.T, r crashRun) {
			if err := os.Remove(filepath.Join(r.state(), "index.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, after: shows("runs")},
		{name: "gc", args: "state gc --keep 1", before: func(t *testing.T, r crashRun) {
			r.finish(t, "run", r.pipeline, "--simulate", "--run-id", "newer")
		}, after: func(t *testing.T, r crashRun) {
			if runs := r.finish(t, "runs"); strings.Contains(runs, r.id) || !strings.Contains(runs, "newer") {
				t.Errorf("gc left these runs:\n%s", runs)
			}
		}},
		{name: "export", args: "state export RUN -o DIR.tar", after: func(t *testing.T, r crashRun) {
			if fi, err := os.Stat(r.dir + ".tar"); err != nil || fi.Size() < 20000 {
				t.Error(fi, err)
			}
		}},
		{name: "import", args: "state import DIR.tar", made: "base", before: func(t *testing.T, r crashRun) {
			r.finish(t, "state", "export", r.id, "-o", r.dir+".tar")
			if err := os.Rename(r.state(), r.state()+"-old"); err != nil {
				t.Fatal(err)
			}
		}, after: shows("show", "base")},
		{name: "repair", args: "state repair RUN --to NEW", after: func(t *testing.T, r crashRun) {
			for _, dir := range r.repaired(t) {
				r.env = append(slices.Clone(r.env), "FLOW_STATE_DIR="+dir)
				r.finish(t, "state", "check")
			}
			if text := r.finish(t, "output", r.id, "last"); text != "the end\n" {
				t.Errorf("the last repair has %q", text)
			}
		}},
		{name: "rerun", args: "rerun RUN --step last --run-id anew", made: "anew", after: shows("output", "anew", "last")},
		{name: "update", args: "resume RUN --update", before: func(t *testing.T, r crashRun) {
			text, err := os.ReadFile(filepath.Join(r.dir, r.pipeline))
			if err == nil {
				err = os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(strings.ReplaceAll(string(text), "the end", "another end")), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, after: func(t *testing.T, r crashRun) {
			if text := r.finish(t, "output", r.id, "last"); text != "another end\n" {
				t.Errorf("the updated step says %q", text)
			}
		}},
		{name: "chat", args: "chat RUN think More.", after: shows("sessions", "base")},
	}
}

const errandPipeline = `
steps:
  think: {agent: claude, timeout: 5m, env: {FLOW_SIMULATE: "big=20000"}, prompt: Think.}
  last: {needs: [think], run: echo the end}
`

// crashOnErrands kills errands at every failpoint that they reach, and at random moments, and
// does them again: in the end each is done, and nothing is wrong with the state. In the short
// form only one of the errands that reach a failpoint is killed there.
func crashOnErrands(t *testing.T, y *survived, seed uint64) {
	t.Parallel()
	times, moments := 1, 1
	if *long {
		times, moments = 6, 20
	}
	for i, e := range errands() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			began := time.Now()
			calm := e.run(t, newSurvived(), nil, blow{})
			usual := time.Since(began) / 2 // the other half made the run
			deadly := spread(random, calm.reached, times)
			if !*long {
				deadly = slices.DeleteFunc(deadly, func(p point) bool { return !y.claim(p.name) })
			}
			e.run(t, y, deadly, blow{})
			for range moments {
				e.run(t, y, nil, blow{kind: "flow", after: time.Duration(random.Int64N(int64(usual)))})
			}
		})
	}
}

// run does the errand, again and again while it dies at failpoints or of a blow.
func (e errand) run(t *testing.T, y *survived, deadly []point, b blow) *story {
	t.Helper()
	p := plot{text: errandPipeline}
	s := p.story(t, y, "base", nil, 0, nil)
	s.finish(t, "run", s.pipeline, "--simulate", "--run-id", s.id)
	if e.before != nil {
		e.before(t, s.crashRun)
	}
	s.deadly = deadly
	for range len(deadly) + 2 {
		ended := s.act(t, b, e.next(t, s.crashRun)...)
		if b = (blow{}); ended.Success() {
			break
		}
	}
	s.invariants(t)
	if !t.Failed() {
		e.after(t, s.crashRun)
	}
	if t.Failed() {
		said, _ := os.ReadFile(s.output.Name())
		t.Fatalf("%s", said)
	}
	s.finish(t, "state", "check")
	y.told(s)
	return s
}

// next is what to do in the state that the last try has left.
func (e errand) next(t *testing.T, r crashRun) []string {
	t.Helper()
	if made := (crashRun{dir: r.dir, id: e.made}); e.made != "" && made.recorded() {
		return []string{"resume", e.made}
	}
	fresh := fmt.Sprintf("%s-new%d", r.dir, len(r.repaired(t)))
	return strings.Fields(strings.NewReplacer("RUN", r.id, "DIR", r.dir, "NEW", fresh).Replace(e.args))
}

// repaired are the directories that repairs have made, the last one of which is whole.
func (r crashRun) repaired(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(r.dir + "-new*")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return all
}
