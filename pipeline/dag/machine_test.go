package dag_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/pipeline"
	"flow/pipeline/dag"
)

func TestInput(t *testing.T) {
	m := dag.New(parsePlan(nil, "a\ng group\n  c"), dag.Options{})
	give(t, m, []dag.Fact{
		{Kind: dag.Started, Path: "a", Attempt: 1},
		{Kind: dag.Succeeded, Path: "a", Attempt: 1, Result: []byte(`{"text":"x"}`)},
		{Kind: dag.Opened, Path: "g", Attempt: 1},
		{Kind: dag.Started, Path: "g.c", Attempt: 1},
	}...)
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
					drive(b, p, 0)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/step")
			})
		}
	}
}

// drive makes a machine and runs p in it. What fans out has so many items.
func drive(b *testing.B, p *pipeline.Plan, items int) {
	b.Helper()
	m := dag.New(p, dag.Options{})
	now := time.Unix(1e9, 0)
	for !m.Done() {
		for _, t := range m.Take(now) {
			for _, f := range answers(t, items) {
				if err := m.Apply(f); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// answers are the facts of a task that goes well.
func answers(t dag.Task, items int) []dag.Fact {
	f := dag.Fact{Kind: dag.Succeeded, Path: t.Path, Attempt: t.Attempt}
	switch t.Action {
	case dag.Open:
		f.Kind = dag.Opened
		if t.Form == dag.Each {
			f.Count = items
		}
	case dag.Execute:
		start := f
		start.Kind = dag.Started
		return []dag.Fact{start, f}
	case dag.Close:
	}
	return []dag.Fact{f}
}

// BenchmarkEach is what an item costs: of a step, of a group in rounds that are let in one
// by one or by the thousand, and where each item looks at all items of another list.
func BenchmarkEach(b *testing.B) {
	for name, plan := range map[string]string{
		"steps":   "fix each",
		"gate":    "fix each=1",
		"wide":    "fix each=1000",
		"groups":  "fix each=4 loop group isolated\n  edit\n  review needs=edit",
		"session": "plan agent=codex\nfix each agent=codex needs=plan continue=plan",
		"refs":    "list each\nfix each needs=list refs=list",
	} {
		for _, n := range []int{1000, 10_000} {
			p := parsePlan([]string{"limit=4"}, plan)
			b.Run(fmt.Sprintf("%s-%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					drive(b, p, n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
			})
		}
	}
}

// BenchmarkResume is what it costs to give each of so many items that failed another chance.
func BenchmarkResume(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		p := parsePlan(nil, "fix each=4 group fail-fast\n  edit")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := dag.New(p, dag.Options{})
				give(b, m, dag.Fact{Kind: dag.Opened, Path: "fix", Attempt: 1, Count: n})
				for i := range n {
					item := fmt.Sprintf("fix.%d", i)
					give(b, m, dag.Fact{Kind: dag.Opened, Path: item, Attempt: 1})
					give(b, m, dag.Fact{Kind: dag.Failed, Path: item + ".edit", Attempt: 1, Final: true})
				}
				again := m.Reopenable()
				give(b, m, again...)
				if len(again) != n || len(m.Take(time.Time{})) != 4 {
					b.Fatal("not what was to be reopened")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
		})
	}
}

func give(tb testing.TB, m *dag.Machine, facts ...dag.Fact) {
	tb.Helper()
	for _, f := range facts {
		if err := m.Apply(f); err != nil {
			tb.Fatal(err)
		}
	}
}

// What only the list of a foreach names is seen when the list is made, and not by each item.
func TestItemsDoWithoutTheList(t *testing.T) {
	p := &pipeline.Plan{Limit: 9, Steps: []pipeline.Step{
		{ID: "find", Kind: pipeline.KindRun},
		{ID: "style", Kind: pipeline.KindRun},
		{
			ID: "fix", Kind: pipeline.KindRun, Needs: []string{"find", "style"}, Refs: []string{"find", "style"},
			Foreach: &pipeline.Foreach{Refs: []string{"find"}},
		},
	}}
	m := dag.New(p, dag.Options{})
	seen := map[string][]string{}
	for tasks := m.Take(time.Time{}); len(tasks) > 0; tasks = m.Take(time.Time{}) {
		for _, task := range tasks {
			seen[task.Path] = slices.Sorted(maps.Keys(task.Inputs))
			f := dag.Fact{Kind: dag.Succeeded, Path: task.Path, Attempt: task.Attempt}
			if task.Action == dag.Open {
				f.Kind, f.Count = dag.Opened, 2
			} else if err := m.Apply(dag.Fact{Kind: dag.Started, Path: task.Path, Attempt: task.Attempt}); err != nil {
				t.Fatal(err)
			}
			if err := m.Apply(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string][]string{"find": nil, "style": nil, "fix": {"find", "style"}, "fix.0": {"style"}, "fix.1": {"style"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
