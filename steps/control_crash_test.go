package steps

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// nested is a pipeline with a list of loops of groups, in which another pipeline is
// called, and a vote with a judge. One thing is done at a time.
func nested() []pipeline.Step {
	own := func(s *pipeline.Step) {
		s.Session = pipeline.Session{Mode: pipeline.SessionContinue, Step: "edit", Root: "fix.edit"}
		s.Previous = true
	}
	inner := &pipeline.Plan{
		Name: "inner", File: "inner.yaml", Agents: map[string]pipeline.Profile{"a": {Name: "a", Use: "fake"}},
		Inputs:  []pipeline.Input{{Name: "what", Type: "string", Required: true, Schema: json.RawMessage(`{"type":"string"}`)}},
		Steps:   []pipeline.Step{ask("judge", func(s *pipeline.Step) { s.Prompt = text("judge {{ .inputs.what }}") })},
		Outputs: vars("text", "{{ .steps.judge.text }}"),
	}
	return []pipeline.Step{
		set("list", `{{ lines "a\nb" }}`),
		changed(group("fix",
			ask("edit", own, retry(1)),
			call("check", inner, vars("what", "{{ .item }}{{ .iteration }} {{ .steps.edit.text }}"), needs("edit")),
		), foreach(".steps.list.output.v"), needs("list"), repeat(`and (eq .iteration 2) (ne .steps.check.output.text "")`, 3),
			func(s *pipeline.Step) { s.Foreach.MaxParallel = 1 }),
		ask("pick", contest(true, "", "a", "a"), needs("fix"), func(s *pipeline.Step) {
			s.Prompt = text("pick from {{ len .steps.fix.items }}")
			s.Contest.Judge.Output = json.RawMessage(`{"type":"object","required":["winner"]}`)
		}),
		set("end", `{{ range .steps.fix.items }}{{ .item }}{{ .iterations }} {{ .steps.check.output.text }}, {{ end }}{{ .steps.pick.text }}`, needs("fix", "pick")),
	}
}

// nestedPlay is a turn of 10 tokens. A new session to edit item b fails at first.
func nestedPlay(m *model) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		id := p.request.Session.ID
		if p.request.Session.Mode == agents.SessionNew {
			id = "session-of-" + p.spec.Label
		}
		m.totals[id] += 10
		p.print("session "+id, "say two words", fmt.Sprintf("total %d", m.totals[id]))
		switch {
		case p.request.Session.Mode == agents.SessionNew && strings.HasPrefix(p.spec.Label, "fix.1.1.edit."):
			p.print("problem network gone")
			return proc.Result{Code: 1}, nil
		case strings.HasPrefix(p.spec.Label, "pick.judge."):
			p.print(`answer {"winner":1}`)
		default:
			p.print("answer of " + parent(parent(p.spec.Label)))
		}
		return proc.Result{}, nil
	}
}

// TestEveryCrashOfNested is TestEveryCrash for a run that grows.
func TestEveryCrashOfNested(t *testing.T) {
	calm := newWorld(t, nested()...)
	calm.plan.Limit = 1
	calm.play = nestedPlay(newModel(t, calm.store))
	var want, end string
	synctest.Test(t, func(t *testing.T) {
		calm.t = t
		m := calm.finish()
		want, end = statuses(m), calm.v(m, "end")
	})
	if end != `{"v":"a2 of fix.0.2.check.judge, b2 of fix.1.2.check.judge, of pick.1"}` || !strings.Contains(want, "fix.1.2.check.judge succeeded") {
		t.Fatalf("%s\n%s", end, want)
	}
	used := calm.usage(t)
	total := len(calm.store.log)
	for n := range total + 1 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nested()...)
			w.plan.Limit = 1
			w.store = calm.store.at(t, n)
			w.play = nestedPlay(newModel(t, w.store))
			m := w.finish()
			if diff := cmp.Diff(want, statuses(m)); diff != "" || w.v(m, "end") != end {
				t.Error(diff, w.v(m, "end"))
			}
			more := int64(0)
			for path, tokens := range w.usage(t) {
				more += tokens - used[path]
				if tokens < used[path] {
					t.Errorf("%s used %d, not %d", path, tokens, used[path])
				}
			}
			if more > 10 { // a turn that is asked again after it answered, before flow saw that
				t.Errorf("%d tokens more than without a crash", more)
			}
			checkEvents(t, w)
			if t.Failed() {
				t.Fatalf("crash at %d of %d", n, total)
			}
		})
	}
}

// usage is what the steps have used, as the journal says.
func (w *world) usage(t *testing.T) map[string]int64 {
	t.Helper()
	m := dag.New(w.plan, dag.Options{})
	used := map[string]int64{}
	for f, err := range Facts(w.store.records()) {
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range m.Steps() {
		if _, r := w.result(m, s.Path); s.Form == dag.Single && r.Usage != nil {
			used[s.Path] = r.Usage.TotalTokens
		}
	}
	return used
}
