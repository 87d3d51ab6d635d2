package gemini

import (
	"path/filepath"
	"strings"

	"flow/agents"
)

// The CLI interprets a prompt: one that begins with "/" may run a command, and @name,
// anywhere, adds the content of a file (of one whose name merely contains the name, if
// need be: @Override finds OverrideTest.java), the resources of an MCP server, or the
// advice to use a subagent. No setting turns that off. Two ways are known to keep it
// from doing so.

// verbatim is how a prompt begins that goes through a command of our own. The CLI
// passes on what follows the command's name as it is, and looks at it no further.
const verbatim = "/flow\n"

// commandFile defines the command. In the conversation its text stands before the
// prompt, which begins with the command's name.
const commandFile = `description = "A prompt, as it is."
prompt = "` + commandText + `"
`

const commandText = "The task is what follows the word /flow:"

// asGiven is a prompt as it stands in the conversation, without what it went through.
func asGiven(prompt string) string {
	return strings.TrimPrefix(strings.TrimPrefix(prompt, commandText+"\n\n"), verbatim)
}

func commandPath(r agents.Request) string {
	return filepath.Join(r.Home, ".gemini", "commands", "flow.toml")
}

// stdin is the prompt as a text that triggers nothing. In a home of the run's own it
// goes through our command, word for word. Elsewhere there is no place for the command,
// and an "@" is escaped; the model sees the escape and is told of it.
func stdin(r agents.Request) string {
	prompt := agents.WithSchema(r.Prompt, r.Schema)
	if ownHome(r) {
		return verbatim + prompt
	}
	escaped := escapeMentions(prompt)
	switch {
	case escaped != prompt:
		return `The task (\@ in it stands for @):` + "\n\n" + escaped
	case strings.HasPrefix(strings.TrimSpace(prompt), "/"):
		return "The task:\n\n" + prompt
	}
	return prompt
}

// escapeMentions puts a backslash before every "@" that could begin a name. The CLI
// leaves one alone that a backslash stands before, or one of the characters that no
// name begins with stands after.
func escapeMentions(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if text[i] == '@' && i+1 < len(text) && !strings.ContainsRune(" \t\r\n,;!?()[]{}", rune(text[i+1])) &&
			(i == 0 || text[i-1] != '\\') {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
