package simulate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"flow/agents"
)

const (
	idA = "11111111-2222-4333-8444-555555555555"
	idB = "22222222-2222-4333-8444-555555555555"
)

// sessionOf is the id that the stream names.
func sessionOf(t *testing.T, o outcome) string {
	t.Helper()
	first := o.lines(t)[0]
	for _, key := range []string{"session_id", "thread_id"} {
		if id, ok := first[key].(string); ok {
			return id
		}
	}
	t.Fatalf("the first line names no session: %v", first)
	return ""
}

// codexArgv is a command line that goes on from a thread.
func codexArgv(verb, id string) []string {
	return []string{"exec", "--json", "--skip-git-repo-check", verb, id, "-"}
}

func TestClaudeSessions(t *testing.T) {
	l := newLab(t).script("tokens=100:20")
	cost := func(o outcome) []float64 {
		r := o.last(t)
		return []float64{r["total_cost_usd"].(float64), get(t, r, "usage.input_tokens").(float64)}
	}
	first := l.run(Claude, "one", argv(Claude, "--session-id", idA)...)
	if got := sessionOf(t, first); got != idA {
		t.Errorf("the session is %s, want the chosen %s", got, idA)
	}
	second := l.run(Claude, "two", argv(Claude, "--resume", idA)...)
	forked := l.run(Claude, "three", argv(Claude, "--resume", idA, "--fork-session", "--session-id", idB)...)
	if got := sessionOf(t, forked); got != idB {
		t.Errorf("the fork is %s, want the chosen %s", got, idB)
	}
	// The cost counts over the session and its parent, usage over the process.
	for i, o := range []outcome{first, second, forked} {
		want := []float64{claudeCost(usageOf(100*(i+1), 20*(i+1))), 100}
		if got := cost(o); !slices.Equal(got, want) {
			t.Errorf("turn %d: cost and usage %v, want %v", i+1, got, want)
		}
		since := get(t, o.last(t), "model_usage_since_last_result.claude-opus-5-5.inputTokens")
		total := get(t, o.last(t), "modelUsage.claude-opus-5-5.inputTokens")
		if since != 100.0 || total != float64(100*(i+1)) {
			t.Errorf("turn %d: %v tokens since the last result, %v in all", i+1, since, total)
		}
	}
	parent := l.run(Claude, "four", argv(Claude, "--resume", idA)...)
	if got := parent.last(t)["total_cost_usd"]; got != claudeCost(usageOf(300, 60)) {
		t.Errorf("a fork adds to its parent: %v", got)
	}
}

func TestClaudeSessionMistakes(t *testing.T) {
	l := newLab(t)
	l.run(Claude, "one", argv(Claude, "--session-id", idA)...)
	o := l.run(Claude, "again", argv(Claude, "--session-id", idA)...)
	if o.status != 1 || o.stdout != "" || o.stderr != "Error: Session ID "+idA+" is already in use.\n" {
		t.Errorf("an id in use: %+v", o)
	}
	o = l.run(Claude, "x", argv(Claude, "--resume", idB)...)
	r := o.last(t)
	if o.status != 1 || r["subtype"] != "error_during_execution" || r["session_id"] != idB ||
		get(t, r, "errors.0") != "No conversation found with session ID: "+idB || !strings.Contains(o.stderr, idB) {
		t.Errorf("an unknown id: %+v", o)
	}
	o = l.run(Claude, "x", argv(Claude, "--resume", "sess_abc")...)
	if r := o.last(t); o.status != 1 || r["session_id"] == "sess_abc" || !strings.Contains(o.stderr, `Provided value "sess_abc" is not a UUID`) {
		t.Errorf("an id that is no UUID: %+v", o)
	}
	if o := l.run(Claude, "x", argv(Claude, "--no-session-persistence", "--session-id", idB)...); o.status != 0 {
		t.Errorf("without persistence: %+v", o)
	}
	if o := l.run(Claude, "x", argv(Claude, "--resume", idB)...); o.status != 1 {
		t.Errorf("a session that was not to be kept was: %+v", o)
	}
	if o := l.run(Claude, "x", argv(Claude, "--continue")...); sessionOf(t, o) != idA {
		t.Errorf("--continue does not go on in the newest session")
	}
}

