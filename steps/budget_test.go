package steps

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// costs is a turn that costs so much.
func costs(usd, tokens string) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		id := "S-" + p.spec.Label
		return says(0, "session "+id, "say hi", "total "+tokens, "cost "+usd, "answer ok")(p)
	}
}

func budget(b pipeline.Budget) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Budget = &b }
}

// stops collects why runs were stopped.
func (w *world) stops() *[]string {
	var mu sync.Mutex
	all := &[]string{}
	w.config.Stop = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		*all = append(*all, err.Error())
	}
	return all
}

func TestBudgetOfRun(t *testing.T) {
	chain := []pipeline.Step{ask("a"), ask("b", needs("a")), ask("c", needs("b"))}
	cases := []struct {
		name   string
		budget pipeline.Budget
		ran    int
		status dag.Status // of c
		stops  string
	}{
		{"enough", pipeline.Budget{USD: 3, Tokens: 30}, 3, dag.OK, ""},
		{"dollars", pipeline.Budget{USD: 2}, 2, dag.Cancelled, "the budget of $2 has no room for another turn: $2.0000 spent, and a turn may use $1.0000"},
		{"tokens", pipeline.Budget{Tokens: 20}, 2, dag.Cancelled, "the budget of 20 tokens has no room for another turn: 20 tokens spent, and a turn may use 10 tokens"},
		{"what a turn is likely to use", pipeline.Budget{USD: 2.5}, 2, dag.Cancelled, "the budget of $2.5 has no room"},
		{"fail", pipeline.Budget{USD: 2, OnExceed: "fail"}, 2, dag.Failure, ""},
		{"warn", pipeline.Budget{USD: 1, OnExceed: "warn"}, 3, dag.OK, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, chain...)
			w.plan.Budget = &c.budget
			stops := w.stops()
			w.play = costs("1", "10")
			r := w.want(w.finish(), "c", c.status)
			if len(w.ran) != c.ran {
				t.Errorf("%d turns, want %d", len(w.ran), c.ran)
			}
			if got := strings.Join(*stops, "|"); !strings.HasPrefix(got, c.stops) || (got == "") != (c.stops == "") {
				t.Errorf("it was stopped for %q", got)
			}
			if c.status != dag.OK && (r.Cause != string(agents.CauseBudget) || r.Hint == "" || r.Session != "") {
				t.Errorf("it says %s: %q, hint %q", r.Cause, r.Error, r.Hint)
			}
			if n := w.notices(noticeBudget); (c.budget.OnExceed == "warn") != (len(n) == 1) {
				t.Errorf("events about it: %q", n)
			}
		})
	}
}

// What a step used that an update has begun anew is spent all the same.
func TestBudgetAfterUpdate(t *testing.T) {
	w := newWorld(t, ask("a"), ask("b", needs("a")))
	w.plan.Budget = &pipeline.Budget{USD: 3}
	stops := w.stops()
	w.play = costs("1", "10")
	w.want(w.finish(), "b", dag.OK)
	u, err := NewUpdate(w.store.records(), []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	u.Plan = "sha256:x"
	typ, data := u.Record()
	if err := w.store.Append(t.Context(), typ, data, true); err != nil {
		t.Fatal(err)
	}
	w.want(w.finish(), "b", dag.Cancelled)
	if len(w.ran) != 3 || len(*stops) != 1 || !strings.Contains((*stops)[0], "$3.0000 spent") {
		t.Errorf("after %d turns it was stopped for %q", len(w.ran), *stops)
	}
}

// A run that was stopped goes on when its budget is raised, and what was spent counts.
func TestBudgetRaised(t *testing.T) {
	w := newWorld(t, ask("a", retry(1)), ask("b", needs("a")))
	w.plan.Budget = &pipeline.Budget{USD: 2}
	w.stops()
	w.play = inTurn(
		says(1, "session S", "say hi", "cost 1", "problem overloaded x"), says(0, "session S", "cost 1", "answer ok"))
	m := w.finish()
	w.want(m, "a", dag.OK)
	w.want(m, "b", dag.Cancelled)
	w.want(w.finish(), "b", dag.Cancelled) // not a turn more
	w.plan.Budget = &pipeline.Budget{USD: 4}
	w.play = inTurn(costs("1", "10"))
	w.want(w.finish(), "b", dag.OK)
}

// The second turn of an attempt has to fit as well: what the first one did is kept.
func TestBudgetOfTurns(t *testing.T) {
	w := newWorld(t, ask("a", check("x", 5), budget(pipeline.Budget{USD: 2})))
	stops := w.stops()
	w.play = inTurn(says(0, "session S", "cost 1", "answer one"), checks(1, "", "no"), says(0, "session S", "cost 1", "answer two"), checks(1, "", "no"))
	r := w.want(w.finish(), "a", dag.Cancelled)
	if r.Session != "S" || *r.CostUSD != 2 || len(*stops) != 1 || !strings.HasPrefix((*stops)[0], "the budget of $2 of step a has no room") {
		t.Errorf("the result is %+v, stopped for %q", r, *stops)
	}
	w.plan.Steps[0].Budget = &pipeline.Budget{USD: 3}
	w.play = inTurn(checks(1, "", "no"), says(0, "session S", "cost 1", "answer three"), checks(0, "", ""))
	if r := w.want(w.finish(), "a", dag.OK); r.Text.Inline != "three" || *r.CostUSD != 3 {
		t.Errorf("the result is %+v", r)
	}
}

// A step's budget is that of everything within it, and of nothing else.
func TestBudgetOfGroup(t *testing.T) {
	group := pipeline.Step{ID: "g", Kind: pipeline.KindGroup, Budget: &pipeline.Budget{USD: 2, OnExceed: "fail"}, Steps: []pipeline.Step{
		ask("x"), ask("y", needs("x")), ask("z", needs("y")),
	}}
	w := newWorld(t, group, ask("other"))
	w.play = costs("1", "10")
	m := w.finish()
	w.want(m, "g.y", dag.OK)
	w.want(m, "g.z", dag.Failure)
	w.want(m, "other", dag.OK)
}

func TestBudgetOfItems(t *testing.T) {
	each := ask("e", budget(pipeline.Budget{Tokens: 25, OnExceed: "fail"}))
	each.Foreach = &pipeline.Foreach{Items: []byte(`[1,2,3,4]`), MaxParallel: 1}
	w := newWorld(t, each)
	w.play = costs("0", "10")
	m := w.finish()
	w.want(m, "e.1", dag.OK)
	w.want(m, "e.2", dag.Failure)
	if len(w.ran) != 2 {
		t.Errorf("%d turns", len(w.ran))
	}
}

// Who would exceed the budget only if others use up what they may waits for them.
func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("first"), ask("a", needs("first")), ask("b", needs("first")))
		w.plan.Budget, w.plan.Limit = &pipeline.Budget{USD: 10}, 4
		var mu sync.Mutex
		now, most := 0, 0
		w.play = func(p *process) (proc.Result, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Minute)
			mu.Lock()
			now--
			mu.Unlock()
			if strings.HasPrefix(p.spec.Label, "first") {
				return costs("5", "10")(p)
			}
			return costs("2", "10")(p)
		}
		m := w.finish() // 5 are spent, and each of the two may use 5
		a, _ := w.result(m, "a")
		b, _ := w.result(m, "b")
		if a == b || a != dag.OK && b != dag.OK {
			t.Errorf("a is %s and b is %s: one was to run, and then there is no room for the other", a, b)
		}
		if most != 1 {
			t.Errorf("%d turns at once", most)
		}
	})
}

