package steps

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// TestAdopt is what a resume makes of an attempt that was lost with flow.
func TestAdopt(t *testing.T) {
	guardian := func(rec proc.Record) func(*world) {
		return func(w *world) {
			rec.Label = "s.1.1"
			w.exits = append(w.exits, rec)
		}
	}
	cases := []struct {
		name   string
		print  []string // of the lost process
		before func(*world)
		want   *asked // of the next process, nil for none
	}{
		{"finished", []string{"session S", "answer ok"}, nil, nil},
		{"finished, ended by the guardian", []string{"session S", "answer ok"}, guardian(proc.Record{Code: -1, Signal: "TERM", EndedByGuardian: true}), nil},
		{"finished, by itself", []string{"session S", "answer ok"}, guardian(proc.Record{}), nil},
		{"said so, but exited with 1", []string{"session S", "answer ok"}, guardian(proc.Record{Code: 1}), &asked{Mode: agents.SessionResume, ID: "S", Continuation: true}},
		{"at work", []string{"session S", "say hi"}, nil, &asked{Mode: agents.SessionResume, ID: "S", Continuation: true}},
		{"not begun", []string{"session S"}, nil, &asked{Mode: agents.SessionResume, ID: "S"}},
		{"printed nothing", nil, nil, &asked{}},
		{"no file", nil, func(w *world) { w.remove("s.1.1.stdout") }, &asked{}},
		{"no launch record", []string{"session S", "say hi"}, func(w *world) { w.remove("s.1.1.json") }, &asked{Mode: agents.SessionResume, ID: "S"}},
		{"torn launch record", nil, func(w *world) {
			w.remove("s.1.1.json")
			appendFile(w.t, filepath.Join(w.store.dir, "attempts", "s.1.1.json"), []byte(`{"use":"fa`))
		}, &asked{}},
		{"finished without flow seeing it", []string{"session S"}, func(w *world) {
			appendFile(w.t, filepath.Join(w.store.dir, "attempts", "s.1.1.stdout"), []byte("answer ok"))
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, ask("s"))
			w.play = inTurn(dies(c.print...))
			w.die()
			if c.before != nil {
				c.before(w)
			}
			w.play = says(0, "session S", "answer ok")
			r := w.want(w.finish(), "s", dag.OK)
			if r.Text.Inline != "ok" || r.Session != "S" {
				t.Errorf("the result is %+v", r)
			}
			var want []asked
			if c.want != nil {
				want = append(want, *c.want)
			}
			if diff := cmp.Diff(want, w.asked()[1:], cmp.Transformer("some", func(a []asked) []asked { return append([]asked{}, a...) })); diff != "" {
				t.Error(diff)
			}
			checkEvents(t, w)
		})
	}
}

func (w *world) remove(name string) {
	if err := os.Remove(filepath.Join(w.store.dir, "attempts", name)); err != nil {
		w.t.Error(err)
	}
}

// An agent that had finished is not asked again although flow died a second time,
// just when the next attempt was about to take its result over.
func TestAdoptAfterSecondDeath(t *testing.T) {
	w := newWorld(t, ask("s"))
	w.play = inTurn(dies("session S", "answer ok"))
	w.die()
	w.play = inTurn()
	w.finish()
	n := 0
	for i, e := range w.store.log { // up to the second Started
		if e.record != nil && strings.Contains(string(e.record.Data), `"kind":"started"`) {
			n = i + 1
		}
	}
	w.store = w.store.at(t, n)
	w.want(w.finish(), "s", dag.OK)
	if len(w.ran) != 1 {
		t.Errorf("the agent was started %d times", len(w.ran))
	}
	checkEvents(t, w)
}

func TestAdoptShell(t *testing.T) {
	cases := []struct {
		name   string
		record *proc.Record
		again  bool
		status dag.Status
	}{
		{"nothing known", nil, true, dag.OK},
		{"ended by the guardian", &proc.Record{Code: -1, Signal: "TERM", EndedByGuardian: true}, true, dag.OK},
		{"ended by itself", &proc.Record{}, false, dag.OK},
		{"failed by itself", &proc.Record{Code: 3}, false, dag.Failure},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, script("s", "x"))
			w.play = inTurn(func(p *process) (proc.Result, error) {
				p.warn(strings.Repeat("x", stderrMax), "the end")
				return dies("before")(p)
			})
			w.die()
			if c.record != nil {
				c.record.Label = "s.1.1"
				w.exits = []proc.Record{*c.record}
			}
			w.play = says(0, "again")
			r := w.want(w.finish(), "s", c.status)
			want := "before\n"
			if c.again {
				want = "again\n"
			}
			if r.Stdout.Inline != want || len(w.ran) != map[bool]int{true: 2, false: 1}[c.again] {
				t.Errorf("it printed %q in %d processes", r.Stdout.Inline, len(w.ran))
			}
			if !c.again && !strings.HasSuffix(r.Stderr, "x\nthe end\n") {
				t.Errorf("standard error does not end with its end: %.20q… %d bytes", r.Stderr, len(r.Stderr))
			}
		})
	}
}

// Files of an attempt that the journal has forgotten are not mixed with its own.
func TestForgottenAttempt(t *testing.T) {
	w := newWorld(t, script("s", "x"), ask("t"))
	for _, name := range []string{"s.1.1", "t.1.1"} {
		appendFile(t, filepath.Join(w.store.dir, "attempts", name+".stdout"), []byte("forgotten\n"))
	}
	w.play = func(p *process) (proc.Result, error) {
		if strings.HasSuffix(p.spec.Label, ".1.1") {
			t.Errorf("process %s writes into files that were there", p.spec.Label)
		}
		return says(0, "session S", "answer ok")(p)
	}
	m := w.finish()
	if r := w.want(m, "s", dag.OK); strings.Contains(r.Stdout.Inline, "forgotten") {
		t.Errorf("it printed %q", r.Stdout.Inline)
	}
	w.want(m, "t", dag.OK)
}

