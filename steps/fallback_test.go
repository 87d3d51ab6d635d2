package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// withFallbacks gives the world's agent others to fall back on, which do the same.
func (w *world) withFallbacks() {
	w.plan.Agents["a"] = pipeline.Profile{Name: "a", Use: "fake", Model: "model-a", Fallback: []string{"b", "d"}}
	w.plan.Agents["b"] = pipeline.Profile{Name: "b", Use: "fake", Model: "model-b", Fallback: []string{"c"}}
	w.plan.Agents["c"] = pipeline.Profile{Name: "c", Use: "fake", Model: "model-c"}
	w.plan.Agents["d"] = pipeline.Profile{Name: "d", Use: "fake", Model: "model-d", Fallback: []string{"b"}}
}

// models are what the processes ran on, in order.
func (w *world) models() string {
	var all []string
	for _, p := range w.ran {
		all = append(all, strings.TrimPrefix(p.request.Model, "model-"))
	}
	return strings.Join(all, " ")
}

func fails(cause string) func(*process) (proc.Result, error) {
	return says(1, "session S-"+cause, "say at work", "problem "+cause+" it says so")
}

func TestFallback(t *testing.T) {
	ok := says(0, "session S", "answer ok")
	onLimit := func(o pipeline.OnLimit) *pipeline.OnLimit { return &o }
	type plays = []func(*process) (proc.Result, error)
	cases := []struct {
		name    string
		step    pipeline.Step
		onLimit *pipeline.OnLimit
		plays   plays
		models  string
		status  dag.Status
	}{
		{"at once", ask("s"), nil, plays{fails("usage_limit"), ok}, "a b", dag.OK},
		{"auth", ask("s"), nil, plays{fails("auth"), ok}, "a b", dag.OK},
		{"in order, each once", ask("s"), nil, plays{fails("auth"), fails("billing"), fails("model_not_found"), fails("spawn")}, "a b c d", dag.Failure},
		{"after its retries", ask("s", retry(1)), nil, plays{fails("overloaded"), fails("overloaded"), ok}, "a a b", dag.OK},
		{"which it does not use up", ask("s", retry(1)), nil, plays{fails("auth"), fails("network"), ok}, "a b b", dag.OK},
		{"not for its work", ask("s"), nil, plays{fails("refusal")}, "a", dag.Failure},
		{"not for the network", ask("s"), nil, plays{fails("network")}, "a", dag.Failure},
		{"on-limit: fallback", ask("s", retry(3)), onLimit(pipeline.OnLimit{Fallback: true}), plays{fails("rate_limit"), ok}, "a b", dag.OK},
		{"on-limit: fail", ask("s"), onLimit(pipeline.OnLimit{}), plays{fails("usage_limit")}, "a", dag.Failure},
		{"on-limit: fail is about limits", ask("s"), onLimit(pipeline.OnLimit{}), plays{fails("auth"), ok}, "a b", dag.OK},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.step)
				w.withFallbacks()
				w.plan.OnLimit, w.play = c.onLimit, inTurn(c.plays...)
				r := w.want(w.finish(), "s", c.status)
				if got := w.models(); got != c.models {
					t.Errorf("the agents were %s, want %s", got, c.models)
				}
				if last := c.models[len(c.models)-1:]; r.Agent != last || r.Model != "model-"+last {
					t.Errorf("the result is of %s, %s", r.Agent, r.Model)
				}
				for i, p := range w.ran { // a new session for each, and a resumed one for a retry
					again := i > 0 && p.request.Model == w.ran[i-1].request.Model
					if (p.request.Session.Mode == agents.SessionResume) != again {
						t.Errorf("process %d has session %+v", i, p.request.Session)
					}
				}
				checkEvents(t, w)
			})
		})
	}
}

// Who takes over is told what was done, and who goes on after it goes on with it.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s"), ask("next", session(pipeline.SessionContinue, "s")))
		w.withFallbacks()
		w.plan.Agents["b"] = pipeline.Profile{Name: "b", Use: "other", Model: "model-b"}
		w.play = inTurn(says(1, "session A", "say hello there", "problem usage_limit no more"), says(0, "session B", "answer ok"), says(0, "session B", "answer ok"))
		m := w.finish()
		w.want(m, "s", dag.OK)
		if p := w.ran[1].prompt; !strings.HasPrefix(p, "do s\n\nAnother agent had this task") || !strings.Contains(p, "hello\nthere") {
			t.Errorf("it was told %q", p)
		}
		if r := w.want(m, "next", dag.OK); r.Agent != "b" || r.Use != "other" || w.ran[2].request.Session.ID != "B" {
			t.Errorf("the next step was on %s, in %+v", r.Agent, w.ran[2].request.Session)
		}
		if n := w.notices(noticeFallback); len(n) != 1 || n[0] != "a is not to be had (usage_limit), b goes on" {
			t.Errorf("events about it: %q", n)
		}
	})
}

