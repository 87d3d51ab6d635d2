package gemini

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"flow/agents"
)

// approvalMode maps the request's approval and sandbox to the CLI's approval mode.
//
// Headless, the CLI never asks: a tool that it would have to ask for does not
// exist for the model. Its modes are therefore sets of tools, and as the CLI
// confines file tools (but not the shell) to the workspace, they are its sandbox
// too: default can only read, auto_edit also writes files and fetches pages, yolo
// has everything. plan reads, and writes plans outside the workspace.
func approvalMode(r agents.Request) (string, error) {
	if err := checkModes(r, sandbox(r)); err != nil {
		return "", err
	}
	switch r.Approval {
	case agents.ApprovalPlan:
		return "plan", nil
	case agents.ApprovalAutoAll:
		return "yolo", nil
	case agents.ApprovalDeny, agents.ApprovalAsk:
		return "default", nil
	default:
		if sandbox(r) == agents.SandboxReadOnly {
			return "default", nil
		}
		return "auto_edit", nil
	}
}

// checkModes refuses modes that the CLI lacks, and pairs that contradict each other.
func checkModes(r agents.Request, box agents.SandboxMode) error {
	approval, capabilities := r.Approval, Adapter{}.Info().Capabilities
	switch {
	case !slices.Contains(capabilities.Sandbox, box):
		return refuse(fmt.Sprintf("Gemini CLI has no sandbox mode %q", box), "use off, read-only or workspace-write")
	case approval == agents.ApprovalAskDangerous && !talks(r):
		return refuse("Gemini CLI cannot ask only for dangerous tool calls", "use `transport: acp`, or plan, deny, ask, auto-edit or auto-all")
	case approval != "" && !slices.Contains(capabilities.Approval, approval):
		return refuse(fmt.Sprintf("Gemini CLI has no approval mode %q", approval), "use plan, deny, ask, auto-edit or auto-all")
	case approval == agents.ApprovalAutoEdit && box == agents.SandboxReadOnly:
		return refuse("approval auto-edit lets files be written, which sandbox read-only forbids", "use approval deny, or sandbox workspace-write")
	case r.Network == agents.NetworkOff && r.Inherit:
		return refuse("inherited MCP servers would reach the network", "leave `inherit` or `network: off` out")
	case approval == agents.ApprovalAutoAll && box != agents.SandboxOff && !confined(r, box):
		return refuse(fmt.Sprintf("approval auto-all lets Gemini CLI run any shell command, which sandbox %s cannot hold", box), "use sandbox off, or approval auto-edit")
	}
	return nil
}

func sandbox(r agents.Request) agents.SandboxMode {
	if r.Sandbox == "" {
		return agents.SandboxWorkspaceWrite
	}
	return r.Sandbox
}

// forbidden are the tools that a sandbox mode must not have, whatever settings
// and rules of the user allow. MCP servers and discovered tools run anything. A shell
// that is confined may be had; but the CLI needs the network, so its commands have it.
func forbidden(box agents.SandboxMode, r agents.Request) []string {
	unconfined := []string{"run_shell_command", "mcp_*", "discovered_tool_*"}
	switch {
	case r.Network == agents.NetworkOff:
		unconfined = append(unconfined, "web_fetch", "google_web_search")
	case confined(r, box):
		unconfined = unconfined[1:]
	}
	switch box {
	case agents.SandboxOff:
		return nil
	case agents.SandboxReadOnly:
		return append(unconfined, "write_file", "replace")
	default:
		return unconfined
	}
}

// confined reports whether commands are kept to the working directory.
func confined(r agents.Request, box agents.SandboxMode) bool {
	return r.Confined && box == agents.SandboxWorkspaceWrite
}

// The priorities of our rules, of 999: what a sandbox forbids beats what the
// request blocks, and that beats what it allows, as the mode or by itself.
const (
	modePriority    = 50
	allowPriority   = 100
	blockPriority   = 200
	sandboxPriority = 900
)

// policy is a file of rules for the CLI's policy engine. It is passed with
// --admin-policy, whose rules outrank the user's, the settings' and the mode's.
// (A machine with rules in /etc/gemini-cli/policies has no others; then the mode's
// set of tools is all that holds a sandbox.)
//
// The older --allowed-tools would do for allowing, but goes away with 1.0, and has
// no counterpart for blocking.
func policy(r agents.Request, mode string) ([]byte, error) {
	var b []byte
	if untrusted(r) && !r.Closed() {
		b = grantMode(b, mode)
	}
	for _, name := range bounds(r) {
		b = appendRule(b, rule{tool: name}, "deny", sandboxPriority)
	}
	b, err := appendShared(b, r)
	if err != nil {
		return nil, err
	}
	return appendNative(b, r)
}

