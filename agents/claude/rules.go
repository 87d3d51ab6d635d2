package claude

import (
	"fmt"
	"slices"
	"strings"

	"flow/agents"
)

// everyTool are the tools that rules can give or take, in the CLI's names.
func everyTool() []string {
	return []string{"Read", "Grep", "Glob", "Edit", "Write", "Bash", "WebFetch", "WebSearch"}
}

// ruledTools are the tools of an agent with rules, given those of its sandbox mode.
// Where the profile names no sandbox the rules open what its default would keep shut.
// A tool that must never be called is not there at all.
func ruledTools(r agents.Request, sandboxed []string) []string {
	var list []string
	for _, name := range everyTool() {
		tool := toolOf(name)
		given := slices.Contains(sandboxed, name) || r.Sandbox == "" && (opens(r, tool) || passes(r, r.RuleDefault))
		if given && (!closed(r) || opens(r, tool)) && !forbids(r, tool) {
			list = append(list, name)
		}
	}
	for _, name := range sandboxed { // which the profile has allowed by name
		if !slices.Contains(everyTool(), name) {
			list = append(list, name)
		}
	}
	return list
}

// passes reports whether a call with this effect may be made in the end. What a person is
// to be asked for can only be asked where the CLI asks flow.
func passes(r agents.Request, effect string) bool {
	return effect == "allow" || effect == "ask" && talks(r)
}

// opens reports whether some calls of tool may pass by a rule.
func opens(r agents.Request, tool agents.Tool) bool {
	return slices.ContainsFunc(r.Rules, func(rule agents.Rule) bool { return isAbout(rule, tool) && passes(r, rule.Effect) })
}

// forbids reports whether rules forbid every call of tool.
func forbids(r agents.Request, tool agents.Tool) bool {
	return slices.ContainsFunc(r.Rules, func(rule agents.Rule) bool {
		return isAbout(rule, tool) && !passes(r, rule.Effect) && rule.Anything()
	})
}

func isAbout(rule agents.Rule, tool agents.Tool) bool {
	return rule.Tool == string(tool) || rule.Tool == "*"
}

// closed reports whether a call that no rule is about must not be made.
func closed(r agents.Request) bool { return r.RuleDefault != "" && !passes(r, r.RuleDefault) }

// ruleArgs are the CLI's own rules: what it allows and what it denies. A denial wins over
// what is allowed. On its own, what a person is to be asked for is denied. Where it asks
// flow the answers allow, and its own denials are but a second line.
func ruleArgs(r agents.Request) (allowed, denied []string) {
	if talks(r) {
		return nil, ownDenials(r)
	}
	if r.RuleDefault == "allow" {
		allowed = tools(r)
	}
	for _, rule := range r.Rules {
		patterns, _ := patterns(rule)
		if rule.Effect == "allow" {
			allowed = append(allowed, patterns...)
		} else {
			denied = append(denied, patterns...)
		}
	}
	return allowed, denied
}

func ownDenials(r agents.Request) (denied []string) {
	for _, rule := range r.Rules {
		if rule.Effect == "deny" {
			patterns, _ := patterns(rule)
			denied = append(denied, patterns...)
		}
	}
	return denied
}

// patterns is a rule in the CLI's words, and why these say less than it, "" if they do
// not. A rule on everything is one on each tool.
func patterns(rule agents.Rule) (list []string, lack string) {
	if rule.Tool == "*" {
		if !rule.Anything() {
			return nil, "Claude Code has no patterns over all tools"
		}
		return everyTool(), ""
	}
	for _, name := range everyTool() {
		if toolOf(name) != agents.Tool(rule.Tool) {
			continue
		}
		pattern, lack := pattern(name, rule)
		if lack != "" {
			return nil, lack
		}
		return []string{pattern}, ""
	}
	return mcpPattern(rule)
}

// pattern is a rule on the tool name. Rules on Edit hold for every tool that writes
// files; one on Write(path) would match nothing.
func pattern(name string, rule agents.Rule) (pattern, lack string) {
	if rule.Anything() {
		return name, ""
	}
	if strings.ContainsAny(rule.Pattern, "()\n") {
		return "", "Claude Code's rules cannot hold ( or )"
	}
	switch name {
	case "Bash":
		return "Bash(" + rule.Pattern + ")", ""
	case "Read":
		return "Read(" + pathPattern(rule.Pattern) + ")", ""
	case "Edit", "Write":
		return "Edit(" + pathPattern(rule.Pattern) + ")", ""
	case "WebFetch":
		if !strings.ContainsAny(rule.Pattern, "*/:") {
			return "WebFetch(domain:" + rule.Pattern + ")", ""
		}
	}
	return "", "Claude Code has no such patterns for " + name
}

