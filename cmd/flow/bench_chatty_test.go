package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	chattyAgents = 500
	chattyLines  = 200 // of each
	chattyRate   = 50  // lines a second, of each; testdata/bench/chatty has it too
)

// Benchmark500Chatty runs 500 agents at once, each of which prints 50 lines of 0.5 KB
// a second for 4 s, and nothing waits for another: supervised, translated, recorded.
// %core is the CPU that flow and its guardian use while the agents talk, that of the
// agents not counted, in percent of the 4 s that the talk takes where nothing is late.
func Benchmark500Chatty(b *testing.B) {
	flow, agent := buildRelease(b), build(b, "flow/cmd/flow/testdata/bench/chatty")
	var cores, rss []float64
	for range b.N {
		c := chat{dir: b.TempDir()}
		c.start(b, flow, agent)
		core, mem := c.measure(b)
		cores, rss = append(cores, core), append(rss, mem)
		c.finish(b)
	}
	b.ReportMetric(median(cores), "%core")
	b.ReportMetric(median(rss), "RSS-MiB")
	b.ReportMetric(chattyAgents*chattyRate, "lines/s")
}

// A chat is one run of flow with all the agents.
type chat struct {
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

func (c *chat) start(b *testing.B, flow, agent string) {
	b.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "name: chatty\nconcurrency: %d\nagents:\n  talker: {use: codex, command: [%q], env: {CHATTY: %q, CHATTY_LINES: \"%d\"}}\nsteps:\n",
		chattyAgents, agent, c.dir, chattyLines)
	for i := range chattyAgents {
		fmt.Fprintf(&y, "  s%d: {agent: talker, prompt: talk}\n", i)
	}
	file := filepath.Join(c.dir, "chatty.yaml")
	mustWrite(b, file, y.String())
	c.cmd = exec.Command(flow, "run", "-q", "--state-dir", filepath.Join(c.dir, "state"), "--run-id", "chatty", file)
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.cmd.Process.Kill() }) // if it has not ended
	c.await(b, "ready")
}

// await waits until all agents have come to a place.
func (c *chat) await(b *testing.B, place string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(c.dir, place+".*"))
		switch {
		case err != nil:
			b.Fatal(err)
		case len(files) == chattyAgents:
			return
		case time.Now().After(deadline):
			b.Fatalf("%d of %d agents are %s after a minute", len(files), chattyAgents, place)
		}
	}
}

// measure has the agents talk, and returns what that costs: percent of a core, and
// the memory of flow in MiB.
func (c *chat) measure(b *testing.B) (core, rss float64) {
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
	return 100 * (cpu() - used).Seconds() * chattyRate / chattyLines, peakOf(b, pids[0])
}

// finish lets the agents end, and checks that every line became an event.
func (c *chat) finish(b *testing.B) {
	b.Helper()
	mustWrite(b, filepath.Join(c.dir, "end"), "")
	if err := c.cmd.Wait(); err != nil {
		b.Fatalf("flow: %v\n%s", err, c.stderr.Bytes())
	}
	events, err := os.ReadFile(filepath.Join(c.dir, "state", "runs", "chatty", "events.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	if got, want := bytes.Count(events, []byte(`"type":"reasoning"`)), chattyAgents*chattyLines; got != want {
		b.Fatalf("%d events of reasoning, want %d", got, want)
	}
}

// guardianOf returns the only child of flow.
func guardianOf(b *testing.B, flow int) int {
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
func cpuOf(b *testing.B, pid int) (sum time.Duration) {
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

// peakOf is the most memory that a process has had, in MiB (/proc/PID/status).
func peakOf(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}
