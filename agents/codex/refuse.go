package codex

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"flow/agents"
)

const (
	maxPrompt   = 1 << 20   // characters that codex accepts on standard input
	maxArgument = 128 << 10 // bytes of one argument that Linux accepts, its final NUL included
)

// refuse returns why codex cannot honour r with stdin as its prompt, or nil.
func refuse(r agents.Request, stdin string) error {
	checks := []func(agents.Request) error{refuseLimits, refuseModes, refuseArgs, refuseSession, refusePaths}
	for _, check := range checks {
		if err := check(r); err != nil {
			return err
		}
	}
	return refusePrompt(r.Prompt, stdin)
}

func refuseLimits(r agents.Request) error {
	switch {
	case len(r.AllowedTools) > 0 || len(r.BlockedTools) > 0:
		return agents.Unsupported(name, "codex cannot allow or block single tools", "bound it with `sandbox`, or use claude or gemini")
	case r.MaxTurns > 0:
		return agents.Unsupported(name, "codex has no limit of model turns", "give the step a `timeout`, or use claude")
	case r.MaxCostUSD > 0:
		return agents.Unsupported(name, "codex reports no money and has no limit of it", "leave it out, or use claude")
	}
	return nil
}

// refuseModes keeps to what codex really does. The approval policy of exec is always
// "never", so that nothing is asked and what would need a person is refused, while
// edits within the sandbox's bounds pass. App-server asks.
func refuseModes(r agents.Request) error {
	mode := sandbox(r)
	switch mode {
	case agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite:
	default:
		return agents.Unsupported(name, fmt.Sprintf("codex has no sandbox mode %q", mode), "use off, read-only or workspace-write")
	}
	if mode == agents.SandboxReadOnly && r.Network == agents.NetworkOn {
		return agents.Unsupported(name, "codex's read-only sandbox has no network", "leave `network` out, or use workspace-write")
	}
	switch r.Approval {
	case "", agents.ApprovalDeny:
	case agents.ApprovalAutoEdit:
		if mode == agents.SandboxReadOnly {
			return agents.Unsupported(name, "auto-edit contradicts a read-only sandbox", "use `sandbox: workspace-write`, or leave `approval` out")
		}
	case agents.ApprovalAutoAll:
		if mode != agents.SandboxOff {
			return agents.Unsupported(name, "auto-all lifts codex's sandbox",
				"add `sandbox: off`, or leave `approval` out: edits within the sandbox pass unasked")
		}
	case agents.ApprovalPlan:
		return agents.Unsupported(name, "codex has no plan mode", "use `sandbox: read-only`")
	case agents.ApprovalAsk, agents.ApprovalAskDangerous:
		if r.Transport != transportServer {
			return agents.Unsupported(name, "codex exec never asks", "use `transport: app-server`, or leave `approval` out: what the sandbox does not allow is refused")
		}
	default:
		return agents.Unsupported(name, fmt.Sprintf("codex has no approval mode %q", r.Approval), "use deny, auto-edit or auto-all")
	}
	return nil
}

// refuseArgs stops arguments that would lift the sandbox past `sandbox`.
func refuseArgs(r agents.Request) error {
	for _, arg := range r.Args {
		switch arg {
		case "--yolo", "--dangerously-bypass-approvals-and-sandbox":
			return agents.Unsupported(name, arg+" in `args` lifts the sandbox behind flow's back", "use `sandbox: off` with `approval: auto-all`")
		}
	}
	return nil
}

// refuseSession wants ids to be UUIDs: for anything else codex begins a new thread
// without a word.
func refuseSession(r agents.Request) error {
	var id string
	switch r.Session.Mode {
	case agents.SessionNew:
		return nil
	case agents.SessionResume:
		id = r.Session.ID
	case agents.SessionFork:
		id = r.Session.Parent
	default:
		return agents.Unsupported(name, fmt.Sprintf("codex has no session mode %q", r.Session.Mode), "begin a new session, resume one or fork one")
	}
	if !agents.IsUUID(id) {
		return agents.Unsupported(name, fmt.Sprintf("%q is no codex session: they are UUIDs", id), "begin a new session")
	}
	return nil
}

func refusePaths(r agents.Request) error {
	if !filepath.IsAbs(r.Dir) {
		return agents.Unsupported(name, fmt.Sprintf("the working directory %q is not absolute", r.Dir), "give an absolute path")
	}
	if len(r.Schema) > 0 && !filepath.IsAbs(r.Scratch) {
		return agents.Unsupported(name, fmt.Sprintf("the scratch directory %q for the schema is not absolute", r.Scratch), "give an absolute path")
	}
	return nil
}

func refusePrompt(prompt, stdin string) error {
	switch n := utf8.RuneCountInString(stdin); {
	case strings.TrimSpace(prompt) == "":
		return agents.Unsupported(name, "the prompt is empty", "say what codex is to do")
	case !utf8.ValidString(stdin):
		return agents.Unsupported(name, "the prompt is not valid UTF-8", "convert it to UTF-8")
	case n > maxPrompt:
		return agents.Unsupported(name, fmt.Sprintf("the prompt has %d characters; codex takes %d", n, maxPrompt),
			"put the bulk into a file and let codex read it")
	}
	return nil
}

// refuseLong stops an argument that the kernel would not pass on: a long system
// prompt, that is.
func refuseLong(args []string) error {
	for _, arg := range args {
		if len(arg) >= maxArgument {
			return agents.Unsupported(name, fmt.Sprintf("an argument of %d bytes (%s…) is too long to be passed", len(arg), clip(arg, 32)),
				"move most of the system prompt to the prompt")
		}
	}
	return nil
}
