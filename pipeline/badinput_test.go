package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"flow/pipeline"
)

// A badInput is a file that someone will write some day, with what is said about it.
type badInput struct {
	row  int // of the catalogue of bad inputs
	src  string
	at   string // line:col
	want string // part of the message; "warning: …" for one
	hint string // part of the hint
}

func badSyntax() []badInput {
	one := "steps: {a: {run: x}}\n"
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d]\n"
	return []badInput{
		{1, one + "#" + strings.Repeat("x", 3<<20), "1:1", "the pipeline is 3.0 MiB; the limit is 1 MiB", "split"},
		{2, one + "name: [" + strings.Repeat("x,", 200_001) + "]", "2:399990", "more than 200000 YAML nodes", "split"},
		{3, one + "env: {" + strings.Repeat("K: v,", 1001) + "}", "2:6", "`env` has 1001 keys; the limit is 1000", ""},
		{4, laughs, "4:29", "aliases expand to more than 10000 nodes", "write the values out"},
		{5, one + "x: &x [" + strings.Repeat("y,", 5000) + "]\nz: [*x, *x]", "3:9", "aliases expand to more than 10000 nodes", ""},
		{6, one + "name: &loop [*loop]", "2:14", "alias *loop stands inside of what it names", ""},
		{7, one + "name: *nowhere", "2:7", "unknown anchor *nowhere", "define it first"},
		{8, one + "name:\n" + strings.Repeat("- ", 120) + "x", "3:199", "nested deeper than 100", "flatten"},
		{8, one + "name: " + strings.Repeat("[", 120) + strings.Repeat("]", 120), "2:106", "nested deeper than 100", ""},
		{8, one + strings.Repeat("? ", 120) + "x", "2:201", "nested deeper than 100", ""},
		{9, "name: a\nname: b\n" + one, "2:1", "`name` is given twice; first on line 1", "keep one"},
		{10, "x: &x {run: y}\nsteps:\n  a:\n    <<: *x\n    run: z\n", "5:5", "`run` would silently replace the one merged from line 1", ""},
		{11, "steps:\n\ta:\n\t\trun: x\n", "2:1", "tabs cannot indent YAML; use spaces", ""},
		{12, one + "name: caf\xe9", "2:10", "byte 30 (0xe9) is not UTF-8", "save the file as UTF-8"},
		{13, "\xff\xfes\x00t\x00", "1:1", "the file is UTF-16", "save the file as UTF-8"},
		{13, "s\x00t\x00e\x00", "1:1", "the file is UTF-16", "save the file as UTF-8"},
		{14, one + "name: a\x07b", "2:8", "control character U+0007", "remove it"},
		{14, one + "name: a\x00b", "2:8", "control character U+0000", ""},
		{15, `steps: {a: {run: "x\0y"}}`, "1:18", "control character U+0000 in a string", ""},
		{15, `steps: {a: {run: x, env: {A: "\e[31m"}}}`, "1:30", "control character U+001B in a string", ""},
		{16, "", "1:1", "the file is empty; expected a mapping with `steps`", "begin with `steps:`"},
		{16, "# nothing\n", "1:1", "the file is empty; expected a mapping with `steps`", ""},
		{17, "null\n", "1:1", "expected a mapping with `steps`, got nothing", ""},
		{17, "text\n", "1:1", "expected a mapping with `steps`, got the text", ""},
		{17, "- a\n", "1:1", "expected a mapping with `steps`, got a list", ""},
		{18, one + "---\n" + one, "2:1", "a second YAML document; one pipeline per file", "a file of its own"},
		{28, one + "name: !python/object:os.system x", "2:7", "tag !python/object:os.system is not supported", "remove the tag"},
		{28, one + "name: !!binary aGk=", "2:7", "tag !!binary is not supported", ""},
		{29, "steps: {a: {run: {{ .inputs.x }}}}\n", "1:18", "`{{` begins a YAML mapping here", `quote templates: "{{ … }}"`},
		{29, "steps:\n  a:\n    run: {{ .inputs.x }} now\n", "3:10", "`{{` begins a YAML mapping here", ""},
		{30, "steps:\n  a:\n    run: \"echo\n  b:\n    run: y\n", "3:10", "this quote is never closed", "close it"},
		{30, "steps:\n  a:\n    needs: [b, c\n    run: x\n", "3:12", `this '[' is not closed before the next key`, "close it"},
		{31, "steps:\n    a:\n      run: x\n   b:\n      run: y\n", "4:4", "this line is indented by 3 spaces, like no line that it could continue", "align it"},
		{32, "name: fix: this\n" + one, "1:7", "`: ` inside of an unquoted value", "quote text that contains `: `"},
	}
}

