// Package acp speaks for every agent that has no adapter of its own but speaks the Agent
// Client Protocol: any command (`use: acp`), and some agents by name, with what is known
// of them.
//
// Measured with OpenCode 1.18.33, and as far as the first messages with Copilot CLI 1.0.102
// and Qwen Code 0.15.10. Goose, Kimi and Cursor stand here by their manuals.
package acp

import (
	"slices"

	"flow/agents"
	"flow/agents/internal/acpclient"
)

// Name is what pipelines call an agent that only its command tells.
const Name = "acp"

// Transport is the name of the protocol.
const Transport = "acp"

// Adapter is one agent that speaks ACP as an agents.Adapter. The zero value is that of any
// command.
type Adapter struct{ preset preset }

var (
	_ agents.Adapter  = Adapter{}
	_ agents.Enforcer = Adapter{}
	_ agents.Ruler    = Adapter{}
)

// Adapters returns that of any command, and those of the agents that are known by name.
func Adapters() []agents.Adapter {
	all := []agents.Adapter{Adapter{}}
	for _, p := range presets() {
		all = append(all, Adapter{p})
	}
	return all
}

// A preset is what is known of an agent.
type preset struct {
	name, title string
	executable  string
	args        []string // that make it speak ACP
	install     string
	login       string
	keys        []string // environment variables that log it in
	keeps       []string // what it writes besides its work, as agents.Command.Writable has it
	resume      bool     // it can go on in a session
	fork        bool     // it can branch one
	cost        bool     // it says what a session costs
	// asking completes a command so that it asks for every call. nil: which calls it asks
	// for is its own affair.
	asking func(agents.Request, *agents.Command)
}

func presets() []preset {
	return []preset{
		{
			name: "opencode", title: "OpenCode", executable: "opencode", args: []string{"acp"},
			install: "npm install -g opencode-ai", login: "run `opencode auth login`",
			keeps:  []string{"~/.local/share/opencode/", "~/.local/state/opencode/", "~/.cache/opencode/", "~/.config/opencode/"},
			resume: true, fork: true, cost: true, asking: askingOpenCode,
		},
		{
			name: "copilot", title: "Copilot CLI", executable: "copilot", args: []string{"--acp"},
			install: "npm install -g @github/copilot", login: "run `copilot login`, or set COPILOT_GITHUB_TOKEN",
			keys: []string{"COPILOT_GITHUB_TOKEN"}, keeps: []string{"~/.copilot/"}, resume: true,
		},
		{
			name: "qwen", title: "Qwen Code", executable: "qwen", args: []string{"--acp"},
			install: "npm install -g @qwen-code/qwen-code", login: "run `qwen`, or set OPENAI_API_KEY",
			keys: []string{"OPENAI_API_KEY"}, keeps: []string{"~/.qwen/"}, resume: true,
		},
		{
			name: "goose", title: "Goose", executable: "goose", args: []string{"acp"},
			install: "see https://block.github.io/goose for how to install it", login: "run `goose configure`",
			keeps: []string{"~/.config/goose/", "~/.local/share/goose/", "~/.local/state/goose/"}, resume: true,
		},
		{
			name: "kimi", title: "Kimi CLI", executable: "kimi", args: []string{"acp"},
			install: "uv tool install kimi-cli", login: "run `kimi` and type /setup",
			keeps: []string{"~/.kimi/"}, resume: true,
		},
		{
			name: "cursor", title: "Cursor CLI", executable: "cursor-agent", args: []string{"acp"},
			install: "see https://cursor.com/cli for how to install it", login: "run `cursor-agent login`, or set CURSOR_API_KEY",
			keys: []string{"CURSOR_API_KEY"}, keeps: []string{"~/.cursor/", "~/.config/cursor/"}, resume: true,
		},
	}
}

func (p preset) any() bool { return p.name == "" }

// Info describes the agent. Of any command it says what the protocol allows: what the
// command lacks shows when it is started.
func (a Adapter) Info() agents.Info {
	p := a.preset
	if p.any() {
		p = preset{
			name: Name, title: "the ACP agent", resume: true, fork: true,
			install: "install the agent, or correct `command` of the profile", login: "log in with the agent's own command",
		}
	}
	return agents.Info{
		Name: p.name, Title: p.title, Transports: []string{Transport},
		Executable: p.executable, Install: p.install, Login: p.login,
		KeyVariables: slices.Clone(p.keys), VersionArgs: []string{"--version"}, Unbounded: true,
		Capabilities: agents.Capabilities{
			Resume: p.resume, Fork: p.fork, Cost: p.cost, SystemPrompt: true,
			Approval: []agents.ApprovalMode{
				agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAsk, agents.ApprovalAskDangerous,
				agents.ApprovalAutoEdit, agents.ApprovalAutoAll,
			},
			Sandbox: []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite},
		},
	}
}

// Dialog returns the client of the process that Command(r) starts, an agents.Conversation.
func (a Adapter) Dialog(r agents.Request) agents.Dialog {
	info := a.Info()
	o := acpclient.Options{
		Agent: info.Name, Title: info.Title, Request: r, Prompt: prompt(r),
		Install: info.Install, Login: info.Login,
	}
	if r.Approval == agents.ApprovalPlan {
		o.Mode = "plan"
	}
	return acpclient.New(o)
}
