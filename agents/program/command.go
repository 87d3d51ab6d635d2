package program

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"flow/agents"
)

// The placeholders in the arguments of a profile.
const (
	promptHole  = "{prompt}"
	modelHole   = "{model}"
	sessionHole = "{session}"
)

// maxArgument is how long one argument may be on Linux, in bytes, its final NUL included.
const maxArgument = 128 << 10

// Command says how to start the command for one turn. Of a request it refuses all that
// nobody has told it how to say.
func (Adapter) Command(r agents.Request) (agents.Command, error) {
	x, text := described(r), prompt(r)
	if err := refuse(r, x, text); err != nil {
		return agents.Command{}, err
	}
	c := agents.Command{Env: []string{"NO_COLOR=1"}, Dir: r.Dir, Interrupt: "TERM"}
	said := text
	switch x.Prompt {
	case agents.PromptFile:
		said = filepath.Join(r.Scratch, "prompt.txt")
		c.Files = []agents.File{{Path: said, Data: []byte(text)}}
	case agents.PromptArgument:
		if strings.HasPrefix(text, "-") { // a prompt is no option, whoever wrote it
			said = "\n" + text
		}
	default:
		c.Stdin, said = text, ""
	}
	args := slices.Clone(r.Args)
	if r.Session.Mode == agents.SessionResume {
		args = append(args, x.Resume...)
	}
	if said != "" && !has(args, promptHole) {
		args = append(args, promptHole)
	}
	// In one go, so that a prompt that holds a placeholder stays as it is.
	fill := strings.NewReplacer(promptHole, said, modelHole, r.Model, sessionHole, r.Session.ID)
	for _, arg := range args {
		c.Args = append(c.Args, fill.Replace(arg))
	}
	return c, checkArguments(c.Args)
}

// prompt is what the command is told.
func prompt(r agents.Request) string {
	text := agents.WithSchema(r.Prompt, r.Schema)
	if r.SystemPrompt != "" {
		return strings.TrimRight(r.SystemPrompt, "\n") + "\n\n" + text
	}
	return text
}

func refuse(r agents.Request, x agents.Exec, text string) error {
	switch {
	case strings.TrimSpace(r.Prompt) == "":
		return no("the prompt is empty", "give the step a prompt")
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return no("the prompt is no text", "encode binary data, or put it into a file")
	case r.Model != "" && !has(r.Args, modelHole):
		return no("nothing says how the command is told its model", "add args: [--model, \""+modelHole+"\"], or leave `model` out")
	case x.Prompt != agents.PromptArgument && x.Prompt != agents.PromptFile && has(r.Args, promptHole):
		return no("the command gets its prompt on standard input, but `args` has "+promptHole, "add exec: {prompt: argument}, or file")
	case r.Session.Mode == agents.SessionFork:
		return no("a command cannot branch a session", "continue it, or use claude, codex, gemini or opencode")
	case r.Session.Mode == agents.SessionResume && len(x.Resume) == 0:
		return no("nothing says how the command goes on in a session", "add exec: {resume: [--resume, \""+sessionHole+"\"], events: {session: …}}")
	case r.Session.Mode == agents.SessionResume && strings.HasPrefix(r.Session.ID, "-"):
		return no(fmt.Sprintf("the session %q would be taken for an option", r.Session.ID), "begin a new session")
	}
	return refuseKeys(r)
}

// refuseKeys refuses what a profile says to agents that flow knows.
func refuseKeys(r agents.Request) error {
	for _, key := range []struct {
		name  string
		given bool
	}{
		{"approval", r.Approval != ""},
		{"allowed-tools", len(r.AllowedTools) > 0},
		{"blocked-tools", len(r.BlockedTools) > 0},
		{"add-dirs", len(r.AddDirs) > 0},
		{"effort", r.Effort != ""},
		{"max-turns", r.MaxTurns > 0},
		{"max-cost-usd", r.MaxCostUSD > 0},
		{"network", r.Network == agents.NetworkOff},
	} {
		if key.given {
			return no("flow cannot tell the command its `"+key.name+"`", "leave it out, and say it in `args`")
		}
	}
	if r.Sandbox != "" && r.Sandbox != agents.SandboxOff && !r.Confined {
		return no("this machine cannot put the command into a sandbox", "leave `sandbox` out, or use codex")
	}
	return nil
}

func checkArguments(args []string) error {
	for _, arg := range args {
		if len(arg) >= maxArgument {
			return no(fmt.Sprintf("an argument of %d bytes is too long to be passed", len(arg)), "use exec: {prompt: stdin}, or file")
		}
	}
	return nil
}

func no(what, hint string) error { return agents.Unsupported(Name, what, hint) }

// has reports whether any of the texts holds the placeholder.
func has(texts []string, placeholder string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, placeholder) })
}
