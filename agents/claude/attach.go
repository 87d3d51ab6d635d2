package claude

import "flow/agents"

// Attach returns how to go on in a session at a terminal. The person's own settings
// count there, and the session's directory is where the CLI looks for it.
func (Adapter) Attach(r agents.Request) agents.Command {
	return agents.Command{Args: []string{"--resume", r.Session.ID}, Dir: r.Dir}
}
