package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clockVariable names a file that says by how much the wall clock of a flow under test is
// wrong, while it runs. The variable is known to the tests alone.
const clockVariable = "FLOW_TEST_CLOCK"

// testClock is the clock of a flow under test. It has no monotonic reading: of a clock that
// is set only the wall clock is seen.
func testClock() func() time.Time {
	file := os.Getenv(clockVariable)
	if file == "" {
		return time.Now
	}
	return func() time.Time {
		data, _ := os.ReadFile(file)
		ahead, _ := time.ParseDuration(strings.TrimSpace(string(data)))
		return time.Now().Round(0).Add(ahead)
	}
}

// untilReset is how long the limits of the fakes hold: Codex says the date only when that is
// not today.
const untilReset = 30 * time.Hour

// limited fails at a usage limit, in the words of the agent, until the file reset is there.
func limited(f *fake) int {
	f.work()
	if _, err := os.Stat("reset"); err == nil {
		f.say(f.well)
		return f.leave()
	}
	at := time.Now().Add(untilReset)
	f.say(limitLines(os.Args[1], at)...)
	_ = f.leave()
	return 1
}

// limitLines are how the agents say that a limit holds until a time.
func limitLines(protocol string, at time.Time) []string {
	codex := "You've hit your usage limit. Upgrade to Pro or try again at " + at.Format("Jan 2") + "th, " + at.Format("2006 3:04 PM") + "."
	switch protocol {
	case "codex/exec":
		return []string{fmt.Sprintf(`{"type":"turn.failed","error":{"message":%q}}`, codex)}
	case "codex/app-server":
		return []string{
			fmt.Sprintf(`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":%d}}}}`, at.Unix()),
			`{"method":"turn/completed","params":{"threadId":"S","turn":{"id":"t1","status":"failed","error":{"message":"You've hit your usage limit.","codexErrorInfo":"usageLimitExceeded"}}}}`,
		}
	case "gemini/headless":
		return []string{`{"type":"result","status":"error","error":{"type":"TerminalQuotaError","message":"You have exhausted your daily quota on this model."},"stats":{}}`}
	}
	return []string{
		fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"},"session_id":"S"}`, at.Unix()),
		`{"type":"result","subtype":"success","is_error":true,"session_id":"S","num_turns":1,"api_error_status":429,"result":"You've hit your session limit"}`,
	}
}

const clockPipeline = `on-limit: {wait: 72h}
agents:
  claude: {use: claude, command: [fakeagent, claude/print, limited], sandbox: read-only}
  codex: {use: codex, command: [fakeagent, codex/exec, limited], transport: exec, sandbox: read-only}
  server: {use: codex, command: [fakeagent, codex/app-server, limited], transport: app-server, sandbox: read-only}
  gemini: {use: gemini, command: [fakeagent, gemini/headless, limited], transport: headless, sandbox: read-only}
steps:
  claude: {agent: claude, prompt: Do it., timeout: 5m}
  codex: {agent: codex, prompt: Do it., timeout: 5m}
  server: {agent: server, prompt: Do it., timeout: 5m}
  gemini: {agent: gemini, prompt: Do it., timeout: 5m}
  steady: {run: 'touch steady; until test -e reset; do sleep 0.1; done', timeout: 5m}
`

// TestClock sets the clock of a run back and forth by an hour, and then has it come back from
// a suspension of more than a day: timeouts and durations go by the time that has really
// passed, and the ends of limits by the wall clock.
func TestClock(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "clock")
	clock := filepath.Join(r.dir, "clock")
	r.env = append(r.env, clockVariable+"="+clock)
	set := func(ahead string) {
		if err := os.WriteFile(clock+".new", []byte(ahead), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(clock+".new", clock); err != nil {
			t.Fatal(err)
		}
	}
	set("0s")
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), []byte(clockPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := r.command("run", r.pipeline, "--run-id", r.id)
	log, err := os.Create(filepath.Join(r.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	said := func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test has failed
	waits := func() bool { return strings.Count(said(), "the next attempt is at") >= 4 }
	if !eventually(func() bool { _, err := os.Stat(filepath.Join(r.dir, "steady")); return err == nil && waits() }) {
		t.Fatal(said())
	}
	set("1h")
	set("-1h")
	if err := os.WriteFile(filepath.Join(r.dir, "reset"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return strings.Contains(said(), "✔ steady") }) {
		t.Fatal(said())
	}
	set((untilReset + time.Hour).String())
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said())
	}
	sees(t, "27-clock-set", said())
	sees(t, "28-suspended", said())
	sees(t, "42a-limit-resets", said())
	noNegative(t, r)
}

// noNegative demands that nothing took less than no time, or very long. Gemini, who does not
// say when its limit ends, tries again after 30 s, and may be at work when the clock is set.
func noNegative(t *testing.T, r crashRun) {
	t.Helper()
	var out bytes.Buffer
	cmd := r.command("show", r.id, "-o", "json")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Steps map[string]struct {
			DurationMS *int64 `json:"durationMs"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	for name, step := range report.Steps {
		if step.DurationMS == nil || *step.DurationMS < 0 || name != "gemini" && *step.DurationMS > time.Minute.Milliseconds()*5 {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
