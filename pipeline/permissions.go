package pipeline

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Effects are what a rule can say of a tool call, the strongest first.
func Effects() []string { return []string{"deny", "ask", "allow"} }

// Tools are the names that rules have for the tools of all agents.
func Tools() []string {
	return []string{"shell", "read_file", "write_file", "edit_file", "search_content", "find_files", "web_fetch", "web_search", "mcp", "*"}
}

func permissionsTable() []key {
	return []key{
		{"default", "What holds for a call that no rule matches.", choice(Effects()...)},
		{"rules", "One of allow, ask and deny each, as allow: shell(go test *). deny beats ask beats allow.", listOf(ruleSchema())},
		{"strict", "Refuse rules that the agent cannot enforce by itself.", truth()},
		{"ask-timeout", "How long a call to be asked about waits for `flow approve` when nobody is there; without it, it is denied at once.", def("duration")},
		{"protect", "Further protected files, as globs: a rule allows to write one only by its name.", oneOrMore(text())},
	}
}

func ruleSchema() schema {
	properties := schema{}
	for _, effect := range Effects() {
		properties[effect] = oneOrMore(text())
	}
	return schema{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false, "properties": properties}
}

const maxRules = 500

// permissions decodes what permissionsTable lists.
func (l *loader) permissions(n *yaml.Node) *Permissions {
	var p Permissions
	if isScalar(n) {
		l.failNode(n, "write permissions: {default: deny, rules: [{allow: read_file(**)}]}", "`permissions` must be a mapping, got %s", describe(n))
		return nil
	}
	l.fields(n, "`permissions`", permissionsTable(), func(e entry) {
		switch e.key {
		case "default":
			p.Default = l.oneOf(e.val, "`permissions.default`", Effects())
		case "rules":
			p.Rules = l.rules(e.val)
		case "strict":
			p.Strict = l.boolean(e.val, "`permissions.strict`")
		case "ask-timeout":
			p.AskTimeout = l.duration(e.val, "`permissions.ask-timeout`")
		case "protect":
			p.Protect = l.protect(e.val)
		}
	})
	l.lintRules(p.Rules, nil)
	return &p
}

// protect decodes globs of paths.
func (l *loader) protect(n *yaml.Node) (globs []string) {
	for _, item := range l.items(n, "`permissions.protect`") {
		glob, ok := l.text(item, "`permissions.protect`")
		if !ok {
			continue
		}
		why, hint := patternProblem("write_file", glob)
		if strings.Trim(glob, "*/. ") == "" {
			why, hint = "names nothing", "to be asked about every file write rules: [{ask: write_file}]"
		}
		if why != "" {
			l.failNode(item, hint, "the path %q %s", shorten(glob), why)
			continue
		}
		globs = append(globs, glob)
	}
	return globs
}

func (l *loader) rules(n *yaml.Node) []Permission {
	if n.Kind != yaml.SequenceNode {
		l.failNode(n, "write rules: [{allow: read_file(**)}, {deny: shell}]", "`permissions.rules` must be a list, got %s", describe(n))
		return nil
	}
	var out []Permission
	for _, item := range n.Content {
		out = append(out, l.rule(deref(item))...)
	}
	if len(out) > maxRules {
		l.failNode(n, "", "%d rules; the limit is %d", len(out), maxRules)
		return nil
	}
	return out
}

// rule decodes {EFFECT: TOOL} or {EFFECT: [TOOL…]}.
func (l *loader) rule(n *yaml.Node) []Permission {
	var entries []entry
	if n.Kind == yaml.MappingNode {
		entries = l.entries(n, "a rule", MaxKeys)
	}
	if len(entries) != 1 {
		hint := "write one of allow, ask, deny: {allow: shell(go test *)}"
		if len(entries) > 1 && strings.Contains(entries[0].val.Value, "(") && !strings.Contains(entries[0].val.Value, ")") {
			hint = "quote the rule: a comma ends an unquoted value within { }"
		}
		l.failNode(n, hint, "a rule must have one effect, got %s", ruleText(n))
		return nil
	}
	e := entries[0]
	if !slices.Contains(Effects(), e.key) {
		l.failNode(e.at, orList(suggest(e.key, Effects()), "the effects are ", Effects()), "unknown effect `%s` in a rule", shorten(e.key))
		return nil
	}
	var out []Permission
	for _, item := range l.items(e.val, "`"+e.key+"`") {
		if p, ok := l.permission(e.key, item); ok {
			out = append(out, p)
		}
	}
	return out
}

func ruleText(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode && len(n.Content) > 2 {
		return "a mapping with more"
	}
	return describe(n)
}