func TestCodexSessions(t *testing.T) {
	l := newLab(t).script("tokens=100:10")
	input := func(o outcome) any { return get(t, o.last(t), "usage.input_tokens") }
	first := l.run(Codex, "one", argv(Codex)...)
	id := sessionOf(t, first)
	if u, err := uuid.Parse(id); err != nil || u.Version() != 7 {
		t.Errorf("the thread's id %s is no UUIDv7", id)
	}
	second := l.run(Codex, "two", codexArgv("resume", id)...)
	forked := l.run(Codex, "three", codexArgv("fork", id)...)
	parent := l.run(Codex, "four", codexArgv("resume", id)...)
	// Usage counts over the thread, and a fork starts at its parent's.
	for i, want := range map[*outcome]float64{&first: 100, &second: 200, &forked: 300, &parent: 300} {
		if got := input(*i); got != want {
			t.Errorf("usage %v, want %v", got, want)
		}
	}
	if sessionOf(t, second) != id || sessionOf(t, forked) == id {
		t.Error("resume changes the thread, or fork does not")
	}
	o := l.run(Codex, "x", codexArgv("resume", idB)...)
	if o.status != 1 || o.stdout != "" || !strings.Contains(o.stderr, "no rollout found for thread id "+idB) {
		t.Errorf("an unknown thread: %+v", o)
	}
	o = l.run(Codex, "x", codexArgv("resume", "no-such-name")...)
	if o.status != 0 || sessionOf(t, o) == id {
		t.Errorf("a name that is no UUID does not begin a thread: %+v", o)
	}
	o = l.run(Codex, "", "exec", "--json", "--skip-git-repo-check", "fork", id)
	if lines := o.lines(t); o.status != 0 || len(lines) != 1 || lines[0]["type"] != "thread.started" {
		t.Errorf("a fork without a prompt: %+v", o)
	}
}

func TestCodexWarnsOfAnotherModel(t *testing.T) {
	l := newLab(t)
	id := sessionOf(t, l.run(Codex, "one", argv(Codex, "-m", "gpt-5.5")...))
	o := l.run(Codex, "two", "exec", "--json", "--skip-git-repo-check", "-m", "gpt-6.1-sol", "resume", id, "-")
	if got, _ := get(t, o.lines(t)[1], "item.message").(string); !strings.Contains(got, "recorded with model `gpt-5.5`") {
		t.Errorf("no warning: %s", o.stdout)
	}
}

func TestCodexKeepsOtherWritersOut(t *testing.T) {
	l := newLab(t)
	id := sessionOf(t, l.run(Codex, "one", argv(Codex)...))
	c := &codex{turn: &turn{store: store{dir: filepath.Join(l.home, Codex)}, session: &session{ID: id}}}
	unlock, err := c.lock()
	if err != nil {
		t.Fatal(err)
	}
	if o := l.run(Codex, "two", codexArgv("resume", id)...); o.status != 1 || !strings.Contains(o.stderr, "already has an active writer") {
		t.Errorf("a second writer: %+v", o)
	}
	unlock()
	if o := l.run(Codex, "two", codexArgv("resume", id)...); o.status != 0 {
		t.Errorf("after the first: %+v", o)
	}
}

