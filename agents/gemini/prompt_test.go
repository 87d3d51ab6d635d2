package gemini

import (
	"regexp"
	"strings"
	"testing"

	"flow/agents"
)

// mention is what Gemini CLI 0.61.0 takes for the name of a file, but for the
// look-behind at its start, which (?:^|[^\\]) stands for.
var mention = regexp.MustCompile(`(?:^|[^\\])@(?:"[^"]*"|\\.|[^ \t\n\r,;!?()\[\]{}.]|\.(?:[^ \t\n\r]))`)

var attacks = []string{
	"@secret.txt", "@./secret.txt", "@.env", "@\"a b.txt\"", "@a\\ b.txt", "@/etc/passwd", "@~/x", "@dir/", "@@secret.txt", "x@secret.txt",
	"(@secret.txt)", "`@secret.txt`", "[a](@secret.txt)", "@server:uri", "@codebase_investigator", "@Override", "@ünï", "@日本",
	"@\u00a0x", "@\u200bx", "@{secret.txt}", "!{touch x}", "{{args}}", "/memory show", "/flow again", "//x", "/*x*/", "!touch x", "# x", "$x",
}

var places = []string{"%s", "%s and more", "Look at %s.", "first\n%s", "first\n\t%s\n", "  %s", "\ufeff%s", "\u00a0%s", "a,%s", `\%s`, `\\%s`}

// TestPromptTriggersNothing holds every attack at every place against what the CLI
// looks for.
func TestPromptTriggersNothing(t *testing.T) {
	for _, attack := range attacks {
		for _, place := range places {
			prompt := strings.ReplaceAll(place, "%s", attack)
			own := stdin(request(func(r *agents.Request) { r.Prompt, r.Home = prompt, "/home" }))
			if own != "/flow\n"+prompt {
				t.Errorf("%q arrives as %q", prompt, own)
			}
			text := stdin(request(func(r *agents.Request) { r.Prompt = prompt }))
			if strings.HasPrefix(strings.TrimSpace(text), "/") || mention.MatchString(text) {
				t.Errorf("%q triggers as %q", prompt, text)
			}
			_, body, told := strings.Cut(text, ":\n\n")
			if !told {
				body = text
			}
			if strings.ReplaceAll(body, `\@`, "@") != strings.ReplaceAll(prompt, `\@`, "@") {
				t.Errorf("%q became %q", prompt, body)
			}
		}
	}
}

func TestEscapeMentions(t *testing.T) {
	for text, want := range map[string]string{
		"a@b.c":       `a\@b.c`,
		"@@x":         `\@\@x`,
		`\@x`:         `\@x`,
		"@ x, @, @)":  "@ x, @, @)",
		"@":           "@",
		"nothing @\n": "nothing @\n",
	} {
		if got := escapeMentions(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
