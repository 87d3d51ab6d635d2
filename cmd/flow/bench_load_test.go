package main

import (
	"testing"

	"gopkg.in/yaml.v3"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// BenchmarkLoad10k reads a pipeline of 10,000 steps, finds nothing wrong with it, and
// makes the plan and the machine. Its floor is what yaml.v3 takes to read the same
// text into nodes, and no further: its own decoding looks for double keys in time that
// grows with the square of their number, and would flatter flow.
func BenchmarkLoad10k(b *testing.B) {
	s := stepsBench{dir: b.TempDir(), needs: graph("layered", 10_000)}
	text, file := s.yaml(), s.path("pipeline.yaml")
	mustWrite(b, file, text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var own, floor times
	for range b.N {
		own = append(own, took(func() { loadPipeline(b, file, len(s.needs)) }))
		b.StopTimer()
		floor = append(floor, took(func() { parseYAML(b, text) }))
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(own.over(floor), "x-yaml.v3")
	c := newLauncher(b).run(b, nil, buildRelease(b), "validate", file)
	b.ReportMetric(float64(c.RSS)/mib, "RSS-MiB")
}

func loadPipeline(b *testing.B, file string, want int) {
	b.Helper()
	plan, _, err := pipeline.Load(file, languageOptions())
	if err != nil {
		b.Fatal(err)
	}
	if got := len(dag.New(plan, dag.Options{}).Steps()); got != want {
		b.Fatalf("%d steps, want %d", got, want)
	}
}

func parseYAML(b *testing.B, text string) {
	b.Helper()
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		b.Fatal(err)
	}
}
