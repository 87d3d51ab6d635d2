package steps

import (
	"strings"

	"flow/agents"
)

// lastLines is how many lines of an agent's standard error are kept with its failure.
const lastLines = 20

// lastWords are the last lines of an agent's standard error, if they may tell why it came
// to no result and p does not say them already.
func lastWords(p *agents.Problem, stderr string) string {
	if p == nil {
		return ""
	}
	switch p.Cause {
	case agents.CauseCrash, agents.CauseIncomplete, agents.CauseProtocol, agents.CauseTimeout, agents.CauseUnknown:
	default: // known well enough
		return ""
	}
	lines := strings.Split(strings.TrimRight(tail(stderr, stderrMax), "\n"), "\n")
	text := strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
	if strings.Contains(p.Message, strings.TrimSpace(text)) {
		return ""
	}
	return text
}
