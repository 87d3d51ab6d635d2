package gemini

import "flow/agents"

// writable is what the CLI keeps for itself: settings, sessions, logins.
func writable(r agents.Request) []string {
	if ownHome(r) {
		return []string{r.Home + "/"}
	}
	return []string{"$GEMINI_CLI_HOME/.gemini/", "~/.gemini/"}
}
