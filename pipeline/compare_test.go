package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/pipeline"
)

const comparedPlan = `
inputs: {n: {type: integer, default: 1}, other: {type: string, default: x}}
agents: {editor: {use: codex, model: a}, reviewer: {use: claude}}
steps:
  first: {run: "echo 1"}
  second: {run: "echo {{ .steps.first.text }}"}
  counted: {run: "echo {{ .inputs.n }}"}
  group:
    needs: [counted]
    steps:
      edit: {agent: editor, prompt: Edit., timeout: 1m}
      review: {agent: reviewer, prompt: "Judge {{ .steps.edit.text }}", timeout: 1m}
      lint: {run: "true"}
  last: {needs: [group], run: "true"}
`

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string // old, new …
		inputs  map[string]any
		want    []pipeline.Change
	}{
		"the same":    {},
		"only places": {replace: []string{"steps:\n  first", "steps:\n\n\n  # a comment\n  first"}},
		"a script, and what needs it": {
			replace: []string{"echo 1", "echo 2"},
			want:    []pipeline.Change{{Path: "first", Kind: pipeline.Changed, What: []string{"run"}}, {Path: "second", Kind: pipeline.Follows, Of: "first"}},
		},
		"an agent's profile": {
			replace: []string{"model: a", "model: b"},
			want: []pipeline.Change{
				{Path: "group.edit", Kind: pipeline.Changed, What: []string{"agents"}},
				{Path: "group.review", Kind: pipeline.Follows, Of: "group.edit"},
				{Path: "last", Kind: pipeline.Follows, Of: "group"},
			},
		},
		"a step more, a step less": {
			replace: []string{"      lint: {run: \"true\"}\n", "      vet: {run: \"true\"}\n"},
			want: []pipeline.Change{
				{Path: "group.vet", Kind: pipeline.Added},
				{Path: "group.lint", Kind: pipeline.Removed},
				{Path: "last", Kind: pipeline.Follows, Of: "group"},
			},
		},
		"an input's value": {
			inputs: map[string]any{"n": 2, "other": "x"},
			want: []pipeline.Change{
				{Path: "counted", Kind: pipeline.Changed, What: []string{"inputs"}},
				{Path: "group", Kind: pipeline.Follows, Of: "counted"},
				{Path: "last", Kind: pipeline.Follows, Of: "group"},
			},
		},
		"the pipeline's env": {
			replace: []string{"agents: {editor", "env: {A: b}\nagents: {editor"},
			want: []pipeline.Change{
				{Path: "first", Kind: pipeline.Changed, What: []string{"pipelineEnv"}},
				{Path: "second", Kind: pipeline.Changed, What: []string{"pipelineEnv"}},
				{Path: "counted", Kind: pipeline.Changed, What: []string{"pipelineEnv"}},
				{Path: "group", Kind: pipeline.Changed, What: []string{"pipelineEnv"}},
				{Path: "last", Kind: pipeline.Changed, What: []string{"pipelineEnv"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inputs := map[string]any{"n": 1, "other": "x"}
			if c.inputs == nil {
				c.inputs = inputs
			}
			// A plan that a run froze has been through JSON.
			old, updated := frozenPlan(t, comparedPlan), comparedPlanOf(t, strings.NewReplacer(c.replace...).Replace(comparedPlan))
			if d := cmp.Diff(c.want, pipeline.Compare(old, updated, inputs, c.inputs)); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pipeline that is called stays the same when the calling one is named otherwise: by a
// resume it is named by its whole path.
func TestCompareCalled(t *testing.T) {
	called := "steps: {a: {run: echo 1}}"
	load := func(name string) *pipeline.Plan {
		p, _, err := pipeline.Parse(name, []byte("steps: {sub: {pipeline: lib/p.yaml}}"), pipeline.Options{
			ReadFile: func(string) ([]byte, error) { return []byte(called), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := load("p.yaml")
	if d := cmp.Diff([]pipeline.Change(nil), pipeline.Compare(before, load("/away/p.yaml"), nil, nil)); d != "" {
		t.Error(d)
	}
	called = "steps: {a: {run: echo 2}}"
	want := []pipeline.Change{{Path: "sub", Kind: pipeline.Changed, What: []string{"call"}}}
	if d := cmp.Diff(want, pipeline.Compare(before, load("/away/p.yaml"), nil, nil)); d != "" {
		t.Error(d)
	}
}

func TestAffected(t *testing.T) {
	p := comparedPlanOf(t, comparedPlan)
	for path, want := range map[string][]string{
		"first":      {"first", "second"},
		"group.edit": {"group.edit", "group.review", "last"},
		"group":      {"group", "last"},
		"last":       {"last"},
		"nosuch":     nil,
		"group.no":   nil,
	} {
		if d := cmp.Diff(want, p.Affected(path)); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
}

func comparedPlanOf(t *testing.T, src string) *pipeline.Plan {
	t.Helper()
	p, _, err := pipeline.Parse("p.yaml", []byte(src), pipeline.Options{Agents: map[string]pipeline.AgentInfo{"claude": {}, "codex": {}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func frozenPlan(t *testing.T, src string) *pipeline.Plan {
	t.Helper()
	text, err := json.Marshal(comparedPlanOf(t, src))
	if err != nil {
		t.Fatal(err)
	}
	var p pipeline.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// A group whose changes others look at has an end of its own, which is about all that is in
// it: its steps do not run again without it.
func TestAffectedGroupWithChanges(t *testing.T) {
	src := strings.Replace(comparedPlan, `{needs: [group], run: "true"}`, `{run: "echo {{ .steps.group.diff }}"}`, 1)
	got := comparedPlanOf(t, src).Affected("group.edit")
	if d := cmp.Diff([]string{"group", "last"}, got); d != "" {
		t.Error(d)
	}
}
