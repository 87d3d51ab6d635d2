package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"flow/cmd/flow/internal/rpc"
	"flow/state"
)

// A flood is a run whose agents print very much at once.
type flood struct {
	crashRun
	steps, events int // of each step
}

// newFlood makes a run whose steps make so many calls of tools each.
func newFlood(t *testing.T, id string, steps, calls int) flood {
	t.Helper()
	f := flood{newCrashRun(t, id), steps, 2*calls + 5}
	mustWrite(t, filepath.Join(f.dir, "lines.jsonl"), floodLines(calls))
	mustWrite(t, filepath.Join(f.dir, "agent"), "#!/bin/sh\ncat >prompt\ncat lines.jsonl\n")
	if err := os.Chmod(filepath.Join(f.dir, "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	var y strings.Builder
	y.WriteString("concurrency: 8\nagents: {a: {use: codex, command: [./agent]}}\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&y, "  s%d: {agent: a, prompt: go, timeout: 10m, sandbox: read-only}\n", i)
	}
	mustWrite(t, filepath.Join(f.dir, f.pipeline), y.String())
	return f
}

// floodLines is what an agent prints that makes a number of calls. They have two events each,
// and five tell of beginning and end.
func floodLines(calls int) string {
	const started = `{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":"go vet ./...","aggregated_output":"","exit_code":null,"status":"in_progress"}}` + "\n"
	const completed = `{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":"go vet ./...","aggregated_output":"%s","exit_code":0,"status":"completed"}}` + "\n"
	var b strings.Builder
	b.WriteString(`{"type":"thread.started","thread_id":"01a1fb4c-4556-7083-87aa-513795a5eb62"}` + "\n" + `{"type":"turn.started"}` + "\n")
	for n := range calls {
		fmt.Fprintf(&b, started+completed, n, n, strings.Repeat("ok ", 30))
	}
	b.WriteString(`{"type":"item.completed","item":{"id":"item_last","type":"agent_message","text":"done"}}` + "\n")
	b.WriteString(`{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5,"reasoning_output_tokens":0}}` + "\n")
	return b.String()
}

func (f flood) runDir() string { return filepath.Join(f.state(), "runs", f.id) }

// check counts the events of the run, whose numbers must have no gap.
func (f flood) check(t *testing.T) {
	t.Helper()
	v, err := state.ReadRun(f.runDir())
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	err = v.Events(func(line []byte) error {
		at, err := placeOf(line)
		if seq++; err == nil && at.Seq != seq {
			err = fmt.Errorf("event %d is numbered %d", seq, at.Seq)
		}
		return err
	})
	if want := int64(f.steps * f.events); err != nil || seq != want {
		t.Errorf("%d events, want %d (%v)", seq, want, err)
	}
}

// measured runs flow, which must succeed, and returns what it printed. The memory that it
// needed must not depend on how many events there are.
func (f flood) measured(t *testing.T, l launcher, args ...string) string {
	t.Helper()
	const most = 64 // MiB; the test binary alone needs 25
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := f.command(args...)
	cmd.Args = append([]string{l.path, cmd.Path}, args...)
	cmd.Path = l.path
	cmd.ExtraFiles = []*os.File{w}
	out, err := cmd.CombinedOutput()
	w.Close()
	if err != nil {
		t.Fatalf("flow %s: %v\n%.1000s", strings.Join(args, " "), err, out)
	}
	var c cost
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		t.Fatal(err)
	}
	t.Logf("%-30s %4d MiB %8.2f s", strings.Join(args, " "), c.RSS>>20, c.Wall.Seconds())
	if c.RSS>>20 > most && !raceEnabled {
		t.Errorf("flow %s needed %d MiB, more than %d", strings.Join(args, " "), c.RSS>>20, most)
	}
	return string(out)
}

// TestLoadEvents is a run of very many events, of one agent and of many: no command needs more
// memory for it than for few.
func TestLoadEvents(t *testing.T) {
	t.Parallel()
	steps, calls := 50, 50_000
	if *long {
		steps, calls = 1000, 500_000
	}
	l := newLauncher(t)
	t.Run("one agent", func(t *testing.T) {
		f := newFlood(t, "flood", 1, calls)
		out := f.measured(t, l, "run", f.pipeline, "-q", "--run-id", f.id, "-o", "json")
		f.check(t)
		sees(t, "77-a-million-events", f.measured(t, l, "show", f.id)+out)
		f.look(t, l)
	})
	t.Run("many agents", func(t *testing.T) {
		f := newFlood(t, "floods", steps, calls/steps)
		f.measured(t, l, "run", f.pipeline, "-q", "--run-id", f.id)
		f.check(t)
		if got, want := strings.Count(f.measured(t, l, "events", f.id, "s7"), "\n"), f.events; got != want {
			t.Errorf("%d events of one step, want %d", got, want)
		}
	})
	t.Run("resumed", func(t *testing.T) {
		f := newFlood(t, "flood", 1, calls)
		cmd := f.command("run", f.pipeline, "-q", "--run-id", f.id)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !eventually(func() bool {
			fi, err := os.Stat(filepath.Join(f.runDir(), "events.jsonl"))
			return err == nil && fi.Size() > 1<<20
		}) {
			t.Error("there are no events")
		}
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()
		f.measured(t, l, "resume", f.id, "-q")
		f.ends(t)
	})
}

// look reads the run in all ways that there are.
func (f flood) look(t *testing.T, l launcher) {
	t.Helper()
	if got := strings.Count(f.measured(t, l, "events", f.id), "\n"); got != f.events {
		t.Errorf("flow events prints %d lines", got)
	}
	f.measured(t, l, "events", f.id, "-o", "json")
	f.measured(t, l, "state", "check", f.id)
	f.measured(t, l, "state", "export", f.id, "-o", "run.tar")
	f.measured(t, l, "sessions", "show", "01a1fb4c")
	f.measured(t, l, "resume", f.id)
}

// ends wants that the run succeeded, with events that have no gap, each native line once.
func (f flood) ends(t *testing.T) {
	t.Helper()
	v, err := state.ReadRun(f.runDir())
	if err != nil {
		t.Fatal(err)
	}
	if s := v.Summary().Status; s != "succeeded" {
		t.Errorf("the run is %s", s)
	}
	last, err := lastSeq(v)
	count := int64(0)
	if err == nil {
		err = v.Events(func([]byte) error { count++; return nil })
	}
	if err != nil || last != count || count < int64(f.events) {
		t.Errorf("%d events, the last is %d: %v", count, last, err)
	}
	if out := f.finish(t, "state", "check", f.id); !strings.Contains(out, "nothing is wrong") {
		t.Error(out)
	}
}

// TestLoadSlowClients: two clients that do not read hold up neither the run nor the server,
// and cost no memory. When they read on, they hear everything, in order; who is so slow that
// the server gives the connection up goes on in another one.
func TestLoadSlowClients(t *testing.T) {
	t.Parallel()
	f := newFlood(t, "slow", 1, 20_000)
	s := f.serve(t)
	keeper := s.dial(t)
	if _, err := keeper.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{File: f.pipeline}, RunID: f.id}); err != nil {
		t.Fatal(err)
	}
	first, second := s.follow(t, f.id, 0), s.follow(t, f.id, 0)
	if !eventually(func() bool {
		v, err := state.ReadRun(f.runDir())
		return err == nil && v.Summary().Status == "succeeded"
	}) {
		t.Fatal("the run did not come to its end")
	}
	f.check(t)
	if peak := peakOf(t, s.cmd.Process.Pid); peak > 96 && !raceEnabled {
		t.Errorf("the server needed %.0f MiB", peak)
	}
	for _, stream := range []io.Reader{first, second} {
		seq, end := hear(t, stream, 0)
		for last := -1; end == "" && seq > last; {
			last = seq
			seq, end = hear(t, s.follow(t, f.id, seq), seq)
		}
		sees(t, "78-slow-client", end)
		if seq != f.events {
			t.Errorf("%d events were heard of %d", seq, f.events)
		}
	}
}