func badKeys() []badInput {
	return []badInput{
		{19, "steps:\n  a: {run: x, need: b}\n", "2:15", "unknown key `need` in a step", "did you mean `needs`?"},
		{20, "jobs: {a: {run: x}}\n", "1:1", "unknown key `jobs`", "put every step under `steps`"},
		{20, "steps: {a: {uses: x/y@v1}}\n", "1:13", "unknown key `uses`", "there are no actions"},
		{20, "steps: {a: {run: x, runs-on: ubuntu}}\n", "1:21", "unknown key `runs-on`", "steps run on this machine"},
		{20, "steps: {a: {run: x, depends_on: b}}\n", "1:21", "unknown key `depends_on`", "write `needs`"},
		{20, "steps: {a: {run: 'x ${{ github.sha }}'}}\n", "1:21", "`${{ }}` is not how templates are written", "without the dollar sign"},
		{21, "steps: {a: {run: [x]}}\n", "1:18", "`run` must be text, got a list", "write `run: |`"},
		{21, "steps: {a: {run: x, continue-on-error: 1}}\n", "1:40", "`continue-on-error` must be true or false, got `1`", "write true or false"},
		{23, "steps: {123: {run: x}}\n", "1:9", "step id must be text, got `123`", "use a word"},
		{23, "steps: {yes: {run: x}}\n", "1:9", "step id must be text, got `yes`", ""},
		{23, "steps: {~: {run: x}}\n", "1:9", "step id must be text, got `~`", ""},
		{24, "steps: {a: {run: x, retry: {max: 1.5}}}\n", "1:34", "`retry.max` must be a whole number from 0 to 10, got `1.5`", ""},
		{24, "steps: {a: {run: x, retry: {max: -1}}}\n", "1:34", "from 0 to 10, got `-1`", ""},
		{24, "steps: {a: {run: x, retry: {max: 1" + strings.Repeat("0", 30) + "}}}\n", "1:34", "from 0 to 10, got", ""},
		{25, "steps: {a: {run: x, timeout: 30}}\n", "1:30", "`timeout` needs a unit: 30s or 30m", "write 30s or 30m"},
		{26, "steps: {a: {run: x, timeout: 30 minutes}}\n", "1:30", "needs a unit", "write 30m"},
		{26, "steps: {a: {run: x, timeout: 0s}}\n", "1:30", "more than 0 and at most 7 days", ""},
		{26, "steps: {a: {run: x, timeout: -5m}}\n", "1:30", "more than 0 and at most 7 days", ""},
		{26, "steps: {a: {run: x, timeout: 169h}}\n", "1:30", "more than 0 and at most 7 days", ""},
		{33, "name: x\n", "1:1", "the pipeline has no `steps`", "add `steps:"},
		{33, "steps: {}\n", "1:8", "`steps` holds no step", "add one"},
		{34, "steps:\n" + steps(10_001), "2:3", "has 10001 keys; the limit is 10000", ""},
		{35, "steps:\n  a: {run: x}\n  a: {run: y}\n", "3:3", "`a` is given twice; first on line 2", ""},
		{35, "steps:\n  build: {run: x}\n  Build: {run: y}\n", "3:3", "step `Build` differs only by case from `build` on line 2", ""},
		{36, "steps: {../x: {run: x}}\n", "1:9", `step id "../x" is not a valid name`, "use letters, digits and _"},
		{36, "steps: {a b: {run: x}}\n", "1:9", `step id "a b" is not a valid name`, ""},
		{36, "steps: {\"a\\nb\": {run: x}}\n", "1:9", `step id "a\nb" is not a valid name`, ""},
		{36, "steps: {🙂: {run: x}}\n", "1:9", `step id "🙂" is not a valid name`, ""},
		{36, "steps: {" + strings.Repeat("a", 65) + ": {run: x}}\n", "1:9", "step id is longer than 64 characters", ""},
		{37, "steps: {steps: {run: x}}\n", "1:9", "step id `steps` is reserved", "choose another name"},
		{37, "steps: {NUL: {run: x}}\n", "1:9", "step id `NUL` is reserved", ""},
		{56, "steps: {a: {agent: cladue, prompt: x}}\n", "1:20", "unknown agent `cladue`", "did you mean `claude`?"},
		{57, "steps: {a: {run: x, agent: claude, prompt: y}}\n", "1:36", "step `a` has both `run` and `prompt`", "split it into two steps"},
		{58, "steps: {a: {timeout: 1m}}\n", "1:9", "step `a` does nothing", "add one of"},
		{59, "steps: {a: {run: x, cwd: ../y}}\n", "1:26", "`cwd` \"../y\" is outside of the workspace", "below it"},
		{59, "steps: {a: {run: x, cwd: /etc}}\n", "1:26", "`cwd` \"/etc\" is outside of the workspace", ""},
		{60, "env: {A=B: x}\nsteps: {a: {run: x}}\n", "1:7", `"A=B" is an invalid environment variable name`, "use letters"},
		{60, "env: {\"\": x}\nsteps: {a: {run: x}}\n", "1:7", `"" is an invalid environment variable name`, ""},
		{60, "env: {A: }\nsteps: {a: {run: x}}\n", "1:10", "`A` has no value", `write ""`},
		{60, "env: {A: \"x\\0\"}\nsteps: {a: {run: x}}\n", "1:10", "control character U+0000 in a string", ""},
		{61, "steps: {a: {run: x, artifacts: ../out}}\n", "1:32", `artifact "../out" must stay inside the working directory`, "name files below"},
		{61, "steps: {a: {run: x, artifacts: /etc/passwd}}\n", "1:32", "must stay inside the working directory: it is absolute", ""},
		{61, "steps: {a: {run: x, artifacts: ~/.ssh}}\n", "1:32", "must stay inside the working directory: it is absolute", ""},
		{61, "steps: {a: {run: x, artifacts: out/" + strings.Repeat("n", 256) + "}}\n", "1:32", "has a name of 256 bytes; a file's has at most 255", ""},
		{61, "steps: {a: {run: x, artifacts: \"a\\0b\"}}\n", "1:32", "control character U+0000 in a string", ""},
		{65, "env: {A: sk-" + strings.Repeat("x1", 12) + "}\nsteps: {a: {run: x}}\n", "1:10", "warning: this looks like a key (sk-…)", "declare it in `secrets`"},
		{65, "steps: {a: {run: 'curl -H ghp_" + strings.Repeat("x1", 18) + "'}}\n", "1:27", "warning: this looks like a key (ghp_…)", ""},
		{66, "steps: {a: {run: \"rm \u202etxt.x\"}}\n", "1:22", "warning: U+202E reorders the text", "remove it"},
		{66, "steps: {a: {run: \"rm\u200b x\"}}\n", "1:21", "warning: U+200B is invisible", ""},
		{66, "steps: {a\u202eb: {run: x}}\n", "1:9", "is not a valid name", ""},
	}
}

