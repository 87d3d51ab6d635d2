package acp

import "flow/agents"

// Enforces reports whether a call that breaks a rule may yet be refused: an agent tells of
// a call before it asks for it, and one that runs without having asked is seen to run.
func (a Adapter) Enforces(agents.Request, *agents.Rule) bool { return true }

// Enforcement says what becomes of the rules. An agent that asks for every call keeps them
// all; of others nobody knows what they ask for.
func (a Adapter) Enforcement(r agents.Request) []agents.RuleEnforcement {
	return agents.EnforcementBy(r, func(*agents.Rule) (agents.Enforcement, string) {
		if a.preset.asking != nil {
			return agents.Enforced, ""
		}
		return agents.Detected, "which calls " + a.Info().Title + " asks for is its own affair"
	})
}
