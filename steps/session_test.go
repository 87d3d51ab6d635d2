package steps

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// asked is what a process was asked, as far as sessions go.
type asked struct {
	Mode         agents.SessionMode
	ID, Parent   string
	Continuation bool // with the short prompt
	Spent        int64
}

func (w *world) asked() (all []asked) {
	for _, p := range w.ran {
		s := p.request.Session
		a := asked{Mode: s.Mode, ID: s.ID, Parent: s.Parent, Continuation: p.prompt == continuePrompt}
		if s.Spent != nil {
			a.Spent = s.Spent.TotalTokens
		}
		all = append(all, a)
	}
	return all
}

// TestSecondAttempt is how an attempt after another one begins, for every way in
// which that one may have ended.
func TestSecondAttempt(t *testing.T) {
	first := asked{}
	cases := []struct {
		name  string
		first func(*process) (proc.Result, error)
		want  asked // of the second
	}{
		{"at work", says(1, "session S", "say hi", "problem overloaded busy"), asked{agents.SessionResume, "S", "", true, 0}},
		{"not begun", says(1, "session S", "problem overloaded busy"), asked{agents.SessionResume, "S", "", false, 0}},
		{"no session", says(1, "problem overloaded busy"), asked{}},
		{"counted", says(1, "session S", "say hi", "total 100"), asked{agents.SessionResume, "S", "", true, 100}},
		{"context", says(1, "session S", "say hi", "problem context full"), asked{}},
		{"refusal", says(1, "session S", "say hi", "problem refusal no"), asked{}},
		{"invalid request", says(1, "session S", "say hi", "problem invalid_request no"), asked{}},
		{"protocol", says(1, "session S", "say hi", "problem protocol no"), asked{}},
		{"session not found", says(1, "session S", "problem session_not_found no"), asked{}},
		{"crash", says(1, "session S", "say hi", "problem crash no"), asked{agents.SessionResume, "S", "", true, 0}},
	}
	every := make([]string, 0, len(agents.Causes()))
	for _, c := range agents.Causes() {
		every = append(every, string(c))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ask("s", retry(1, every...)))
				w.play = inTurn(c.first, says(0, "session S", "answer ok"))
				w.want(w.finish(), "s", dag.OK)
				if diff := cmp.Diff([]asked{first, c.want}, w.asked()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestOtherSession is how a step that continues or forks another's session begins,
// first and after its own attempts.
func TestOtherSession(t *testing.T) {
	source := says(0, "session S", "total 100", "answer ok")
	cases := []struct {
		name  string
		mode  pipeline.SessionMode
		plays []func(*process) (proc.Result, error)
		want  []asked
	}{
		{"continue", pipeline.SessionContinue, []func(*process) (proc.Result, error){
			says(0, "session S", "answer ok"),
		}, []asked{{Mode: agents.SessionResume, ID: "S", Spent: 100}}},
		{"fork", pipeline.SessionFork, []func(*process) (proc.Result, error){
			says(0, "session F", "answer ok"),
		}, []asked{{Mode: agents.SessionFork, Parent: "S", Spent: 100}}},
		{"continue, at work", pipeline.SessionContinue, []func(*process) (proc.Result, error){
			says(1, "session S", "say hi", "problem network gone"), says(0, "session S", "answer ok"),
		}, []asked{{Mode: agents.SessionResume, ID: "S", Spent: 100}, {Mode: agents.SessionResume, ID: "S", Spent: 100, Continuation: true}}},
		{"continue, not begun", pipeline.SessionContinue, []func(*process) (proc.Result, error){
			says(1, "session S", "problem network gone"), says(0, "session S", "answer ok"),
		}, []asked{{Mode: agents.SessionResume, ID: "S", Spent: 100}, {Mode: agents.SessionResume, ID: "S", Spent: 100}}},
		{"fork, at work", pipeline.SessionFork, []func(*process) (proc.Result, error){
			says(1, "session F", "say hi", "problem network gone"), says(0, "session F", "answer ok"),
		}, []asked{{Mode: agents.SessionFork, Parent: "S", Spent: 100}, {Mode: agents.SessionResume, ID: "F", Spent: 100, Continuation: true}}},
		{"fork, then lost: forked again", pipeline.SessionFork, []func(*process) (proc.Result, error){
			says(1, "session F", "say hi", "problem network gone"), says(1, "problem session_not_found gone"), says(0, "session G", "answer ok"),
		}, []asked{
			{Mode: agents.SessionFork, Parent: "S", Spent: 100},
			{Mode: agents.SessionResume, ID: "F", Spent: 100, Continuation: true},
			{Mode: agents.SessionFork, Parent: "S", Spent: 100},
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ask("first"), ask("s", session(c.mode, "first"), retry(2)))
				w.play = inTurn(append([]func(*process) (proc.Result, error){source}, c.plays...)...)
				w.want(w.finish(), "s", dag.OK)
				if diff := cmp.Diff(c.want, w.asked()[1:]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", retry(1)))
		w.agent.chooses = true
		w.play = inTurn(
			func(p *process) (proc.Result, error) {
				return says(1, "session "+p.request.Session.ID, "say hi", "problem network gone")(p)
			},
			says(1, "problem session_not_found gone"),
			dies("say hi"))
		w.die()
		got := w.asked()
		if got[0].ID == "" || got[1].Mode != agents.SessionResume || got[1].ID != got[0].ID || !got[1].Continuation {
			t.Errorf("the second attempt was asked %+v after %+v", got[1], got[0])
		}
		if got[2].Mode != agents.SessionNew || got[2].ID == got[0].ID || got[2].Continuation {
			t.Errorf("after its session was lost, the agent was asked %+v", got[2])
		}
		w.play = inTurn(says(0, "answer ok"))
		w.want(w.finish(), "s", dag.OK)
		if last := w.asked()[3]; last.ID != got[2].ID || last.Mode != agents.SessionResume {
			t.Errorf("the session begun in place of the lost one is %s, gone on with was %+v", got[2].ID, last)
		}
	})
}

// A step that continues another's session fails when that is lost.
func TestLostOtherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("first"), ask("s", session(pipeline.SessionContinue, "first"), retry(1)))
		w.play = inTurn(
			says(0, "session S", "answer ok"),
			says(1, "session S", "say hi", "problem network gone"),
			says(1, "problem session_not_found gone"))
		r := w.want(w.finish(), "s", dag.Failure)
		if r.Cause != string(agents.CauseSessionNotFound) {
			t.Errorf("cause %s", r.Cause)
		}
	})
}

