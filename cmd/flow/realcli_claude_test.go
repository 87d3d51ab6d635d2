package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flow/agents"
	"flow/agents/claude"
	"flow/cmd/flow/internal/scriptmodel"
)

// A claudeTalk is a conversation with the real Claude Code, without flow between: what
// its driver never does (changed input, further turns) can be done here.
type claudeTalk struct {
	l       *lab
	request agents.Request
	decide  func(agents.PermissionRequested) agents.Verdict
	heard   func(agents.Conversation, agents.Body) // is told of every event
	// interruptWhen, if set, says when the turn is to be interrupted.
	interruptWhen func() bool

	events []agents.Body
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// run holds the conversation to its end.
func (k *claudeTalk) run(t *testing.T) agents.Outcome {
	t.Helper()
	k.request.Transport, k.request.Dir = "stream-json", k.l.work
	command, err := claude.Adapter{}.Command(k.request)
	if err != nil {
		t.Fatal(err)
	}
	c := claude.Adapter{}.Dialog(k.request).(agents.Conversation)
	stdin, stdout := k.start(t, command)
	tell := func() {
		for _, line := range c.Take() {
			if _, err := stdin.Write(append(line, '\n')); err != nil {
				t.Error(err)
			}
		}
	}
	c.Open()
	tell()
	lines, due := linesOf(stdout), k.due()
	for open := true; open; tell() {
		select {
		case line, more := <-lines:
			if open = more; more {
				k.line(c, line)
			}
		case <-due:
			due = nil
			if !c.Interrupt() {
				t.Error("the turn cannot be interrupted")
			}
		}
		if c.Ended() {
			stdin.Close()
		}
	}
	var exit *exec.ExitError
	if err := k.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.End(agents.Exit{Code: k.cmd.ProcessState.ExitCode(), Stderr: k.stderr.String()})
}

// line hears a line of the CLI's.
func (k *claudeTalk) line(c agents.Conversation, line []byte) {
	for _, e := range c.Line(line) {
		k.events = append(k.events, e.Body)
		if r, ok := e.Body.(agents.PermissionRequested); ok {
			c.Decide(r.RequestID, k.decide(r))
		}
		if k.heard != nil {
			k.heard(c, e.Body)
		}
	}
}

// due is closed when the turn is to be interrupted, if it is.
func (k *claudeTalk) due() <-chan struct{} {
	due := make(chan struct{})
	if k.interruptWhen != nil {
		go func() {
			if eventually(k.interruptWhen) {
				close(due)
			}
		}()
	}
	return due
}

func linesOf(r io.Reader) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for b := bufio.NewReader(r); ; {
			line, err := b.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- bytes.TrimSpace(line)
		}
	}()
	return lines
}

