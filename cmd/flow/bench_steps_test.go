package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// atOnce is how many steps run at once in BenchmarkSteps.
const atOnce = 2

// BenchmarkSteps runs pipelines of steps that do nothing, `run: "true"`: the whole
// command, from reading the YAML to the durable end of the run. One floor is a
// scheduler of a few lines that only starts `sh -c true` with its output in files;
// the other is ninja, if it is there, which neither keeps output nor syncs.
func BenchmarkSteps(b *testing.B) {
	flow, launch := buildRelease(b), newLauncher(b)
	// One directory for all: where ext4 has just deleted many files, new ones are slow
	// for some seconds.
	dir := b.TempDir()
	for _, shape := range []string{"wide", "chain", "layered"} {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				s := stepsBench{flow: flow, launch: launch, needs: graph(shape, n)}
				s.dir = filepath.Join(dir, fmt.Sprint(shape, n))
				s.measure(b)
			})
		}
	}
}

// graph returns what each of n steps needs.
func graph(shape string, n int) [][]int {
	const width = 50 // of a layer
	needs := make([][]int, n)
	for i := range needs {
		switch {
		case shape == "chain" && i > 0:
			needs[i] = []int{i - 1}
		case shape == "layered" && i >= width: // one to three of the layer before
			for k := range 1 + i%3 {
				needs[i] = append(needs[i], (i/width-1)*width+(i*7+k*13)%width)
			}
		}
	}
	return needs
}

type stepsBench struct {
	flow, dir string
	launch    launcher
	needs     [][]int
	runs      int
}

func (s *stepsBench) measure(b *testing.B) {
	b.Helper()
	mustWrite(b, s.path("pipeline.yaml"), s.yaml())
	mustWrite(b, s.path("build.ninja"), s.ninja())
	ninja, _ := exec.LookPath("ninja")
	var flow, floor, peer times
	var cpu, rss []int64
	for range b.N {
		c := s.run(b)
		flow, cpu, rss = append(flow, c.Wall), append(cpu, int64(c.CPU)), append(rss, c.RSS)
		b.StopTimer()
		floor = append(floor, took(func() { s.floor(b) }))
		if ninja != "" {
			s.runs++
			peer = append(peer, s.launch.run(b, nil, ninja, "--quiet", "-j", strconv.Itoa(atOnce), "-f", s.path("build.ninja"), "-C", s.fresh(b)).Wall)
		}
		b.StartTimer()
	}
	n := float64(len(s.needs))
	b.ReportMetric(1e6*flow.seconds()/n, "µs/step")
	b.ReportMetric(float64(median(cpu))/1e3/n, "cpu-µs/step")
	b.ReportMetric(float64(median(rss))/mib, "RSS-MiB")
	b.ReportMetric(flow.over(floor), "x-floor")
	if ninja != "" {
		b.ReportMetric(flow.over(peer), "x-ninja")
	}
	if syncs, ok := s.syncs(b); ok {
		b.ReportMetric(syncs/n, "fsyncs/step")
	}
}

func (s *stepsBench) path(name string) string { return filepath.Join(s.dir, name) }

// fresh makes a new directory.
func (s *stepsBench) fresh(b *testing.B) string {
	b.Helper()
	s.runs++
	dir := s.path(strconv.Itoa(s.runs))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	return dir
}

func (s *stepsBench) run(b *testing.B) cost {
	b.Helper()
	return s.launch.run(b, nil, s.flow, s.args(b)...)
}

func (s *stepsBench) args(b *testing.B) []string {
	b.Helper()
	return []string{"run", "-q", "--state-dir", s.fresh(b), s.path("pipeline.yaml")}
}

func (s *stepsBench) yaml() string {
	var y strings.Builder
	fmt.Fprintf(&y, "name: bench\nconcurrency: %d\nsteps:\n", atOnce)
	for i, needs := range s.needs {
		fmt.Fprintf(&y, "  s%d:\n    run: \"true\"\n", i)
		if len(needs) > 0 {
			fmt.Fprintf(&y, "    needs: [%s]\n", strings.Join(names(needs), ", "))
		}
	}
	return y.String()
}

func (s *stepsBench) ninja() string {
	var y strings.Builder
	y.WriteString("rule step\n  command = true $out\n") // ninja uses the shell too
	for i, needs := range s.needs {
		fmt.Fprintf(&y, "build s%d: step %s\n", i, strings.Join(names(needs), " "))
	}
	return y.String()
}

func names(steps []int) []string {
	var all []string
	for _, i := range steps {
		all = append(all, "s"+strconv.Itoa(i))
	}
	return all
}

// floor runs the graph and nothing else: counts of needs, a queue, and workers.
func (s *stepsBench) floor(b *testing.B) {
	b.Helper()
	dir := s.fresh(b)
	dependents, waits := make([][]int, len(s.needs)), make([]int, len(s.needs))
	ready := make(chan int, len(s.needs))
	for i, needs := range s.needs {
		waits[i] = len(needs)
		for _, need := range needs {
			dependents[need] = append(dependents[need], i)
		}
		if len(needs) == 0 {
			ready <- i
		}
	}
	var (
		mu      sync.Mutex
		left    = len(s.needs)
		workers sync.WaitGroup
	)
	for range atOnce {
		workers.Go(func() {
			for i := range ready {
				if err := execTrue(filepath.Join(dir, strconv.Itoa(i))); err != nil {
					b.Error(err)
				}
				mu.Lock()
				for _, d := range dependents[i] {
					if waits[d]--; waits[d] == 0 {
						ready <- d
					}
				}
				if left--; left == 0 {
					close(ready)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
}

// execTrue runs `sh -c true` with its output in two files, as flow does.
func execTrue(out string) error {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	stdout, err := os.OpenFile(out+".stdout", flags, 0o600)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := os.OpenFile(out+".stderr", flags, 0o600)
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd := exec.Command("sh", "-euc", "true")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Run()
}

// syncs counts how often a run waits for the disk, if strace is there to tell.
func (s *stepsBench) syncs(b *testing.B) (float64, bool) {
	b.Helper()
	b.StopTimer()
	strace, err := exec.LookPath("strace")
	if err != nil {
		return 0, false
	}
	log := s.path("strace")
	args := append([]string{"-f", "-qq", "-c", "-e", "trace=fsync,fdatasync", "-o", log, s.flow}, s.args(b)...)
	if err := exec.Command(strace, args...).Run(); err != nil {
		return 0, false
	}
	text, err := os.ReadFile(log)
	if err != nil {
		b.Fatal(err)
	}
	calls := regexp.MustCompile(`(?m)^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*\b(?:fsync|fdatasync)$`)
	var sum float64
	for _, m := range calls.FindAllSubmatch(text, -1) {
		count, err := strconv.Atoi(string(m[1]))
		if err != nil {
			b.Fatal(err)
		}
		sum += float64(count)
	}
	return sum, sum > 0
}

func mustWrite(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}
