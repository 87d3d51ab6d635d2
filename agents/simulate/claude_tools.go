package simulate

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// claudeCall is a call in Claude's words: the tool's name and its input.
func (c *claude) claudeCall(x call) (name string, input object) {
	switch {
	case x.command != "":
		return "Bash", object{"command": x.command, "description": "Run a command"}
	case x.exists || !slices.Contains(c.tools(), "Write"):
		return "Edit", object{
			"file_path": c.abs(x.path), "old_string": x.before, "new_string": x.after, "replace_all": false,
		}
	default:
		return "Write", object{"file_path": c.abs(x.path), "content": x.after}
	}
}

// tools are the names that init grants.
func (c *claude) tools() []string {
	out := claudeTools()
	if c.interactive() {
		out = append(out, askUser, "EnterPlanMode", "ExitPlanMode")
	}
	switch {
	case c.args.has("--bare"):
		out = []string{"Bash", "Edit", "Read"}
	case c.args.has("--restricted"):
		out = slices.DeleteFunc(out, func(s string) bool { return s == "Bash" || s == "WebFetch" })
	}
	if c.args.has("--tools") {
		named := c.args.list("--tools")
		known := out
		if !c.args.has("--bare") {
			known = append(known, "Glob", "Grep", "LS", "TodoWrite")
		}
		if !slices.Contains(named, "default") {
			out = slices.DeleteFunc(known, func(s string) bool { return !slices.Contains(named, s) })
		}
	}
	blocked := claudeRules(c.args.values["--disallowedTools"])
	out = slices.DeleteFunc(out, func(s string) bool { return slices.Contains(blocked, s) })
	if c.schema != nil {
		out = append(out, "StructuredOutput")
	}
	return out
}

// interactive reports whether the client can be asked.
func (c *claude) interactive() bool {
	return c.talk != nil && c.args.last("--permission-prompt-tool") == "stdio"
}

// claudeRules cuts lists of tool patterns at the commas and spaces outside
// parentheses: `Bash(git log *),Edit` are two.
func claudeRules(values []string) []string {
	depth := 0
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth == 0 && (r == ',' || r == ' ')
	})
}

// A ruling is what Claude's own flags say of a call.
type ruling struct {
	why    string // it is not to be made; "" lets it pass
	asks   bool   // or rather, the user is to be asked
	absent bool   // there is no such tool
	firm   bool   // whatever a hook says
}

// rule judges a call by the flags.
func (c *claude) rule(x call) ruling {
	name, _ := c.claudeCall(x)
	switch {
	case !slices.Contains(c.tools(), name):
		return ruling{absent: true, firm: true, why: fmt.Sprintf("No such tool available: %s. %s is disabled for this session, in subagents as well as here.", name, name)}
	case c.ruled("--disallowedTools", name, x):
		return ruling{firm: true, why: fmt.Sprintf("Permission to use %s with command %s has been denied.", name, x.command)}
	case x.command != "":
		return c.ruleCommand(name, x)
	}
	return c.ruleEdit(name, x)
}

func (c *claude) ruleEdit(name string, x call) ruling {
	path := c.abs(x.path)
	dirs := append([]string{c.dir}, c.args.values["--add-dir"]...)
	rel, _ := filepath.Rel(c.dir, path)
	sensitive := slices.Contains([]string{".git", ".claude", ".mcp.json"}, strings.Split(rel, "/")[0])
	switch {
	case c.args.mode == "bypassPermissions":
		return ruling{}
	case c.args.mode == "plan":
		return ruling{why: fmt.Sprintf("Claude requested permissions to write to %s, but plan mode is active.", path)}
	case sensitive:
		return ruling{asks: c.args.mode != "dontAsk", why: fmt.Sprintf("Claude requested permissions to edit %s which is a sensitive file.", path)}
	case c.ruled("--allowedTools", name, x):
		return ruling{}
	case c.args.mode == "dontAsk":
		return dontAsk(name)
	case slices.Contains([]string{"acceptEdits", "auto"}, c.args.mode) && within(path, dirs...):
		return ruling{}
	}
	return ruling{asks: true, why: fmt.Sprintf("Claude requested permissions to write to %s, but you haven't granted it yet.", path)}
}

func dontAsk(name string) ruling {
	return ruling{why: fmt.Sprintf("Permission to use %s has been denied because Claude Code is running in don't ask mode.", name)}
}

func (c *claude) ruleCommand(name string, x call) ruling {
	switch {
	case slices.Contains([]string{"bypassPermissions", "auto"}, c.args.mode), c.ruled("--allowedTools", name, x):
		return ruling{}
	case c.args.mode == "dontAsk":
		return dontAsk(name)
	}
	harmless := readers()
	if c.args.mode == "acceptEdits" {
		harmless = append(harmless, "cp", "mkdir", "mv", "touch")
	}
	if simpleCommand(x.command, harmless) {
		return ruling{}
	}
	return ruling{asks: true, why: "This command requires approval"}
}

// readers are commands that change nothing.
func readers() []string {
	return []string{"cat", "echo", "grep", "head", "ls", "pwd", "tail", "wc"}
}

// simpleCommand reports whether a command is one of those named and nothing more.
func simpleCommand(command string, names []string) bool {
	words := strings.Fields(command)
	return len(words) > 0 && slices.Contains(names, words[0]) && !strings.ContainsAny(command, "<>|&;`$\n")
}