// permission reads TOOL or TOOL(PATTERN).
func (l *loader) permission(effect string, n *yaml.Node) (Permission, bool) {
	p := Permission{Effect: effect, Pos: place(n)}
	s, ok := l.text(n, "a rule")
	if !ok {
		return p, false
	}
	tool, pattern, given := strings.Cut(strings.TrimSpace(s), "(")
	p.Tool = tool
	if given && !strings.HasSuffix(pattern, ")") {
		l.failNode(n, "write TOOL(PATTERN); quote it when it holds a comma: \"shell(a, b)\"", "the rule %q does not end with )", shorten(s))
		return p, false
	}
	if !slices.Contains(Tools(), tool) {
		l.failNode(n, toolHint(tool, pattern), "unknown tool %q in a rule", shorten(tool))
		return p, false
	}
	if !given {
		return p, true
	}
	p.Pattern = strings.TrimSuffix(pattern, ")")
	if why, hint := patternProblem(p.Tool, p.Pattern); why != "" {
		l.failNode(n, hint, "the rule %q %s", shorten(s), why)
		return p, false
	}
	return p, true
}

// toolHint explains the names that agents themselves have for their tools.
func toolHint(tool, pattern string) string {
	if server, name, ok := strings.Cut(strings.TrimPrefix(tool, "mcp__"), "__"); ok && strings.HasPrefix(tool, "mcp__") {
		return "write mcp(" + server + "/" + name + ")"
	}
	word, known := map[string]string{
		"bash": "shell", "run_shell_command": "shell", "exec": "shell", "exec_command": "shell", "local_shell": "shell", "run": "shell", "command": "shell", "terminal": "shell",
		"read": "read_file", "view": "read_file", "read_many_files": "read_file", "cat": "read_file", "notebookread": "read_file",
		"write": "write_file", "create": "write_file", "edit": "edit_file", "multiedit": "edit_file", "replace": "edit_file", "apply_patch": "edit_file", "notebookedit": "edit_file", "patch": "edit_file",
		"grep": "search_content", "search": "search_content", "search_file_content": "search_content", "glob": "find_files", "ls": "find_files", "list_directory": "find_files",
		"webfetch": "web_fetch", "fetch": "web_fetch", "websearch": "web_search", "google_web_search": "web_search", "all": "*", "any": "*",
	}[strings.ToLower(tool)]
	switch {
	case known && pattern != "":
		return "write " + word + "(" + claudePattern(strings.TrimSuffix(pattern, ")")) + ")"
	case known:
		return "write " + word
	}
	return orList(suggest(tool, Tools()), "the tools are ", Tools())
}

// claudePattern turns Claude Code's `go test:*` into `go test *`.
func claudePattern(pattern string) string {
	if before, ok := strings.CutSuffix(pattern, ":*"); ok {
		return before + " *"
	}
	return pattern
}

// hostPattern is a host, perhaps with all hosts below it. serverPattern is a server of
// MCP, perhaps with a tool. Neither is ever written to.
var (
	hostPattern   = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	serverPattern = regexp.MustCompile(`^[A-Za-z0-9_.*-]+(/[A-Za-z0-9_.*-]+)?$`)
)

// patternProblem says what is wrong with the pattern of a rule, and what would be right.
func patternProblem(tool, pattern string) (why, hint string) {
	switch {
	case tool == "*" || tool == "web_search":
		return "has a pattern, which `" + tool + "` does not take", "write " + tool
	case strings.TrimSpace(pattern) == "":
		return "has an empty pattern", "write " + tool + " for every call"
	case strings.ContainsFunc(pattern, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "has a control character", "remove it"
	}
	switch tool {
	case "shell":
		if strings.HasSuffix(pattern, ":*") {
			return "ends with `:*`, which matches these two characters", "write shell(" + claudePattern(pattern) + ")"
		}
	case "web_fetch":
		if host, ok := strings.CutPrefix(pattern, "domain:"); !ok || !hostPattern.MatchString(host) {
			return "names no host", "write web_fetch(domain:" + hostOf(pattern) + ")"
		}
	case "mcp":
		if !serverPattern.MatchString(pattern) {
			return "names no server", "write mcp(SERVER) or mcp(SERVER/TOOL)"
		}
	default:
		return globProblem(pattern)
	}
	return "", ""
}

// hostOf is the host that a pattern probably means.
func hostOf(pattern string) string {
	s := strings.TrimPrefix(pattern, "domain:")
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	if s, _, _ = strings.Cut(s, "/"); hostPattern.MatchString(s) {
		return s
	}
	return "example.com"
}

// globProblem checks the path of a rule: below the workspace, absolute, or below the
// home directory.
func globProblem(pattern string) (why, hint string) {
	for element := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		if err := pathElement(element); err != nil {
			return err.Error(), "write a path such as src/**, **/.env* or /etc/**"
		}
	}
	return "", ""
}