func TestGeminiSessions(t *testing.T) {
	l := newLab(t).script("tokens=100:10")
	total := func(o outcome) any { return get(t, o.last(t), "stats.input_tokens") }
	first := l.run(Gemini, "one", argv(Gemini, "--session-id", idA)...)
	second := l.run(Gemini, "two", argv(Gemini, "--resume", idA)...)
	if sessionOf(t, first) != idA || sessionOf(t, second) != idA || total(first) != 100.0 || total(second) != 100.0 {
		t.Errorf("stats are not of the process: %v, %v", total(first), total(second))
	}
	if o := l.run(Gemini, "x", argv(Gemini, "--resume", "latest")...); sessionOf(t, o) != idA {
		t.Errorf("latest: %+v", o)
	}
	if o := l.run(Gemini, "x", argv(Gemini, "--session-id", idA)...); o.status != 42 || !strings.Contains(o.stderr, "already exists") || o.stdout != "" {
		t.Errorf("an id in use: %+v", o)
	}
	if o := l.run(Gemini, "x", argv(Gemini, "--resume", idB)...); o.status != 42 || !strings.Contains(o.stderr, "Invalid session identifier") || o.stdout != "" {
		t.Errorf("an unknown id: %+v", o)
	}
	if o := l.run(Gemini, "x", argv(Gemini, "--session-id", "../any string")...); o.status != 0 {
		t.Errorf("an id that is no UUID: %+v", o)
	}
	t.Chdir(t.TempDir())
	if o := l.run(Gemini, "x", argv(Gemini, "--resume", idA)...); o.status != 42 || !strings.Contains(o.stderr, "No previous sessions found") {
		t.Errorf("from another directory: %+v", o)
	}
}

func TestAnswersAreTheSameInTheSameTurn(t *testing.T) {
	for _, agent := range vendors() {
		l := newLab(t)
		a := finalText(t, agent, l.run(agent, "What is it?\nmore", argv(agent)...))
		b := finalText(t, agent, l.run(agent, "What is it?\nmore", argv(agent)...))
		if want := "Simulated " + agent + " answer to: What is it?"; a != want || a != b {
			t.Errorf("%s: %q and %q, want %q", agent, a, b, want)
		}
	}
	l := newLab(t)
	l.run(Claude, "one", argv(Claude, "--session-id", idA)...)
	if got := l.script("ids").run(Claude, "two", argv(Claude, "--resume", idA)...).last(t)["result"]; got != "Simulated claude answer to: two (turn 2) [session "+idA+", turn 2]" {
		t.Errorf("turn 2: %q", got)
	}
}

func TestPromptIsKeptBeforeTheAnswer(t *testing.T) {
	for _, agent := range vendors() {
		l := newLab(t).script("exit=3@1")
		o := l.run(agent, "a prompt", argv(agent)...)
		if o.status != 3 {
			t.Fatalf("%s: status %d", agent, o.status)
		}
		var s session
		file := filepath.Join(l.home, agent, sessionOf(t, o)+".json")
		if err := json.Unmarshal([]byte(content(t, file)), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.Turns) != 1 || s.Turns[0].Prompt != "a prompt" || s.Turns[0].Answered {
			t.Errorf("%s: %+v", agent, s.Turns)
		}
	}
}

func TestOneOfManyCreatesASession(t *testing.T) {
	s := store{dir: t.TempDir()}
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { errs[i] = s.create(&session{ID: idA}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d created the session", won)
	}
}

func TestLogHasALineForEveryStartAndEnd(t *testing.T) {
	l := newLab(t)
	log := filepath.Join(l.home, "log")
	l = l.with(EnvLog, log)
	for _, agent := range vendors() {
		l.run(agent, "hello", argv(agent)...)
		l.script("fail=server").run(agent, "hello", argv(agent)...)
	}
	var got []string
	for line := range strings.Lines(content(t, log)) {
		var j journalLine
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		word := "starts"
		if j.Done {
			word = "done"
		}
		if j.Session == "" || j.Prompt != "hello" || j.Mode != modeNew || j.Turn != 1 || len(j.Args) == 0 {
			t.Errorf("incomplete: %+v", j)
		}
		got = append(got, j.Agent+" "+word)
	}
	want := []string{
		"claude starts", "claude done", "claude starts", "codex starts", "codex done", "codex starts",
		"gemini starts", "gemini done", "gemini starts",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func usageOf(in, out int) agents.Usage {
	return agents.Usage{InputTokens: int64(in), OutputTokens: int64(out)}
}
