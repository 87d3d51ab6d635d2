package gemini

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"flow/agents"
)

// defaultPriority is that of a request's default: every rule beats it.
const defaultPriority = 60

// bounds are the tools that the sandbox mode must not have. Where the profile names no
// sandbox, rules open what its default would keep shut.
func bounds(r agents.Request) []string {
	return slices.DeleteFunc(forbidden(sandbox(r), r), func(name string) bool {
		return r.Sandbox == "" && (r.RuleDefault == "allow" || r.Allows(tool(name)))
	})
}

// tool is the shared name of a tool, or of those that a pattern stands for.
func tool(name string) agents.Tool {
	if strings.HasPrefix(name, "mcp_") {
		return agents.ToolMCP
	}
	k, _ := kindOf(name)
	return k.tool
}

// natives are the CLI's tools behind a shared one.
func natives(tool string) []string {
	switch agents.Tool(tool) {
	case agents.ToolShell:
		return []string{"run_shell_command"}
	case agents.ToolReadFile:
		return []string{"read_file", "read_many_files"}
	case agents.ToolWriteFile:
		return []string{"write_file"}
	case agents.ToolEditFile:
		return []string{"replace"}
	case agents.ToolSearchContent:
		return []string{"grep_search", "search_file_content"}
	case agents.ToolFindFiles:
		return []string{"glob", "list_directory"}
	case agents.ToolWebFetch:
		return []string{"web_fetch"}
	case agents.ToolWebSearch:
		return []string{"google_web_search"}
	case agents.ToolMCP:
		return []string{"mcp_*"}
	default:
		return []string{"*"}
	}
}

// appendShared adds the rules that all agents share, and the default. What a person is
// to be asked for is denied: nobody is there. A pattern that the CLI has no words for
// denies nothing, and allows every call of its tool.
func appendShared(b []byte, r agents.Request) ([]byte, error) {
	if r.Closed() {
		b = grantOwn(appendRule(b, rule{tool: "*"}, "deny", defaultPriority))
	}
	if r.RuleDefault == "allow" {
		b = appendRule(b, rule{tool: "*"}, "allow", defaultPriority)
	}
	for _, shared := range r.Rules {
		rules, lack := translated(shared)
		if shared.Effect != "allow" {
			if lack == "" {
				b = appendAll(b, rules, "deny", blockPriority)
			}
			continue
		}
		if err := checkShared(r, shared); err != nil {
			return nil, err
		}
		b = appendAll(b, rules, "allow", allowPriority)
	}
	return b, nil
}

// grantOwn allows what is the agent's own affair.
func grantOwn(b []byte) []byte {
	for _, name := range []string{"update_topic", "write_todos", "complete_task"} {
		b = appendRule(b, rule{tool: name}, "allow", defaultPriority+1)
	}
	return b
}

func appendAll(b []byte, rules []rule, decision string, priority int) []byte {
	for _, one := range rules {
		b = appendRule(b, one, decision, priority)
	}
	return b
}

// checkShared refuses to allow what an explicit sandbox mode rules out.
func checkShared(r agents.Request, shared agents.Rule) error {
	if r.Sandbox == "" || shared.Tool == "*" {
		return nil
	}
	for _, name := range natives(shared.Tool) {
		if slices.Contains(forbidden(r.Sandbox, r), name) {
			return refuse(fmt.Sprintf("the rule at %s allows %s, which sandbox %s rules out: Gemini CLI does not confine it", shared.Where, shared.Tool, r.Sandbox),
				"leave `sandbox` out, so that the rules decide, or use sandbox off")
		}
	}
	return nil
}

// translated is a rule in the CLI's words, and why these say something else, "" if they
// do not: then they are those of every call of the tool.
func translated(shared agents.Rule) (rules []rule, lack string) {
	for _, name := range natives(shared.Tool) {
		rules = append(rules, rule{tool: name})
	}
	switch {
	case shared.Anything(), shared.Inside(): // file tools see nothing outside
		return rules, ""
	case shared.Tool == string(agents.ToolShell):
		return shellRule(shared.Pattern)
	case shared.Tool == string(agents.ToolMCP):
		return serverRule(shared.Pattern)
	}
	return rules, "Gemini CLI has no such patterns for " + shared.Tool
}

// shellRule knows the two patterns that the CLI can hold each command of a script to: how
// it begins, and what it is.
func shellRule(pattern string) ([]rule, string) {
	const shell = "run_shell_command"
	prefix, open := strings.CutSuffix(pattern, " *")
	switch {
	case strings.Contains(prefix, "*"):
		return []rule{{tool: shell}}, "Gemini CLI knows * only as the last word of a command"
	case open:
		return []rule{{tool: shell, prefix: prefix}}, ""
	}
	return []rule{{tool: shell, command: pattern}}, ""
}

// wholeCommand is the regular expression of a command that is exactly text: the CLI
// holds it against the beginning of the JSON string that the command is.
func wholeCommand(text string) string {
	quoted := string(agents.AppendString(nil, text))
	return regexp.QuoteMeta(quoted[1:])
}

func serverRule(pattern string) ([]rule, string) {
	server, name, _ := strings.Cut(pattern, "/")
	switch {
	case strings.Contains(server, "*") || name != "*" && strings.Contains(name, "*"):
		return []rule{{tool: "mcp_*"}}, "Gemini CLI knows * only for all tools of one server"
	case name == "" || name == "*":
		return []rule{{tool: "mcp_" + server + "_*"}}, ""
	}
	return []rule{{tool: "mcp_" + server + "_" + name}}, ""
}

// Enforces reports whether the CLI refuses a call that breaks rule and goes on.
func (Adapter) Enforces(r agents.Request, rule *agents.Rule) bool {
	if talks(r) {
		return true
	}
	if rule == nil {
		return r.Closed()
	}
	how, _ := enforcement(r, rule)
	return how == agents.Enforced
}

// Enforcement says what becomes of the rules.
func (Adapter) Enforcement(r agents.Request) []agents.RuleEnforcement {
	return agents.EnforcementBy(r, func(rule *agents.Rule) (agents.Enforcement, string) { return enforcement(r, rule) })
}

func enforcement(r agents.Request, rule *agents.Rule) (agents.Enforcement, string) {
	if talks(r) {
		return agents.Enforced, "" // it asks for every call
	}
	if rule == nil {
		return defaultEnforcement(r)
	}
	if rule.Tool == string(agents.ToolMCP) && !r.Inherit {
		return agents.Enforced, "no MCP server is loaded"
	}
	if _, lack := translated(*rule); lack != "" {
		return r.Unspoken(rule, lack)
	}
	return agents.Enforced, ""
}

// defaultEnforcement is what becomes of a default that denies: it does not hold for what
// a rule allows in the CLI's words beyond its own.
func defaultEnforcement(r agents.Request) (agents.Enforcement, string) {
	for _, rule := range r.Rules {
		if _, lack := translated(rule); r.Closed() && rule.Effect == "allow" && lack != "" {
			return agents.Detected, lack
		}
	}
	return agents.Enforced, ""
}
