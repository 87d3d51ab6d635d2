package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// chattyMemory is the most memory that flow may have needed with 500 agents that talk at once,
// in MiB: a third of a MiB for each. It needs half of that.
const chattyMemory = 160

// TestLoadChatty runs 500 agents at once: at a steady rate, and as fast as they can. Every line
// is an event, in order and whole, standard error is kept, and the memory is bounded.
func TestLoadChatty(t *testing.T) {
	agent := build(t, "flow/cmd/flow/testdata/bench/chatty")
	for name, c := range map[string]*chat{
		"steady": {agents: 500, lines: 25, rate: 50},
		"flood":  {agents: 500, lines: 40, rate: 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.begin(t, agent)
			mustWrite(t, filepath.Join(c.dir, "go"), "")
			c.await(t, "done")
			peak := peakOf(t, c.cmd.Process.Pid)
			t.Logf("%.0f MiB", peak)
			if peak > chattyMemory && !raceEnabled {
				t.Errorf("flow needed %.0f MiB, more than %d", peak, chattyMemory)
			}
			c.finish(t)
			sees(t, "75-many-chatty-agents", c.stderr.String())
			if got, want := len(c.printed(t, "stderr")), c.agents*((c.lines+9)/10); got != want {
				t.Errorf("%d lines of standard error were kept, want %d", got, want)
			}
		})
	}
}

// TestLoadChattyCancelled stops 200 agents in the middle of their talk: all are gone, and what
// they had said is on record.
func TestLoadChattyCancelled(t *testing.T) {
	c := &chat{agents: 200, lines: 1_000_000, rate: 50}
	r := c.begin(t, build(t, "flow/cmd/flow/testdata/bench/chatty"))
	mustWrite(t, filepath.Join(c.dir, "go"), "")
	if !eventually(func() bool { return len(c.printed(t, "stderr")) >= c.agents }) {
		t.Fatal("they do not talk")
	}
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := c.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitSignal+int(syscall.SIGINT) {
		t.Errorf("flow: %v", err)
	}
	sees(t, "76-many-agents-cancelled", c.stderr.String())
	if left := processesOf("chatty", r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	said := 0
	for _, line := range c.printed(t, "stdout") {
		if bytes.Contains(line, []byte(`"reasoning"`)) {
			said++
		}
	}
	if got := len(c.heard(t)); got != said || got == 0 {
		t.Errorf("%d lines are on record of %d that were printed", got, said)
	}
	r.finish(t, "state", "check", "--state-dir", filepath.Join(c.dir, "state"))
}

// begin starts the chat with the flow under test.
func (c *chat) begin(t *testing.T, agent string) crashRun {
	t.Helper()
	r := newCrashRun(t, "chatty")
	c.dir = t.TempDir()
	c.start(t, r.command, agent)
	return r
}

// printed are the whole lines that the agents have printed so far, on "stdout" or "stderr".
func (c *chat) printed(t *testing.T, where string) (lines [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "state", "runs", "chatty", "attempts", "*."+where))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasSuffix(line, "\n") {
				lines = append(lines, []byte(line))
			}
		}
	}
	return lines
}