// checkEvents fails the test if events are not numbered from 1 without a gap, if
// one was recorded twice or not at all, or if a process has not exactly one end.
func checkEvents(t *testing.T, w *world) {
	t.Helper()
	seen, ends, words := map[string]bool{}, map[string]int{}, map[string]int{}
	for i, e := range w.store.events(t) {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
		if e.Native != nil {
			key := fmt.Sprint(e.Native, e.Type, e.Content, e.Text)
			if seen[key] {
				t.Errorf("recorded twice: %s", key)
			}
			seen[key] = true
		}
		if e.Type == "textChunk" {
			words[e.Native.File]++
		}
		if e.Type == "sessionEnded" {
			ends[fmt.Sprint(e.Step, ".", e.Attempt)]++
		}
	}
	started := map[string]int{}
	files, err := filepath.Glob(filepath.Join(w.store.dir, "attempts", "*.prompt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".prompt")
		if (&Executor{Config: Config{Store: w.store}}).ran(name) {
			if launch, err := os.ReadFile(strings.TrimSuffix(f, "prompt") + launchExt); err == nil && json.Valid(launch) {
				started[parent(name)]++
				checkWords(t, w, name, words)
			}
		}
	}
	for attempt, n := range started {
		if ends[attempt] != n {
			t.Errorf("attempt %s has %d processes and %d ends", attempt, n, ends[attempt])
		}
	}
}

// checkWords fails the test unless every word that the process said is an event.
func checkWords(t *testing.T, w *world, name string, words map[string]int) {
	t.Helper()
	file, said := w.store.AttemptPath(name, "stdout"), 0
	err := eachLine(filepath.Join(w.store.dir, file), maxLine, func(l proc.Line) {
		if text, ok := strings.CutPrefix(string(l.Data), "say "); ok {
			said += len(strings.Fields(text))
		}
	})
	if err != nil || words[file] != said {
		t.Errorf("%s said %d words, %d are events; %v", name, said, words[file], err)
	}
}

// TestEveryCrash cuts the record of a finished run after every single thing that
// reached the disk. From there the run goes on to the same end: no event twice, no
// agent asked again that had answered, no token counted twice.
func TestEveryCrash(t *testing.T) {
	steps := []pipeline.Step{
		ask("analyze", retry(1), func(s *pipeline.Step) { s.Output = []byte(`{"type":"object","required":["n"]}`) }),
		script("count", "echo", needs("analyze")),
		{
			ID: "both", Kind: pipeline.KindGroup, Needs: []string{"count"},
			Steps: []pipeline.Step{ask("left", retry(2)), ask("right", needs("left"))},
		},
		ask("review", session(pipeline.SessionContinue, "analyze"), func(s *pipeline.Step) {
			s.Needs, s.Prompt = []string{"analyze", "both"}, text("{{ .steps.analyze.output.n }} is it")
		}),
	}
	calm := newWorld(t, steps...)
	calm.play = newModel(t, calm.store).play
	synctest.Test(t, func(t *testing.T) {
		calm.t = t
		calm.want(calm.finish(), "review", dag.OK)
	})
	checkEvents(t, calm)
	total := len(calm.store.log)
	if total < 60 {
		t.Fatalf("only %d moments to crash at", total)
	}
	for n := range total + 1 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, steps...)
			w.store = calm.store.at(t, n)
			w.play = newModel(t, w.store).play
			m := w.finish()
			for path, want := range map[string]int64{"analyze": 30, "both.left": 20, "both.right": 10, "review": 10} {
				r := w.want(m, path, dag.OK)
				// A turn that is asked again after it answered, before flow saw that, may only add.
				if r.Usage == nil || r.Usage.TotalTokens < want || r.Usage.TotalTokens > want+10 {
					t.Errorf("crash at %d: %s used %+v, want %d or one turn more", n, path, r.Usage, want)
				}
			}
			checkEvents(t, w)
			if t.Failed() {
				t.Fatalf("crash at %d of %d", n, total)
			}
		})
	}
}

// model answers like an agent that remembers its sessions.
type model struct{ totals map[string]int }

// newModel remembers the turns whose output is in the store.
func newModel(t *testing.T, s *fakeStore) *model {
	t.Helper()
	m := &model{totals: map[string]int{}}
	files, err := filepath.Glob(filepath.Join(s.dir, "attempts", "*.stdout"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := eachLine(f, maxLine, func(l proc.Line) {
			if id, ok := strings.CutPrefix(string(l.Data), "session "); ok {
				m.totals[id] += 10
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// play is one turn of 10 tokens: in a new session the first one of analyze and
// left fails, and the second of analyze answers wrongly.
func (m *model) play(p *process) (proc.Result, error) {
	step := parent(parent(p.spec.Label))
	if step == "count" {
		return says(0, "1")(p)
	}
	id := p.request.Session.ID
	if p.request.Session.Mode == agents.SessionNew {
		id = "session-of-" + p.spec.Label
	}
	m.totals[id] += 10
	p.print("session "+id, "tool t1", "say two words")
	p.warn("a word of warning")
	p.print(fmt.Sprintf("total %d", m.totals[id]))
	first := p.request.Session.Mode == agents.SessionNew
	switch {
	case first && (step == "analyze" || step == "both.left"):
		p.print("problem network gone")
		return proc.Result{Code: 1}, nil
	case step == "analyze" && m.totals[id] == 20:
		p.print("answer {}")
	default:
		p.print(`answer {"n":1}`)
	}
	return proc.Result{}, nil
}

// parent is a path or label without its last part.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}
