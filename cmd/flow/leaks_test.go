package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/cmd/flow/internal/rpc"
	"flow/cmd/flow/internal/rpcclient"
)

// holding is what a process holds: goroutines, descriptors and children.
type holding struct {
	goroutines  int
	descriptors []string // what they lead to
	children    string
}

func heldNow(t *testing.T) holding {
	t.Helper()
	h := holding{goroutines: runtime.NumGoroutine(), descriptors: descriptorsOf(t, os.Getpid())}
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		h.children += string(text)
	}
	return h
}

// descriptorsOf lists what the open descriptors of a process lead to.
func descriptorsOf(t *testing.T, pid int) (all []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && !strings.HasPrefix(to, "/proc/") {
			all = append(all, to)
		}
	}
	slices.Sort(all)
	return all
}

// noMore fails the test unless the process comes to hold no more than before.
func (before holding) noMore(t *testing.T) {
	t.Helper()
	var now holding
	if eventually(func() bool {
		now = heldNow(t)
		return now.goroutines <= before.goroutines && len(now.descriptors) <= len(before.descriptors) && now.children == before.children
	}) {
		return
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines instead of %d, children %q instead of %q, descriptors\n%s\ninstead of\n%s\n%s", now.goroutines, before.goroutines,
		now.children, before.children, strings.Join(now.descriptors, "\n"), strings.Join(before.descriptors, "\n"), stacks[:runtime.Stack(stacks, true)])
}

// hostedPipeline has what leaves something behind when it is not cleaned up: an agent, a script,
// a list, a retry with a wait, a script that tells of the end.
const hostedPipeline = `
agents: {a: {use: codex, command: [./agent]}}
steps:
  say: {agent: a, prompt: go, timeout: 1m, idle-timeout: 1m, sandbox: read-only}
  each: {foreach: [1, 2], run: "echo {{ .item }}", notify: {run: "true", on: [succeeded]}}
  again: {needs: [say], retry: {max: 2, backoff: 10ms}, run: "test -e $FLOW_RUN_ID || { touch $FLOW_RUN_ID; exit 1; }"}
`

// TestHostLeaks runs many pipelines in one process, one after the other, for clients who come
// and go: goroutines, descriptors and children are then what they were. Not in parallel with
// other tests, for what it counts are those of the process.
func TestHostLeaks(t *testing.T) {
	runs := 20
	if *long {
		runs = 200
	}
	f := newFlood(t, "hosted", 1, 20)
	mustWrite(t, filepath.Join(f.dir, f.pipeline), hostedPipeline)
	a := &app{
		stdout: io.Discard, stderr: io.Discard, now: time.Now, environ: os.Environ,
		getenv: func(name string) string { return map[string]string{"FLOW_CONFIG": "none"}[name] }, stateDir: f.state(), logLevel: "warn", noConfig: true,
	}
	h := a.newHost(f.dir)
	f.serveOne(t, h, "warm") // what is made once, and stays
	before := heldNow(t)
	for i := range runs {
		f.serveOne(t, h, fmt.Sprint("run", i))
	}
	before.noMore(t)
	h.end(context.Background())
}

// serveOne runs the pipeline for a client that follows the run to its end and leaves.
func (f flood) serveOne(t *testing.T, h *host, id string) {
	t.Helper()
	in, out := io.Pipe()
	answers, replies := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- h.server().Serve(t.Context(), in, replies, nil) }()
	p := newPeer(func(notify func(string, json.RawMessage)) *rpcclient.Client {
		return rpcclient.Stream(answers, out, notify)
	})
	if _, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{File: f.pipeline}, RunID: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Events(t.Context(), rpc.EventsParams{Run: id, Subscribe: true, RunEvents: true}); err != nil {
		t.Fatal(err)
	}
	if end := p.await(t, method(rpc.RunComplete, id)); end.Params["status"] != "succeeded" {
		t.Fatalf("run %s: %v", id, end.Params)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	replies.Close()
	<-p.Ended()
}

// TestServeLives: a server that has had many runs, and clients who came, followed and left, has
// no descriptor more than after the first of them, and hardly more memory.
func TestServeLives(t *testing.T) {
	t.Parallel()
	runs, clients := 10, 20 // of each run
	if *long {
		runs, clients = 1000, 10
	}
	r := newCrashRun(t, "lives")
	s := r.serve(t)
	s.visit(t, "warm", clients)
	pid := s.cmd.Process.Pid
	before, memory := descriptorsOf(t, pid), residentOf(t, pid)
	for i := range runs {
		s.visit(t, fmt.Sprint("run", i), clients)
	}
	var now []string
	if !eventually(func() bool { now = descriptorsOf(t, pid); return len(now) <= len(before) }) {
		t.Errorf("descriptors\n%s\ninstead of\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	if grown := residentOf(t, pid) - memory; grown > 16 && !raceEnabled {
		t.Errorf("%.1f MiB of memory came to %.1f", grown, memory)
	}
}

// visit begins a run that clients follow to its end. Some of them leave without a word.
func (s *served) visit(t *testing.T, id string, clients int) {
	t.Helper()
	keeper := s.dial(t)
	if _, err := keeper.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{Text: "steps: {one: {run: echo one}}"}, RunID: id}); err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		p := s.dial(t)
		if _, err := p.Events(t.Context(), rpc.EventsParams{Run: id, Subscribe: true, RunEvents: true}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			sees(t, "79b-long-lived-server", string(p.await(t, method(rpc.RunComplete, id)).Raw))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		<-p.Ended()
	}
	if err := keeper.Close(); err != nil {
		t.Error(err)
	}
}

// residentOf is the memory that a process has now, in MiB.
func residentOf(t *testing.T, pid int) float64 {
	t.Helper()
	return memoryOf(t, pid, "VmRSS:")
}
