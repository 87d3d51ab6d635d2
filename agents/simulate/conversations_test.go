package simulate_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"flow/agents"
	"flow/agents/acp"
	"flow/agents/claude"
	"flow/agents/codex"
	"flow/agents/gemini"
	"flow/agents/simulate"
)

// A talker is an agent with the two-way protocol that is tried.
type talker struct {
	agents.Adapter
	transport string
}

func talkers() map[string]talker {
	out := map[string]talker{
		"claude": {claude.Adapter{}, "stream-json"}, "codex": {codex.Adapter{}, "app-server"}, "gemini": {gemini.Adapter{}, "acp"},
	}
	for _, a := range acp.Adapters() {
		if name := a.Info().Name; name == "opencode" {
			out[name] = talker{a, "acp"}
		}
	}
	return out
}

// A verdict decides a tool call that waits.
type verdict func(agents.PermissionRequested) agents.Verdict

// allowed allows everything. What is only a preliminary question is left open.
func allowed(p agents.PermissionRequested) agents.Verdict {
	if p.Preliminary {
		return agents.Verdict{}
	}
	return agents.Verdict{Effect: agents.EffectAllow}
}

// A conversation is one process of a simulated agent with its adapter's client.
type conversation struct {
	t      *testing.T
	talker talker
	client agents.Conversation
	tr     *agents.Translator
	in     *os.File
	out    *bufio.Reader
	ended  chan agents.Exit
	events []agents.Event
	decide verdict
	then   func() // once, after the next decision was written
}

// begin starts the agent for a request, which has rules so that everything is asked.
func begin(t *testing.T, k talker, home, script string, r agents.Request) *conversation {
	t.Helper()
	r.Scratch, r.Transport, r.RuleDefault = t.TempDir(), k.transport, agents.EffectAsk
	r.Home = filepath.Join(home, "own")
	c, err := k.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			t.Fatal(err)
		}
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
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil { // rather than waiting for ever
		t.Fatal(err)
	}
	x := &conversation{t: t, talker: k, client: k.Dialog(r).(agents.Conversation), in: in, out: bufio.NewReader(out), ended: make(chan agents.Exit, 1), decide: allowed}
	x.tr = agents.NewTranslator(x.client, agents.Envelope{Agent: k.Info().Name}, time.Now, func(e agents.Event) { x.events = append(x.events, e) })
	go func() {
		var stderr bytes.Buffer
		status := simulate.Main(k.Info().Name, c.Args, stdin, stdout, &stderr, func(n string) string { return env[n] })
		_, _ = stdin.Close(), stdout.Close()
		x.ended <- agents.Exit{Code: status, Stderr: stderr.String()}
	}()
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	return x
}

// say writes what the client wants to say.
func (x *conversation) say() {
	for _, line := range x.client.Take() {
		if _, err := x.in.Write(append(line, '\n')); err != nil {
			x.t.Fatalf("%v; the agent ended: %+v", err, <-x.ended)
		}
	}
}

// outcome goes on until the turn is over, and ends the process.
func (x *conversation) outcome() agents.Outcome {
	x.t.Helper()
	x.client.Open()
	x.say()
	closed := false
	for {
		line, err := x.out.ReadBytes('\n')
		if err != nil && err != io.EOF {
			x.t.Fatalf("%v; events %+v", err, x.events)
		}
		if err == io.EOF {
			break
		}
		x.hear(line)
		if x.client.Ended() && !closed {
			closed = true
			if c, ok := x.client.(agents.Closer); ok {
				c.Close()
				x.say()
			}
			if err := x.in.Close(); err != nil {
				x.t.Fatal(err)
			}
		}
	}
	return x.tr.End(<-x.ended)
}

// hear takes one line of the agent, and decides what it asks.
func (x *conversation) hear(line []byte) {
	from := len(x.events)
	x.tr.Stdout(bytes.TrimSuffix(line, []byte("\n")), agents.Native{})
	for _, e := range slices.Clone(x.events[from:]) {
		if p, ok := e.Body.(agents.PermissionRequested); ok {
			x.client.Decide(p.RequestID, x.decide(p))
		}
	}
	x.say()
	if then := x.then; then != nil {
		x.then = nil
		then()
		x.say()
	}
}

func request(t *testing.T) agents.Request {
	t.Helper()
	return agents.Request{Prompt: "Fix the parser", Dir: t.TempDir(), Session: agents.Session{ID: idA}}
}

func has[B agents.Body](events []agents.Event, ok func(B) bool) bool {
	return slices.ContainsFunc(events, func(e agents.Event) bool {
		b, is := e.Body.(B)
		return is && ok(b)
	})
}

// An edit that is allowed is made, a command that is denied is not, and the client hears
// of both.
func TestConversationsDecide(t *testing.T) {
	for name, k := range talkers() {
		t.Run(name, func(t *testing.T) {
			r := request(t)
			x := begin(t, k, t.TempDir(), "edit=made.txt:one;run=touch ran;tokens=100:20", r)
			x.decide = func(p agents.PermissionRequested) agents.Verdict {
				switch {
				case p.ToolName == agents.ToolShell && p.Target != "touch ran":
					t.Errorf("asked for %q", p.Target)
				case p.ToolName == agents.ToolShell:
					return agents.Verdict{Effect: agents.EffectDeny, Message: "not now"}
				}
				return allowed(p)
			}
			out := x.outcome()
			if out.Reason != agents.Completed || out.Text != "Simulated "+name+" answer to: Fix the parser" {
				t.Fatalf("%+v, %v", out, out.Problem)
			}
			if out.Usage == nil || out.Usage.InputTokens != 100 || out.SessionID == "" {
				t.Errorf("usage %+v, session %q", out.Usage, out.SessionID)
			}
			if data, err := os.ReadFile(filepath.Join(r.Dir, "made.txt")); err != nil || string(data) != "one\n" {
				t.Errorf("the edit: %q, %v", data, err)
			}
			if _, err := os.Stat(filepath.Join(r.Dir, "ran")); err == nil {
				t.Error("a denied command ran")
			}
			if !has(x.events, func(f agents.FileChanged) bool { return filepath.Base(f.FilePath) == "made.txt" }) {
				t.Errorf("nothing tells of the edit: %+v", x.events)
			}
		})
	}
}

