package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExamples runs every example with simulated agents, in a small repository, with every
// question answered beforehand.
func TestExamples(t *testing.T) {
	t.Parallel()
	further := map[string][]string{
		// The check is confined and has an empty cache, in which go test compiles the standard library.
		"dependency-update.yaml": {"-i", "test=go build ./..."},
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "pipelines", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d examples (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			r := seeded(t, "example")
			args := []string{"run", absolute(t, file), "--simulate", "--yes", "--run-id", r.id, "-o", "json"}
			out, err := r.command(append(args, further[filepath.Base(file)]...)...).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got struct {
				Status  string         `json:"status"`
				Outputs map[string]any `json:"outputs"`
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if got.Status != "succeeded" || len(got.Outputs) == 0 {
				t.Errorf("status %s, outputs %v", got.Status, got.Outputs)
			}
		})
	}
}

// TestFirstExample runs what the README shows first in a directory with nothing in it.
func TestFirstExample(t *testing.T) {
	t.Parallel()
	r := crashRun{dir: t.TempDir(), id: "first"}
	r.finish(t, "run", absolute(t, filepath.Join("..", "..", "examples", "pipelines", "analyze-edit-review.yaml")), "--simulate", "--run-id", r.id)
}

func absolute(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// seeded returns a run in a repository with two Go packages, some pages and two
// commits, whose origin is beside it. The state is not in the repository.
func seeded(t *testing.T, id string) crashRun {
	t.Helper()
	r := crashRun{dir: filepath.Join(t.TempDir(), "repository"), id: id}
	for name, text := range map[string]string{
		"go.mod":           "module seed\n\ngo 1.24\n",
		"README.md":        "# Seed\n",
		"docs/page.md":     "# A page\n\nOne returns two.\n",
		"issues.json":      `[{"number": 1, "title": "It crashes"}, {"number": 2, "title": "Colours", "body": "Please."}]`,
		"pkg/a/a.go":       "// Package a counts.\npackage a\n\n// One is one.\nfunc One() int { return 1 }\n",
		"pkg/a/a_test.go":  "package a\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Fatal(One())\n\t}\n}\n",
		"pkg/b/b.go":       "// Package b counts on.\npackage b\n\n// Two is two.\nfunc Two() int { return 2 }\n",
		"../origin/.empty": "",
	} {
		file := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.git(t, "init", "-q", "--bare", "../origin")
	r.git(t, "init", "-q", "-b", "main")
	r.git(t, "remote", "add", "origin", "../origin")
	r.git(t, "add", "-A")
	r.git(t, "commit", "-qm", "Count")
	r.git(t, "commit", "-q", "--allow-empty", "-m", "Think")
	return r
}

func (r crashRun) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := r.command()
	cmd.Path, cmd.Args, cmd.Err = gitPath(t), append([]string{"git"}, args...), nil
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func gitPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// TestPagesAreValid validates the whole pipelines, the profiles and the configurations that the
// README and the pages for users show.
func TestPagesAreValid(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
			block, name := string(block[1]), "shown.yaml"
			if filepath.Base(page) == "config.md" {
				name = projectFile
			} else if strings.HasPrefix(block, "agents:") && !strings.Contains(block, "\nsteps:") {
				block += "inputs: {url: {type: string}}\nsteps: {a: {prompt: hi}}\n" // a profile
			}
			if name != projectFile && !strings.Contains("\n"+block, "\nsteps:") {
				continue // an excerpt
			}
			shown++
			r := crashRun{dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(r.dir, name), []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := r.command("validate", name).CombinedOutput(); err != nil {
				t.Errorf("%s shows what is not valid:\n%s", page, out)
			}
		}
	}
	if shown == 0 {
		t.Error("no page shows a pipeline")
	}
}
