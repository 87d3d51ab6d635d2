// Package codex is the adapter for OpenAI's Codex CLI, over either of its protocols.
//
// `codex exec --json` is one-way: one process is one turn, and what it prints is JSON
// Lines. Three of its habits shape the package. The exit status says little: a turn is
// over when `turn.completed` or `turn.failed` has been printed, and an `error` line is
// usually a retry. Tokens are counted over the whole thread, not the turn. And a thread
// that cannot be resumed may be replaced silently by a new one, so its id is always
// compared.
//
// `codex app-server` is two-way: JSON-RPC over standard input and output. It asks before
// it acts, types its errors, streams, and can be interrupted and steered. The files
// named server*.go speak it; a Conversation is one process, for one thread.
//
// Measured with codex-cli 0.169.0 on Linux.
package codex

import (
	"fmt"

	"flow/agents"
)

const (
	name   = "codex"
	keyVar = "CODEX_API_KEY"
	login  = "run `codex login`, or set CODEX_API_KEY"
)

// Adapter speaks for the Codex CLI. The zero value is ready; its methods may be
// called concurrently.
type Adapter struct{}

// Info describes Codex. The login probe (`codex login status`) knows nothing of
// CODEX_API_KEY: where that is set, it need not be run. OPENAI_API_KEY is not read
// at all.
func (Adapter) Info() agents.Info {
	return agents.Info{
		Name:         name,
		Title:        "Codex",
		Transports:   []string{transportExec, transportServer},
		Hermetic:     true,
		Executable:   "codex",
		Tools:        []agents.Tool{agents.ToolShell, agents.ToolWriteFile, agents.ToolEditFile, agents.ToolWebSearch, agents.ToolMCP},
		Install:      "install the Codex CLI: npm install -g @openai/codex",
		Login:        login,
		KeyVariables: []string{keyVar},
		VersionArgs:  []string{"--version"},
		LoginArgs:    []string{"login", "status"},
		Capabilities: agents.Capabilities{
			Resume:       true,
			Fork:         true,
			Schema:       true,
			SystemPrompt: true,
			Approval: []agents.ApprovalMode{
				agents.ApprovalDeny, agents.ApprovalAsk, agents.ApprovalAskDangerous, agents.ApprovalAutoEdit, agents.ApprovalAutoAll,
			},
			Sandbox: []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite},

			NativeSandbox: true,
		},
	}
}

// The transports.
const (
	transportExec   = "exec"
	transportServer = "app-server"
)

// Transport returns the one that r names, or that suits it: app-server where there are
// rules or a person is to be asked, for it asks before every call, and exec otherwise.
func (Adapter) Transport(r agents.Request) string {
	switch {
	case r.Transport != "":
		return r.Transport
	case r.Ruled(), r.Asks():
		return transportServer
	default:
		return transportExec
	}
}

// Command returns how to start codex for one turn over r.Transport. What codex cannot
// honour is refused with a *agents.Problem of CauseConfig.
func (Adapter) Command(r agents.Request) (agents.Command, error) {
	switch r.Transport {
	case "", transportExec:
		return execCommand(r)
	case transportServer:
		return serverCommand(r)
	default:
		return agents.Command{}, agents.Unsupported(name, fmt.Sprintf("codex has no transport %q", r.Transport), "use exec or app-server")
	}
}

// Dialog returns the protocol machine for the process of Command(r): a *Conversation for
// app-server.
func (Adapter) Dialog(r agents.Request) agents.Dialog {
	if r.Transport == transportServer {
		return newConversation(r)
	}
	return &dialog{request: r, tools: map[string]toolState{}}
}
