package claude

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"flow/agents"
)

// maxPrompt is the longest prompt that the CLI reads from standard input, in bytes.
const maxPrompt = 10 << 20

// refuse returns why Claude Code cannot honour r, or nil. The limits are checked
// here and not left to the CLI because it would start, load for most of a second
// and say the same less clearly, or, worse, not say it.
func refuse(r agents.Request) error {
	checks := []func(agents.Request) error{
		refuseTransport, refusePrompt, refuseSession, refuseModes, refuseTools, refuseRules, refuseLimits, refuseSchema, refuseSystemPrompt, refuseArgs,
	}
	for _, check := range checks {
		if err := check(r); err != nil {
			return err
		}
	}
	return nil
}

func refusePrompt(r agents.Request) error {
	if strings.TrimSpace(r.Prompt) == "" {
		return unsupported("the prompt is empty", "give the step a prompt with text")
	}
	if len(r.Prompt) > maxPrompt {
		return unsupported(fmt.Sprintf("the prompt has %d bytes, Claude Code reads at most %d", len(r.Prompt), maxPrompt),
			"write the text to a file and name the file in the prompt")
	}
	return nil
}

func refuseSession(r agents.Request) error {
	s := r.Session
	var ids []string
	switch s.Mode {
	case agents.SessionNew, agents.SessionFork:
		if s.ID != "" {
			ids = append(ids, s.ID)
		}
		if s.Mode == agents.SessionFork {
			ids = append(ids, s.Parent)
		}
	case agents.SessionResume:
		ids = append(ids, s.ID)
	default:
		return unsupported(fmt.Sprintf("unknown session mode %q", s.Mode), "begin, resume or fork a session")
	}
	for _, id := range ids {
		if !agents.IsUUID(id) {
			return unsupported(fmt.Sprintf("session id %q is not a UUID", id), "use the id that an earlier turn reported")
		}
	}
	return nil
}

func refuseModes(r agents.Request) error {
	switch r.Sandbox {
	case "", agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite:
	default:
		return unsupported(fmt.Sprintf("unknown sandbox %q", r.Sandbox), "use off, read-only or workspace-write")
	}
	if r.Network == agents.NetworkOff && r.Inherit {
		return unsupported("inherited MCP servers and hooks would reach the network", "leave `inherit` or `network: off` out")
	}
	putToFlow := talks(r) && r.Approval == agents.ApprovalAskDangerous // which tells the dangerous ones
	if permissionMode(r.Approval) == "" && !putToFlow {
		return unsupported(fmt.Sprintf("Claude Code has no approval mode %q", r.Approval),
			"use `transport: stream-json`, or plan, deny, ask, auto-edit or auto-all")
	}
	if r.Approval != agents.ApprovalAutoAll {
		return nil
	}
	if r.Sandbox == agents.SandboxReadOnly && r.Inherit {
		return unsupported("approval auto-all with inherited settings would let MCP tools write in a read-only sandbox",
			"use approval: ask, or do not inherit settings")
	}
	if !r.Confined && (r.Sandbox == "" || r.Sandbox == agents.SandboxWorkspaceWrite) {
		return unsupported("approval auto-all lifts the confinement to the workspace",
			"use approval: auto-edit, or sandbox: off")
	}
	return nil
}

func refuseTools(r agents.Request) error {
	granted := tools(r)
	for _, pattern := range slices.Concat(r.AllowedTools, r.BlockedTools) {
		if pattern == "" || strings.HasPrefix(pattern, "-") || strings.TrimSpace(pattern) != pattern {
			return unsupported(fmt.Sprintf("%q is not a tool pattern", pattern), "write it like Read or Bash(git diff *)")
		}
	}
	for _, pattern := range r.AllowedTools {
		if tool := patternTool(pattern); !isMCP(tool) && !slices.Contains(granted, tool) {
			return unsupported(fmt.Sprintf("tool %s cannot be allowed in a sandbox: Claude Code does not confine it", tool),
				"use sandbox: off, or one of "+strings.Join(granted, ", "))
		}
	}
	for _, dir := range r.AddDirs {
		if !filepath.IsAbs(dir) {
			return unsupported(fmt.Sprintf("added directory %q is not absolute", dir), "give its absolute path")
		}
	}
	return nil
}

func refuseLimits(r agents.Request) error {
	if r.MaxTurns < 0 {
		return unsupported("the turn limit is negative", "give a positive number, or none")
	}
	if r.MaxCostUSD < 0 {
		return unsupported("the money limit is negative", "give a positive amount, or none")
	}
	return nil
}

func refuseSchema(r agents.Request) error {
	if len(r.Schema) == 0 {
		return nil
	}
	if !json.Valid(r.Schema) {
		return unsupported("the output schema is not JSON", "correct the schema")
	}
	if size := len(compact(r.Schema)); size >= maxArg {
		return unsupported(fmt.Sprintf("the output schema has %d bytes, an argument holds less than %d", size, maxArg),
			"shorten the schema, or ask for plain text")
	}
	return nil
}

func refuseSystemPrompt(r agents.Request) error {
	if len(r.SystemPrompt) >= maxArg && r.Scratch == "" {
		return unsupported("the system prompt is too long for an argument, and there is no directory for a file",
			"shorten it, or move it into the prompt")
	}
	return nil
}

// refuseArgs keeps profiles from changing what the dialog depends on, and from
// lifting the policy by another name.
func refuseArgs(r agents.Request) error {
	for _, arg := range r.Args {
		flag, _, _ := strings.Cut(arg, "=")
		switch flag {
		case "-p", "--print", "--output-format", "--input-format", "--":
			return unsupported("argument "+flag+" is flow's own", "remove it from the profile")
		case "-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--no-session-persistence":
			return unsupported("argument "+flag+" would change the session", "remove it from the profile; use session: in the step")
		case "--permission-mode", "--permission-prompt-tool", "--tools", "--dangerously-skip-permissions",
			"--allow-dangerously-skip-permissions", "--permission-prompts":
			return unsupported("argument "+flag+" would change the policy", "remove it from the profile; use approval: and sandbox:")
		case "--bare":
			if talks(r) {
				return unsupported("with --bare Claude Code does not call back before it calls tools, so that rules would not be kept",
					"remove it from the profile, or use transport: print")
			}
		}
	}
	return nil
}

func unsupported(what, hint string) error { return agents.Unsupported(name, what, hint) }
