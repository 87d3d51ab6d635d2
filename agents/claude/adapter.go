// Package claude speaks for Claude Code, one process a turn: `claude -p` with
// stream-json on standard output, and on standard input the prompt alone or, where rules
// want every tool call to be decided, the control protocol. It was written against
// version 2.1.329 and understands the streams of 2.1.197.
//
// Three facts of that protocol shape the package. A result with the subtype
// "success" may be an error: is_error decides. One process may print several
// system/init and several result lines: the last result counts, and costs are
// summed. The exit status is 0 for an interrupted turn and for a prompt that a
// slash command swallowed.
package claude

import "flow/agents"

const name = "claude"

// Adapter is the agents.Adapter of Claude Code. Its zero value is ready to use.
type Adapter struct{}

// Info describes Claude Code.
func (Adapter) Info() agents.Info {
	return agents.Info{
		Name:       name,
		Title:      "Claude Code",
		Transports: transports(),
		Hermetic:   true,
		Executable: "claude",
		// The version is named because npm on Node 20 silently picks 2.1.197, the
		// last one that claims to run there.
		Install:      "npm install -g @anthropic-ai/claude-code@2.1.329",
		Login:        "run `claude` and type /login, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
		KeyVariables: []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"},
		VersionArgs:  []string{"--version"},
		Capabilities: agents.Capabilities{
			ChoosesSessionID: true, Resume: true, Fork: true, Schema: true,
			Cost: true, MaxTurns: true, MaxCost: true, SystemPrompt: true,
			Approval: []agents.ApprovalMode{
				agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAsk, agents.ApprovalAskDangerous,
				agents.ApprovalAutoEdit, agents.ApprovalAutoAll,
			},
			Sandbox: []agents.SandboxMode{
				agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite,
			},
		},
	}
}

// Dialog returns the protocol machine for the process that Command(r) starts, a
// Conversation for the transport stream-json. A request without Dir stands for a recorded
// stream whose request is not known: then nothing is said of tools that were asked for
// and not granted.
func (Adapter) Dialog(r agents.Request) agents.Dialog {
	d := &dialog{dir: r.Dir, calls: map[string]call{}, subagents: map[string]bool{}}
	if r.Dir != "" {
		d.wanted = tools(r)
	}
	if talks(r) {
		return newConversation(d, r)
	}
	return d
}
