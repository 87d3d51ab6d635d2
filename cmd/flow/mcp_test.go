package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"flow/steps"
)

// An mcpSession is a client of `flow mcp`.
type mcpSession struct {
	*mcp.ClientSession
	audit  string
	status chan int
	stderr *bytes.Buffer
}

// serveMCP starts `flow mcp` with a policy, in a directory of its own.
func serveMCP(t *testing.T, policy string, args ...string) *mcpSession {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	s := &mcpSession{audit: filepath.Join(dir, "audit.jsonl"), status: make(chan int, 1), stderr: &bytes.Buffer{}}
	a := &app{
		stdin: in, stdout: out, stderr: s.stderr, getenv: func(string) string { return "" }, environ: func() []string { return nil },
		now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	go func() {
		s.status <- a.main(append([]string{"mcp", "--policy", file, "--dir", dir, "--audit", s.audit}, args...))
		out.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.stderr)
	}
	s.ClientSession = session
	return s
}

// ask asks for a permission and returns the answer.
func (s *mcpSession) ask(t *testing.T, arguments any) behavior {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "permission", Arguments: arguments})
	if err != nil || result.IsError || len(result.Content) != 1 {
		t.Fatalf("%v, %+v", err, result)
	}
	var b behavior
	if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// end ends the conversation and returns the audit log.
func (s *mcpSession) end(t *testing.T) (entries []steps.AuditEntry) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if status := <-s.status; status != 0 {
		t.Errorf("exit status %d: %s", status, s.stderr)
	}
	data, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e steps.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

const mcpPolicy = `
default: deny
rules:
  - allow: ["shell(echo *)", "write_file(docs/**)", "mcp(github/list)"]
  - ask: shell(git push *)
`

// `flow mcp` decides as a step would. What a person is to be asked for is denied.
func TestMCPPermission(t *testing.T) {
	s := serveMCP(t, mcpPolicy)
	asked := []struct {
		tool, input     string
		behavior, by    string
		message, target string
	}{
		{"Bash", `{"command":"echo hi","n":1.50}`, "allow", "policy", "", "echo hi"},
		{"Bash", `{"command":"echo hi; rm -r /"}`, "deny", "default", "shell rm -r /", "echo hi; rm -r /"},
		{"Bash", `{"command":"git push origin"}`, "deny", "default", "nobody is there", "git push origin"},
		{"Write", `{"file_path":"docs/a.md","content":"x"}`, "allow", "policy", "", "docs/a.md"},
		{"Write", `{"file_path":"docs/../policy.yaml","content":"x"}`, "deny", "default", "", "docs/../policy.yaml"},
		{"mcp__github__list", `{}`, "allow", "policy", "", ""},
		{"Teleport", `{"to":"mars"}`, "deny", "default", "", ""},
	}
	for _, tt := range asked {
		got := s.ask(t, map[string]any{"tool_name": tt.tool, "input": json.RawMessage(tt.input), "tool_use_id": "t", "further": 1})
		if got.Behavior != tt.behavior || !strings.Contains(got.Message, tt.message) || (got.Message == "") != (tt.behavior == "allow") {
			t.Errorf("%s %s: %+v", tt.tool, tt.input, got)
		}
		if tt.behavior == "allow" && string(got.UpdatedInput) != tt.input {
			t.Errorf("%s is allowed with %s instead of %s", tt.tool, got.UpdatedInput, tt.input)
		}
		if tt.behavior == "deny" && got.UpdatedInput != nil {
			t.Errorf("%s is denied with an input", tt.tool)
		}
	}
	for _, odd := range []any{map[string]any{}, map[string]any{"tool_name": 1}} {
		if got := s.ask(t, odd); got.Behavior != "deny" {
			t.Errorf("%v: %+v", odd, got)
		}
	}
	entries := s.end(t)
	if len(entries) != len(asked) {
		t.Fatalf("%d entries in the audit log", len(entries))
	}
	for i, e := range entries {
		if want := asked[i]; e.Decision != want.behavior || e.By != want.by || e.NativeTool != want.tool || e.Target != want.target {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	first := entries[0]
	if first.Decision != "allow" || first.By != "policy" || first.Agent != "claude" || first.NativeTool != "Bash" || first.Time.IsZero() || len(first.ArgsSHA256) != 64 ||
		first.Rule != "allow shell(echo *)" || !strings.HasSuffix(first.Where, "policy.yaml:4:13") {
		t.Errorf("the first entry is %+v", first)
	}
}

// With --agent the policy is a pipeline, and the rules are those of a profile.
func TestMCPPipeline(t *testing.T) {
	s := serveMCP(t, `
permissions: {rules: [{deny: "shell(rm *)"}]}
agents:
  builder: {use: claude, permissions: {default: allow}}
steps:
  a: {agent: builder, prompt: x}
`, "--agent", "builder")
	for command, want := range map[string]string{"make": "allow", "rm x": "deny"} {
		if got := s.ask(t, map[string]any{"tool_name": "Bash", "input": map[string]any{"command": command}}); got.Behavior != want {
			t.Errorf("%s: %+v", command, got)
		}
	}
	s.end(t)
}

// The approval mode decides on what no rule is about.
func TestMCPApproval(t *testing.T) {
	s := serveMCP(t, `rules: [{deny: "shell(rm *)"}]`, "--approval", "auto-all")
	if got := s.ask(t, map[string]any{"tool_name": "Bash", "input": map[string]any{"command": "make"}}); got.Behavior != "allow" {
		t.Errorf("%+v", got)
	}
	s.end(t)
}

// It says what it is: one tool, whose input has a schema.
func TestMCPTools(t *testing.T) {
	s := serveMCP(t, "default: allow")
	listed, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"permission"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "other"}); err == nil {
		t.Error("there is another tool")
	}
	s.ask(t, map[string]any{"tool_name": "Read", "input": map[string]any{"file_path": "a"}}) // so that there is a log
	s.end(t)
}
