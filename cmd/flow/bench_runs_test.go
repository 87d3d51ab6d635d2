package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flow/state"
)

// BenchmarkRuns lists the last 50 of 100,000 runs, and all of them: the whole
// command. Its floor is `flow version`, which lists nothing. The runs are as a
// listing sees them: directories, and lines of the index as docs/state.md has them.
func BenchmarkRuns(b *testing.B) {
	const runs = 100_000
	flow, launch, dir := buildRelease(b), newLauncher(b), b.TempDir()
	if _, err := state.Open(dir); err != nil {
		b.Fatal(err)
	}
	mustWrite(b, filepath.Join(dir, "index.jsonl"), fillRuns(b, dir, runs))
	for name, limit := range map[string]string{"last50": "50", "all": "0"} {
		b.Run(name, func(b *testing.B) {
			var own, floor times
			for range b.N {
				own = append(own, launch.run(b, nil, flow, "runs", "--state-dir", dir, "-n", limit).Wall)
				b.StopTimer()
				floor = append(floor, launch.run(b, nil, flow, "version").Wall)
				b.StartTimer()
			}
			b.ReportMetric(1e3*own.seconds(), "ms")
			b.ReportMetric(own.over(floor), "x-version")
		})
	}
}

// fillRuns makes the directories of n runs and returns the index of them.
func fillRuns(b *testing.B, dir string, n int) string {
	b.Helper()
	var index strings.Builder
	enc := json.NewEncoder(&index)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		at := began.Add(time.Duration(i) * time.Minute)
		id := state.NewID(at)
		if err := os.MkdirAll(filepath.Join(dir, "runs", id), 0o700); err != nil {
			b.Fatal(err)
		}
		for _, entry := range []map[string]any{
			{"id": id, "type": "created", "time": at, "name": "review", "file": "review.yaml", "steps": 3},
			{"id": id, "type": "finished", "time": at.Add(time.Minute), "status": "succeeded"},
		} {
			if err := enc.Encode(entry); err != nil {
				b.Fatal(err)
			}
		}
	}
	return index.String()
}
