package dag_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/pipeline"
	"flow/pipeline/dag"
)

func TestInput(t *testing.T) {
	m := dag.New(parsePlan(nil, "a\ng group\n  c"), dag.Options{})
	for _, f := range []dag.Fact{
		{Kind: dag.Started, Path: "a", Attempt: 1},
		{Kind: dag.Succeeded, Path: "a", Attempt: 1, Result: []byte(`{"text":"x"}`)},
		{Kind: dag.Opened, Path: "g", Attempt: 1},
		{Kind: dag.Started, Path: "g.c", Attempt: 1},
	} {
		if err := m.Apply(f); err != nil {
			t.Fatal(err)
		}
	}
	inner := dag.Input{Path: "g.c", Status: dag.Running}
	for path, want := range map[string]dag.Input{
		"a":      {Path: "a", Status: dag.OK, Result: []byte(`{"text":"x"}`)},
		"g":      {Path: "g", Status: dag.Running, Steps: map[string]dag.Input{"c": inner}},
		"g.c":    inner,
		"nosuch": {},
	} {
		if d := cmp.Diff(want, m.Input(path)); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
}

// A plan that was not checked must not bring the machine down, and says what is wrong.
func TestDamagedPlan(t *testing.T) {
	m := dag.New(parsePlan(nil, "a needs=b\nb needs=a\nc needs=nosuch\nd"), dag.Options{})
	tasks := m.Take(time.Time{})
	if len(tasks) != 1 || tasks[0].Path != "d" {
		t.Errorf("takes %v", tasks)
	}
	if got := m.Waiting("c"); got != "needs nosuch" {
		t.Errorf("c waits: %q", got)
	}
	if m.Done() {
		t.Error("done")
	}
}

func TestLimitOfPlanWins(t *testing.T) {
	steps := strings.TrimSpace(strings.Repeat("s\n", 9))
	for _, c := range []struct{ plan, option, want int }{{0, 0, 4}, {0, 2, 2}, {3, 2, 3}, {-1, -1, 4}} {
		p := parsePlan(nil, steps)
		p.Limit = c.plan
		for i := range p.Steps {
			p.Steps[i].ID += fmt.Sprint(i)
		}
		m := dag.New(p, dag.Options{Limit: c.option})
		if got := len(m.Take(time.Time{})); got != c.want {
			t.Errorf("plan %d, option %d: %d at once, want %d", c.plan, c.option, got, c.want)
		}
	}
}

// shapes are the plans of the benchmarks: steps without needs, each after the one
// before, and layers of 50 with up to three needs in the layer before.
func shapes(n int) map[string]*pipeline.Plan {
	all := map[string]*pipeline.Plan{}
	for _, shape := range []string{"wide", "chain", "layered"} {
		p := &pipeline.Plan{Limit: 4, Steps: make([]pipeline.Step, n)}
		for i := range p.Steps {
			s := &p.Steps[i]
			s.ID, s.Kind = fmt.Sprintf("s%d", i), pipeline.KindRun
			switch {
			case shape == "chain" && i > 0:
				s.Needs = []string{p.Steps[i-1].ID}
			case shape == "layered" && i >= 50:
				for k := range 1 + i%3 {
					s.Needs = append(s.Needs, p.Steps[i-i%50-50+(i*7+k*13)%50].ID)
				}
			}
		}
		all[shape] = p
	}
	return all
}

func BenchmarkMachine(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for shape, p := range shapes(n) {
			b.Run(fmt.Sprintf("%s-%d", shape, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					drive(b, p)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/step")
			})
		}
	}
}

// drive makes a machine and runs p in it.
func drive(b *testing.B, p *pipeline.Plan) {
	b.Helper()
	m := dag.New(p, dag.Options{})
	now := time.Unix(1e9, 0)
	for !m.Done() {
		for _, t := range m.Take(now) {
			for _, kind := range []dag.Kind{dag.Started, dag.Succeeded} {
				if err := m.Apply(dag.Fact{Kind: kind, Path: t.Path, Attempt: t.Attempt}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
