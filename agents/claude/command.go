package claude

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"flow/agents"
)

// maxArg is the longest single argument that execve takes on Linux
// (MAX_ARG_STRLEN, its final NUL included), in bytes.
const maxArg = 128 << 10

// Command returns how to start Claude Code for r. The prompt goes to standard
// input: as an argument it would be limited to 128 KiB, and one that begins with
// "-" would be read as a flag. In the two-way transport the Conversation writes it there.
//
// A resumed session remembers its model but neither its permission mode nor its
// tools, so every flag is given every time. Unless r.Inherit is set, no settings
// file, hook, CLAUDE.md or MCP server of the user or of the repository is loaded:
// headless mode would run those of the repository without asking for trust.
//
// A prompt is text: the CLI would take it for a command when it begins with "/", and
// would read the files that it names as @path, without any permission. The environment
// switches the latter off, and neutral keeps the former away.
func (Adapter) Command(r agents.Request) (agents.Command, error) {
	if err := refuse(r); err != nil {
		return agents.Command{}, err
	}
	args := []string{"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"}
	if talks(r) {
		args = append(args, "--input-format", "stream-json", "--permission-prompt-tool", "stdio")
	}
	args = append(args, sessionArgs(r.Session)...)
	args = append(args, policyArgs(r)...)
	args = append(args, modelArgs(r)...)
	prompt, files := systemPrompt(r)
	args = append(args, prompt...)
	return agents.Command{
		Args: append(args, r.Args...), Env: environment(r), Dir: r.Dir,
		Stdin: neutral(r.Prompt), Talks: talks(r), Files: files, Interrupt: "INT", Writable: writable(),
	}, nil
}

func sessionArgs(s agents.Session) []string {
	var args []string
	switch s.Mode {
	case agents.SessionResume:
		return []string{"--resume", s.ID}
	case agents.SessionFork:
		args = []string{"--resume", s.Parent, "--fork-session"}
	case agents.SessionNew:
	}
	if s.ID != "" {
		args = append(args, "--session-id", s.ID)
	}
	return args
}

// policyArgs are the flags that bound what the agent may load, reach and do.
func policyArgs(r agents.Request) []string {
	var args []string
	if !r.Inherit {
		args = append(args, "--setting-sources", "")
	}
	if withoutServers(r) {
		args = append(args, "--strict-mcp-config")
	}
	args = append(args, "--tools", strings.Join(tools(r), ","), "--permission-mode", ruledMode(r))
	allowed, denied := ruleArgs(r)
	// Both lists end at the next flag, so they are safe from swallowing anything.
	if allowed = slices.Concat(r.AllowedTools, allowed); len(allowed) > 0 {
		args = append(append(args, "--allowedTools"), allowed...)
	}
	if denied = slices.Concat(r.BlockedTools, denied); len(denied) > 0 {
		args = append(append(args, "--disallowedTools"), denied...)
	}
	for _, dir := range r.AddDirs {
		args = append(args, "--add-dir", dir)
	}
	return args
}

// ruledMode is the permission mode. Under rules with a default the rules say what
// passes: nothing else does, or everything that the CLI has tools for.
func ruledMode(r agents.Request) string {
	if talks(r) {
		return askingMode(r)
	}
	if r.Closed() && r.Approval != agents.ApprovalPlan {
		return "dontAsk"
	}
	return permissionMode(r.Approval)
}

// askingMode is the permission mode in which the CLI asks for what it would not do by
// itself. It never is one that denies or allows without asking. Where the rules have a
// default, the answer to the callback decides on every call, and nothing has to pass by
// the mode.
func askingMode(r agents.Request) string {
	switch {
	case r.Approval == agents.ApprovalPlan:
		return "plan"
	case r.RuleDefault == "" && (r.Approval == "" || r.Approval == agents.ApprovalAutoEdit):
		return "acceptEdits"
	}
	return "default"
}

// permissionMode is the CLI's word for a mode. "default" is spelt "manual" since
// 2.1.329, but the old word is still taken, and the only one that older versions
// take. What would be asked is denied in headless mode; the clearer denials of
// --permission-prompts are not asked for, because older versions do not start
// with that flag.
func permissionMode(a agents.ApprovalMode) string {
	switch a {
	case agents.ApprovalPlan:
		return "plan"
	case agents.ApprovalDeny:
		return "dontAsk"
	case agents.ApprovalAsk:
		return "default"
	case agents.ApprovalAutoAll:
		return "bypassPermissions"
	case agents.ApprovalAutoEdit, "":
		return "acceptEdits"
	default:
		return ""
	}
}

