package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// warningsOf loads a pipeline and returns its warnings.
func warningsOf(t *testing.T, src string) []string {
	t.Helper()
	_, warnings, err := pipeline.Parse("p.yaml", []byte(src), options())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, strings.TrimPrefix(w.String(), "p.yaml:"))
	}
	return got
}

// The rules of pipeline, profile and step add up; the default is the nearest one's.
func TestPermissionsOf(t *testing.T) {
	p := parse(t, `
permissions: {default: deny, ask-timeout: 30m, protect: deploy, rules: [{deny: read_file(**/.env*)}]}
agents:
  plain: {use: claude}
  strict: {use: codex, permissions: {default: ask, strict: true, ask-timeout: 1h, protect: ["*.tf"], rules: [{allow: [read_file, shell(go *)]}]}}
steps:
  a: {agent: plain, prompt: x}
  b: {agent: strict, prompt: x}
  c: {agent: strict, prompt: x, permissions: {default: allow, rules: [{ask: web_search}]}}
  d: {agent: plain, prompt: x, permissions: {ask-timeout: 2h, rules: [{allow: "*"}]}}
`)
	const minute = pipeline.Duration(time.Minute)
	deny := pipeline.Permission{Effect: "deny", Tool: "read_file", Pattern: "**/.env*"}
	read, goes := pipeline.Permission{Effect: "allow", Tool: "read_file"}, pipeline.Permission{Effect: "allow", Tool: "shell", Pattern: "go *"}
	for id, want := range map[string]*pipeline.Permissions{
		"a": {Default: "deny", AskTimeout: 30 * minute, Protect: []string{"deploy"}, Rules: []pipeline.Permission{deny}},
		"b": {Default: "ask", Strict: true, AskTimeout: 60 * minute, Protect: []string{"deploy", "*.tf"}, Rules: []pipeline.Permission{deny, read, goes}},
		"c": {Default: "allow", Strict: true, AskTimeout: 60 * minute, Protect: []string{"deploy", "*.tf"}, Rules: []pipeline.Permission{deny, read, goes, {Effect: "ask", Tool: "web_search"}}},
		"d": {Default: "deny", AskTimeout: 120 * minute, Protect: []string{"deploy"}, Rules: []pipeline.Permission{deny, {Effect: "allow", Tool: "*"}}},
	} {
		got := p.PermissionsOf(p.Step(id))
		if d := cmp.Diff(want, got, cmpopts.IgnoreTypes(pipeline.Pos{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", id, d)
		}
	}
	other := *p.Step("a")
	other.Agent = "strict"
	if got := p.PermissionsOf(&other); got.Default != "ask" || !got.Strict || len(got.Rules) != 3 {
		t.Errorf("another agent on the step: %+v", got)
	}
	if got := parse(t, "steps: {a: {agent: claude, prompt: x}}"); got.PermissionsOf(&got.Steps[0]) != nil {
		t.Error("rules where there are none")
	}
}

// A rule that can never decide anything is most likely a mistake.
func TestRulesWithoutEffect(t *testing.T) {
	cases := []struct{ rules, want string }{
		{"{allow: shell(go test *)}, {deny: shell}", "this rule never applies: `deny: shell` on line 1 goes before it"},
		{"{allow: shell(git push *)}, {ask: shell(git *)}", "this rule never applies: `ask: shell(git *)` on line 1 goes before it"},
		{"{allow: read_file(src/a.go)}, {deny: read_file(src/**)}", "this rule never applies: `deny: read_file(src/**)` on line 1 goes before it"},
		{"{allow: read_file}, {deny: '*'}", "this rule never applies: `deny: *` on line 1 goes before it"},
		{"{allow: mcp(github/get)}, {deny: mcp(github*)}", "this rule never applies: `deny: mcp(github*)` on line 1 goes before it"},
		{"{allow: shell}, {allow: shell(ls)}", "this rule says nothing new: line 1 has `allow: shell`"},
		{"{allow: shell(ls)}, {allow: shell}", "this rule says nothing new: line 1 has `allow: shell`"},
		{"{allow: shell(ls)}, {allow: shell(ls)}", "this rule says nothing new: line 1 has `allow: shell(ls)`"},
		{"{allow: write_file}, {allow: write_file(AGENTS.md)}, {allow: shell(cp *)}, {allow: shell(cp a .claude)}", ""}, // these name what is protected
		{"{deny: shell}, {ask: read_file}, {allow: edit_file}", ""},
		{"{deny: shell(rm *)}, {allow: shell}", ""},
		{"{deny: read_file(/etc/**)}, {allow: read_file(**)}", ""},
		{"{deny: read_file(**)}, {allow: read_file(/etc/hosts)}", ""}, // ** is what is below the workspace
		{"{deny: shell(git * --force)}, {allow: shell(git push *)}", ""},
		{"{deny: web_fetch(domain:a.dev)}, {allow: web_fetch(domain:b.dev)}", ""},
	}
	for _, c := range cases {
		got := strings.Join(warningsOf(t, "permissions: {rules: ["+c.rules+"]}\nsteps: {a: {run: x}}"), "\n")
		if strings.Count(got, "\n") > 0 || !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s\n got %s\nwant %s", c.rules, got, c.want)
		}
	}
	got := warningsOf(t, `
permissions: {rules: [{deny: shell(rm *)}, {allow: read_file}]}
agents: {a: {use: claude, permissions: {rules: [{allow: shell(rm -r build)}]}}}
steps:
  a: {prompt: x, timeout: 1m, permissions: {rules: [{deny: read_file(a)}, {ask: shell(rm x)}]}}
`)
	want := []string{
		"3:57: warning: this rule never applies: `deny: shell(rm *)` on line 2 goes before it",
		"5:81: warning: this rule never applies: `deny: shell(rm *)` on line 2 goes before it",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("across the levels (-want +got):\n%s", d)
	}
}

// Steps that can never run are named, with the step that is to blame.
func TestNeverRuns(t *testing.T) {
	got := warningsOf(t, `
inputs: {x: {type: boolean}}
steps:
  dead: {if: false, run: x}
  opposite: {if: and failed succeeded, run: x}
  constant: {if: '{{ eq "a" "b" }}', run: x}
  after: {needs: dead, run: x}
  later: {needs: [after], run: "echo {{ .steps.opposite.status }}"}
  saved: {needs: dead, if: always, run: x}
  mended: {needs: dead, if: failed, run: x}
  free: {run: x}
  asked: {if: .inputs.x, run: x}
  true_: {if: true, run: x}
  outside:
    needs: dead
    steps: {in: {if: false, run: x}}
  group:
    steps:
      in: {if: not true, run: x}
      next: {needs: in, run: x}
  each: {if: eq .index 0, foreach: [1], run: x}
`)
	want := []string{
		"4:14: warning: step `dead` never runs",
		"5:18: warning: step `opposite` never runs",
		"6:19: warning: step `constant` never runs",
		"7:3: warning: step `after` never runs, because `dead` never does",
		"8:3: warning: step `later` never runs, because `opposite` never does",
		"14:3: warning: step `outside` never runs, because `dead` never does",
		"19:16: warning: step `in` never runs",
		"20:7: warning: step `next` never runs, because `in` never does",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestLeafWarnings(t *testing.T) {
	got := warningsOf(t, `
inputs: {x: {type: string}}
on-limit: fallback
steps:
  raw: {allow-raw: true, run: "echo {{ raw .inputs.x }} {{ .inputs.x | raw }}"}
  idle: {allow-raw: true, run: "echo {{ .inputs.x }}"}
  gate: {ask: "Go on?"}
`)
	want := []string{
		"3:11: warning: `on-limit` names `fallback`, and no agent has one",
		"5:40: warning: `raw` in `run`: who can choose the value can run any command",
		"5:72: warning: `raw` in `run`: who can choose the value can run any command",
		"6:10: warning: step `idle` allows `raw` and does not use it",
		"7:3: warning: the question of step `gate` waits for ever: it has no `timeout`",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A fallback is an agent in use, and gets a profile where it has none.
func TestFallback(t *testing.T) {
	p := parse(t, "agents: {a: {use: claude, fallback: [b, gemini]}, b: {use: codex}}\nsteps: {s: {agent: a, prompt: x}}")
	if d := cmp.Diff([]string{"b", "gemini"}, p.Agents["a"].Fallback); d != "" || p.Agents["gemini"].Use != "gemini" {
		t.Errorf("%s %+v", d, p.Agents["gemini"])
	}
	if got := warningsOf(t, "agents: {a: {use: claude, fallback: b}, b: {use: codex}}\nsteps: {s: {agent: a, prompt: x, timeout: 1m}}"); got != nil {
		t.Errorf("%q", got)
	}
}

func TestArtifactPath(t *testing.T) {
	for path, want := range map[string]string{
		"a": "", "a/b.txt": "", "*.xml": "", "**/x": "", "a/**": "", ".": "", "-rf": "", "a b": "", "é": "", "[ab]*": "", "..a": "",
		"": "empty", "..": "inside", "../a": "inside", "a/../b": "must not go up", "/a": "absolute", "~": "absolute", "~/x": "absolute", "a\nb": "control", "a\x00": "control", "\x1b": "control",
		strings.Repeat("x", 255): "", strings.Repeat("x", 256): "256 bytes", "a/" + strings.Repeat("é", 128): "256 bytes", "a**": "stands alone", "**/a/**/b/**/c/**": "", "**/**/**/**/**": "5 times", "[": "not a valid glob",
	} {
		err := pipeline.ArtifactPath(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", path, err, want)
		}
	}
}

// raw is text of the script; the values beside it are judged with it in its place.
func TestRaw(t *testing.T) {
	p := parse(t, `
inputs: {x: {type: string}, v: {type: string}}
steps: {a: {allow-raw: true, run: "{{ raw .inputs.x }} {{ .inputs.v }}"}}
`)
	r := renderer(t, p)
	cases := []struct{ raw, body, fails string }{
		{"echo", `echo "${__f1}"`, ""},
		{"true;\nprintf %s", "true;\nprintf %s \"${__f1}\"", ""},
		{"sh -c", "", "as a program"},
		{"", "", "name of a command"},
		{"echo '", "", "does not parse"},
		{"echo $((", "", "does not parse"},
		{"echo __f1_", "", "a name that flow itself gives"},
		{"echo \x00", "", "NUL"},
	}
	for _, c := range cases {
		got, err := r.Script(*p.Steps[0].Run, pipeline.Data{"inputs": map[string]any{"x": c.raw, "v": "value"}})
		if got.Body != c.body || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%q: %q, %v", c.raw, got.Body, err)
		}
	}
	if got, err := r.Text(text("{{ raw .x }}"), pipeline.Data{"x": "y"}); err == nil {
		t.Errorf("raw in a prompt: %q", got)
	}
}
