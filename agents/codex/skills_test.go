package codex

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"flow/agents"
)

func TestUnskilled(t *testing.T) {
	tests := []struct{ name, prompt, text, disabled string }{
		{"nothing", "Fix it for 5 $ or $.", "Fix it for 5 $ or $.", ""},
		{"a skill", "Use $deploy now", "Use $deploy now", `[{name="deploy",enabled=false}]`},
		{"in a word, in quotes, escaped", `x$a "$b" \$c`, `x$a "$b" \$c`, `[{name="a",enabled=false},{name="b",enabled=false},{name="c",enabled=false}]`},
		{"the whole name", "$my-skill:v_2.", "$my-skill:v_2.", `[{name="my-skill:v_2",enabled=false}]`},
		{"once", "$a $a\n$a", "$a $a\n$a", `[{name="a",enabled=false}]`},
		{"a link", "[$a](/x/SKILL.md)", "[ $a](/x/SKILL.md)", `[{name="a",enabled=false}]`},
		{"a link after blanks", "[$a] \n (/x)", "[ $a] \n (/x)", `[{name="a",enabled=false}]`},
		{"brackets of a script", "${arr[$i]} (x)", "${arr[$i]} (x)", `[{name="i",enabled=false}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if text, disabled := unskilled(tt.prompt); text != tt.text || disabled != tt.disabled {
				t.Errorf("got %q and %s", text, disabled)
			}
		})
	}
}

// More names than an argument holds lose their meaning by a space.
func TestUnskilledMany(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, "echo $NAME_%d\n", i)
	}
	text, disabled := unskilled(b.String())
	if disabled != "" || skillName.MatchString(text) || strings.ReplaceAll(text, "$ ", "$") != b.String() {
		t.Errorf("%d bytes of setting, text %q…", len(disabled), text[:40])
	}
}

// With or without a schema in it, the prompt's names are disabled; no other argument
// changes.
func TestCommandDisablesSkills(t *testing.T) {
	r := agents.Request{Prompt: "Use $deploy.", Dir: "/repo", Scratch: "/scratch"}
	c, err := Adapter{}.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	if c.Stdin != r.Prompt || !slices.Contains(c.Args, `skills.config=[{name="deploy",enabled=false}]`) {
		t.Errorf("%q, %q", c.Stdin, c.Args)
	}
}
