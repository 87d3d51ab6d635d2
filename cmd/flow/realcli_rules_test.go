package main

import (
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// ruledScript runs two commands, whatever becomes of the first, and then tells what the
// model was told of them.
func ruledScript(commands ...string) scriptmodel.Script {
	return func(r scriptmodel.Request) scriptmodel.Turn {
		var told []string
		for _, i := range r.Items {
			if i.Kind == scriptmodel.Result {
				told = append(told, strings.TrimSpace(i.Text))
			}
		}
		if len(told) == len(commands) {
			return final("rules", strings.Join(told, " | "))
		}
		if r.API == scriptmodel.Gemini {
			return call("run_shell_command", map[string]any{"command": commands[len(told)]})
		}
		return call("Bash", map[string]any{"command": commands[len(told)]})
	}
}

// TestRealRules demands that the agents keep rules by themselves: an allowed command
// runs, a denied one does not, and the agent goes on.
func TestRealRules(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range []string{"claude", "gemini"} {
		for name, rules := range map[string]string{
			"default": `{default: deny, rules: [{allow: "shell(echo fine *)"}]}`,
			"rule":    `{default: allow, rules: [{deny: "shell(touch *)"}]}`,
		} {
			t.Run(agent+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, path, binary, scriptmodel.New(ruledScript("echo fine day", "touch denied.txt"), nil))
				file := l.pipeline(t, "rules.yaml", "AGENT", agent, "RULES", rules)
				s := l.flow(t, 0, "run", file, "-o", "json").report(t).Steps["only"]
				first, second, _ := strings.Cut(s.Text, " | ")
				if !strings.Contains(first, "fine day") || strings.Contains(second, "fine") || second == "" {
					t.Errorf("the model was told: %q", s.Text)
				}
				if l.holds(t, "denied.txt") {
					t.Error("the denied command ran")
				}
			})
		}
	}
}
