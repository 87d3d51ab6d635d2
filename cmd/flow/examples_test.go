package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExamples runs every example with simulated agents, as the README's first
// command does, in an empty directory.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "pipelines", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			path, err := filepath.Abs(file)
			if err != nil {
				t.Fatal(err)
			}
			r := crashRun{dir: t.TempDir(), id: "example"}
			out, err := r.command("run", path, "--simulate", "--run-id", r.id, "-o", "json").Output()
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

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// TestPagesAreValid validates the whole pipelines and the profiles that the README and the pages
// for users show.
func TestPagesAreValid(t *testing.T) {
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
			block := string(block[1])
			if strings.HasPrefix(block, "agents:") && !strings.Contains(block, "\nsteps:") {
				block += "inputs: {url: {type: string}}\nsteps: {a: {prompt: hi}}\n" // a profile
			}
			if !strings.Contains("\n"+block, "\nsteps:") {
				continue // an excerpt
			}
			shown++
			r := crashRun{dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(r.dir, "shown.yaml"), []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := r.command("validate", "shown.yaml").CombinedOutput(); err != nil {
				t.Errorf("%s shows a pipeline that is not valid:\n%s", page, out)
			}
		}
	}
	if shown == 0 {
		t.Error("no page shows a pipeline")
	}
}
