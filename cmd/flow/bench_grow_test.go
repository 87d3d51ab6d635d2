package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkGrow runs pipelines that grow to many items: the whole command, from reading the
// YAML to the durable end of the run. What is reported is for each item, so that the
// smaller one is what the larger one is to be held against; and what it takes to look at
// the run afterwards, and to read it back when it was killed in the middle.
func BenchmarkGrow(b *testing.B) {
	flow, launch := buildRelease(b), newLauncher(b)
	dir := b.TempDir()
	for _, shape := range growing() {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				g := growBench{flow: flow, launch: launch, n: n, dir: filepath.Join(dir, fmt.Sprint(shape.name, n))}
				mustWrite(b, filepath.Join(g.dir, "inner.yaml"), "inputs: {x: {type: integer}}\nsteps: {a: {set: {v: \"{{ .inputs.x }}\"}}}\noutputs: {o: \"{{ .steps.a.output.v }}\"}\n")
				mustWrite(b, g.pipeline(), fmt.Sprintf("concurrency: %d\nsteps:\n  list: {set: {v: \"{{ until %d }}\"}}\n", atOnce, n)+shape.steps)
				g.measure(b)
			})
		}
	}
}

type shape struct{ name, steps string }

// growing are the steps of the benchmark's pipelines, over the list of the step `list`.
func growing() []shape {
	return []shape{
		{"run", "  work: {foreach: .steps.list.output.v, max-parallel: 2, run: \"true\"}\n"},
		{"group", "  work: {foreach: .steps.list.output.v, max-parallel: 2, steps: {a: {run: \"true\"}, b: {run: \"true\", needs: [a]}}}\n"},
		{"set", "  work: {foreach: .steps.list.output.v, set: {x: \"{{ .item }}\"}}\n"},
		{"call", "  work: {foreach: .steps.list.output.v, pipeline: inner.yaml, with: {x: \"{{ .item }}\"}}\n"},
		{"loop", "  work:\n    foreach: .steps.list.output.v\n    repeat: {until: eq .iteration 2}\n    steps: {a: {set: {x: \"{{ .item }}\"}}, b: {set: {y: \"{{ .steps.a.output.x }}\"}}}\n"},
		{"list-of-list", "  work: {foreach: .steps.list.output.v, set: {x: \"{{ .item }}\"}}\n  more: {foreach: .steps.work.items, set: {x: \"{{ .item.output.x }} of {{ len .steps.work.items }}\"}}\n"},
	}
}

type growBench struct {
	flow, dir string
	launch    launcher
	n, runs   int
}

func (g *growBench) pipeline() string { return filepath.Join(g.dir, "pipeline.yaml") }

// args are a command line on a state directory of its own for each run.
func (g *growBench) args(command string, more ...string) []string {
	return append([]string{command, "--state-dir", filepath.Join(g.dir, strconv.Itoa(g.runs))}, more...)
}

func (g *growBench) begin() []string {
	g.runs++
	return g.args("run", "-q", "--run-id", "r", g.pipeline())
}

func (g *growBench) measure(b *testing.B) {
	b.Helper()
	var wall times
	var cpu, rss []int64
	for range b.N {
		c := g.launch.run(b, nil, g.flow, g.begin()...)
		wall, cpu, rss = append(wall, c.Wall), append(cpu, int64(c.CPU)), append(rss, c.RSS)
	}
	b.StopTimer()
	n := float64(g.n)
	b.ReportMetric(1e6*wall.seconds()/n, "µs/item")
	b.ReportMetric(float64(median(cpu))/1e3/n, "cpu-µs/item")
	b.ReportMetric(float64(median(rss))/mib, "RSS-MiB")
	journal, err := os.Stat(filepath.Join(g.dir, strconv.Itoa(g.runs), "runs", "r", "journal.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(journal.Size())/n, "journal-B/item")
	for _, look := range [][]string{{"show", "r"}, {"show", "r", "-o", "json"}, {"graph", "r"}} {
		c := g.launch.run(b, nil, g.flow, g.args(look[0], look[1:]...)...)
		name := strings.Join(append(look[:1:1], look[2:]...), "")
		b.ReportMetric(1e3*c.Wall.Seconds(), name+"-ms")
		b.ReportMetric(float64(c.RSS)/mib, name+"-MiB")
	}
	c := g.resumed(b, wall[len(wall)-1]/2)
	b.ReportMetric(1e6*c.Wall.Seconds()/n, "resume-µs/item")
	b.ReportMetric(float64(c.RSS)/mib, "resume-MiB")
}

// resumed kills a run after a while, and is what its resume takes.
func (g *growBench) resumed(b *testing.B, after time.Duration) cost {
	b.Helper()
	cmd := exec.Command(g.flow, g.begin()...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	_ = cmd.Wait() // killed, or it was quicker than the one before
	return g.launch.run(b, nil, g.flow, g.args("resume", "-q", "r")...)
}

// BenchmarkValidate10k is `flow validate` of 10,000 steps: plain ones, a chain, loops and
// lists of groups, and calls of other pipelines.
func BenchmarkValidate10k(b *testing.B) {
	flow, launch := buildRelease(b), newLauncher(b)
	dir := b.TempDir()
	mustWrite(b, filepath.Join(dir, "inner.yaml"), "inputs: {x: {type: string}}\nsteps: {a: {run: \"echo {{ .inputs.x }}\"}}\noutputs: {o: \"{{ .steps.a.text }}\"}\n")
	for _, c := range []struct {
		name, step string
		n          int
	}{
		{"plain", "  sNUMBER: {run: \"true\"}\n", 10_000},
		{"chain", "  sNUMBER: {run: \"echo {{ .steps.sPREVIOUS.text }}\"}\n", 10_000},
		{"loops", "  sNUMBER:\n    foreach: [1, 2]\n    repeat: {until: eq .iteration 2}\n    steps: {a: {run: \"true\"}, b: {needs: [a], run: \"echo {{ .item }}\"}, c: {set: {x: \"{{ .steps.b.text }}\"}}}\n", 2500},
		{"calls", "  sNUMBER: {pipeline: inner.yaml, with: {x: \"NUMBER\"}}\n", 4900},
	} {
		b.Run(c.name, func(b *testing.B) {
			var y strings.Builder
			y.WriteString("steps:\n  s0: {run: \"true\"}\n")
			for i := 1; i < c.n; i++ {
				y.WriteString(strings.NewReplacer("PREVIOUS", strconv.Itoa(i-1), "NUMBER", strconv.Itoa(i)).Replace(c.step))
			}
			file := filepath.Join(dir, c.name+".yaml")
			mustWrite(b, file, y.String())
			var wall times
			var rss []int64
			for range b.N {
				c := launch.run(b, nil, flow, "validate", file)
				wall, rss = append(wall, c.Wall), append(rss, c.RSS)
			}
			b.ReportMetric(1e3*wall.seconds(), "ms")
			b.ReportMetric(float64(median(rss))/mib, "RSS-MiB")
		})
	}
}