// tools is what the agent is given. The CLI has no sandbox of its own that could
// be relied on, so a sandbox mode is a choice of tools: the CLI keeps its file
// tools inside the working directory, but a shell only where it is confined. Tools
// that reach other agents of the machine (SendMessage, ListAgents) are given only by
// name.
func tools(r agents.Request) []string {
	if r.Ruled() {
		return ruledTools(r, sandboxTools(r))
	}
	return sandboxTools(r)
}

func sandboxTools(r agents.Request) []string {
	list := []string{"Read", "Grep", "Glob"}
	switch r.Sandbox {
	case agents.SandboxReadOnly:
	case agents.SandboxOff:
		list = append(list, "Edit", "Write", "Bash", "WebFetch", "WebSearch")
		for _, pattern := range r.AllowedTools {
			if tool := patternTool(pattern); !isMCP(tool) && !slices.Contains(list, tool) {
				list = append(list, tool)
			}
		}
	default:
		list = append(list, "Edit", "Write")
		if r.Confined && r.Network != agents.NetworkOff { // the CLI needs the network, so its commands have it
			list = append(list, "Bash")
		}
	}
	return list
}

// patternTool is the tool in a permission rule: "Bash" in "Bash(git diff *)".
func patternTool(pattern string) string {
	tool, _, _ := strings.Cut(pattern, "(")
	return tool
}

func modelArgs(r agents.Request) []string {
	var args []string
	if r.Model != "" {
		args = append(args, "--model", r.Model)
	}
	if r.Effort != "" {
		args = append(args, "--effort", r.Effort)
	}
	if r.MaxTurns > 0 { // 0 would mean no limit
		args = append(args, "--max-turns", strconv.Itoa(r.MaxTurns))
	}
	if r.MaxCostUSD > 0 {
		args = append(args, "--max-budget-usd", strconv.FormatFloat(r.MaxCostUSD, 'f', -1, 64))
	}
	if len(r.Schema) > 0 {
		args = append(args, "--json-schema", string(compact(r.Schema)))
	}
	return args
}

// systemPrompt returns the flags for r.SystemPrompt, and the file that holds it
// when it is too long for an argument.
//
// Since 2.1.329 a session keeps the system prompt of its first turn and silently
// ignores another one unless the snapshot is off. Versions that do not know that
// flag refuse to start, which is better than an instruction that never arrives.
func systemPrompt(r agents.Request) ([]string, []agents.File) {
	if r.SystemPrompt == "" {
		return nil, nil
	}
	args := []string{"--system-prompt-snapshot", "off"}
	if len(r.SystemPrompt) < maxArg {
		return append(args, "--append-system-prompt", r.SystemPrompt), nil
	}
	file := filepath.Join(r.Scratch, "system-prompt.md")
	return append(args, "--append-system-prompt-file", file), []agents.File{{Path: file, Data: []byte(r.SystemPrompt)}}
}

// environment keeps the CLI quiet and short of breath: no telemetry, no update, no
// work that outlives the turn, and few retries of its own (the default of ten
// takes three minutes to report a wrong key), because flow retries too. And it makes
// words of a prompt mere words: @path reads no file, ultrathink costs no thoughts.
func environment(r agents.Request) []string {
	env := []string{
		"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
		"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_DISABLE_ULTRATHINK=1",
		"CLAUDE_CODE_MAX_RETRIES=3",
		"DISABLE_AUTOUPDATER=1",
		"DISABLE_TELEMETRY=1",
	}
	if talks(r) {
		env = append(env, "CLAUDE_CODE_SIMPLE=0") // the simple CLI agrees to call back, and does not
	}
	if r.Ruled() || talks(r) { // a call's `cd` would change what the next one's paths mean
		env = append(env, "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR=1")
	}
	if r.Confined && r.Approval == agents.ApprovalAutoAll {
		env = append(env, "IS_SANDBOX=1") // else it does not do so for root
	}
	return env
}

// neutral returns prompt so that it is not taken for a slash command. A newline
// before it is enough; --disable-slash-commands is not.
func neutral(prompt string) string {
	if strings.HasPrefix(prompt, "/") {
		return "\n" + prompt
	}
	return prompt
}

// compact returns JSON without blanks; text that is no JSON as it is.
func compact(v json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}
