package pipeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

// project writes files into a new directory and returns it.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A called pipeline is below the directory of the first one, whatever texts and links
// say; within that it may be anywhere.
func TestCalledFilesStayInside(t *testing.T) {
	outside := filepath.Join(project(t, map[string]string{"p.yaml": "steps: {a: {run: x}}"}), "p.yaml")
	cases := map[string]string{
		"sub/ok.yaml": "", "sub/up.yaml": "", "./sub/../sub/ok.yaml": "", "sub/linked.yaml": "",
		"sub/out.yaml": "escapes the directory", "../p.yaml": "escapes the directory", outside: "escapes the directory",
		"link.yaml": "escapes", "fifo": "not a regular file", "sub": "not a regular file", "none.yaml": "does not exist",
		"latin.yaml": "cannot be used", "big.yaml": "larger than 1 MiB",
	}
	for path, want := range cases {
		t.Run(path, func(t *testing.T) {
			dir := project(t, map[string]string{
				"p.yaml":       fmt.Sprintf("steps: {a: {pipeline: %q}}", path),
				"sub/ok.yaml":  "steps: {a: {run: x}}",
				"sub/up.yaml":  "steps: {a: {pipeline: ../top.yaml}}",
				"sub/out.yaml": "steps: {a: {pipeline: ../../top.yaml}}",
				"top.yaml":     "steps: {a: {run: x}}",
				"latin.yaml":   "steps: {a: {run: \xe4}}",
				"big.yaml":     "steps: {a: {run: x}}\n#" + strings.Repeat("x", 1<<20),
			})
			link(t, outside, filepath.Join(dir, "link.yaml"))
			link(t, "ok.yaml", filepath.Join(dir, "sub/linked.yaml"))
			if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := pipeline.Load(filepath.Join(dir, "p.yaml"), options())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// chain is n pipelines, each of which calls the next one times over.
func chain(n, times int) map[string]string {
	files := map[string]string{}
	for i := range n {
		var b strings.Builder
		b.WriteString("steps:\n")
		for k := range times {
			if i == n-1 {
				fmt.Fprintf(&b, "  s%d: {run: x}\n", k)
			} else {
				fmt.Fprintf(&b, "  s%d: {pipeline: p%d.yaml}\n", k, i+1)
			}
		}
		files[fmt.Sprintf("p%d.yaml", i)] = b.String()
	}
	return files
}

// mistaken is a pipeline that calls n others of 1000 steps, all of which have a mistake.
func mistaken(n int) map[string]string {
	steps := strings.ReplaceAll(chain(1, 1000)["p0.yaml"], "run", "rum")
	files := map[string]string{}
	first := "steps:\n"
	for i := range n {
		first += fmt.Sprintf("  s%d: {pipeline: q%d.yaml}\n", i, i)
		files[fmt.Sprintf("q%d.yaml", i)] = strings.Replace(steps, "rum", "run", 999)
	}
	files["p0.yaml"] = first
	return files
}

func TestCallLimits(t *testing.T) {
	frozen := chain(2, 70)
	frozen["p1.yaml"] = "steps: {a: {agent: claude, prompt: '{{ file \"big\" }}'}}"
	frozen["big"] = strings.Repeat("x", 1<<20-1)
	high := map[string]string{"p0.yaml": "steps: {a: {pipeline: p10.yaml}, b: {pipeline: p1.yaml}}"}
	for name, text := range chain(12, 1) {
		if name != "p0.yaml" {
			high[name] = text
		}
	}
	cases := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"deep", chain(11, 1), ""},
		{"too deep", chain(12, 1), "deeper than 10"},
		{"a file that was read at another depth", high, "deeper than 10"},
		{"many steps", chain(3, 20), ""},
		{"too many steps", chain(6, 10), "more than 10000 steps, with those of called pipelines"},
		{"many files with mistakes", mistaken(20), "more than 10000 steps"},
		{"large texts", frozen, "larger than 64 MiB"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := pipeline.Load(filepath.Join(project(t, c.files), "p0.yaml"), options())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestEachAndPaths(t *testing.T) {
	p, _, err := pipeline.Load("testdata/plans/calls.yaml", options())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	p.Each(func(prefix string, q *pipeline.Plan) {
		q.Walk(func(path string, s *pipeline.Step) {
			got = append(got, prefix+path)
			if found := p.Step(prefix + path); found != s {
				t.Errorf("Step(%q) is another step", prefix+path)
			}
		})
	})
	want := []string{
		"build", "again", "show", "build.make", "build.write", "build.note", "build.note.count",
		"again.make", "again.write", "again.note", "again.note.count",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"ONE", "TWO"}, p.AllSecrets()); d != "" {
		t.Error(d)
	}
}

// The nodes of a run have numbers in their paths; a judge stands in no list of steps.
func TestStepOfNode(t *testing.T) {
	p, _, err := pipeline.Load("testdata/plans/control.yaml", options())
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"fix": "fix", "fix.0": "fix", "fix.0.2": "fix", "fix.0.2.edit": "edit", "judged.1": "judged", "judged.judge": "judge",
		"every.2.inner.4": "inner", "0": "", "fix.0.nope": "", "decide.judge": "", "judged.judge.x": "", "fix.": "",
	}
	for path, want := range cases {
		got := ""
		if s := p.Step(path); s != nil {
			got = s.ID
		}
		if got != want {
			t.Errorf("Step(%q) is %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string][]string{
		"judged": {"analyst", "reviewer"}, "decide": {"analyst", "reviewer"}, "pick": {"editor", "claude"}, "merge": {"editor"}, "say": nil,
	} {
		if d := cmp.Diff(want, p.Step(path).Profiles()); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
}
