// Package gemini speaks for Gemini CLI (@google/gemini-cli, measured with 0.61.0)
// in its headless mode (one process a turn, the prompt on standard input, JSON Lines on
// standard output, -o stream-json) and over the Agent Client Protocol (--acp).
//
// Two habits of the CLI shape this package. Its exit status 0 proves nothing (a
// SIGTERM in the middle of a turn, a cut output and an empty answer all end with
// 0), so success is read from the stream. And much of what other agents take as
// flags it reads only from settings files, so a Command carries some.
package gemini

import "flow/agents"

// Name is what pipelines call this agent.
const Name = "gemini"

// DefaultModel is asked for when a request names none. The CLI's own default,
// "auto", spends a further model call on choosing a model for every prompt.
const DefaultModel = "gemini-2.5-pro"

// Adapter is Gemini CLI as an agents.Adapter.
type Adapter struct{}

var (
	_ agents.Adapter     = Adapter{}
	_ agents.Transporter = Adapter{}
)

// Info describes Gemini CLI.
func (Adapter) Info() agents.Info {
	return agents.Info{
		Name:         Name,
		Title:        "Gemini CLI",
		Transports:   []string{headless, transport},
		Hermetic:     true,
		Executable:   "gemini",
		Install:      "npm install -g @google/gemini-cli",
		Login:        loginHint,
		KeyVariables: []string{"GEMINI_API_KEY"},
		VersionArgs:  []string{"--version"},
		Capabilities: agents.Capabilities{
			ChoosesSessionID: true,
			Resume:           true,
			Fork:             true,
			MaxTurns:         true,
			Approval: []agents.ApprovalMode{
				agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAsk, agents.ApprovalAskDangerous,
				agents.ApprovalAutoEdit, agents.ApprovalAutoAll,
			},
			Sandbox: []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite},
		},
	}
}

const loginHint = "set GEMINI_API_KEY; or GEMINI_DEFAULT_AUTH_TYPE=vertex-ai and its GOOGLE_ variables; " +
	"or log in by running `gemini` in a terminal and give the profile `inherit: true`"

// Dialog returns the protocol machine for the process that Command(r) starts.
func (Adapter) Dialog(r agents.Request) agents.Dialog {
	if talks(r) {
		return newConversation(r)
	}
	return &dialog{dir: r.Dir, maxTurns: r.MaxTurns, ownHome: ownHome(r), calls: map[string]call{}}
}