func badReferences() []badInput {
	return []badInput{
		{38, "steps:\n  build: {run: x}\n  b: {run: x, needs: biuld}\n", "3:22", "there is no step `biuld`", "did you mean `build`?"},
		{39, "steps:\n  a: {run: x, needs: [a]}\n", "2:23", "step `a` needs itself", ""},
		{40, "steps:\n  a: {run: x, needs: b}\n  b: {run: x, needs: [c]}\n  c: {run: x, needs: [a]}\n", "2:3", "steps wait for each other: a → b → c → a", "remove one"},
		{42, "steps:\n  a: {run: 'echo {{ .inputs.x '}\n", "2:18", "template: ", "close it with }}"},
		{42, "steps:\n  a:\n    run: |\n      true\n      {{ if true }}\n", "6:1", "template: unexpected EOF", "close it with {{ end }}"},
		{43, "steps: {a: {run: 'echo {{ uper \"x\" }}'}}\n", "1:27", "unknown function `uper`", "did you mean `upper`?"},
		{44, "inputs: {path: {type: string}}\nsteps: {a: {run: 'echo {{ .inputs.paht }}'}}\n", "2:27", "there is no input `paht`", "did you mean `path`?"},
		{44, "steps: {b: {run: x}, a: {run: 'echo {{ .steps.b.stduot }}'}}\n", "1:40", "step `b` has no `stduot`", "did you mean `stdout`?"},
		{46, "steps: {a: {run: 'echo {{ define \"t\" }}{{ template \"t\" }}{{ end }}'}}\n", "1:34", "`define` and `block` are not available", "write the text where it is used"},
		{48, "steps: {a: {run: '" + strings.Repeat("{{if true}}", 20_000) + strings.Repeat("{{end}}", 20_000) + "'}}", "1:19", "the limit of a template is 256 KiB", ""},
		{48, "steps: {a: {run: '" + strings.Repeat("{{if true}}", 60) + strings.Repeat("{{end}}", 60) + "'}}", "1:574", "more than 50 nested `if`", "flatten it"},
		{49, "steps: {a: {run: 'echo {{ env \"HOME\" }}'}}\n", "1:27", "unknown function `env`", "declare an input, or `env:`"},
		{49, "steps: {a: {run: 'echo {{ getHostByName \"x\" }}'}}\n", "1:27", "unknown function `getHostByName`", "reads the clock, the network or randomness"},
		{51, "steps: {a: {agent: claude, prompt-file: ../../etc/passwd}}\n", "1:41", "escapes the directory of the pipeline", ""},
		{51, "steps: {a: {agent: claude, prompt-file: /etc/passwd}}\n", "1:41", "escapes the directory of the pipeline", ""},
		{51, "steps: {a: {agent: claude, prompt-file: link}}\n", "1:41", "escapes", ""},
		{51, "steps: {a: {pipeline: ../../etc/passwd}}\n", "1:23", "escapes the directory of the pipeline", "relative to this file"},
		{51, "steps: {a: {pipeline: link}}\n", "1:23", "escapes", ""},
		{52, "steps: {a: {pipeline: p52.yaml}}\n", "1:23", "pipelines call each other: p52.yaml → p52.yaml", "use `repeat`"},
		{52, "steps: {a: {pipeline: c0.yaml}}\n", "1:23", "pipelines call each other deeper than 10", "fewer levels"},
		{53, "steps: {a: {pipeline: fifo}}\n", "1:23", "is not a regular file", ""},
		{53, "steps: {a: {pipeline: sub}}\n", "1:23", "is not a regular file", ""},
		{55, "steps: {a: {foreach: [" + strings.Repeat("1,", 10_001) + "], run: x}}\n", "1:22", "has 10001 items; the limit is 10000", ""},
		{55, "steps: {a: {foreach: [], run: x}}\n", "1:22", "warning: ", ""},
		{53, "steps: {a: {agent: claude, prompt-file: fifo}}\n", "1:41", "is not a regular file", ""},
		{53, "steps: {a: {agent: claude, prompt: '{{ file \"sub\" }}'}}\n", "1:40", "is not a regular file", ""},
		{63, "steps: {a: {agent: claude, prompt-file: none.md}}\n", "1:41", "`prompt-file` \"none.md\" does not exist", "relative to the directory of the pipeline"},
		{63, "steps: {a: {agent: claude, prompt-file: binary}}\n", "1:41", "is not text", "save it as UTF-8"},
		{63, "steps: {a: {agent: claude, prompt-file: large}}\n", "1:41", "the limit of a template is 256 KiB", ""},
	}
}

