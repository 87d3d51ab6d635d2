package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

// TestLimits builds files that pass one limit each.
func TestLimits(t *testing.T) {
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "  k%d: \"1\"\n", i)
		}
		return b.String()
	}
	one := "steps: {a: {run: x}}\n"
	cases := []struct{ name, src, want string }{
		{"size", one + "#" + strings.Repeat("x", 1<<20), "the limit is 1 MiB"},
		{"nodes", one + "name: [" + strings.Repeat("x,", 200_001) + "]", "more than 200000 YAML nodes"},
		{"keys", one + "env:\n" + keys(1001), "the limit is 1000"},
		{"many keys", one + "env:\n" + keys(30_000), "the limit is 1000"},
		{"flow depth", one + "name: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested deeper than 100"},
		{"block depth", one + "name:\n" + strings.Repeat("- ", 200) + "x", "nested deeper than 100"},
		{"deeper than yaml.v3 goes", one + "name: " + strings.Repeat("[", 500_000), "not valid YAML"},
		{"groups", "steps:" + strings.Repeat(" {a: {steps:", 40) + " {a: {run: x}}" + strings.Repeat("}}", 40), ""},
		{"group depth", "steps:" + strings.Repeat(" {a: {steps:", 60) + " {a: {run: x}}" + strings.Repeat("}}", 60), "nested deeper than 100"},
		{"aliases", one + "name: [&a [" + strings.Repeat("x,", 1000) + "]" + strings.Repeat(",*a", 11) + "]", "aliases expand to more than 10000 nodes"},
		{"template", one + "outputs: {x: \"{{ 1 }}" + strings.Repeat("x", 256<<10) + "\"}", "the limit of a template is 256 KiB"},
		{"nested ifs", "steps: {a: {run: \"" + strings.Repeat("{{if true}}", 10_000) + strings.Repeat("{{end}}", 10_000) + "\"}}", "more than 50 nested"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := pipeline.Parse("p.yaml", []byte(c.src), options())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
		})
	}
}

func TestMaxSteps(t *testing.T) {
	src := []byte("steps: {a: {run: x}, g: {steps: {b: {run: x}, c: {run: x}}}}")
	for n := 1; n <= 5; n++ {
		o := options()
		o.MaxSteps = n
		_, _, err := pipeline.Parse("p.yaml", src, o)
		if want := n < 4; (err != nil) != want {
			t.Errorf("%d steps allowed: %v", n, err)
		}
	}
}

func TestLoadRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/zero"} {
		_, _, err := pipeline.Load(path, options())
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := pipeline.Load(filepath.Join(dir, "none"), options()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Files that a pipeline names stay in its directory, whatever links say.
func TestFilesStayInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	dir := t.TempDir()
	for path, data := range map[string]string{outside: "secret", filepath.Join(dir, "bin"): "a\x00b", filepath.Join(dir, "ok"): "fine"} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"link": "escapes", outside: "escapes the directory", "../x": "escapes the directory", "fifo": "not a regular file",
		".": "not a regular file", "bin": "text", "none": "does not exist", "ok": "",
	}
	for name, want := range cases {
		for _, src := range []string{
			fmt.Sprintf("steps: {a: {agent: claude, prompt-file: %q}}", name),
			fmt.Sprintf("steps: {a: {agent: claude, prompt: '{{ file %q }}'}}", name),
		} {
			file := filepath.Join(dir, "p.yaml")
			if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := pipeline.Load(file, options())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", src, err, want)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	src := `
inputs: {unused: {type: string}}
secrets: [NEVER]
agents: {idle: {use: codex}, busy: {use: claude}}
env: {KEY: "sk-` + strings.Repeat("a1", 12) + `", ODD: "a` + "\u202e" + `b"}
steps:
  a: {agent: busy, prompt: hi}
  b: {if: false, run: "true"}
`
	_, warnings, err := pipeline.Parse("p.yaml", []byte(src), options())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	want := []string{
		"p.yaml:2:10: warning: input `unused` is not used",
		"p.yaml:3:11: warning: secret `NEVER` is not used",
		"p.yaml:4:10: warning: agent `idle` is not used",
		"p.yaml:5:13: warning: this looks like a key (sk-…)",
		"p.yaml:5:50: warning: U+202E reorders the text that follows it",
		"p.yaml:7:3: warning: agent step `a` has no `timeout`",
		"p.yaml:8:11: warning: step `b` never runs",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestStepAndWalk(t *testing.T) {
	p := parse(t, "steps: {a: {steps: {b: {run: x}, c: {steps: {d: {run: y}}}}}, e: {run: z}}")
	var paths []string
	p.Walk(func(path string, s *pipeline.Step) {
		paths = append(paths, path)
		if p.Step(path) != s {
			t.Errorf("Step(%q) is another step", path)
		}
	})
	if d := cmp.Diff([]string{"a", "a.b", "a.c", "a.c.d", "e"}, paths); d != "" {
		t.Error(d)
	}
	for _, path := range []string{"", "x", "a.x", "e.f", "a.b.c", "."} {
		if s := p.Step(path); s != nil {
			t.Errorf("Step(%q) = %v", path, s.ID)
		}
	}
}

// A session is locked by the path of the step that began it.
func TestSessionRoots(t *testing.T) {
	p := parse(t, `
agents: {c: {use: claude}}
steps:
  first: {prompt: x}
  next: {prompt: x, session: {continue: first}}
  again: {prompt: x, session: {continue: next}}
  side: {prompt: x, session: {fork: again}}
  group: {steps: {onward: {prompt: x, session: {continue: side}}}}
`)
	for path, root := range map[string]string{"first": "", "next": "first", "again": "first", "side": "first", "group.onward": "side"} {
		if got := p.Step(path).Session.Root; got != root {
			t.Errorf("%s: root %q, want %q", path, got, root)
		}
	}
	if d := cmp.Diff([]string{"side"}, p.Step("group").Needs); d != "" {
		t.Error(d)
	}
}
