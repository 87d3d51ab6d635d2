package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"flow/cmd/flow/internal/scriptmodel"
)

const (
	crashes       = 20
	crashesAtOnce = 2
	// crashDelay makes the model as slow as its CLIs, so that kills also fall into
	// the middle of its turns.
	crashDelay = 250 * time.Millisecond
)

// A moment is when flow is killed: some time after its start, or after the model
// gave the last answer of a step.
type moment struct {
	step  string // "": after the start
	after time.Duration
}

func (m moment) String() string {
	from := "the start"
	if m.step != "" {
		from = "the answer of " + m.step
	}
	return fmt.Sprintf("%v after %s", m.after.Round(time.Millisecond), from)
}

// moments are one or two for each crash. The first are spread over the duration of
// a run, one in each part of it, or over the first moments after the steps'
// answers. The second, if any, kills the resume.
func moments(r *rand.Rand, run time.Duration) [][]moment {
	const parts = 12
	var all [][]moment
	for i := range crashes {
		m := moment{after: time.Duration((float64(i) + r.Float64()) / parts * float64(run))}
		if i >= parts {
			m = moment{step: stepNames[i%len(stepNames)], after: time.Duration(r.Int64N(int64(250 * time.Millisecond)))}
		}
		all = append(all, []moment{m})
		if i%4 == 0 {
			all[i] = append(all[i], moment{after: time.Duration(r.Int64N(int64(run / 2)))})
		}
	}
	return all
}

// TestRealCrash kills flow, and nothing else, in the middle of a pipeline of real
// CLIs, and resumes: the run ends as if nothing had happened.
func TestRealCrash(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("FLOW_REAL_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	run := uninterrupted(t, path, binary)
	t.Logf("FLOW_REAL_SEED=%d repeats these kills; a run takes %v", seed, run.Round(time.Millisecond))
	slots := make(chan struct{}, crashesAtOnce)
	for i, ms := range moments(rand.New(rand.NewPCG(seed, 0)), run) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			crash(t, path, binary, ms)
		})
	}
}

// uninterrupted measures how long the pipeline takes when as many others run as in
// the test itself.
func uninterrupted(t *testing.T, path, binary string) time.Duration {
	t.Helper()
	var all []*command
	start := time.Now()
	for range crashesAtOnce {
		c := cast{line: "Hello, world", delay: crashDelay}
		l := newLab(t, path, binary, scriptmodel.New(c.script, nil))
		all = append(all, l.start(t, "run", l.pipeline(t, "pipeline.yaml"), "-q"))
	}
	for _, cmd := range all {
		if status := cmd.end(t); status != 0 {
			t.Errorf("exit status %d\n%s", status, cmd.stderr.String())
		}
	}
	return time.Since(start) * 4 / 5 // later starts find the CLIs in the page cache
}

// crash runs the pipeline, kills flow at the moments, and resumes to the end.
func crash(t *testing.T, path, binary string, ms []moment) {
	t.Helper()
	c := cast{line: "Hello, world of " + t.Name(), delay: crashDelay}
	answered := map[string]chan struct{}{"": make(chan struct{})}
	close(answered[""])
	for _, name := range stepNames {
		answered[name] = make(chan struct{}, 1)
	}
	l := newLab(t, path, binary, scriptmodel.New(c.script, func(x scriptmodel.Exchange) {
		if x.Turn.Label != "" {
			select {
			case answered[x.Turn.Label] <- struct{}{}:
			default: // given before
			}
		}
	}))
	file, kills := l.pipeline(t, "pipeline.yaml"), 0
	for _, m := range ms {
		if l.kill(t, answered[m.step], m.after, l.next(file)...) {
			kills++
		}
	}
	cmd := l.start(t, l.next(file)...)
	if status := cmd.end(t); status != 0 {
		t.Fatalf("killed %v: the resume ended with %d\n%s%s", ms, status, cmd.stderr.String(), cmd.stdout.String())
	}
	t.Logf("killed %v: %d kills", ms, kills)
	checkCrash(t, l, c, cmd.report(t), kills)
	checkFinished(t, l)
}

// next is what to type to go on: the run, until it is recorded, then its resume.
func (l *lab) next(file string) []string {
	if _, err := os.Stat(l.runDir()); err != nil {
		return []string{"run", file, "--run-id", l.run, "-q", "-o", "json"}
	}
	return []string{"resume", l.run, "-q", "-o", "json"}
}

