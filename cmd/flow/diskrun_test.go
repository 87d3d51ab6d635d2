package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/state/failpoint"
)

// diskPipeline has something of all that flow writes: facts, sessions, blobs, a cache entry,
// isolated workspaces and a merge, rounds, a list, an answer, artifacts.
const diskPipeline = `
name: rich
steps:
  analyze:
    agent: gemini
    timeout: 5m
    cache: true
    prompt: Analyse it.
    output: {type: object, required: [title], properties: {title: {type: string}}}
  left:
    agent: claude
    needs: [analyze]
    timeout: 5m
    isolation: worktree
    env: {FLOW_SIMULATE: "edit=left.txt:left"}
    prompt: Left of {{ .steps.analyze.output.title }}
  right:
    isolation: worktree
    run: echo right > right.txt; yes 12345678 | head -c 20000
  join: {merge: {from: [left, right]}}
  polish:
    needs: [join]
    repeat: {until: eq .iteration 2, max: 3}
    steps:
      review:
        agent: codex
        timeout: 5m
        prompt: Review it.
        output: {type: object, required: [approved], properties: {approved: {type: boolean}}}
  each:
    needs: [polish]
    foreach: [a, b]
    run: echo {{ .item }} > made-{{ .item }}.txt
  sign: {needs: [each], ask: "Ship {{ len .steps.right.text }} bytes?", timeout: 12h}
  report:
    needs: [sign]
    run: cat left.txt right.txt made-a.txt made-b.txt > report.txt
    artifacts: report.txt
outputs:
  title: "{{ .steps.analyze.output.title }}"
  merged: "{{ len .steps.join.output.merged }}"
  signed: "{{ .steps.sign.status }}"
`

// diskTurns is how many turns of agents the pipeline takes.
const diskTurns = 4

// A diskRun is one run of that pipeline: a repository to work in, a home and a state
// directory of its own.
type diskRun struct{ crashRun }

func newDiskRun(t *testing.T, id string) diskRun {
	t.Helper()
	dir := t.TempDir()
	r := diskRun{crashRun{dir: filepath.Join(dir, "work"), id: id, pipeline: "pipeline.yaml"}}
	r.env = []string{"FLOW_SIMULATE_LOG=" + r.log()}
	for _, d := range []string{r.dir, r.home()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(diskPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", "--template="}, {"add", "-A"}, {"commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = r.dir, r.command().Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	return r
}

func (r diskRun) log() string { return r.dir + "-turns.log" }

func (r diskRun) runDir() string { return filepath.Join(r.state(), "runs", r.id) }

// begin is the command line that begins the run, resume the one that goes on with it.
func (r diskRun) begin() []string {
	return []string{"run", r.pipeline, "--simulate", "--yes", "--run-id", r.id}
}

func (r diskRun) resume() []string { return []string{"resume", r.id, "--yes"} }

// goOn is the one of the two that the state asks for.
func (r diskRun) goOn() []string {
	if r.recorded() {
		return r.resume()
	}
	return r.begin()
}

// A diskEnd is an ended process of flow: what it printed, and its exit status.
type diskEnd struct {
	out  string
	code int
}

// with runs flow with failpoints, to its end, and fails the test if that does not come.
func (r diskRun) with(t *testing.T, points string, args ...string) diskEnd {
	t.Helper()
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	like := r.command(args...)
	cmd := exec.CommandContext(ctx, like.Path, args...)
	cmd.Dir, cmd.Env = like.Dir, append(like.Env, failpoint.Variable+"="+points)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("flow %s with %s hangs:\n%s", strings.Join(args, " "), points, out)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return diskEnd{string(out), cmd.ProcessState.ExitCode()}
}

// outcome is what must not depend on what happened on the way: what the run says and how its
// steps ended, what is in the workspace, and how many turns the agents completed. What an
// agent says may depend on it: a turn that was cancelled goes on in another one.
func (r diskRun) outcome(t *testing.T) map[string]any {
	t.Helper()
	var report struct {
		Status  string
		Outputs map[string]any
		Steps   map[string]struct{ Status string }
	}
	r.show(t, &report)
	files := map[string]string{}
	for _, name := range []string{"left.txt", "right.txt", "made-a.txt", "made-b.txt", "report.txt"} {
		data, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			t.Error(err)
		}
		lines := slices.Compact(strings.SplitAfter(string(data), "\n")) // a simulated agent that was cancelled edits again
		files[name] = strings.Join(lines, "")
	}
	return map[string]any{"status": report.Status, "outputs": report.Outputs, "steps": report.Steps, "files": files, "turns": r.turns(t)}
}

// turns counts the turns that agents completed.
func (r diskRun) turns(t *testing.T) (done int) {
	t.Helper()
	log, err := os.ReadFile(r.log())
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var turn struct {
			Done bool `json:"done"`
		}
		if err := json.Unmarshal(line, &turn); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if turn.Done {
			done++
		}
	}
	return done
}

// invariants are what must hold after every fault, once the run has been gone on with:
// nothing of it lives, its state is whole, no temporary file is left, and another resume
// changes nothing.
func (r diskRun) invariants(t *testing.T) {
	t.Helper()
	if left := processesOf(r.id, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	r.finish(t, "state", "check")
	before := readJournal(t, r.runDir())
	r.finish(t, r.resume()...)
	for _, name := range temporaryFiles(t, r.state()) {
		t.Errorf("a temporary file is left: %s", name)
	}
	if after := readJournal(t, r.runDir()); !bytes.Equal(before, after) {
		t.Errorf("a second resume wrote to the journal:\n%s", bytes.TrimPrefix(after, before))
	}
}

func readJournal(t *testing.T, run string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(run, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// temporaryFiles lists what in a state directory has a name or a place for files in the making.
func temporaryFiles(t *testing.T, state string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, in := d.Name(), filepath.Base(filepath.Dir(path))
		if d.IsDir() && name == "worktrees" { // the steps' own
			return fs.SkipDir
		}
		if in == "scratch" || in == "tmp" && filepath.Dir(filepath.Dir(path)) == state ||
			strings.HasPrefix(name, ".new-") || strings.HasPrefix(name, "tmp-") || strings.HasSuffix(name, ".new") {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// reached reads a log of failpoints: how often each was reached, in the process that began
// the log.
func reached(t *testing.T, file string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), " ")
	counts := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var pid, name string
		var n int
		if _, err := fmt.Sscan(line, &pid, &name, &n); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if pid == first {
			counts[name] = max(counts[name], n)
		}
	}
	return counts
}

// diskKinds are the names that operations of a kind pass.
func diskKinds(counts map[string]int) (kinds []string) {
	for name := range counts {
		switch name {
		case "disk", "disk-change", "disk-grow":
		default:
			if strings.HasPrefix(name, "disk-") {
				kinds = append(kinds, name)
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}
