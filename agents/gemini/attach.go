package gemini

import "flow/agents"

// Attach returns how to go on in a session at a terminal. The session of a hermetic turn
// is in the run's own home; there the folder stays untrusted, so that the CLI asks for
// every effect and loads nothing of the repository.
func (Adapter) Attach(r agents.Request) agents.Command {
	r.Session.Mode = agents.SessionResume
	c := agents.Command{
		Args: []string{"--resume=" + r.Session.ID, "--model=" + either(r.Model, DefaultModel)},
		Dir:  r.Dir, Prepare: preparation(r),
	}
	if ownHome(r) {
		c.Env = []string{"GEMINI_CLI_HOME=" + r.Home, "GEMINI_CLI_TRUST_WORKSPACE=false", maxTurnsVariable + "=-1"}
	}
	return c
}
