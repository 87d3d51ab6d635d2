package codex

import (
	"regexp"
	"strings"
)

// Codex takes `$name`, wherever it stands in a prompt, for the wish to use the skill of
// that name, and adds the skill's text to the conversation: one of the user, of the
// repository or of its own. It takes [$name](path) for the skill at the path, whatever
// its name. No setting turns that off, but skills can be disabled one by one. So every
// name that a prompt could mean is disabled for the turn, and the text stays as it is.
// There need not be such a skill. A link is not known by its name: it gets a space.

// maxSkills bounds the list of disabled skills, in bytes: an argument of the process.
const maxSkills = 64 << 10

var (
	skillName = regexp.MustCompile(`\$[A-Za-z0-9_:-]+`)
	skillLink = regexp.MustCompile(`\[(\$[A-Za-z0-9_:-]+\][\s\p{Z}]*\()`)
)

// unskilled returns prompt without links to skills, and the value of the setting
// skills.config that disables every skill which it names, "" when it names none. A
// prompt with too many names for an argument (the text of large scripts, say) gets a
// space after each `$` instead.
func unskilled(prompt string) (text, disabled string) {
	text = skillLink.ReplaceAllString(prompt, "[ $1")
	var b strings.Builder
	seen := map[string]bool{}
	for _, name := range skillName.FindAllString(text, -1) {
		if name = name[1:]; !seen[name] {
			seen[name] = true
			b.WriteString(`,{name="` + name + `",enabled=false}`)
		}
		if b.Len() > maxSkills {
			return skillName.ReplaceAllStringFunc(text, func(s string) string { return "$ " + s[1:] }), ""
		}
	}
	if b.Len() == 0 {
		return text, ""
	}
	return text, "[" + b.String()[1:] + "]"
}
