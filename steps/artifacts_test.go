package steps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func artifacts(patterns ...string) func(*pipeline.Step) {
	return func(s *pipeline.Step) {
		for _, p := range patterns {
			s.Artifacts = append(s.Artifacts, *text(p))
		}
	}
}

// workspace makes the files, some of them in directories, and some symbolic links.
func (w *world) workspace(files []string, links map[string]string) {
	w.t.Helper()
	w.config.Workspace = w.t.TempDir()
	for _, name := range files {
		file := filepath.Join(w.config.Workspace, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("text of "+name), 0o640); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(w.config.Workspace, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) artifacts(r Result) (names []string) {
	w.t.Helper()
	list, err := r.ArtifactList(w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range list {
		data, err := w.store.Blob(a.Blob)
		if err != nil || int64(len(data)) != a.Size || a.Mode != 0o640 {
			w.t.Errorf("%+v has %d bytes, %v", a, len(data), err)
		}
		names = append(names, a.Name)
	}
	return names
}

func TestArtifacts(t *testing.T) {
	files := []string{"a.txt", "b.log", "dist/x.bin", "dist/deep/y.bin", "dist/.z", ".hidden", ".git/config", "dist/.git/config", "dir with space/f"}
	links := map[string]string{"in": "a.txt", "out": "/etc/passwd", "dir": "dist", "up": "..", "loop": "loop"}
	cases := []struct {
		patterns []string
		want     []string
		problem  string
	}{
		{[]string{"a.txt"}, []string{"a.txt"}, ""},
		{[]string{"./dist//x.bin"}, []string{"dist/x.bin"}, ""},
		{[]string{"*.txt", "*.log", "a.txt"}, []string{"a.txt", "b.log"}, ""},
		{[]string{"dist"}, []string{"dist/.z", "dist/deep/y.bin", "dist/x.bin"}, ""},
		{[]string{"dist/*"}, []string{"dist/deep/y.bin", "dist/x.bin"}, ""},
		{[]string{"**/*.bin"}, []string{"dist/deep/y.bin", "dist/x.bin"}, ""},
		{[]string{"**/y.bin"}, []string{"dist/deep/y.bin"}, ""},
		{[]string{"**"}, []string{"a.txt", "b.log", "dir with space/f", "dist/.z", "dist/deep/y.bin", "dist/x.bin"}, ""},
		{[]string{".h*"}, []string{".hidden"}, ""},
		{[]string{"in"}, []string{"in"}, ""},
		{[]string{"dir/x.bin"}, []string{"dir/x.bin"}, ""},
		{[]string{"{{ .inputs.name }}.txt"}, []string{"a.txt"}, ""},
		{[]string{"*.nope", "a.txt"}, []string{"a.txt"}, `the step left no artifact "*.nope" in `},
		{[]string{"nope"}, nil, `the step left no artifact "nope" in `},
		{[]string{"out"}, nil, "artifact out cannot be kept"},
		{[]string{"up/x"}, nil, "artifact up/x cannot be kept"},
		{[]string{"loop"}, nil, "artifact loop cannot be kept"},
		{[]string{"fifo"}, nil, "artifact fifo cannot be kept: it is not a regular file"},
		{[]string{"../x"}, nil, `p.yaml:5:7: artifact "../x" must stay inside`},
		{[]string{"/etc/passwd"}, nil, `p.yaml:5:7: artifact "/etc/passwd" must stay inside`},
		{[]string{" "}, nil, `p.yaml:5:7: artifact "" is empty`},
		{[]string{"a\nb"}, nil, `p.yaml:5:7: artifact "a\nb" has a control`},
		{[]string{"[a"}, nil, `p.yaml:5:7: artifact "[a" is not a valid glob`},
		{[]string{strings.Repeat("**/a/", 5)}, nil, `p.yaml:5:7: artifact "**/a/**/a/**/a/**/a/**/a/" has`},
		{[]string{"{{ .inputs.nope }}"}, nil, "p.yaml:5:"},
	}
	for _, c := range cases {
		for _, step := range []pipeline.Step{ask("s", artifacts(c.patterns...)), script("s", "x", artifacts(c.patterns...))} {
			t.Run(fmt.Sprint(c.patterns, step.Kind), func(t *testing.T) {
				w := newWorld(t, step)
				w.workspace(files, links)
				if err := mkfifo(filepath.Join(w.config.Workspace, "fifo")); err != nil {
					t.Fatal(err)
				}
				w.config.Inputs = map[string]any{"name": "a"}
				w.play = says(0, "answer ok")
				status := map[bool]dag.Status{true: dag.OK, false: dag.Failure}[c.problem == ""]
				r := w.want(w.finish(), "s", status)
				if !strings.HasPrefix(r.Error, c.problem) {
					t.Errorf("it says %q, want %q", r.Error, c.problem)
				}
				if diff := cmp.Diff(c.want, w.artifacts(r)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// Templates of other steps see what was kept, and nothing where nothing was.
func TestArtifactsInTemplates(t *testing.T) {
	w := newWorld(t, script("s", "x", artifacts("*.txt")), set("after", `{{ range .steps.s.artifacts }}{{ .name }} {{ .size }}, {{ end }}`, needs("s")))
	w.workspace([]string{"a.txt", "b.txt"}, nil)
	w.play = says(0)
	if got := w.v(w.finish(), "after"); got != `{"v":"a.txt 13, b.txt 13, "}` {
		t.Error(got)
	}
}

// What a failed step left is kept as far as it is there, and its failure stays the same.
func TestArtifactsOfFailure(t *testing.T) {
	for _, step := range []pipeline.Step{ask("s", artifacts("nope", "a.txt")), script("s", "x", artifacts("nope", "a.txt"))} {
		w := newWorld(t, step)
		w.workspace([]string{"a.txt"}, nil)
		w.play = says(3, "problem auth no login")
		r := w.want(w.finish(), "s", dag.Failure)
		if r.Cause != string(agents.CauseAuth) && r.Cause != string(agents.CauseExit) {
			t.Errorf("it says %s: %q", r.Cause, r.Error)
		}
		if got := w.artifacts(r); len(got) != 1 {
			t.Errorf("it kept %q", got)
		}
	}
}

func TestTooManyArtifacts(t *testing.T) {
	w := newWorld(t, script("s", "x", artifacts("d")))
	w.workspace([]string{"d/0"}, nil)
	w.play = func(*process) (proc.Result, error) {
		for i := range maxArtifacts {
			if err := os.WriteFile(filepath.Join(w.config.Workspace, "d", fmt.Sprint(i+1)), nil, 0o640); err != nil {
				return proc.Result{}, err
			}
		}
		return proc.Result{}, nil
	}
	r := w.want(w.finish(), "s", dag.Failure)
	if r.Error != "the step has more than 10000 artifacts" || r.Artifacts.Blob == "" {
		t.Errorf("it says %q and keeps %+v", r.Error, r.Artifacts)
	}
	w = newWorld(t, script("s", "x", artifacts("big")))
	w.workspace([]string{"big"}, nil)
	if err := os.Truncate(filepath.Join(w.config.Workspace, "big"), maxArtifactBytes+1); err != nil {
		t.Fatal(err)
	}
	w.play = says(0)
	if r := w.want(w.finish(), "s", dag.Failure); r.Error != "the artifacts of the step are larger than 1024 MiB" {
		t.Errorf("it says %q", r.Error)
	}
}