// goodRows are rows of the catalogue that are no mistakes in this language, or that show
// only when a template is rendered; each has its own test.
func goodRows() map[int]string {
	return map[int]string{
		22: "TestTolerated", 27: "TestTolerated", 41: "TestTolerated", 50: "TestTolerated",
		45: "TestTextErrors", 47: "TestTextErrors",
		54: "TestLoadRefusesOtherFiles, and cmd/flow for standard input",
		62: "the state directory: cmd/flow", 64: "-i of flow run: cmd/flow",
	}
}

func steps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  s%d: {run: x}\n", i)
	}
	return b.String()
}

// TestBadInputs loads everything that the catalogue of bad inputs has for a pipeline.
func TestBadInputs(t *testing.T) {
	dir := badFiles(t)
	seen := map[int]bool{}
	for _, c := range slices.Concat(badSyntax(), badKeys(), badReferences()) {
		seen[c.row] = true
		t.Run(fmt.Sprint(c.row), func(t *testing.T) {
			file := filepath.Join(dir, fmt.Sprintf("p%d.yaml", c.row))
			if err := os.WriteFile(file, []byte(c.src), 0o600); err != nil {
				t.Fatal(err)
			}
			_, warnings, err := pipeline.Load(file, options())
			var all pipeline.Errors
			errors.As(err, &all)
			for _, w := range warnings {
				w.Msg = "warning: " + w.Msg
				all = append(all, pipeline.Error(w))
			}
			if !slices.ContainsFunc(all, func(e pipeline.Error) bool {
				return strings.Contains(e.Msg, c.want) && fmt.Sprintf("%d:%d", e.Pos.Line, e.Pos.Col) == c.at && strings.Contains(e.Hint, c.hint) && filepath.Dir(e.File) == dir
			}) {
				t.Errorf("%.200q\nwant %s: %s (hint %q)", c.src, c.at, c.want, c.hint)
				for _, e := range all[:min(len(all), 10)] {
					t.Errorf("got %d:%d: %s (hint %q)", e.Pos.Line, e.Pos.Col, e.Msg, e.Hint)
				}
			}
		})
	}
	for row := 1; row <= 66; row++ {
		if seen[row] == (goodRows()[row] != "") {
			t.Errorf("row %d has no case, or two places", row)
		}
	}
}