// An agent that can bound itself gets what is left; its own bound may be lower.
func TestBudgetBounds(t *testing.T) {
	for _, c := range []struct{ own, want float64 }{{0, 4}, {3, 0}, {9, 4}} {
		w := newWorld(t, ask("a"), ask("b", needs("a")))
		w.agent.bounds = true
		w.plan.Agents["a"] = pipeline.Profile{Name: "a", Use: "fake", MaxCostUSD: c.own}
		w.plan.Budget = &pipeline.Budget{USD: 5}
		stops := w.stops()
		w.play = inTurn(costs("1", "10"), says(1, "session T", "cost 4", "problem budget spent too much"))
		m := w.finish()
		want := c.want
		status := dag.Cancelled
		if want == 0 { // the profile's bound is a failure of the step
			want, status = c.own, dag.Failure
		}
		w.want(m, "b", status)
		if got := w.ran[1].request.MaxCostUSD; got != want {
			t.Errorf("own bound %v: it was given %v, want %v", c.own, got, want)
		}
		if (len(*stops) == 1) != (status == dag.Cancelled) {
			t.Errorf("own bound %v: stopped for %q", c.own, *stops)
		}
	}
}

func TestBudgetCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("first"), ask("a", needs("first"), func(s *pipeline.Step) { s.Timeout = pipeline.Duration(time.Second) }), ask("b", needs("first")))
		w.plan.Budget = &pipeline.Budget{USD: 10}
		w.play = func(p *process) (proc.Result, error) {
			if strings.HasPrefix(p.spec.Label, "b") {
				<-time.After(time.Minute)
			}
			return costs("5.1", "10")(p)
		}
		stops := w.stops()
		m := w.finish()
		for _, path := range []string{"a", "b"} {
			if s, r := w.result(m, path); s == dag.OK || r.Cause == "" {
				t.Errorf("%s is %s (%s)", path, s, r.Cause)
			}
		}
		if len(*stops) == 0 {
			t.Error("nothing stopped the run")
		}
	})
}

func TestBudgetErrorIsOne(t *testing.T) {
	w := newWorld(t, ask("a"), ask("b", needs("a")))
	w.plan.Budget = &pipeline.Budget{USD: 1}
	var got error
	w.config.Stop = func(err error) { got = err }
	w.play = costs("1", "10")
	w.finish()
	var e *BudgetError
	if !errors.As(got, &e) || e.Hint != "raise it: flow resume run1 --budget-usd 2" {
		t.Errorf("it was stopped for %#v", got)
	}
}

func TestLintBudget(t *testing.T) {
	w := newWorld(t, ask("s", budget(pipeline.Budget{USD: 1, Pos: pipeline.Pos{Line: 9, Col: 3}})), ask("t", budget(pipeline.Budget{USD: 1, Tokens: 5})), ask("u"))
	w.plan.Budget = &pipeline.Budget{USD: 1, Pos: pipeline.Pos{Line: 2, Col: 1}}
	got := Lint(w.plan, map[string]agents.Adapter{"fake": fakeAgent{}})
	if len(got) != 2 || got[0].Pos.Line != 2 || got[1].Pos.Line != 9 || !strings.Contains(got[0].Msg, "does not see what a uses") {
		t.Errorf("it warns of %v", got)
	}
	if got := Lint(w.plan, map[string]agents.Adapter{"fake": fakeAgent{bounds: true}}); len(got) != 0 {
		t.Errorf("it warns of %v", got)
	}
}