// follow asks for the events of a run behind one of them, as a browser does.
func (s *served) follow(t *testing.T, run string, after int) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address+"/events?run_events=1&run="+run, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if after > 0 {
		req.Header.Set("Last-Event-ID", strconv.Itoa(after))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// hear reads events until the connection or the run ends. It returns the number of the last
// one, and what was said of the end.
func hear(t *testing.T, stream io.Reader, seq int) (last int, end string) {
	t.Helper()
	id, data := "", ""
	for r := bufio.NewReader(stream); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return seq, ""
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case strings.Contains(data, `"method":"run_complete"`):
			return seq, data
		case name == "" && strings.Contains(data, `"method":"run_event"`):
			if seq++; id != strconv.Itoa(seq) {
				t.Fatalf("event %d comes as number %s", seq, id)
			}
			id, data = "", ""
		}
	}
}

// TestLoadSlowReader: whoever reads what flow prints may be as slow as they like. The agents
// go on, nothing is lost, and when it is read, the run comes to its end.
func TestLoadSlowReader(t *testing.T) {
	t.Parallel()
	f := newFlood(t, "reader", 4, 10_000)
	cmd := f.command("run", f.pipeline, "--run-id", f.id)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stderr = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	printed := func() bool { // by all agents, although nobody reads
		size, done := len(floodLines(10_000)), 0
		files, _ := filepath.Glob(filepath.Join(f.runDir(), "attempts", "*.stdout"))
		for _, file := range files {
			if fi, err := os.Stat(file); err == nil && fi.Size() == int64(size) {
				done++
			}
		}
		return done == f.steps
	}
	if !eventually(printed) {
		t.Error("the agents are held up")
	}
	if peak := peakOf(t, cmd.Process.Pid); peak > 96 && !raceEnabled {
		t.Errorf("flow needed %.0f MiB", peak)
	}
	text, err := io.ReadAll(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	sees(t, "79-slow-reader", string(text))
	f.check(t)
}
