package main

import (
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/cmd/flow/internal/scriptmodel"
)

// stepNames are the steps of testdata/realcli/pipeline.yaml, in the order of the file.
var stepNames = []string{"analyse", "edit", "explain", "review", "recall"}

// TestRealPipeline takes a pipeline through the real CLIs: Gemini analyses, Codex
// edits and explains in the same session, Claude reviews and recalls in a fork.
func TestRealPipeline(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	c := cast{line: "Hello, world of 4711"}
	l := newLab(t, path, binary, scriptmodel.New(c.script, nil))
	r := l.flow(t, 0, "run", l.pipeline(t, "pipeline.yaml"), "--run-id", l.run, "-o", "json").report(t)

	checkResult(t, l, c, r)
	checkWorkspace(t, l)
	checkSessions(t, l, r)
	checkHandover(t, l, c)
	checkUsage(t, l, r)
	checkEvents(t, l, l.events(t), r)
	checkNothingLeft(t, l)
}

// checkResult demands what the pipeline is for: the file changed, every answer
// built upon the one before it.
func checkResult(t *testing.T, l *lab, c cast, r ran) {
	t.Helper()
	edited := "Changed greet.txt, which now reads: " + c.line
	want := map[string]any{
		"line": c.line, "edit": edited, "explanation": "I did this: " + edited, "approved": true,
		"comments": "I looked for: " + c.line,
		"verdict":  `I said: {"approved":true,"comments":"I looked for: ` + c.line + `"}`,
	}
	if r.Status != "succeeded" || !maps.Equal(r.Outputs, want) {
		t.Errorf("run %s with %v, want %v", r.Status, r.Outputs, want)
	}
	if got := l.read(t, "work/greet.txt"); got != c.line+"\n" {
		t.Errorf("greet.txt reads %q", got)
	}
	for name, s := range r.Steps {
		if s.Status != "succeeded" || s.Error != "" {
			t.Errorf("step %s: %s: %s", name, s.Status, s.Error)
		}
	}
}

// checkWorkspace demands that the workspace holds nothing but the file.
func checkWorkspace(t *testing.T, l *lab) {
	t.Helper()
	entries, err := os.ReadDir(l.work)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "greet.txt" {
			t.Errorf("the workspace holds %v", e)
		}
	}
}

// checkSessions demands that the sessions that flow names are in the CLIs' own
// stores, that `continue` stays in a session and `fork` leaves it.
func checkSessions(t *testing.T, l *lab, r ran) {
	t.Helper()
	for name, s := range r.Steps {
		if len(s.Session) != 36 {
			t.Errorf("step %s has the session %q", name, s.Session)
			continue
		}
		native := map[string]string{
			"analyst": "session-*" + s.Session[:8] + ".jsonl", "editor": "rollout-*" + s.Session + ".jsonl", "reviewer": s.Session + ".jsonl",
		}[s.Agent]
		if !l.holds(t, native) {
			t.Errorf("step %s: no CLI has stored %s", name, native)
		}
	}
	if r.Steps["explain"].Session != r.Steps["edit"].Session {
		t.Errorf("explain left the session of edit")
	}
	if r.Steps["recall"].Session == r.Steps["review"].Session {
		t.Errorf("recall did not fork the session of review")
	}
}

