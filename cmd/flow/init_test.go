package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
)

// TestStarters writes every starter for every agent, demands that it is valid without a
// warning, and runs it with simulated agents in a new git repository.
func TestStarters(t *testing.T) {
	t.Parallel()
	for _, kind := range starterKinds() {
		for _, agent := range []string{"claude", "codex", "gemini"} {
			t.Run(kind.name+"/"+agent, func(t *testing.T) {
				t.Parallel()
				r := crashRun{dir: t.TempDir(), id: "starter"}
				for _, args := range [][]string{
					{"init", "-q"}, {"config", "user.name", "a"}, {"config", "user.email", "a@example.com"}, {"commit", "-q", "--allow-empty", "-m", "begin"},
				} {
					git := exec.Command("git", args...)
					git.Dir = r.dir
					if out, err := git.CombinedOutput(); err != nil {
						t.Fatalf("git %v: %v\n%s", args, err, out)
					}
				}
				for _, args := range [][]string{
					{"init", "--kind", kind.name, "--agent", agent, "--name", "mine"}, {"validate", "--strict", "mine.yaml"}, {"plan", "mine.yaml"},
				} {
					if out, err := r.command(args...).CombinedOutput(); err != nil {
						t.Fatalf("flow %v: %v\n%s", args, err, out)
					}
				}
				run := r.command("run", "mine.yaml", "--simulate", "--yes", "--run-id", r.id, "-o", "json")
				var stderr bytes.Buffer
				run.Stderr = &stderr
				out, err := run.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, stderr.Bytes())
				}
				var got struct {
					Outputs map[string]any `json:"outputs"`
				}
				if err := json.Unmarshal(out, &got); err != nil || len(got.Outputs) == 0 {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	}
}