// A step that is resumed goes on with the agent that it was on; one whose agents have
// all failed begins with the first.
func TestFallbackResumed(t *testing.T) {
	t.Run("died", func(t *testing.T) {
		w := newWorld(t, ask("s"))
		w.withFallbacks()
		w.play = inTurn(fails("auth"), dies("session B", "say hi"))
		w.die()
		w.play = inTurn(says(0, "session B", "answer ok"))
		if r := w.want(w.finish(), "s", dag.OK); r.Agent != "b" || w.ran[2].request.Session.ID != "B" || w.ran[2].prompt != continuePrompt {
			t.Errorf("it went on with %s: %q in %+v", r.Agent, w.ran[2].prompt, w.ran[2].request.Session)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, ask("s"))
			w.withFallbacks()
			ctx, cancel := context.WithCancelCause(t.Context())
			w.play = inTurn(fails("auth"), func(p *process) (proc.Result, error) {
				cancel(errors.New("by hand"))
				return goesOn("session B", "say hi")(p)
			})
			if _, err := w.run(ctx); err != nil {
				t.Fatal(err)
			}
			w.play = inTurn(says(0, "session B", "answer ok"))
			if r := w.want(w.finish(), "s", dag.OK); r.Agent != "b" || w.ran[2].request.Session.ID != "B" {
				t.Errorf("it went on with %s in %+v", r.Agent, w.ran[2].request.Session)
			}
		})
	})
	t.Run("all failed", func(t *testing.T) {
		w := newWorld(t, ask("s"))
		w.withFallbacks()
		w.play = fails("auth")
		w.want(w.finish(), "s", dag.Failure)
		w.play = says(0, "session A", "answer ok")
		if r := w.want(w.finish(), "s", dag.OK); r.Agent != "a" || w.ran[4].request.Session.Mode != agents.SessionNew {
			t.Errorf("it began again with %s in %+v", r.Agent, w.ran[4].request.Session)
		}
	})
}

func TestOnLimit(t *testing.T) {
	limited := func(after time.Duration) func(*process) (proc.Result, error) {
		return func(p *process) (proc.Result, error) {
			p.print("session S", "problem usage_limit no more")
			if after > 0 {
				p.print("later " + time.Now().Add(after).Format(time.RFC3339))
			}
			return proc.Result{Code: 1}, nil
		}
	}
	ok := says(0, "session S", "answer ok")
	type plays = []func(*process) (proc.Result, error)
	cases := []struct {
		name     string
		onLimit  pipeline.OnLimit
		plays    plays
		status   dag.Status
		from, to time.Duration
		models   string
		message  string
	}{
		{"until its reset", pipeline.OnLimit{Wait: pipeline.Duration(6 * time.Hour)}, plays{limited(5 * time.Hour), ok}, dag.OK, 5*time.Hour - time.Second, 5 * time.Hour, "a a", ""},
		{"and again", pipeline.OnLimit{Wait: pipeline.Duration(6 * time.Hour)}, plays{limited(5 * time.Hour), limited(30 * time.Minute), ok}, dag.OK, 5*time.Hour + 29*time.Minute, 5*time.Hour + 30*time.Minute, "a a a", ""},
		{"all waits together", pipeline.OnLimit{Wait: pipeline.Duration(6 * time.Hour)}, plays{limited(5 * time.Hour), limited(2 * time.Hour)}, dag.Failure, 5*time.Hour - time.Second, 5 * time.Hour, "a a", "the limit resets at "},
		{"too far away", pipeline.OnLimit{Wait: pipeline.Duration(time.Hour)}, plays{limited(2 * time.Hour)}, dag.Failure, 0, 0, "a", "no more; the limit resets at 2000-01-01T02:00:00Z, and `on-limit: {wait: 1h0m0s}` has waited since 2000-01-01T00:00:00Z"},
		{"too far away, others go on", pipeline.OnLimit{Wait: pipeline.Duration(time.Hour), Fallback: true}, plays{limited(2 * time.Hour), ok}, dag.OK, 0, 0, "a b", ""},
		{"not known when", pipeline.OnLimit{Wait: pipeline.Duration(10 * time.Minute)}, plays{limited(0), limited(0), limited(0), ok}, dag.OK, 210 * time.Second, 210 * time.Second, "a a a a", ""},
		{"not known when, too often", pipeline.OnLimit{Wait: pipeline.Duration(4 * time.Minute)}, plays{limited(0), limited(0), limited(0), limited(0)}, dag.Failure, 210 * time.Second, 210 * time.Second, "a a a a", "`on-limit: {wait: 4m0s}` has waited since"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := newWorld(t, ask("s"))
				w.withFallbacks()
				w.plan.OnLimit, w.play = &c.onLimit, inTurn(c.plays...)
				r := w.want(w.finish(), "s", c.status)
				if took := time.Since(began); took < c.from || took > c.to {
					t.Errorf("it took %v, want %v to %v", took, c.from, c.to)
				}
				if w.models() != c.models || !strings.Contains(r.Error, c.message) {
					t.Errorf("%s: it says %q", w.models(), r.Error)
				}
			})
		})
	}
}

