package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// nestedPipeline is a loop of a group in which a list calls another pipeline, two agents
// race and three vote. The voters are content with the second round.
const nestedPipeline = `
env: {FLOW_SIMULATE: "delay=1ms;no@3:vote"}
concurrency: 4
steps:
  cycle:
    repeat: {until: .steps.vote.output.approved, max: 4}
    steps:
      each:
        foreach: [a, b, c]
        max-parallel: 2
        pipeline: inner.yaml
        with: {what: "{{ .item }}{{ .iteration }}"}
      race:
        race: [claude, codex]
        timeout: 5m
        prompt: Sum up {{ range .steps.each.items }}{{ .output.said }} {{ end }}
      vote:
        vote: {agents: [claude, codex, gemini], by: approved}
        timeout: 5m
        prompt: Is this good? {{ .steps.race.text }}
        output: {type: object, required: [approved], properties: {approved: {type: boolean}}}
outputs:
  rounds: "{{ .steps.cycle.iterations }}"
  said: "{{ range .steps.cycle.steps.each.items }}{{ .output.said }}, {{ end }}"
  approved: "{{ .steps.cycle.steps.vote.output.approved }}"
`

const innerPipeline = `
inputs: {what: {type: string}}
steps:
  think: {agent: gemini, timeout: 5m, prompt: "Think of {{ .inputs.what }}"}
  note: {needs: [think], run: "echo {{ .inputs.what }} >> noted; echo {{ .inputs.what }} of {{ .steps.think.status }}"}
outputs: {said: "{{ .steps.note.text }}"}
`

// TestCrashOfNested kills a run many times while it grows: in its items, calls,
// rounds, races and votes. It ends as an undisturbed one does, no agent has finished its
// task twice, and nothing is left.
func TestCrashOfNested(t *testing.T) {
	t.Parallel()
	calm := newNestedRun(t, "nested-calm")
	began := time.Now()
	calm.finish(t, "run", calm.pipeline, "--simulate", "--run-id", calm.id)
	usual := time.Since(began)
	want := calm.nested(t)
	if diff := cmp.Diff(map[string]any{"rounds": 2.0, "said": "a2 of succeeded, b2 of succeeded, c2 of succeeded, ", "approved": true}, want["outputs"]); diff != "" {
		t.Fatal(diff)
	}
	for _, id := range []string{"nested-1", "nested-2", "nested-3"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := newNestedRun(t, id)
			args := r.killOften(t, 15, usual/2, []string{"run", r.pipeline, "--simulate", "--run-id", r.id}, "resume", r.id)
			r.finish(t, args...)
			if diff := cmp.Diff(want, r.nested(t)); diff != "" {
				t.Errorf("the result differs from that of an undisturbed run (-want +got):\n%s", diff)
			}
			r.checkNested(t)
			r.nothingLeft(t)
			r.finish(t, "resume", r.id)
		})
	}
}

func newNestedRun(t *testing.T, id string) crashRun {
	t.Helper()
	r := crashRun{dir: t.TempDir(), id: id, pipeline: "pipeline.yaml"}
	r.env = []string{"FLOW_SIMULATE_LOG=" + r.dir + ".log"}
	for name, text := range map[string]string{r.pipeline: nestedPipeline, "inner.yaml": innerPipeline} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// nested is what must not depend on crashes: the outputs and how each step stands, but for
// the candidates of a race.
func (r crashRun) nested(t *testing.T) map[string]any {
	t.Helper()
	var report struct {
		Status  string
		Outputs map[string]any
		Steps   map[string]struct{ Status string }
	}
	r.show(t, &report)
	result := map[string]any{"status": report.Status, "outputs": report.Outputs}
	for path, step := range report.Steps {
		if !strings.Contains(path, ".race.") {
			result[path] = step.Status
		}
	}
	return result
}

// checkNested looks at the sessions: each is told one thing and has one turn that was
// completed; and each thing was thought of, and noted.
func (r crashRun) checkNested(t *testing.T) {
	t.Helper()
	told, done, thought := map[string]string{}, map[string]int{}, map[string]bool{}
	for _, turn := range r.turns(t) {
		if told[turn.Session] == "" { // a later turn is told to go on
			told[turn.Session] = strings.TrimPrefix(turn.Prompt, "Think of ")
		}
		if turn.Done {
			done[turn.Session]++
		}
	}
	for session, n := range done {
		thought[told[session]] = true
		if n != 1 {
			t.Errorf("session %s completed %d turns", session, n)
		}
	}
	noted := r.merged(t, "noted")
	for _, what := range []string{"a1", "b1", "c1", "a2", "b2", "c2"} {
		if !thought[what] || !strings.Contains(noted, what+"\n") {
			t.Errorf("%s was not thought of or not noted: %v\n%s", what, thought[what], noted)
		}
	}
}