func (k *claudeTalk) start(t *testing.T, command agents.Command) (stdin io.WriteCloser, stdout io.Reader) {
	t.Helper()
	executable := ""
	for _, dir := range filepath.SplitList(strings.TrimPrefix(k.l.env[0], "PATH=")) {
		if file := filepath.Join(dir, "claude"); executable == "" && isThere(file) {
			executable = file
		}
	}
	k.cmd = exec.Command(executable, command.Args...)
	k.cmd.Dir, k.cmd.Env, k.cmd.Stderr = k.l.work, append(k.l.env, command.Env...), &k.stderr
	stdin, err := k.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err = k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.l.net.do(func() { err = k.cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	// A conversation that hangs is ended, so that the test fails and does not hang too.
	watchdog := time.AfterFunc(time.Minute, func() { _ = k.cmd.Process.Kill() })
	t.Cleanup(func() { watchdog.Stop() })
	return stdin, stdout
}

func isThere(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// callsInTurn is a model that makes the calls one after the other, and then says what became of
// the last one.
func callsInTurn(calls ...scriptmodel.Turn) scriptmodel.Script {
	return func(r scriptmodel.Request) scriptmodel.Turn {
		made, last := 0, ""
		for _, i := range r.Items {
			if i.Kind == scriptmodel.Result {
				made, last = made+1, i.Text
			}
		}
		if made < len(calls) {
			return calls[made]
		}
		return final("talk", "It says: "+last)
	}
}

// ruledByAll is a request that lets the conversation decide on everything.
func ruledByAll() agents.Request { return agents.Request{Prompt: "Task: talk", RuleDefault: "ask"} }

func TestRealClaudeTalks(t *testing.T) {
	path := realCLIs(t)
	allow, deny, ask := agents.Verdict{Effect: "allow"}, agents.Verdict{Effect: "deny", Message: "not that one"}, agents.Verdict{Effect: "ask"}
	changed := agents.Verdict{Effect: "allow", Input: []byte(`{"command": "echo changed > made.txt"}`)}
	stop := agents.Verdict{Effect: "deny", Message: "stop", Interrupt: true}
	for _, tt := range []struct {
		name      string
		hook, can agents.Verdict
		made      string // what made.txt says then
		reason    agents.Reason
		text      string // in the answer
		asked     int    // how often
		declined  int    // calls
	}{
		{name: "allowed", hook: allow, made: "as asked\n", reason: agents.Completed, asked: 1},
		{name: "changed", hook: changed, made: "changed\n", reason: agents.Completed, asked: 1},
		{name: "denied", hook: deny, reason: agents.Completed, text: "not that one", asked: 1, declined: 1},
		{name: "denied, and the turn ended", hook: stop, reason: agents.Cancelled, asked: 1, declined: 1},
		{name: "asked and allowed", hook: ask, can: allow, made: "as asked\n", reason: agents.Completed, asked: 2},
		{name: "asked and changed", hook: ask, can: changed, made: "changed\n", reason: agents.Completed, asked: 2},
		{name: "asked and denied", hook: ask, can: deny, reason: agents.Completed, text: "not that one", asked: 2, declined: 1},
		{name: "asked, denied, and the turn ended", hook: ask, can: stop, reason: agents.Cancelled, asked: 2, declined: 1},
		{name: "left to its mode, which asks", can: allow, made: "as asked\n", reason: agents.Completed, asked: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model := scriptmodel.New(callsInTurn(call("Bash", map[string]any{"command": "echo as asked > made.txt"})), nil)
			asked := 0
			k := &claudeTalk{l: newLab(t, path, "", model), request: ruledByAll(), decide: func(r agents.PermissionRequested) agents.Verdict {
				asked++
				if r.Preliminary {
					return tt.hook
				}
				return tt.can
			}}
			out := k.run(t)
			made, _ := os.ReadFile(filepath.Join(k.l.work, "made.txt"))
			if string(made) != tt.made || out.Reason != tt.reason || asked != tt.asked || !strings.Contains(out.Text, tt.text) {
				t.Errorf("made.txt says %q, asked %d times, %+v (%v)", made, asked, out, out.Problem)
			}
			if got := k.declined(); got != tt.declined {
				t.Errorf("%d calls declined, want %d", got, tt.declined)
			}
		})
	}
}

// declined counts the calls that were refused.
func (k *claudeTalk) declined() (n int) {
	for _, b := range k.events {
		if done, ok := b.(agents.ToolCompleted); ok && done.Declined {
			n++
		}
	}
	return n
}

// TestRealClaudeSeesAll demands that the callback comes before every call: reading in the
// workspace, commands that only read, files that the CLI itself protects, the web, and the
// tools of a subagent and of an MCP server.
func TestRealClaudeSeesAll(t *testing.T) {
	path := realCLIs(t)
	sub := call("Bash", map[string]any{"command": "touch by-subagent.txt"})
	inTurn := callsInTurn(
		call("Read", map[string]any{"file_path": "greet.txt"}),
		call("Bash", map[string]any{"command": "echo hi"}),
		call("Write", map[string]any{"file_path": ".git/config", "content": "x"}),
		call("WebFetch", map[string]any{"url": "http://127.0.0.1:1/", "prompt": "x"}),
		call("Task", map[string]any{"description": "look", "prompt": "SUB: look", "subagent_type": "general-purpose"}),
	)
	model := scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
		if r.Contains("SUB: look") && !r.Contains("Task: talk") {
			return callsInTurn(sub)(r)
		}
		return inTurn(r)
	}, nil)
	l := newLab(t, path, "", model)
	k := &claudeTalk{l: l, request: ruledByAll()}
	k.request.Sandbox, k.request.AllowedTools = agents.SandboxOff, []string{"Task"}
	k.decide = func(r agents.PermissionRequested) agents.Verdict {
		if r.ToolName == agents.ToolSubagent {
			return agents.Verdict{Effect: "allow"}
		}
		return agents.Verdict{Effect: "deny", Message: "no"}
	}
	out := k.run(t)
	seen := map[string]int{}
	for _, b := range k.events {
		if r, ok := b.(agents.PermissionRequested); ok && r.Preliminary {
			seen[fmt.Sprintf("%s %s", r.ToolName, strings.TrimPrefix(r.Target, l.work+"/"))]++
		}
	}
	for _, want := range []string{"read_file greet.txt", "shell echo hi", "write_file .git/config", "web_fetch http://127.0.0.1:1/", "subagent look", "shell touch by-subagent.txt"} {
		if seen[want] != 1 {
			t.Errorf("asked %d times about %s: %v (%+v)", seen[want], want, seen, out.Problem)
		}
	}
	if l.holds(t, "by-subagent.txt") || l.holds(t, ".git") {
		t.Error("a denied call was made")
	}
}

