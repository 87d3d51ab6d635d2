package steps

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
)

func question(id string, change ...func(*pipeline.Step)) pipeline.Step {
	return changed(pipeline.Step{ID: id, Kind: pipeline.KindAsk, Ask: text("May " + id + "?"), Pos: pipeline.Pos{Line: 4, Col: 3}}, change...)
}

// busy is a script that runs as long as is said, and lets what waits wait.
func busy(d time.Duration) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		select {
		case <-time.After(d):
			return proc.Result{}, nil
		case <-p.ctx.Done():
			return proc.Result{Code: -1, Signal: "TERM"}, nil
		}
	}
}

func (w *world) put(path string, a Answer) {
	w.t.Helper()
	if err := PutAnswer(w.store, path, a); err != nil {
		w.t.Error(err)
	}
}

func TestAskWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, question("x"), set("after", "{{ .steps.x.text }}", needs("x")))
		m := w.finish()
		if m.Status() != dag.RunWaiting || len(m.Waits()) != 1 {
			t.Fatalf("the run is %s: %s", m.Status(), statuses(m))
		}
		if _, r := w.result(m, "x"); r.Question == nil || r.Question.Text != "May x?" {
			t.Errorf("the question is %+v", r.Question)
		}
		w.put("x", Answer{Approved: true, By: "Ann"})
		if err := PutAnswer(w.store, "x", Answer{}); !errors.Is(err, ErrAnswered) {
			t.Errorf("a second answer: %v", err)
		}
		m = w.finish()
		if got := w.v(m, "after"); got != `{"v":"approved"}` {
			t.Errorf("others see %s", got)
		}
		if r := w.want(m, "x", dag.OK); r.Answer.By != "Ann" || r.Question != nil {
			t.Errorf("the result is %+v", r)
		}
	})
}

// An answer that arrives while the run goes on is found soon, for each question its own.
func TestAskLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, question("x", items("[1,2,3]")), script("busy", "sleep"))
		w.play = busy(time.Minute)
		go func() {
			time.Sleep(10 * time.Second)
			w.put("x.1", Answer{Approved: true})
			time.Sleep(10 * time.Second)
			w.put("x.0", Answer{Reason: "no"})
		}()
		m := w.finish()
		w.want(m, "x.1", dag.OK)
		if r := w.want(m, "x.0", dag.Failure); r.Cause != "denied" || r.Error != "denied: no" {
			t.Errorf("%s: %s", r.Cause, r.Error)
		}
		if _, r := w.result(m, "x.2"); r.Question == nil {
			t.Error("x.2 does not wait")
		}
	})
}

// The form is checked, and a wrong answer is asked for again.
func TestAskForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, question("x", output(`{"type":"object","required":["to"]}`)), script("busy", "sleep"), set("after", "{{ .steps.x.output.to }}", needs("x")))
		w.play = busy(time.Minute)
		go func() {
			for _, a := range []string{"", `{"at":1}`, `{"to":"here"}`} {
				time.Sleep(time.Second)
				w.put("x", Answer{Approved: true, Answer: json.RawMessage(a)})
			}
		}()
		m := w.finish()
		if got := w.v(m, "after"); got != `{"v":"here"}` {
			t.Errorf("others see %s", got)
		}
	})
}

// The time that a question waits goes on while flow does not run. A resume after that
// gives it the whole time again.
func TestAskDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, question("x", func(s *pipeline.Step) { s.Timeout = pipeline.Duration(time.Hour) }))
		for range 3 {
			if m := w.finish(); m.Status() != dag.RunWaiting {
				t.Fatal(statuses(m))
			}
			time.Sleep(20 * time.Minute)
		}
		if r := w.want(w.finish(), "x", dag.Failure); r.Cause != "timeout" || r.Error != "nobody answered within 1h0m0s" {
			t.Errorf("%s: %s", r.Cause, r.Error)
		}
		if m := w.finish(); m.Status() != dag.RunWaiting {
			t.Error(statuses(m))
		}
	})
}

// An answer that was taken just before flow died counts all the same, once.
func TestAskTakenAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, question("x"))
		w.finish()
		w.put("x", Answer{Approved: true})
		w.finish()
		for n := range len(w.store.log) {
			past := newWorld(t, question("x"))
			past.store = w.store.at(t, n)
			if err := os.CopyFS(filepath.Join(past.store.dir, answersDir), os.DirFS(filepath.Join(w.store.dir, answersDir))); err != nil {
				t.Fatal(err)
			}
			m := past.finish()
			started := strings.Count(string(journal(past.store.at(t, n))), `"kind":"started"`)
			// The second attempt took it, also where the journal has forgotten that it began.
			if want := started > 0; want != (m.Status() == dag.RunSucceeded) {
				t.Errorf("cut after %d, with %d attempts, it is %s", n, started, m.Status())
			}
		}
	})
}

func journal(s *fakeStore) (all []byte) {
	for _, r := range s.records() {
		all = append(all, r.Data...)
	}
	return all
}

// answerer is a person at the terminal.
type answerer func(ctx context.Context, q Question) (Answer, error)

func (f answerer) Answer(ctx context.Context, q Question) (Answer, error) { return f(ctx, q) }

func TestAskTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var problems []string
		w := newWorld(t, question("x", output(`{"type":"integer"}`)), question("gone"), question("late"), script("busy", "sleep"))
		w.play = busy(time.Minute)
		w.config.Ask = answerer(func(ctx context.Context, q Question) (Answer, error) {
			switch {
			case q.Path == "gone":
				return Answer{}, local.ErrNobody
			case q.Path == "late":
				<-ctx.Done()
				return Answer{}, context.Cause(ctx)
			case q.Problem == "":
				return Answer{Approved: true, Answer: json.RawMessage(`"one"`)}, nil
			}
			problems = append(problems, q.Problem)
			return Answer{Approved: true, Answer: json.RawMessage("1")}, nil
		})
		go func() {
			time.Sleep(time.Second)
			w.put("late", Answer{Approved: true})
		}()
		m := w.finish()
		if r := w.want(m, "x", dag.OK); r.Text.Inline != "1" || len(problems) != 1 || !strings.Contains(problems[0], "want integer") {
			t.Errorf("%q after %q", r.Text.Inline, problems)
		}
		w.want(m, "late", dag.OK)
		if m.Status() != dag.RunWaiting {
			t.Error(statuses(m))
		}
	})
}

// Cancelled, a question is stopped; approved beforehand, it is not asked.
func TestAskCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, question("x"), script("busy", "sleep"))
		w.play = busy(time.Hour)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errors.New("enough")) })
		m, err := w.run(ctx)
		if r := w.want(m, "x", dag.Cancelled); err != nil || r.Error != "enough" {
			t.Error(r.Error, err)
		}
		w.config.Yes = true
		w.play = busy(0)
		w.want(w.finish(), "x", dag.OK)
	})
}