// ruled reports whether a rule of the option names the tool, or the tool with a
// pattern for the command: Bash(git log:*), Bash(git log *), Bash(ls). Patterns of paths
// stand with Edit, for all tools that write: Edit(/docs/**).
func (c *claude) ruled(key, name string, x call) bool {
	return slices.ContainsFunc(claudeRules(c.args.values[key]), func(rule string) bool {
		tool, pattern, scoped := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
		if scoped && tool == "Edit" && x.command == "" {
			return c.pathRule(pattern, x.path)
		}
		if !scoped || tool != name || x.command == "" {
			return rule == name
		}
		prefix, open := strings.CutSuffix(pattern, "*")
		if open {
			return strings.HasPrefix(x.command, strings.TrimRight(prefix, ": "))
		}
		return x.command == pattern
	})
}

// pathRule reports whether a rule's pattern covers a path. "/" is the working directory
// and "//" the root; what begins otherwise is found at any depth.
func (c *claude) pathRule(pattern, path string) bool {
	path = c.abs(path)
	switch {
	case strings.HasPrefix(pattern, "//"):
		pattern = pattern[1:]
	case strings.HasPrefix(pattern, "/"):
		pattern = c.dir + pattern
	default:
		pattern = c.dir + "/**/" + pattern
	}
	expr := strings.NewReplacer(`/\*\*/`, `/(?:.*/)?`, `\*\*`, `.*`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
	ok, err := regexp.MatchString("^"+expr+"$", path)
	return err == nil && ok
}

// begin prints a call and, if it is denied, the denial, which does not stop the turn.
func (c *claude) begin(x call) (call, bool) {
	c.pending = c.use(c.claudeCall(x))
	c.turns++
	r := c.rule(x)
	if c.talk != nil && !r.absent {
		return c.talk.permit(x)
	}
	if r.why == "" {
		return x, true
	}
	c.refuse(x, r)
	return x, false
}

// refuse prints a denial by the flags.
func (c *claude) refuse(x call, r ruling) {
	if r.absent {
		wrapped := "<tool_use_error>Error: " + r.why + "</tool_use_error>"
		c.settle(toolResult{content: wrapped, detail: "Error: " + r.why, failed: true, meta: object{}})
		return
	}
	name, _ := c.claudeCall(x)
	c.system("permission_denied", object{"tool_name": name, "tool_use_id": c.pending, "message": r.why})
	c.denied(x)
	c.settle(toolResult{content: r.why, failed: true, meta: object{
		"non_execution_kind": "user-rejected", "permission_decision": object{"decision": "reject", "source": "config"},
	}})
}

// denied keeps a call for permission_denials.
func (c *claude) denied(x call) {
	name, input := c.claudeCall(x)
	c.denials = append(c.denials, object{"tool_name": name, "tool_use_id": c.pending, "tool_input": input})
}

// settle prints the result of the call under way.
func (c *claude) settle(r toolResult) {
	r.id = c.pending
	c.toolResult(r)
	c.pending, c.consent = "", nil
}

// use prints a tool call and returns its id.
func (c *claude) use(name string, input object) string {
	id := c.toolID()
	c.message(object{"type": "tool_use", "id": id, "name": name, "input": input})
	return id
}

func (c *claude) end(x call, r result) {
	c.settle(c.outcome(x, r))
	if c.talk != nil {
		c.talk.fold()
	}
}

// outcome words what a tool did.
func (c *claude) outcome(x call, r result) toolResult {
	const state = " (file state is current in your context — no need to Read it back)"
	name, _ := c.claudeCall(x)
	switch {
	case r.err != nil:
		return toolResult{content: r.err.Error(), failed: true}
	case name == "Write":
		return toolResult{
			content: "File created successfully at: " + x.target + state,
			detail: object{
				"type": "create", "filePath": x.target, "content": x.after, "structuredPatch": []any{},
				"originalFile": nil, "userModified": false,
			},
		}
	case name == "Edit":
		return toolResult{
			content: "The file " + x.target + " has been updated successfully." + state,
			detail: object{
				"filePath": x.target, "oldString": x.before, "newString": x.after, "originalFile": x.before,
				"structuredPatch": appended(x), "userModified": false, "replaceAll": false,
			},
		}
	case r.status != 0:
		return toolResult{content: strings.TrimRight(fmt.Sprintf("Exit code %d\n%s", r.status, r.output), "\n"), failed: true}
	}
	return shellResult(strings.TrimRight(r.output, "\n"))
}

func shellResult(output string) toolResult {
	content := output
	if content == "" {
		content = "(Bash completed with no output)"
	}
	return toolResult{content: content, detail: object{
		"stdout": output, "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false,
	}}
}

// appended is the patch of an edit, which adds lines at the end.
func appended(x call) []object {
	count := strings.Count(x.before, "\n")
	var lines []string
	for line := range strings.Lines(x.after[len(x.before):]) {
		lines = append(lines, "+"+strings.TrimSuffix(line, "\n"))
	}
	return []object{{"oldStart": count, "oldLines": 0, "newStart": count + 1, "newLines": len(lines), "lines": lines}}
}