// holds reports whether a file of the lab has a name that matches the pattern. Where
// a CLI keeps its sessions is left to it and to the adapter.
func (l *lab) holds(t *testing.T, pattern string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(l.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		matches, err := filepath.Match(pattern, d.Name())
		found = found || matches
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// checkHandover demands that the models were told what the steps before had found.
func checkHandover(t *testing.T, l *lab, c cast) {
	t.Helper()
	edited := "Changed greet.txt, which now reads: " + c.line
	carries := map[string]string{"edit": c.line, "explain": edited, "review": "The editor says: " + edited, "recall": "I looked for: "}
	for _, x := range l.model.Exchanges() {
		task, _ := current(x.Request)
		if text := carries[task]; !x.Request.Side && !x.Request.Contains(text) {
			t.Errorf("a request of %s does not hold %q", task, text)
		}
	}
}

// checkUsage demands that every request came from the step's session, and that every
// token and dollar was counted once, though Codex counts over a whole session and
// Claude Code over a fork's parent as well.
func checkUsage(t *testing.T, l *lab, r ran) {
	t.Helper()
	requests := map[string]int64{}
	for _, x := range l.model.Exchanges() {
		task, _ := current(x.Request)
		requests[task]++
		if id := x.Request.Session; id != "" && id != r.Steps[task].Session {
			t.Errorf("a request of %s came from session %s", task, id)
		}
	}
	for _, name := range stepNames {
		u, n := r.Steps[name].Usage, requests[name]
		if u == nil || u.InputTokens != 100*n || u.OutputTokens != 10*n || u.TotalTokens != 110*n {
			t.Errorf("step %s made %d requests and used %+v", name, n, u)
		}
	}
	review, recall := r.Steps["review"].CostUSD, r.Steps["recall"].CostUSD
	if review == nil || recall == nil {
		t.Fatalf("no cost: review %v, recall %v", review, recall)
	}
	perRequest := *review / float64(requests["review"])
	if *review <= 0 || math.Abs(*recall-perRequest*float64(requests["recall"])) > 1e-9 {
		t.Errorf("review cost %v for %d requests, recall %v for %d", *review, requests["review"], *recall, requests["recall"])
	}
}

// checkEvents demands the story of every step, in the terms that all agents share.
func checkEvents(t *testing.T, l *lab, events []happened, r ran) {
	t.Helper()
	said := map[string][]string{}
	for _, e := range events {
		if e.SessionID != r.Steps[e.Step].Session {
			t.Errorf("event %+v is not of session %s", e, r.Steps[e.Step].Session)
		}
		said[e.Step] = append(said[e.Step], strings.TrimSpace(e.Type+" "+e.NativeName+strings.TrimPrefix(e.FilePath, l.work+"/")))
	}
	want := map[string][]string{
		"analyse": {"sessionStarted", "toolStarted read_file", "toolCompleted", "textChunk", "turnCompleted", "sessionEnded"},
		"edit": {
			"sessionStarted", "toolStarted command_execution", "toolCompleted", "toolStarted file_change", "toolCompleted",
			"fileChanged greet.txt", "toolStarted command_execution", "toolCompleted", "textChunk", "turnCompleted", "sessionEnded",
		},
		"explain": {"sessionStarted", "textChunk", "turnCompleted", "sessionEnded"},
		"review":  {"sessionStarted", "toolStarted Read", "toolCompleted", "toolStarted StructuredOutput", "toolCompleted", "turnCompleted", "sessionEnded"},
		"recall":  {"sessionStarted", "textChunk", "turnCompleted", "sessionEnded"},
	}
	for _, name := range stepNames {
		if !inOrder(said[name], want[name]) {
			t.Errorf("step %s: events %q, want among them %q", name, said[name], want[name])
		}
	}
	checkNumbers(t, events)
}

// inOrder reports whether list holds want, perhaps with others in between.
func inOrder(list, want []string) bool {
	for _, s := range want {
		i := slices.Index(list, s)
		if i < 0 {
			return false
		}
		list = list[i+1:]
	}
	return true
}

// checkNumbers demands that the events are numbered without gap or double.
func checkNumbers(t *testing.T, events []happened) {
	t.Helper()
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d: %+v", i+1, e.Seq, e)
		}
	}
}

// checkNothingLeft demands that no process of the lab's run is left.
func checkNothingLeft(t *testing.T, l *lab) {
	t.Helper()
	var left []string
	if !eventually(func() bool { left = processesOf(l.run, filepath.Join(l.dir, "home")); return len(left) == 0 }) {
		t.Errorf("processes left: %v", left)
	}
}

// unknownModel is what the vendors say of a model that they do not have.
var unknownModel = map[string]string{
	"claude": "model: opus",
	"codex":  "The model `gpt-5.5` does not exist or you do not have access to it.",
	"gemini": "models/gemini-2.5-pro is not found for API version v1beta, or is not supported for generateContent.",
}

// TestRealErrors demands that a refusal of each vendor's API is told by its cause,
// after a bounded number of requests.
func TestRealErrors(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range []string{"claude", "codex", "gemini"} {
		for cause, refusal := range map[string]scriptmodel.Turn{
			"auth":            {Status: 401, Message: "the key is wrong"},
			"rate_limit":      {Status: 429, Message: "too many requests"},
			"model_not_found": {Status: 404, Message: unknownModel[agent]},
		} {
			t.Run(agent+"/"+cause, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, path, binary, scriptmodel.New(func(scriptmodel.Request) scriptmodel.Turn { return refusal }, nil))
				start := time.Now()
				c := l.flow(t, exitFailed, "run", l.pipeline(t, "alone.yaml", "AGENT", agent), "--run-id", l.run, "-o", "json")
				s := c.report(t).Steps["only"]
				t.Logf("%v, %d requests: %s\nhint: %s", time.Since(start).Round(time.Millisecond), len(l.model.Exchanges()), s.Error, s.Hint)
				if s.Status != "failed" || s.Cause != cause {
					t.Errorf("%s with the cause %q, want %q: %s", s.Status, s.Cause, cause, s.Error)
				}
				if n := len(l.model.Exchanges()); n == 0 || n > 10 {
					t.Errorf("%d requests", n)
				}
				checkNothingLeft(t, l)
			})
		}
	}
}

// TestRealHiccup demands that an API which is overloaded for a moment costs no step.
func TestRealHiccup(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range []string{"claude", "codex", "gemini"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			script := scriptmodel.Failing(1, scriptmodel.Turn{Status: 503, Message: "busy"}, cast{}.script)
			l := newLab(t, path, binary, scriptmodel.New(script, nil))
			s := l.flow(t, 0, "run", l.pipeline(t, "alone.yaml", "AGENT", agent), "-o", "json").report(t).Steps["only"]
			if s.Text != "Hello." || s.Attempts != 1 || len(l.model.Exchanges()) != 2 {
				t.Errorf("%q after %d attempts and %d requests", s.Text, s.Attempts, len(l.model.Exchanges()))
			}
		})
	}
}
