package codex

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

const (
	parentID = "01a1fe5e-2185-7b21-bb46-43b512e79c6a"
	always   = " -c analytics.enabled=false -c features.unbounded_connection_retries=false -c features.apps=false" +
		" -c features.plugins=false -c features.remote_plugin=false -c shell_environment_policy.ignore_default_excludes=false"
	hermetic = " --ignore-user-config --ignore-rules -c project_doc_max_bytes=0 -c features.hooks=false -c skills.include_instructions=false"
	begin    = "exec --json --skip-git-repo-check -C /repo"
	answer   = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`
)

func TestCommandArgs(t *testing.T) {
	tests := map[string]struct {
		request agents.Request
		want    string
	}{
		"default": {
			agents.Request{},
			begin + " -s workspace-write" + always + hermetic + " -",
		},
		"read-only needs no further directories": {
			agents.Request{Sandbox: agents.SandboxReadOnly, AddDirs: []string{"/a"}},
			begin + " -s read-only" + always + hermetic + " -",
		},
		"workspace and two directories": {
			agents.Request{Sandbox: agents.SandboxWorkspaceWrite, AddDirs: []string{"/a", "/b"}, Approval: agents.ApprovalAutoEdit},
			begin + " -s workspace-write --add-dir /a --add-dir /b" + always + hermetic + " -",
		},
		"no sandbox": {
			agents.Request{Sandbox: agents.SandboxOff, Approval: agents.ApprovalDeny},
			begin + " -s danger-full-access" + always + hermetic + " -",
		},
		"everything passes": {
			agents.Request{Sandbox: agents.SandboxOff, Approval: agents.ApprovalAutoAll},
			begin + " --dangerously-bypass-approvals-and-sandbox" + always + hermetic + " -",
		},
		"model, effort, instructions": {
			agents.Request{Model: "gpt-5.5", Effort: "high", SystemPrompt: "say \"é\"\n\x7f"},
			begin + " -s workspace-write -m gpt-5.5" + always + hermetic +
				` -c model_reasoning_effort="high" -c developer_instructions="say \"é\"\n\u007f" -`,
		},
		"the user's own settings": {
			agents.Request{Inherit: true},
			begin + " -s workspace-write" + always + " -",
		},
		"resume repeats all flags, before the word": {
			agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: parentID}, Args: []string{"--image=/a.png"}},
			begin + " -s workspace-write" + always + hermetic + " --image=/a.png resume " + parentID + " -",
		},
		"fork": {
			agents.Request{Session: agents.Session{Mode: agents.SessionFork, Parent: parentID, ID: "wished for"}},
			begin + " -s workspace-write" + always + hermetic + " fork " + parentID + " -",
		},
		"the id of a new session cannot be chosen": {
			agents.Request{Session: agents.Session{ID: "wished for"}},
			begin + " -s workspace-write" + always + hermetic + " -",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.request.Prompt, tt.request.Dir = "resume", "/repo"
			c, err := Adapter{}.Command(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(c.Args, " ")); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if c.Stdin != "resume" || c.Dir != "/repo" || c.Interrupt != "INT" || len(c.Files) != 0 {
				t.Errorf("stdin %q, dir %q, interrupt %q, files %v", c.Stdin, c.Dir, c.Interrupt, c.Files)
			}
		})
	}
}

// A schema that the provider's strict mode takes is enforced natively; any other is
// asked for in the prompt.
func TestCommandSchema(t *testing.T) {
	r := agents.Request{Prompt: "judge", Dir: "/repo", Scratch: "/scratch", Schema: json.RawMessage(answer)}
	c, err := Adapter{}.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	file := []agents.File{{Path: "/scratch/output-schema.json", Data: []byte(answer)}}
	if diff := cmp.Diff(file, c.Files); diff != "" {
		t.Error(diff)
	}
	if args := strings.Join(c.Args, " "); !strings.Contains(args, " --output-schema /scratch/output-schema.json -") || c.Stdin != "judge" {
		t.Errorf("arguments %s, stdin %q", args, c.Stdin)
	}
	r.Schema = json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)
	if c, err = (Adapter{}).Command(r); err != nil {
		t.Fatal(err)
	}
	if args := strings.Join(c.Args, " "); strings.Contains(args, "--output-schema") || len(c.Files) > 0 || c.Stdin != agents.WithSchema("judge", r.Schema) {
		t.Errorf("arguments %s, files %v, stdin %q", args, c.Files, c.Stdin)
	}
}

func TestCommandRefuses(t *testing.T) {
	tests := map[string]struct {
		request agents.Request
		want    string
	}{
		"allowed tools":          {agents.Request{AllowedTools: []string{"shell"}}, "single tools"},
		"blocked tools":          {agents.Request{BlockedTools: []string{"shell"}}, "single tools"},
		"turn limit":             {agents.Request{MaxTurns: 1}, "limit of model turns"},
		"money limit":            {agents.Request{MaxCostUSD: 0.5}, "reports no money"},
		"long system prompt":     {agents.Request{SystemPrompt: strings.Repeat("x", 128<<10)}, "too long to be passed"},
		"plan":                   {agents.Request{Approval: agents.ApprovalPlan}, "no plan mode"},
		"ask":                    {agents.Request{Approval: agents.ApprovalAsk}, "never asks"},
		"ask-dangerous":          {agents.Request{Approval: agents.ApprovalAskDangerous}, "never asks"},
		"auto-edit, read-only":   {agents.Request{Approval: agents.ApprovalAutoEdit, Sandbox: agents.SandboxReadOnly}, "contradicts"},
		"auto-all, sandboxed":    {agents.Request{Approval: agents.ApprovalAutoAll}, "lifts codex's sandbox"},
		"auto-all, read-only":    {agents.Request{Approval: agents.ApprovalAutoAll, Sandbox: agents.SandboxReadOnly}, "lifts codex's sandbox"},
		"unknown approval":       {agents.Request{Approval: "yes"}, `"yes"`},
		"unknown sandbox":        {agents.Request{Sandbox: "jail"}, `"jail"`},
		"bypass in args":         {agents.Request{Args: []string{"--yolo"}}, "lifts the sandbox"},
		"resume of a name":       {agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: "last-one"}}, `"last-one" is no codex session`},
		"resume of nothing":      {agents.Request{Session: agents.Session{Mode: agents.SessionResume}}, `"" is no codex session`},
		"resume of almost an id": {agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: parentID[:35] + "g"}}, "no codex session"},
		"fork of a flag":         {agents.Request{Session: agents.Session{Mode: agents.SessionFork, Parent: "--last"}}, "no codex session"},
		"unknown session mode":   {agents.Request{Session: agents.Session{Mode: "join"}}, `"join"`},
		"relative directory":     {agents.Request{Dir: "work"}, "not absolute"},
		"schema without scratch": {agents.Request{Schema: json.RawMessage(answer)}, "scratch directory"},
		"blank prompt":           {agents.Request{Prompt: " \n"}, "empty"},
		"prompt not UTF-8":       {agents.Request{Prompt: "a\xffb"}, "UTF-8"},
		"prompt too long":        {agents.Request{Prompt: strings.Repeat("é", 1<<20) + "x"}, "1048577 characters"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.request.Prompt == "" {
				tt.request.Prompt = "hello"
			}
			if tt.request.Dir == "" {
				tt.request.Dir = "/repo"
			}
			_, err := Adapter{}.Command(tt.request)
			var p *agents.Problem
			if !errors.As(err, &p) {
				t.Fatalf("error %v", err)
			}
			if p.Agent != "codex" || p.Cause != agents.CauseConfig || p.Hint == "" || !strings.Contains(p.Message, tt.want) {
				t.Errorf("problem %+v, want %q", p, tt.want)
			}
		})
	}
	// The limit is of characters, not of bytes.
	if !accepts(agents.Request{}) {
		t.Error("a plain request is refused")
	}
	if _, err := (Adapter{}).Command(agents.Request{Prompt: strings.Repeat("é", 1<<20), Dir: "/repo"}); err != nil {
		t.Errorf("a prompt of 1048576 characters: %v", err)
	}
}
