// Package codex is the adapter for OpenAI's Codex CLI in its one-shot form,
// `codex exec --json`: one process is one turn, and what it prints is JSON Lines.
//
// Measured with codex-cli 0.169.0 on Linux. Three of its habits shape the package.
// The exit status says little: a turn is over when `turn.completed` or
// `turn.failed` has been printed, and an `error` line is usually a retry. Tokens
// are counted over the whole thread, not the turn. And a thread that cannot be
// resumed may be replaced silently by a new one, so its id is always compared.
//
// Codex also has a two-way protocol (`codex app-server`), which asks before it acts
// and types its errors. The package does not speak it.
package codex

import "flow/agents"

const (
	name  = "codex"
	login = "run `codex login`, or set CODEX_API_KEY"
)

// Adapter speaks for the Codex CLI. The zero value is ready; its methods may be
// called concurrently.
type Adapter struct{}

// Info describes Codex. The login probe (`codex login status`) knows nothing of
// CODEX_API_KEY: where that is set, it need not be run. OPENAI_API_KEY is not read
// by `codex exec` at all.
func (Adapter) Info() agents.Info {
	return agents.Info{
		Name:         name,
		Title:        "Codex",
		Transports:   []string{"exec"},
		Executable:   "codex",
		Tools:        []agents.Tool{agents.ToolShell, agents.ToolWriteFile, agents.ToolEditFile, agents.ToolWebSearch, agents.ToolMCP},
		Install:      "install the Codex CLI: npm install -g @openai/codex",
		Login:        login,
		KeyVariables: []string{"CODEX_API_KEY"},
		VersionArgs:  []string{"--version"},
		LoginArgs:    []string{"login", "status"},
		Capabilities: agents.Capabilities{
			Resume:       true,
			Fork:         true,
			Schema:       true,
			SystemPrompt: true,
			Approval:     []agents.ApprovalMode{agents.ApprovalDeny, agents.ApprovalAutoEdit, agents.ApprovalAutoAll},
			Sandbox:      []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite},

			NativeSandbox: true,
		},
	}
}

// Dialog returns the protocol machine for one `codex exec --json` process.
func (Adapter) Dialog(r agents.Request) agents.Dialog {
	return &dialog{request: r, tools: map[string]toolState{}}
}
