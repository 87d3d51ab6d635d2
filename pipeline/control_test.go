package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

func warnings(t *testing.T, src string) []string {
	t.Helper()
	_, found, err := pipeline.Parse("p", []byte(src), options())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, w := range found {
		out = append(out, strings.TrimPrefix(w.String(), "p:"))
	}
	return out
}

// Agents that may write in one workspace at the same time are warned of: once for
// each step that joins others.
func TestWriters(t *testing.T) {
	const head = `agents: {w: {use: codex}, r: {use: claude, sandbox: read-only}, p: {use: claude, approval: plan}}
steps:
  read: {agent: r, prompt: x, timeout: 1m}
  plan: {agent: p, prompt: x, timeout: 1m}
  one: {agent: w, prompt: x, timeout: 1m}
`
	const both = " may write in the same workspace at the same time"
	cases := []struct{ name, steps, want string }{
		{"one writer", "  two: {run: x}", ""},
		{"two", "  two: {agent: w, prompt: x, timeout: 1m}", "6:3: warning: `one` and `two`" + both},
		{"in order", "  two: {agent: w, prompt: x, timeout: 1m, needs: one}", ""},
		{"in order by others", "  two: {run: x, needs: one}\n  three: {agent: w, prompt: x, timeout: 1m, needs: two}", ""},
		{"isolated", "  two: {agent: w, prompt: x, timeout: 1m, isolation: worktree}", ""},
		{"one session", "  two: {agent: w, prompt: x, timeout: 1m, session: {continue: one}}\n  three: {agent: w, prompt: x, timeout: 1m, session: {continue: one}}", ""},
		{"in a group", "  g: {steps: {two: {agent: w, prompt: x, timeout: 1m}}}", "6:15: warning: `one` and `g.two`" + both},
		{"in an isolated group", "  g: {isolation: copy, steps: {two: {agent: w, prompt: x, timeout: 1m}}}", ""},
		{"within a group", "  g: {needs: one, steps: {two: {agent: w, prompt: x, timeout: 1m}, three: {agent: w, prompt: x, timeout: 1m}}}", "6:68: warning: `g.two` and `g.three`" + both},
		{"within an isolated group", "  g: {isolation: copy, steps: {two: {agent: w, prompt: x, timeout: 1m}, three: {agent: w, prompt: x, timeout: 1m}}}", "6:73: warning: `g.two` and `g.three`" + both},
		{"a merge", "  t: {isolation: worktree, run: x}\n  two: {merge: t}", "7:3: warning: `one` and `two`" + both},
		{"items", "  two: {needs: one, foreach: [1, 2], agent: w, prompt: x, timeout: 1m}", "6:21: warning: the items of `two`" + both},
		{"one item at a time", "  two: {needs: one, foreach: [1, 2], max-parallel: 1, agent: w, prompt: x, timeout: 1m}", ""},
		{"isolated items", "  two: {needs: one, foreach: [1, 2], isolation: worktree, agent: w, prompt: x, timeout: 1m}", ""},
		{"one item", "  two: {needs: one, foreach: [1], agent: w, prompt: x, timeout: 1m}", ""},
		{"candidates", "  two: {needs: one, race: [w, r], prompt: x, timeout: 1m}", "6:21: warning: the candidates of `two`" + both},
		{"reading candidates", "  two: {race: [p, r], prompt: x, timeout: 1m}", ""},
		{"isolated candidates", "  two: {race: [w, r], isolation: worktree, prompt: x, timeout: 1m}", ""},
	}
	for _, c := range cases {
		if d := cmp.Diff(c.want, strings.Join(warnings(t, head+c.steps), "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	many := head + strings.Repeat("  x: {agent: w, prompt: x, timeout: 1m}\n", 20)
	for i := range 20 {
		many = strings.Replace(many, "  x:", "  x"+string(rune('a'+i))+":", 1)
	}
	if got := warnings(t, many); len(got) != 5 {
		t.Errorf("%d warnings of 21 writers", len(got))
	}
}

func TestLoopWarnings(t *testing.T) {
	got := warnings(t, `
steps:
  never: {run: x, repeat: {until: false, max: 3}}
  at_once: {run: x, repeat: {until: "{{ true }}"}}
  none: {run: x, foreach: []}
`)
	want := []string{
		"3:35: warning: `until` never holds: step `never` takes 3 rounds",
		"4:38: warning: `until` always holds: step `at_once` takes one round",
		"5:27: warning: step `none` never runs: its list is empty",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestItemLimit(t *testing.T) {
	src := "steps: {a: {run: x, foreach: [" + strings.Repeat("1,", pipeline.MaxItems) + "1]}}"
	if _, _, err := pipeline.Parse("p", []byte(src), options()); err == nil || !strings.Contains(err.Error(), "`foreach` has 10001 items; the limit is 10000") {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	cases := []struct{ src, want, fails string }{
		{".steps.a.output.list", `["p","q<&>",3]`, ""},
		{"{{ lines .steps.a.text }}", `["a","b"]`, ""},
		{"until .iteration", `[0,1]`, ""},
		{"list", `[]`, ""},
		{".inputs.x", "", "7:11: `foreach` over what is no list, but text"},
		{".inputs.null", "", "7:11: `foreach` over what is no list, but null"},
		{".steps.a", "", "but a mapping"},
		{"until 10001", "", "7:11: `foreach` has 10001 items; the limit is 10000"},
		{".steps.a.output.gone", "", "7:17: there is no value `gone`"},
		{"{{ .inputs.x }} x", "", "`foreach` must be one expression"},
	}
	d := data()
	d["iteration"] = 2
	for _, c := range cases {
		items, err := r.List(text(c.src), d)
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", c.src, err, c.fails)
			continue
		}
		if got, _ := r.Text(text("{{ json .l }}"), pipeline.Data{"l": items}); err == nil && got != c.want {
			t.Errorf("%s: %s, want %s", c.src, got, c.want)
		}
	}
}

func TestValue(t *testing.T) {
	r := renderer(t, &pipeline.Plan{})
	cases := []struct {
		text pipeline.Text
		want any
	}{
		{text("{{ .inputs.n }}"), int64(1_000_000)},
		{text("{{ .inputs.yes }}"), true},
		{text("{{ .steps.a.output.list }}"), []any{"p", "q<&>", int64(3)}},
		{text("n is {{ .inputs.n }}"), "n is 1000000"},
		{text("plain"), "plain"},
		{text(""), ""},
		{pipeline.Text{Src: `{"a":[1,2.5,"x"]}`, JSON: true}, map[string]any{"a": []any{int64(1), 2.5, "x"}}},
		{pipeline.Text{Src: `"{{ x"`, JSON: true}, "{{ x"},
	}
	for _, c := range cases {
		got, err := r.Value(c.text, data())
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.text.Src, d)
		}
	}
}

// Which step an id means depends on where in the run a template is rendered, and one
// Renderer serves all of it.
func TestTranscriptOfData(t *testing.T) {
	r := renderer(t, &pipeline.Plan{})
	at := func(node string) pipeline.Data {
		return pipeline.Data{pipeline.TranscriptKey: func(step string) (string, error) { return node + "." + step, nil }}
	}
	src := text(`{{ transcript "edit" }} {{ "edit" | transcript | upper }} {{ upper (transcript "edit") }}`)
	for node, want := range map[string]string{"fix.0.1": "fix.0.1.edit FIX.0.1.EDIT FIX.0.1.EDIT", "fix.1.2": "fix.1.2.edit FIX.1.2.EDIT FIX.1.2.EDIT"} {
		if got, err := r.Text(src, at(node)); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	bare, err := pipeline.NewRenderer(&pipeline.Plan{}, pipeline.Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Text(text(`{{ transcript "edit" }}`), pipeline.Data{}); err == nil {
		t.Error("a transcript came from nowhere")
	}
}

// What a step's loops need is read from its templates.
func TestLoopFlags(t *testing.T) {
	p := parse(t, `
agents: {c: {use: claude}}
steps:
  list: {set: {l: [1]}}
  each: {foreach: .steps.list.output.l, if: eq .index 1, run: x}
  all: {foreach: .steps.list.output.l, if: "{{ gt (len .steps.list.output.l) 1 }}", run: x}
  outer:
    foreach: [1]
    repeat: {until: .steps.b.output.ok}
    steps:
      a: {agent: c, prompt: "{{ .steps.list.output.l }}", if: eq .item 1, session: continue}
      b: {agent: c, prompt: "{{ .steps.a.text }} {{ .previous.a.files }}", output: {type: object, properties: {ok: {type: boolean}}}}
      c: {foreach: [1], run: "echo {{ (index .steps.d.items .index).diff }}", needs: [d]}
      d: {foreach: [1], run: x}
`)
	type flags struct {
		IfEach, Previous, Changes bool
		Needs                     string
	}
	want := map[string]flags{
		"each": {IfEach: true, Needs: "list"}, "all": {Needs: "list"}, "outer": {Needs: "list"},
		"outer.a": {Previous: true, Changes: true}, "outer.b": {Previous: true, Needs: "a"},
		"outer.c": {Needs: "d"}, "outer.d": {Changes: true}, "list": {},
	}
	got := map[string]flags{}
	p.Walk(func(path string, s *pipeline.Step) {
		got[path] = flags{s.IfEach, s.Previous, s.Changes, strings.Join(s.Needs, " ")}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := p.Step("outer.a").Session; s.Root != "outer.a" || s.Step != "a" || s.Mode != pipeline.SessionContinue {
		t.Errorf("the session of a round: %+v", s)
	}
}

// What the list of a foreach names is told apart from what its items name.
func TestWhatTheListNames(t *testing.T) {
	for run, want := range map[string][]string{
		"echo {{ .item }}":                                     {"find"},
		"echo {{ .item }} {{ .steps.style.text }}":             {"find"},
		"echo {{ .item }} {{ len .steps.find.text }}":          nil,
		"echo {{ .steps.style.text }}{{ .steps.find.status }}": nil,
	} {
		src := fmt.Sprintf("steps:\n  find: {run: ls}\n  style: {run: ls}\n  fix: {foreach: lines .steps.find.text, run: %q}\n", run)
		plan, _, err := pipeline.Parse("p", []byte(src), options())
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Steps[2].Foreach.Refs; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", run, got, want)
		}
	}
}

func TestOutputNames(t *testing.T) {
	src := "steps:\n  a: {run: ls}\n  b: {run: ls}\n  c: {run: ls}\noutputs:\n  one: 1\n  two: text\n  three: \"{{ range lines .steps.b.text }}{{ . }}{{ end }} {{ with .steps.c }}{{ .text }}{{ end }}\"\n"
	plan, _, err := pipeline.Parse("p", []byte(src), options())
	if err != nil {
		t.Fatal(err)
	}
	r, err := pipeline.NewRenderer(plan, pipeline.Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	if r.OutputNames("a") || !r.OutputNames("b") || !r.OutputNames("c") {
		t.Errorf("a %v, b %v, c %v", r.OutputNames("a"), r.OutputNames("b"), r.OutputNames("c"))
	}
}
