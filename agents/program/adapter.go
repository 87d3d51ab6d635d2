// Package program speaks for any command that reads a prompt and prints text or JSON, and
// that has no protocol of agents (`use: exec`). What is not known of it is written in its
// profile: agents.Exec.
package program

import "flow/agents"

// Name is what pipelines call this agent.
const Name = "exec"

// Adapter is any command as an agents.Adapter.
type Adapter struct{}

var (
	_ agents.Adapter = Adapter{}
	_ agents.Ruler   = Adapter{}
)

// Info describes a command of which nothing is known.
func (Adapter) Info() agents.Info {
	return agents.Info{
		Name: Name, Title: "a command", Transports: []string{Name},
		Unbounded: true,
		Install:   "install the command, or correct `command` of the profile",
		Capabilities: agents.Capabilities{
			Resume: true, Cost: true, SystemPrompt: true,
			Sandbox: []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite},
		},
	}
}

// Dialog returns what reads the output of the command that r starts.
func (Adapter) Dialog(r agents.Request) agents.Dialog {
	x := described(r)
	return &dialog{exec: x, dir: r.Dir, model: r.Model, resumes: len(x.Resume) > 0, session: resumed(r)}
}

// described is what the request says of the command.
func described(r agents.Request) agents.Exec {
	if r.Exec == nil {
		return agents.Exec{}
	}
	return *r.Exec
}

func resumed(r agents.Request) string {
	if r.Session.Mode == agents.SessionResume {
		return r.Session.ID
	}
	return ""
}

// Enforcement says that rules are held against what the command tells of its tools, if
// anything.
func (Adapter) Enforcement(r agents.Request) []agents.RuleEnforcement {
	why := "the command is asked for no permission"
	if _, tells := described(r).Events["tool"]; !tells {
		why = "the command does not tell of its tools: only a sandbox bounds it"
	}
	return agents.EnforcementBy(r, func(*agents.Rule) (agents.Enforcement, string) { return agents.Detected, why })
}

// one is a list of one event.
func one(b agents.Body) []agents.Event { return []agents.Event{{Body: b}} }
