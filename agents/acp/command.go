package acp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"flow/agents"
)

// Command says how to start the agent for one turn. What ACP has no words for is refused:
// tool lists, limits of turns and money.
func (a Adapter) Command(r agents.Request) (agents.Command, error) {
	if err := a.refuse(r); err != nil {
		return agents.Command{}, err
	}
	env := []string{"NO_COLOR=1"}
	if a.preset.hermetic != nil {
		env = append(env, a.preset.hermetic(r)...)
	}
	return agents.Command{
		Args: append(slices.Clone(a.preset.args), r.Args...), Env: env, Dir: r.Dir,
		Stdin: prompt(r), Talks: true, Interrupt: "TERM",
	}, nil
}

// prompt is what the agent is told: the protocol has no place for a system prompt nor for
// a schema.
func prompt(r agents.Request) string {
	text := agents.WithSchema(r.Prompt, r.Schema)
	if r.SystemPrompt != "" {
		return strings.TrimRight(r.SystemPrompt, "\n") + "\n\n" + text
	}
	return text
}

func (a Adapter) refuse(r agents.Request) error {
	info := a.Info()
	no := func(what, hint string) error { return agents.Unsupported(info.Name, what, hint) }
	switch {
	case r.Transport != "" && r.Transport != Transport:
		return no(fmt.Sprintf("%s has no transport %q", info.Title, r.Transport), "leave `transport` out")
	case len(r.AllowedTools) > 0 || len(r.BlockedTools) > 0:
		return no("ACP has no lists of tools", "write `permissions`, which hold for all agents")
	case r.MaxTurns > 0:
		return no("ACP has no limit of model turns", "give the step a `timeout`, or use claude or gemini")
	case r.MaxCostUSD > 0:
		return no("ACP has no limit of money", "leave it out, or use claude")
	case r.Session.Mode == agents.SessionFork && !info.Capabilities.Fork:
		return no(info.Title+" cannot branch a session", "continue it, or use claude, codex, gemini or opencode")
	case !filepath.IsAbs(r.Dir):
		return no(fmt.Sprintf("the working directory %q is not absolute", r.Dir), "give an absolute path")
	case strings.TrimSpace(r.Prompt) == "":
		return no("the prompt is empty", "give the step a prompt")
	case !utf8.ValidString(prompt(r)):
		return no("the prompt is not valid UTF-8", "encode binary data, or put it into a file")
	}
	return nil
}

// openCode lets OpenCode ask for every call, whatever its own configuration says, so that
// the policy decides. Hermetic, it reads no configuration of the repository.
func openCode(r agents.Request) []string {
	ask, _ := json.Marshal(map[string]string{"*": "ask"})
	env := []string{"OPENCODE_PERMISSION=" + string(ask), "OPENCODE_DISABLE_AUTOUPDATE=true"}
	if !r.Inherit {
		env = append(env, "OPENCODE_DISABLE_PROJECT_CONFIG=true", "OPENCODE_DISABLE_SHARE=true", "OPENCODE_DISABLE_LSP_DOWNLOAD=true")
	}
	return env
}
