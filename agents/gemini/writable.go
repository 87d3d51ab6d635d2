package gemini

import "flow/agents"

// writable is the home that the CLI keeps sessions, logins and settings in. It does not
// start unless it can make files next to the settings, so these cannot be left out.
func writable(r agents.Request) []string {
	if ownHome(r) {
		return []string{r.Home + "/"}
	}
	return []string{"${GEMINI_CLI_HOME:-~}/.gemini/"}
}