// TestRealClaudeInterrupted ends a turn in the middle of a command: nothing of it is left,
// and the session goes on in another process.
func TestRealClaudeInterrupted(t *testing.T) {
	path := realCLIs(t)
	mark := fmt.Sprintf("600.%d", time.Now().UnixNano()) // no other sleep of the machine has it
	model := scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
		if r.Contains("Task: more") {
			return final("more", "I remember "+remembered(r, scriptmodel.Call, "{"))
		}
		return callsInTurn(call("Bash", map[string]any{"command": "touch begun; sleep " + mark}))(r)
	}, nil)
	k := &claudeTalk{l: newLab(t, path, "", model), request: ruledByAll()}
	k.decide = func(agents.PermissionRequested) agents.Verdict { return agents.Verdict{Effect: "allow"} }
	k.request.Session, k.request.Scratch = agents.Session{ID: "11111111-2222-4333-8444-555555555555"}, "/first"
	k.interruptWhen = func() bool { return isThere(filepath.Join(k.l.work, "begun")) && running(t, mark) }
	out := k.run(t)
	if out.Reason != agents.Cancelled || out.SessionID != k.request.Session.ID {
		t.Errorf("interrupted, it ends as %+v (%v)", out, out.Problem)
	}
	if !eventually(func() bool { return !running(t, mark) }) {
		t.Error("the command goes on")
	}

	k.request.Session.Mode, k.request.Scratch, k.request.Prompt, k.interruptWhen = agents.SessionResume, "/second", "Task: more", nil
	out = k.run(t)
	if out.Reason != agents.Completed || !strings.Contains(out.Text, mark) || out.SessionID != k.request.Session.ID {
		t.Errorf("resumed, it ends as %+v (%v)", out, out.Problem)
	}
}

// running reports whether a process of the machine has mark in its command line.
func running(t *testing.T, mark string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), mark) {
			return true
		}
	}
	return false
}