func TestConversationsGoOn(t *testing.T) {
	for name, k := range talkers() {
		t.Run(name, func(t *testing.T) {
			home, r := t.TempDir(), request(t)
			first := begin(t, k, home, "tokens=100:20", r).outcome()
			r.Session = agents.Session{Mode: agents.SessionResume, ID: first.SessionID, Spent: first.SessionUsage}
			out := begin(t, k, home, "tokens=100:20", r).outcome()
			if out.Reason != agents.Completed || out.SessionID != first.SessionID || out.Text != "Simulated "+name+" answer to: Fix the parser (turn 2)" {
				t.Errorf("%+v, %v", out, out.Problem)
			}
			if out.Usage == nil || out.Usage.InputTokens != 100 {
				t.Errorf("usage %+v", out.Usage)
			}
			if !k.Info().Capabilities.Fork || name == simulate.Gemini { // whose forks want files prepared
				return
			}
			r.Session = agents.Session{Mode: agents.SessionFork, Parent: first.SessionID, Spent: out.SessionUsage}
			forked := begin(t, k, home, "", r).outcome()
			if forked.Reason != agents.Completed || forked.SessionID == first.SessionID {
				t.Errorf("forked: %+v, %v", forked, forked.Problem)
			}
		})
	}
}

func TestConversationsInterrupt(t *testing.T) {
	for name, k := range talkers() {
		t.Run(name, func(t *testing.T) {
			home, r := t.TempDir(), request(t)
			fifo := filepath.Join(r.Dir, "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			x := begin(t, k, home, "run=read line < fifo", r)
			var end *os.File
			x.decide = func(p agents.PermissionRequested) agents.Verdict {
				if !p.Preliminary {
					x.then = func() {
						var err error
						if end, err = os.OpenFile(fifo, os.O_WRONLY, 0); err != nil { // opens once the command reads
							t.Fatal(err)
						}
						if !x.client.Interrupt() {
							t.Error("it cannot be interrupted")
						}
					}
				}
				return allowed(p)
			}
			out := x.outcome()
			if out.Reason != agents.Cancelled && (out.Problem == nil || out.Problem.Cause != agents.CauseCancelled) {
				t.Errorf("%+v, %v", out, out.Problem)
			}
			if _, err := end.WriteString("x\n"); err == nil {
				t.Error("the command is alive")
			}
			_ = end.Close()
			r.Session = agents.Session{Mode: agents.SessionResume, ID: out.SessionID, Spent: out.SessionUsage}
			if next := begin(t, k, home, "", r).outcome(); next.Reason != agents.Completed || next.SessionID != out.SessionID {
				t.Errorf("the session is not continued: %+v, %v", next, next.Problem)
			}
		})
	}
}

// What an agent does that no client expects leaves the conversation as it was.
func TestConversationsStandOddities(t *testing.T) {
	for name, k := range talkers() {
		for _, script := range []string{"question", "unknown-request", "duplicate-id;run=touch ran", "id0;run=touch ran;edit=made.txt", "withdraw;run=touch ran", "late-update", "asks;run=ls"} {
			t.Run(name+" "+script, func(t *testing.T) {
				x := begin(t, k, t.TempDir(), script, request(t))
				asked := 0
				x.decide = func(p agents.PermissionRequested) agents.Verdict {
					asked++
					return allowed(p)
				}
				out := x.outcome()
				// ACP does not tell where one message ends and the next begins.
				if out.Reason != agents.Completed || !strings.HasSuffix(out.Text, "Simulated "+name+" answer to: Fix the parser") {
					t.Errorf("%q, %+v, %v", out.Text, out, out.Problem)
				}
				if strings.Contains(script, "run=") && asked == 0 {
					t.Error("nothing is asked")
				}
			})
		}
	}
}

func TestConversationsFail(t *testing.T) {
	for name, k := range talkers() {
		for _, cause := range []agents.Cause{
			agents.CauseAuth, agents.CauseRateLimit, agents.CauseUsageLimit, agents.CauseOverloaded, agents.CauseNetwork,
			agents.CauseServer, agents.CauseContext, agents.CauseModelNotFound, agents.CauseInvalidRequest,
		} {
			t.Run(name+" "+string(cause), func(t *testing.T) {
				out := begin(t, k, t.TempDir(), "fail="+string(cause), request(t)).outcome()
				if out.Problem == nil || out.Problem.Cause != cause {
					t.Errorf("%+v", out.Problem)
				}
			})
		}
	}
}

func TestConversationsAnswerBySchema(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`)
	for name, k := range talkers() {
		t.Run(name, func(t *testing.T) {
			r := request(t)
			r.Schema = schema
			out := begin(t, k, t.TempDir(), "", r).outcome()
			got := out.Output
			if len(got) == 0 {
				var err error
				if got, err = agents.ParseAnswer(out.Text); err != nil {
					t.Fatal(err)
				}
			}
			if string(got) != `{"ok":true}` {
				t.Errorf("%s, %v", got, out.Problem)
			}
		})
	}
}