// A source without a session refuses the step, whatever is to be retried.
func TestNoSource(t *testing.T) {
	w := newWorld(t, ask("first"), ask("s", session(pipeline.SessionFork, "first"), retry(3, "session_not_found")))
	w.play = inTurn(says(0, "answer ok"))
	r := w.want(w.finish(), "s", dag.Failure)
	if r.Error != "step first left no session to fork" || r.Hint == "" {
		t.Errorf("it says %q, hint %q", r.Error, r.Hint)
	}
}

// TestUsage is that no token and no cent is counted twice, however a step came to
// its end. The agent counts tokens over the whole session, money by turn.
func TestUsage(t *testing.T) {
	schema := func(s *pipeline.Step) { s.Output = []byte(`{"type":"object"}`) }
	type plays = []func(*process) (proc.Result, error)
	cases := []struct {
		name  string
		steps []pipeline.Step
		lives []plays // one each time flow is started
		want  map[string]int64
		cost  float64 // of the last step
	}{
		{
			"retry",
			[]pipeline.Step{ask("s", retry(1))},
			[]plays{{says(1, "session S", "total 100", "cost 1"), says(0, "session S", "total 250", "cost 2", "answer ok")}},
			map[string]int64{"s": 250},
			3,
		},
		{
			"repair",
			[]pipeline.Step{ask("s", schema)},
			[]plays{{says(0, "session S", "total 100", "cost 1", "answer no"), says(0, "session S", "total 130", "cost 2", "answer {}")}},
			map[string]int64{"s": 130},
			3,
		},
		{
			"new session after a spoiled one",
			[]pipeline.Step{ask("s", retry(1, "context"))},
			[]plays{{says(1, "session S", "total 100", "problem context full"), says(0, "session T", "total 30", "answer ok")}},
			map[string]int64{"s": 130},
			0,
		},
		{
			"a turn that ended without a count is in the next total",
			[]pipeline.Step{ask("s", retry(2))},
			[]plays{{says(1, "session S", "total 100"), says(1, "session S"), says(0, "session S", "total 250", "answer ok")}},
			map[string]int64{"s": 250},
			0,
		},
		{
			"lost session: what the stray turn used counts",
			[]pipeline.Step{ask("s", retry(1))},
			[]plays{{
				says(1, "session S", "total 100"),
				says(1, "session T", "total 7", "problem session_not_found gone"),
				says(0, "session U", "total 30", "answer ok"),
			}},
			map[string]int64{"s": 137},
			0,
		},
		{
			"lost attempt with a count",
			[]pipeline.Step{ask("s")},
			[]plays{
				{dies("session S", "say hi", "total 100", "cost 1")},
				{says(0, "session S", "total 150", "cost 2", "answer ok")},
			},
			map[string]int64{"s": 150},
			3,
		},
		{
			"failed, lost without a count, finished",
			[]pipeline.Step{ask("s", retry(1))},
			[]plays{
				{says(1, "session S", "total 100"), dies("session S", "say hi")},
				{says(0, "session S", "total 250", "answer ok")},
			},
			map[string]int64{"s": 250},
			0,
		},
		{
			"lost twice in a row",
			[]pipeline.Step{ask("s")},
			[]plays{
				{dies("session S", "say hi", "total 100")},
				{dies("session S", "say on", "total 160")},
				{says(0, "session S", "total 200", "answer ok")},
			},
			map[string]int64{"s": 200},
			0,
		},
		{
			"lost in the repair turn",
			[]pipeline.Step{ask("s", schema)},
			[]plays{
				{says(0, "session S", "total 100", "answer no"), dies("session S")},
				{says(0, "session S", "total 170", "answer {}")},
			},
			map[string]int64{"s": 170},
			0,
		},
		{
			"adopted",
			[]pipeline.Step{ask("s")},
			[]plays{{dies("session S", "total 100", "cost 4", "answer ok")}, {}},
			map[string]int64{"s": 100},
			4,
		},
		{
			"two steps continue one session",
			[]pipeline.Step{
				ask("a"), ask("b", session(pipeline.SessionContinue, "a")),
				ask("c", session(pipeline.SessionContinue, "a"), func(s *pipeline.Step) { s.Needs = []string{"a", "b"} }),
			},
			[]plays{{
				says(0, "session S", "total 100", "answer ok"), says(0, "session S", "total 180", "answer ok"),
				says(0, "session S", "total 200", "answer ok"),
			}},
			map[string]int64{"a": 100, "b": 80, "c": 20},
			0,
		},
		{
			"fork, tried twice",
			[]pipeline.Step{ask("a"), ask("b", session(pipeline.SessionFork, "a"), retry(1))},
			[]plays{{
				says(0, "session S", "total 100", "answer ok"), says(1, "session F", "say hi"),
				says(0, "session F", "total 140", "answer ok"),
			}},
			map[string]int64{"a": 100, "b": 40},
			0,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.steps...)
				var m *dag.Machine
				for i, life := range c.lives {
					w.play = inTurn(life...)
					if i < len(c.lives)-1 {
						w.die()
						continue
					}
					m = w.finish()
				}
				var last Result
				for _, s := range c.steps {
					last = w.want(m, s.ID, dag.OK)
					if last.Usage == nil || last.Usage.TotalTokens != c.want[s.ID] {
						t.Errorf("%s used %+v, want %d", s.ID, last.Usage, c.want[s.ID])
					}
				}
				if cost := sumCost(new(float64), last.CostUSD); *cost != c.cost {
					t.Errorf("it cost %v, want %v", *cost, c.cost)
				}
			})
		})
	}
}