// TestRealClaudeFollowUps says more in one process: while a turn is under way, which takes
// it in or is followed by another one, and after it. None of it is taken for a command,
// and no file that it names is read.
func TestRealClaudeFollowUps(t *testing.T) {
	path := realCLIs(t)
	model := scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
		if r.Contains("/third @greet.txt") {
			return final("talk", "That was all.")
		}
		return callsInTurn(call("Bash", map[string]any{"command": "sleep 1"}))(r)
	}, nil)
	k := &claudeTalk{l: newLab(t, path, "", model), request: ruledByAll()}
	k.request.Prompt = "/cost @greet.txt"
	k.decide = func(agents.PermissionRequested) agents.Verdict { return agents.Verdict{Effect: "allow"} }
	turns := 0
	k.heard = func(c agents.Conversation, b agents.Body) {
		switch b.(type) {
		case agents.PermissionRequested:
			c.Say("/second @greet.txt")
		case agents.TurnCompleted:
			if turns++; turns == 1 {
				c.Say("/third @greet.txt")
			}
		}
	}
	out := k.run(t)
	if out.Reason != agents.Completed || out.Text != "That was all." || turns < 2 {
		t.Errorf("after %d turns: %+v (%v)", turns, out, out.Problem)
	}
	all := model.Exchanges()
	last := all[len(all)-1].Request
	for _, said := range []string{"/cost @greet.txt", "/second @greet.txt", "/third @greet.txt"} {
		if !last.Contains(said) {
			t.Errorf("the model was not told %q", said)
		}
	}
	if last.Contains(wrongLine) {
		t.Error("a file was read that a message names")
	}
}

// TestRealClaudeMCP has `flow mcp` decide for a Claude Code that somebody else started.
func TestRealClaudeMCP(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	model := scriptmodel.New(callsInTurn(
		call("Bash", map[string]any{"command": "touch allowed.txt"}), call("Bash", map[string]any{"command": "touch denied.txt"}),
	), nil)
	l := newLab(t, path, binary, model)
	l.write(t, "policy.yaml", "default: deny\nrules: [{allow: shell(touch allowed.txt)}]\n")
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"flow": map[string]any{
		"command": binary, "args": []string{"mcp", "--policy", filepath.Join(l.dir, "policy.yaml"), "--audit", filepath.Join(l.dir, "audit.jsonl")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	k := &claudeTalk{l: l}
	stdin, stdout := k.start(t, agents.Command{Args: []string{
		"-p", "--output-format", "json", "--setting-sources", "", "--strict-mcp-config", "--tools", "Bash",
		"--mcp-config", string(servers), "--permission-prompt-tool", "mcp__flow__permission",
	}})
	if _, err := io.WriteString(stdin, "Task: talk"); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	result, err := io.ReadAll(stdout)
	if err := errors.Join(err, k.cmd.Wait()); err != nil {
		t.Fatalf("%v\n%s%s", err, result, k.stderr.String())
	}
	if !l.holds(t, "allowed.txt") || l.holds(t, "denied.txt") || !strings.Contains(string(result), "Do without it") {
		t.Errorf("it made other calls than the policy allows: %s", result)
	}
	if audit := l.read(t, "audit.jsonl"); strings.Count(audit, `"decision":"allow"`) != 1 || strings.Count(audit, `"decision":"deny"`) != 1 {
		t.Errorf("the audit log: %s", audit)
	}
}

// TestRealClaudeMistaken demands that forbidden calls which cannot be made anyway (of a tool
// that the agent does not have, of a file that it has not read) do not end the step.
func TestRealClaudeMistaken(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	model := scriptmodel.New(callsInTurn(
		call("Write", map[string]any{"file_path": "greet.txt", "content": "x"}),
		call("WebFetch", map[string]any{"url": "http://127.0.0.1:1/", "prompt": "x"}),
		call("Write", map[string]any{"file_path": "docs/a.md", "content": "fine"}),
	), nil)
	l := newLab(t, path, binary, model)
	file := l.pipeline(t, "rules.yaml", "AGENT", "claude", "RULES", `{default: deny, rules: [{allow: "write_file(docs/**)"}]}`)
	l.flow(t, 0, "run", file, "-o", "json")
	if l.read(t, "work/greet.txt") != wrongLine+"\n" || l.read(t, "work/docs/a.md") != "fine" {
		t.Error("other files were written than the rules allow")
	}
}