// appendNative adds the rules of the profile's lists of native tools.
func appendNative(b []byte, r agents.Request) ([]byte, error) {
	for _, pattern := range r.BlockedTools {
		blocked, err := parseRule(pattern)
		if err != nil {
			return nil, err
		}
		b = appendRule(b, blocked, "deny", blockPriority)
	}
	for _, pattern := range r.AllowedTools {
		allowed, err := parseRule(pattern)
		if err != nil {
			return nil, err
		}
		if err := checkAllowed(r, allowed); err != nil {
			return nil, err
		}
		b = appendRule(b, allowed, "allow", allowPriority)
	}
	return b, nil
}

// grantMode allows what an approval mode of the CLI would, for where the CLI works in
// its default mode whatever it is asked for.
func grantMode(b []byte, mode string) []byte {
	var tools []string
	switch mode {
	case "auto_edit":
		tools = []string{"write_file", "replace", "web_fetch"}
	case "yolo":
		tools = []string{"*"}
	}
	for _, name := range tools {
		b = appendRule(b, rule{tool: name}, "allow", modePriority)
	}
	return b
}

const shellTool = "run_shell_command"

// A rule names a tool ("mcp_*" for many) and, for the shell, how the command begins or
// what it is.
type rule struct{ tool, prefix, command string }

var toolPattern = regexp.MustCompile(`^([A-Za-z0-9_*-]+)(?:\((.+)\))?$`)

func parseRule(text string) (rule, error) {
	m := toolPattern.FindStringSubmatch(text)
	if m == nil || m[2] != "" && m[1] != "run_shell_command" {
		return rule{}, refuse(fmt.Sprintf("%q is no tool pattern of Gemini CLI", text),
			"write a tool's name, or run_shell_command(PREFIX) for the commands that begin so")
	}
	return rule{tool: m[1], prefix: m[2]}, nil
}

// checkAllowed refuses to allow what the sandbox mode or plan mode rules out.
func checkAllowed(r agents.Request, allowed rule) error {
	box := sandbox(r)
	if r.Approval == agents.ApprovalPlan {
		box = agents.SandboxReadOnly
	}
	if slices.ContainsFunc(forbidden(box, r), func(name string) bool { return overlap(name, allowed.tool) }) {
		return refuse(fmt.Sprintf("allowing %s would break sandbox %s", allowed.tool, box), "use sandbox off, or do not allow the tool")
	}
	return nil
}

// overlap reports whether two names, either of which may be a pattern with stars,
// can mean the same tool. It errs on the side of yes.
func overlap(a, b string) bool {
	a, aOpen := cutStar(a)
	b, bOpen := cutStar(b)
	switch {
	case aOpen && bOpen:
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	case aOpen:
		return strings.HasPrefix(b, a)
	case bOpen:
		return strings.HasPrefix(a, b)
	}
	return a == b
}

func cutStar(name string) (string, bool) {
	head, _, open := strings.Cut(name, "*")
	return head, open
}

// A rule for every command is given a pattern that matches every one. Without a pattern
// the CLI has views of its own: what it takes for harmless (cat, ls, git log) it runs
// though it is to ask, and what it takes for dangerous (ln -s, rm -rf) it does not run
// though it is allowed.
func appendRule(b []byte, r rule, decision string, priority int) []byte {
	if r.tool == "*" && decision != "deny" { // of two with one priority, the first counts
		b = appendRule(b, rule{tool: shellTool}, decision, priority)
	}
	b = append(b, "[[rule]]\ntoolName = "...)
	b = agents.AppendString(b, r.tool) // a JSON string is a TOML string
	if r.prefix != "" {
		b = append(b, "\ncommandPrefix = "...)
		b = agents.AppendString(b, r.prefix)
	}
	if r.command != "" {
		b = append(b, "\ncommandRegex = "...)
		b = agents.AppendString(b, wholeCommand(r.command))
	}
	if r.tool == shellTool && r.prefix+r.command == "" && decision != "deny" {
		b = append(b, "\nargsPattern = \".\""...)
	}
	b = fmt.Appendf(b, "\ndecision = %q\npriority = %d\n", decision, priority)
	if decision == "allow" && (r.tool == shellTool || r.tool == "*") {
		b = append(b, "allowRedirection = true\n"...) // else a command with > or 2>&1 is asked for
	}
	if decision == "deny" {
		b = append(b, "denyMessage = \"This step may not do that.\"\n"...)
	}
	return append(b, '\n')
}