// pathPattern is a glob in the CLI's words, in which "/" is the working directory, "//"
// the root, and a name without a slash is found at any depth.
func pathPattern(glob string) string {
	if strings.HasSuffix(glob, "/") {
		glob += "**"
	}
	if strings.HasPrefix(glob, "~/") {
		return glob
	}
	return "/" + strings.TrimPrefix(glob, "./")
}

// mcpPattern is a rule on the tools of MCP servers.
func mcpPattern(rule agents.Rule) (list []string, lack string) {
	server, name, _ := strings.Cut(rule.Pattern, "/")
	switch {
	case rule.Anything(): // denied by loading no server, see policyArgs
		return nil, "Claude Code asks for servers by name"
	case strings.Contains(server, "*") || strings.Contains(strings.TrimSuffix(name, "*"), "*") || name != "*" && strings.Contains(name, "*"):
		return nil, "Claude Code knows * only for all tools of one server"
	case name == "" || name == "*":
		return []string{"mcp__" + server}, ""
	}
	return []string{"mcp__" + server + "__" + name}, ""
}

// withoutServers reports whether no MCP server is to be loaded.
func withoutServers(r agents.Request) bool {
	return !r.Inherit || forbids(r, agents.ToolMCP) || closed(r) && !opens(r, agents.ToolMCP)
}

// refuseRules stops rules that allow what the sandbox cannot hold.
func refuseRules(r agents.Request) error {
	for _, rule := range r.Rules {
		if rule.Effect != "allow" || rule.Tool == "*" || rule.Tool == string(agents.ToolMCP) || r.Sandbox == "" {
			continue
		}
		for _, name := range everyTool() {
			if toolOf(name) == agents.Tool(rule.Tool) && !slices.Contains(sandboxTools(r), name) {
				return unsupported(fmt.Sprintf("the rule at %s allows %s, which sandbox %s rules out: Claude Code does not confine it", rule.Where, rule.Tool, r.Sandbox),
					"leave `sandbox` out, so that the rules decide, or use sandbox: off")
			}
		}
	}
	return nil
}

// Enforces reports whether the CLI refuses a call that breaks rule and goes on.
func (a Adapter) Enforces(r agents.Request, rule *agents.Rule) bool {
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
	switch {
	case talks(r): // it asks before every call, those of subagents and of MCP servers included
		return agents.Enforced, ""
	case rule == nil:
		return defaultEnforcement(r)
	case rule.Tool == string(agents.ToolMCP) && withoutServers(r):
		return agents.Enforced, "no MCP server is loaded"
	case rule.Tool != "*" && rule.Effect != "allow" && rule.Anything():
		return agents.Enforced, ""
	}
	if _, lack := patterns(*rule); lack != "" {
		return r.Unspoken(rule, lack)
	}
	return agents.Enforced, ""
}

// defaultEnforcement is what becomes of a default that denies: the CLI runs commands
// that only read, and reads files of the working directory, whatever it is told.
func defaultEnforcement(r agents.Request) (agents.Enforcement, string) {
	granted := tools(r)
	switch {
	case !r.Closed():
		return agents.Enforced, ""
	case slices.Contains(granted, "Bash") && !allowsAll(r, agents.ToolShell):
		return agents.Detected, "Claude Code runs commands that only read unasked"
	case slices.Contains(granted, "Read") && !allowsAll(r, agents.ToolReadFile):
		return agents.Detected, "Claude Code reads files of the working directory unasked"
	}
	return agents.Enforced, ""
}

// allowsAll reports whether a rule allows all calls of tool, within the working directory.
func allowsAll(r agents.Request, tool agents.Tool) bool {
	return slices.ContainsFunc(r.Rules, func(rule agents.Rule) bool {
		return rule.Effect == "allow" && (rule.Tool == string(tool) || rule.Tool == "*") && (rule.Anything() || rule.Inside())
	})
}