// badFiles is a directory with what a pipeline had better not name.
func badFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "binary"), []byte("a\x00b"), 0o600),
		os.WriteFile(filepath.Join(dir, "large"), []byte(strings.Repeat("x", 300<<10)), 0o600),
		os.Mkdir(filepath.Join(dir, "sub"), 0o700),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	)
	for i := range 12 { // a chain of calls
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("c%d.yaml", i)), fmt.Appendf(nil, "steps: {a: {pipeline: c%d.yaml}}\n", i+1), 0o600))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "c12.yaml"), []byte("steps: {a: {run: x}}\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// What other tools get wrong silently is read as it is meant.
func TestTolerated(t *testing.T) {
	p := parse(t, `
inputs:
  country: {type: string, default: no}
  version: {type: string, default: 1.10}
  day: {type: string, default: 2026-01-02}
  octal: {type: string, default: 0123}
steps:
  a: {run: x}
  b: {run: x, needs: a}
  c: {run: "echo {{ .steps.b.text }}"}
outputs: {text: "{{ .steps.c.text }}"}
`)
	values, err := p.BindInputs(map[string]string{"country": "{{ .inputs.version }}"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"country": "{{ .inputs.version }}", "version": "1.10", "day": "2026-01-02", "octal": "0123"} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	if got := p.Step("b").Needs; !slices.Equal(got, []string{"a"}) {
		t.Errorf("b needs %q", got)
	}
	if got := p.Step("c").Needs; !slices.Equal(got, []string{"b"}) {
		t.Errorf("c needs %q, for what its template names", got)
	}
	got, err := renderer(t, p).Text(text("{{ .inputs.country }}"), pipeline.Data{"inputs": values})
	if err != nil || got != "{{ .inputs.version }}" {
		t.Errorf("a value is expanded again: %q %v", got, err)
	}
}
