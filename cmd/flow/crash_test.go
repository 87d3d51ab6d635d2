package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const crashPipeline = `
env: {FLOW_SIMULATE: "delay=2ms", FLOW_SIMULATE_LOG: simulate.log}
steps:
  analyze:
    agent: gemini
    timeout: 5m
    prompt: Analyse it.
    output: {type: object, required: [title], properties: {title: {type: string}}}
  parallel:
    steps:
      left:
        agent: claude
        timeout: 5m
        prompt: Left of {{ .steps.analyze.output.title }}
      right:
        agent: codex
        timeout: 5m
        env: {FLOW_SIMULATE: "delay=2ms;edit=right.txt:right"}
        prompt: Right of {{ .steps.analyze.output.title }}
  count:
    needs: [parallel]
    run: echo ran >> count.log; sleep 0.02; cat right.txt
  review:
    agent: claude
    timeout: 5m
    prompt: "Review {{ .steps.parallel.steps.left.text }} and {{ .steps.count.text }}"
    output: {type: object, required: [approved], properties: {approved: {type: boolean}}}
outputs:
  approved: "{{ .steps.review.output.approved }}"
`

// TestCrash kills flow with SIGKILL at random moments and resumes the run until it
// ends. The result is that of a run that nothing happened to, no agent finished
// its task twice, every step stayed in its native session, and nothing is left.
func TestCrash(t *testing.T) {
	t.Parallel()
	calm := newCrashRun(t, "calm")
	began := time.Now()
	calm.finish(t, "run", calm.pipeline, "--simulate", "--run-id", calm.id)
	usual := time.Since(began)
	want := calm.result(t)
	seed := uint64(time.Now().UnixNano())
	for i := range 12 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			t.Logf("seed %d", seed)
			r := newCrashRun(t, fmt.Sprintf("crash%d", i))
			args := []string{"run", r.pipeline, "--simulate", "--run-id", r.id}
			for range 3 {
				r.kill(t, time.Duration(random.Int64N(int64(usual))), args...)
				if r.recorded() {
					args = []string{"resume", r.id}
				}
			}
			r.finish(t, args...)
			if diff := cmp.Diff(want, r.result(t)); diff != "" {
				t.Errorf("the result differs from that of an undisturbed run (-want +got):\n%s", diff)
			}
			r.checkSessions(t)
			sees(t, "01-killed", r.finish(t, "resume", r.id))
			if left := processesOf(r.id, r.home()); len(left) > 0 {
				t.Errorf("processes left: %v", left)
			}
		})
	}
}

type crashRun struct {
	dir, id, pipeline string
	env               []string // besides that of all
	shared            string   // the state directory, if other runs have it too
}

func newCrashRun(t *testing.T, id string) crashRun {
	t.Helper()
	r := crashRun{dir: t.TempDir(), id: id, pipeline: "pipeline.yaml"}
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(crashPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r crashRun) command(args ...string) *exec.Cmd {
	cmd := exec.Command("flow", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "FLOW_STATE_DIR="+r.state(), "FLOW_CONFIG=none", "HOME="+r.home(), "GORACE=atexit_sleep_ms=0", "GITHUB_TOKEN=a-token-of-the-tests",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@localhost", "GIT_CONFIG_GLOBAL=/dev/null", "GOFLAGS=-vet=off")
	if cache, err := os.UserCacheDir(); err == nil {
		cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+cache) // for the go command
	}
	cmd.Env = append(cmd.Env, r.env...)
	return cmd
}

func (r crashRun) home() string { return r.dir + "-home" }

// state is beside the directory that the run works in.
func (r crashRun) state() string {
	if r.shared != "" {
		return r.shared
	}
	return r.dir + "-state"
}

// kill starts flow and kills it after a while, unless it has ended by then.
func (r crashRun) kill(t *testing.T, after time.Duration, args ...string) {
	t.Helper()
	cmd := r.command(args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	_ = cmd.Wait() // killed or not, the resume decides
}

func (r crashRun) recorded() bool {
	_, err := os.Stat(filepath.Join(r.state(), "runs", r.id))
	return err == nil
}

// finish runs flow, which must succeed, and returns what it printed.
func (r crashRun) finish(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("flow %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// result is what must not depend on crashes: the outputs and what each step said.
func (r crashRun) result(t *testing.T) map[string]any {
	t.Helper()
	var report struct {
		Status  string
		Outputs map[string]any
		Steps   map[string]any
	}
	r.show(t, &report)
	edited, err := os.ReadFile(filepath.Join(r.dir, "right.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"status": report.Status, "outputs": report.Outputs, "edited": strings.Count(string(edited), "right") > 0, "steps": len(report.Steps)}
}

// show decodes the run's report into v.
func (r crashRun) show(t *testing.T, v any) {
	t.Helper()
	out, err := r.command("show", r.id, "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatal(err)
	}
}

// checkSessions reads what the simulated agents noted: one session for each agent
// step, and one turn that was completed in each.
func (r crashRun) checkSessions(t *testing.T) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(r.dir, "simulate.log"))
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for line := range bytes.Lines(log) {
		var turn struct {
			Session string `json:"session"`
			Done    bool   `json:"done"`
		}
		if err := json.Unmarshal(line, &turn); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if turn.Done {
			done[turn.Session]++
		}
	}
	for session, n := range done {
		if n != 1 {
			t.Errorf("session %s completed %d turns", session, n)
		}
	}
	if len(done) != 4 {
		t.Errorf("%d sessions completed a turn, want 4:\n%s", len(done), log)
	}
}

func write(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