// kill starts flow, waits for begun and then for a while, and kills it. It reports
// whether flow still ran.
func (l *lab) kill(t *testing.T, begun <-chan struct{}, after time.Duration, args ...string) bool {
	t.Helper()
	c := l.start(t, args...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // its end is expected
	}()
	select {
	case <-begun:
	case <-ended:
		return false
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended:
		return false
	}
	_ = c.Process.Kill() // it may have ended this instant
	<-ended
	return !c.ProcessState.Exited()
}

// checkCrash demands that the run is the same as one that nobody killed.
func checkCrash(t *testing.T, l *lab, c cast, r ran, kills int) {
	t.Helper()
	checkNothingLeft(t, l)
	checkResult(t, l, c, r)
	checkWorkspace(t, l)
	checkSessions(t, l, r)
	checkHandover(t, l, c)
	events := l.events(t)
	checkNumbers(t, events)
	checkGoneOn(t, events, r)
	checkAskedOnce(t, l, r, kills)
}

// checkGoneOn demands that an agent which had begun to work has gone on in the same
// native session.
func checkGoneOn(t *testing.T, events []happened, r ran) {
	t.Helper()
	worked := map[string]bool{}
	for _, e := range events {
		if !strings.HasPrefix(e.Type, "tool") && (e.Type != "textChunk" || e.Role != "assistant") {
			continue // no work of the model
		}
		worked[e.Step] = true
		if e.SessionID != r.Steps[e.Step].Session {
			t.Errorf("step %s ended in session %s, but its agent had begun in %s", e.Step, r.Steps[e.Step].Session, e.SessionID)
		}
	}
	if len(worked) != len(stepNames) {
		t.Errorf("only these steps tell of work: %v", worked)
	}
}

// checkAskedOnce demands that no step was run twice to its end, and that no token
// was counted twice.
func checkAskedOnce(t *testing.T, l *lab, r ran, kills int) {
	t.Helper()
	asked, answers := map[string]int64{}, map[string]int{}
	for _, x := range l.model.Exchanges() {
		task, _ := current(x.Request)
		asked[task] += 100
		if x.Done && x.Turn.Label != "" {
			answers[x.Turn.Label]++
		}
	}
	for _, name := range stepNames {
		if n := completedTurns(t, l, name); n != 1 {
			t.Errorf("step %s was completed %d times", name, n)
		}
		// An answer that was given as flow died may have to be asked for again.
		if answers[name] < 1 || answers[name] > 1+kills {
			t.Errorf("the model gave the last answer of step %s %d times", name, answers[name])
		}
		if u := r.Steps[name].Usage; u == nil || u.InputTokens < 100 || u.InputTokens > asked[name] {
			t.Errorf("step %s used %+v, but the model was asked for at most %d", name, u, asked[name])
		}
	}
}

// completedTurns counts the processes of a step that printed the end of a
// successful turn, in their agent's own words.
func completedTurns(t *testing.T, l *lab, step string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.runDir(), "attempts", step+".*.stdout"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no output of step %s (%v)", step, err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if completes(line) {
				count++
			}
		}
	}
	return count
}

// completes reports whether a native line says that a turn has succeeded.
func completes(line string) bool {
	var l struct {
		Type    string `json:"type"`
		Status  string `json:"status"`   // Gemini CLI
		IsError *bool  `json:"is_error"` // Claude Code
	}
	if json.Unmarshal([]byte(line), &l) != nil {
		return false // cut short by the kill
	}
	switch l.Type {
	case "turn.completed":
		return true
	case "result":
		return l.Status == "success" || l.IsError != nil && !*l.IsError
	default:
		return false
	}
}

// checkFinished demands that one more resume finds nothing to do.
func checkFinished(t *testing.T, l *lab) {
	t.Helper()
	shown := l.flow(t, 0, "show", l.run, "-o", "json").stdout.String()
	before := len(l.model.Exchanges())
	if again := l.flow(t, 0, "resume", l.run, "-o", "json").stdout.String(); again != shown {
		t.Errorf("a resume of the finished run says %s\nbut show says %s", again, shown)
	}
	if now := len(l.model.Exchanges()); now != before {
		t.Errorf("a resume of the finished run made %d requests", now-before)
	}
}
