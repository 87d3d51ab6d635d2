package acp

import (
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
	c := agents.Command{
		Args: append(slices.Clone(a.preset.args), r.Args...), Env: []string{"NO_COLOR=1"}, Dir: r.Dir,
		Stdin: prompt(r), Talks: true, Interrupt: "TERM", Writable: slices.Clone(a.preset.keeps),
	}
	if a.preset.asking != nil {
		a.preset.asking(r, &c)
	}
	return c, nil
}

// prompt is what the agent is told: the protocol has no place for a system prompt nor for
// a schema. Agents take a text that begins as a command does for one: none begins so.
func prompt(r agents.Request) string {
	text := agents.WithSchema(r.Prompt, r.Schema)
	if r.SystemPrompt != "" {
		text = strings.TrimRight(r.SystemPrompt, "\n") + "\n\n" + text
	}
	if start := strings.TrimSpace(text); start != "" && strings.ContainsRune("/!$#@", rune(start[0])) {
		return "The task:\n\n" + text
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
	case r.Network == agents.NetworkOff:
		return no(info.Title+" needs the network for its model, and cannot withhold it from its tools", "leave `network` out, or use claude or codex")
	case !r.Confined && r.Sandbox != "" && r.Sandbox != agents.SandboxOff:
		return no(info.Title+" has no sandbox of its own, and this machine cannot put it into one", "leave `sandbox` out, or use codex")
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
