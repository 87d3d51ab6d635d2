package codex

import (
	"slices"

	"flow/agents"
)

// Attach returns how to go on in a session at a terminal, within the sandbox and with
// the model and the arguments of the profile.
func (Adapter) Attach(r agents.Request) agents.Command {
	args := append([]string{"-C", r.Dir}, bounds(r)...)
	if r.Model != "" {
		args = append(args, "-m", r.Model)
	}
	return agents.Command{Args: slices.Concat(args, r.Args, []string{"resume", r.Session.ID}), Dir: r.Dir}
}
