package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"flow/state"
)

// Benchmark500Chatty runs 500 agents at once, each of which prints 50 lines of 0.5 KB
// a second for 4 s, and nothing waits for another: supervised, translated, recorded.
// %core is the CPU that flow and its guardian use while the agents talk, that of the
// agents not counted, in percent of the 4 s that the talk takes where nothing is late.
func Benchmark500Chatty(b *testing.B) {
	flow, agent := buildRelease(b), build(b, "flow/cmd/flow/testdata/bench/chatty")
	var cores, rss []float64
	for range b.N {
		c := chat{dir: b.TempDir(), agents: 500, lines: 200, rate: 50}
		c.start(b, func(args ...string) *exec.Cmd { return exec.Command(flow, args...) }, agent)
		core, mem := c.measure(b)
		cores, rss = append(cores, core), append(rss, mem)
		c.finish(b)
	}
	b.ReportMetric(median(cores), "%core")
	b.ReportMetric(median(rss), "RSS-MiB")
	b.ReportMetric(500*50, "lines/s")
}

// A chat is one run of flow with many agents at once, each of which prints lines of 0.5 KB,
// and every tenth time also one on standard error.
type chat struct {
	dir    string
	agents int
	lines  int // of each
	rate   int // lines a second, of each; 0: as fast as it can
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// start starts flow, which has the arguments of its command line put in, and waits until
// all agents are ready.
func (c *chat) start(b testing.TB, flow func(args ...string) *exec.Cmd, agent string) {
	b.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "name: chatty\nconcurrency: %d\nagents:\n  talker: {use: codex, command: [%q], env: {CHATTY: %q, CHATTY_LINES: \"%d\", CHATTY_RATE: \"%d\"}}\nsteps:\n",
		c.agents, agent, c.dir, c.lines, c.rate)
	for i := range c.agents {
		fmt.Fprintf(&y, "  s%d: {agent: talker, prompt: talk}\n", i)
	}
	file := filepath.Join(c.dir, "chatty.yaml")
	mustWrite(b, file, y.String())
	c.cmd = flow("run", "--state-dir", filepath.Join(c.dir, "state"), "--run-id", "chatty", file)
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.cmd.Process.Kill() }) // if it has not ended
	c.await(b, "ready")
}

// await waits until all agents have come to a place.
func (c *chat) await(b testing.TB, place string) {
	b.Helper()
	var files []string
	for deadline := time.Now().Add(2 * time.Minute); len(files) < c.agents; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d agents are %s after two minutes", len(files), c.agents, place)
		}
		var err error
		if files, err = filepath.Glob(filepath.Join(c.dir, place+".*")); err != nil {
			b.Fatal(err)
		}
	}
}

// measure has the agents talk, and returns what that costs: percent of a core, and
// the memory of flow in MiB.
func (c *chat) measure(b testing.TB) (core, rss float64) {
	b.Helper()
	pids := []int{c.cmd.Process.Pid, guardianOf(b, c.cmd.Process.Pid)}
	cpu := func() (sum time.Duration) {
		for _, pid := range pids {
			sum += cpuOf(b, pid)
		}
		return sum
	}
	used := cpu()
	mustWrite(b, filepath.Join(c.dir, "go"), "")
	c.await(b, "done")
	return 100 * (cpu() - used).Seconds() * float64(c.rate) / float64(c.lines), peakOf(b, pids[0])
}

// finish lets the agents end, and checks that every line became an event.
func (c *chat) finish(b testing.TB) {
	b.Helper()
	mustWrite(b, filepath.Join(c.dir, "end"), "")
	if err := c.cmd.Wait(); err != nil {
		b.Fatalf("flow: %v\n%s", err, c.stderr.Bytes())
	}
	if got, want := len(c.heard(b)), c.agents*c.lines; got != want {
		b.Fatalf("%d events of lines, want %d", got, want)
	}
}

// heard are the lines that became events, each as the step and the number of the line. The
// events must be numbered without gaps, and those of a step in order.
func (c *chat) heard(b testing.TB) []string {
	b.Helper()
	v, err := state.ReadRun(filepath.Join(c.dir, "state", "runs", "chatty"))
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	seq, next := int64(0), map[string]int{}
	err = v.Events(func(line []byte) error {
		var e struct {
			Seq     int64  `json:"seq"`
			Step    string `json:"step"`
			Type    string `json:"type"`
			Content string `json:"content"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if seq++; e.Seq != seq {
			return fmt.Errorf("event %d is numbered %d", seq, e.Seq)
		}
		if e.Type != "reasoning" {
			return nil
		}
		number, _, _ := strings.Cut(e.Content, " ")
		if number != strconv.Itoa(next[e.Step]) {
			return fmt.Errorf("line %s of step %s comes as number %d", number, e.Step, next[e.Step])
		}
		next[e.Step]++
		all = append(all, e.Step+" "+number)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return all
}

// guardianOf returns the only child of flow.
func guardianOf(b testing.TB, flow int) int {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", flow))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
	}
	b.Fatal("flow has no guardian")
	return 0
}

// cpuOf is the CPU time of the threads of a process, in nanoseconds
// (/proc/PID/task/TID/schedstat, first field).
func cpuOf(b testing.TB, pid int) (sum time.Duration) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		b.Fatal("no schedstat", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// peakOf is the most memory that a process has had, in MiB.
func peakOf(b testing.TB, pid int) float64 {
	b.Helper()
	return memoryOf(b, pid, "VmHWM:")
}

// memoryOf is a size in MiB that /proc/PID/status tells.
func memoryOf(b testing.TB, pid int, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}