// A wait for a limit survives the end of flow, and so does how long it has been.
func TestOnLimitResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s"))
		w.plan.OnLimit = &pipeline.OnLimit{Wait: pipeline.Duration(2 * time.Hour)}
		at := time.Now().Add(90 * time.Minute)
		w.play = says(1, "session S", "problem usage_limit no more", "later "+at.Format(time.RFC3339))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.run(ctx); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.play = inTurn(says(0, "session S", "answer ok"))
		w.want(w.finish(), "s", dag.OK)
		if took := time.Since(began); took != 30*time.Minute {
			t.Errorf("it went on after %v", took)
		}
	})
}

func TestLesson(t *testing.T) {
	hint := func(s *pipeline.Step) { s.Retry = pipeline.Retry{Max: 1, Hint: true, On: pipeline.Causes()} }
	schema := func(s *pipeline.Step) { s.Output = []byte(`{"type":"object","required":["ok"]}`) }
	bad := says(0, "session S", "answer {}")
	good := says(0, "session S", `answer {"ok":1}`)
	cases := []struct {
		name  string
		step  pipeline.Step
		plays []func(*process) (proc.Result, error)
		want  []string // of the last prompt
		not   string
	}{
		{"anew", ask("s", hint, schema), []func(*process) (proc.Result, error){bad, bad, good}, []string{"do s\n\nAn attempt at this task has failed before", "cause: schema", "/ok: missing", "hint: say in the prompt", "-----DATA"}, continuePrompt},
		{"in the session", ask("s", hint, check("x", 0)), []func(*process) (proc.Result, error){says(0, "session S", "answer ok"), checks(1, "", "it is broken"), says(0, "session S", "answer ok"), checks(0, "", "")}, []string{continuePrompt + "\n\nAn attempt", "cause: check", "it is broken"}, "do s"},
		{"not begun", ask("s", hint), []func(*process) (proc.Result, error){says(1, "session S", "problem max_turns 3 turns"), good}, []string{"do s\n\nAn attempt", "cause: max_turns\n3 turns"}, continuePrompt},
		{"nothing to learn", ask("s", hint), []func(*process) (proc.Result, error){says(1, "problem rate_limit slow down"), good}, []string{"do s"}, "An attempt"},
		{"not wanted", ask("s", retry(1, "max_turns")), []func(*process) (proc.Result, error){says(1, "problem max_turns 3"), good}, []string{"do s"}, "An attempt"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.step)
				w.play = inTurn(c.plays...)
				w.want(w.finish(), "s", dag.OK)
				var last string
				for _, p := range w.ran {
					if p.spec.Path != "sh" {
						last = p.prompt
					}
				}
				for _, want := range c.want {
					if !strings.Contains(last, want) {
						t.Errorf("it was not told %q in %q", want, last)
					}
				}
				if c.not != "" && strings.Contains(last, c.not) {
					t.Errorf("it was told %q", last)
				}
			})
		})
	}
}

func TestFallbacks(t *testing.T) {
	w := newWorld(t)
	w.withFallbacks()
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, fallbacks(w.plan, "a")); diff != "" {
		t.Error(diff)
	}
	if got := fmt.Sprint(fallbacks(w.plan, "c")); got != "[c]" {
		t.Error(got)
	}
}
