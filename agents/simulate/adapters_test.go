package simulate_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flow/agents"
	"flow/agents/claude"
	"flow/agents/codex"
	"flow/agents/gemini"
	"flow/agents/simulate"
)

// The adapters and the simulated agents were written from the same recordings, but
// apart. Here one side reads what the other prints.
func adapters() map[string]agents.Adapter {
	return map[string]agents.Adapter{
		simulate.Claude: claude.Adapter{}, simulate.Codex: codex.Adapter{}, simulate.Gemini: gemini.Adapter{},
	}
}

const idA = "11111111-2222-4333-8444-555555555555"

// turn plays one request and returns its outcome and events.
func turn(t *testing.T, a agents.Adapter, home, script string, r agents.Request) (agents.Outcome, []agents.Event) {
	t.Helper()
	r.Scratch = t.TempDir()
	c, err := a.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Files {
		if err := os.WriteFile(f.Path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{simulate.EnvHome: home, simulate.EnvScript: script, "IS_SANDBOX": "1"}
	for _, pair := range c.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	t.Chdir(c.Dir)
	var stdout, stderr bytes.Buffer
	status := simulate.Main(a.Info().Name, c.Args, strings.NewReader(c.Stdin), &stdout, &stderr, func(k string) string { return env[k] })
	return translate(a, r, stdout.Bytes(), agents.Exit{Code: status, Stderr: stderr.String()})
}

func translate(a agents.Adapter, r agents.Request, stdout []byte, exit agents.Exit) (agents.Outcome, []agents.Event) {
	var events []agents.Event
	tr := agents.NewTranslator(a.Dialog(r), agents.Envelope{Agent: a.Info().Name}, time.Now,
		func(e agents.Event) { events = append(events, e) })
	for line := range bytes.Lines(stdout) {
		tr.Stdout(bytes.TrimSuffix(line, []byte("\n")), agents.Native{})
	}
	for line := range strings.Lines(exit.Stderr) {
		tr.Stderr([]byte(strings.TrimSuffix(line, "\n")), agents.Native{})
	}
	return tr.End(exit), events
}

func TestAdaptersUnderstandAnswers(t *testing.T) {
	for name, a := range adapters() {
		home, dir := t.TempDir(), t.TempDir()
		r := agents.Request{Prompt: "Fix the parser", Dir: dir, Session: agents.Session{ID: idA}}
		out, _ := turn(t, a, home, "tokens=100:20", r)
		if out.Reason != agents.Completed || out.Text != "Simulated "+name+" answer to: Fix the parser" {
			t.Fatalf("%s: %+v, %v", name, out, out.Problem)
		}
		r.Session = agents.Session{Mode: agents.SessionResume, ID: out.SessionID, Spent: out.SessionUsage}
		next, _ := turn(t, a, home, "tokens=100:20", r)
		if next.SessionID != out.SessionID || next.Usage == nil || next.Usage.TotalTokens != 120 {
			t.Errorf("%s, resumed: %+v, usage %+v", name, next, next.Usage)
		}
		if out.CostUSD != nil && *next.CostUSD != *out.CostUSD {
			t.Errorf("%s: the second turn costs %v, the first %v", name, *next.CostUSD, *out.CostUSD)
		}
		if !a.Info().Capabilities.Fork || name == "gemini" { // which wants files prepared for a fork
			continue
		}
		r.Session = agents.Session{Mode: agents.SessionFork, Parent: out.SessionID, Spent: next.SessionUsage}
		forked, _ := turn(t, a, home, "tokens=100:20", r)
		if forked.Reason != agents.Completed || forked.SessionID == out.SessionID || forked.Usage.TotalTokens != 120 {
			t.Errorf("%s, forked: %+v, usage %+v", name, forked, forked.Usage)
		}
	}
}

func TestAdaptersUnderstandSchemas(t *testing.T) {
	strict := json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`)
	loose := json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)
	for name, a := range adapters() {
		for _, schema := range []json.RawMessage{strict, loose} {
			out, _ := turn(t, a, t.TempDir(), "", agents.Request{Prompt: "Is it fine?", Dir: t.TempDir(), Schema: schema})
			got := out.Output
			if len(got) == 0 {
				var err error
				if got, err = agents.ParseAnswer(out.Text); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if string(got) != `{"ok":true}` {
				t.Errorf("%s: %s, %v", name, got, out.Problem)
			}
		}
	}
}

func TestAdaptersUnderstandFailures(t *testing.T) {
	for name, a := range adapters() {
		for _, cause := range []agents.Cause{
			agents.CauseAuth, agents.CauseRateLimit, agents.CauseUsageLimit, agents.CauseOverloaded, agents.CauseNetwork,
			agents.CauseServer, agents.CauseContext, agents.CauseModelNotFound, agents.CauseInvalidRequest,
		} {
			out, _ := turn(t, a, t.TempDir(), "fail="+string(cause), agents.Request{Prompt: "p", Dir: t.TempDir()})
			if out.Problem == nil || out.Problem.Cause != cause {
				t.Errorf("%s, %s: %+v", name, cause, out.Problem)
			}
		}
	}
}

func TestAdaptersSeeToolsAndFiles(t *testing.T) {
	for name, a := range adapters() {
		dir := t.TempDir()
		_, events := turn(t, a, t.TempDir(), "edit=new.txt", agents.Request{Prompt: "p", Dir: dir})
		changed := 0
		for _, e := range events {
			f, ok := e.Body.(agents.FileChanged)
			// Gemini's stream does not tell a new file from one that is replaced.
			if ok && filepath.Base(f.FilePath) == "new.txt" && (f.ChangeType == agents.Created || name == simulate.Gemini) {
				changed++
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "new.txt")); err != nil || changed != 1 {
			t.Errorf("%s: %d files changed (%v)", name, changed, err)
		}
		dir = t.TempDir()
		r := agents.Request{Prompt: "p", Dir: dir, Sandbox: agents.SandboxReadOnly}
		if name != simulate.Codex {
			r.Approval = agents.ApprovalDeny
		}
		out, _ := turn(t, a, t.TempDir(), "edit=new.txt;run=touch ran", r)
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 || out.Reason != agents.Completed {
			t.Errorf("%s wrote into a read-only directory, or failed: %v %v %v", name, left, err, out.Problem)
		}
	}
}
