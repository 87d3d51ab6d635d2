package claude

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
	"flow/agents/policy"
)

// toolOf is the shared name of a native tool.
func toolOf(nativeName string) agents.Tool {
	switch nativeName {
	case "Bash":
		return agents.ToolShell
	case "Read":
		return agents.ToolReadFile
	case "Write":
		return agents.ToolWriteFile
	case "Edit", "MultiEdit", "NotebookEdit":
		return agents.ToolEditFile
	case "Grep":
		return agents.ToolSearchContent
	case "Glob", "LS":
		return agents.ToolFindFiles
	case "WebFetch":
		return agents.ToolWebFetch
	case "WebSearch":
		return agents.ToolWebSearch
	case "Agent", "Task":
		return agents.ToolSubagent
	case "TodoWrite", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList":
		return agents.ToolTodo
	}
	if isMCP(nativeName) {
		return agents.ToolMCP
	}
	return agents.ToolOther
}

// isMCP reports whether a native tool name is that of an MCP server's tool.
func isMCP(nativeName string) bool { return strings.HasPrefix(nativeName, "mcp__") }

// targetOf is what a call of tool is about, read from its input.
func targetOf(tool agents.Tool, input *fastjson.Value) string {
	switch tool {
	case agents.ToolShell:
		return native.String(input, "command")
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile:
		if path := native.String(input, "file_path"); path != "" {
			return path
		}
		return native.String(input, "notebook_path")
	case agents.ToolSearchContent:
		return native.String(input, "pattern")
	case agents.ToolFindFiles:
		if pattern := native.String(input, "pattern"); pattern != "" {
			return pattern
		}
		return native.String(input, "path")
	case agents.ToolWebFetch:
		return native.String(input, "url")
	case agents.ToolWebSearch:
		return native.String(input, "query")
	case agents.ToolSubagent:
		return native.String(input, "description")
	case agents.ToolTodo, agents.ToolMCP, agents.ToolOther:
	}
	return ""
}

// A call is a tool call that has no result yet.
type call struct {
	name     string // native
	tool     agents.Tool
	target   string
	declined bool // a denial was announced
}

func newCall(nativeName string, input *fastjson.Value) call {
	tool := toolOf(nativeName)
	return call{name: nativeName, tool: tool, target: targetOf(tool, input)}
}

// CallOf is a call of a native tool with its input, a JSON object, as rules judge it.
func CallOf(tool string, input json.RawMessage) policy.Call {
	var r native.Reader
	v, _ := r.Object(input)
	c := newCall(tool, v)
	return policy.Call{Tool: c.tool, Native: c.name, Target: c.target, Risk: new(dialog).risk(c), Arguments: input}
}

// String is the call as it stands in Outcome.Denied.
func (c call) String() string {
	if c.target == "" {
		return c.name
	}
	return c.name + ": " + c.target
}

// answerTool is the tool with which the model gives an answer by schema.
const answerTool = "StructuredOutput"

// risk is how much harm c could do. The answer's tool is the CLI's own and does none.
func (d *dialog) risk(c call) agents.Risk {
	if c.name == answerTool {
		return agents.RiskLow
	}
	return agents.RiskOf(c.tool, c.target, d.dir)
}

// startTool opens the call of a tool_use block.
func (d *dialog) startTool(block *fastjson.Value, parent string) []agents.Event {
	id, input := native.String(block, "id"), block.Get("input")
	c := newCall(native.String(block, "name"), input)
	d.calls[id] = c
	events := []agents.Event{{Body: agents.ToolStarted{
		ToolID: id, ToolName: c.tool, NativeName: c.name, Target: c.target,
		Risk: d.risk(c), Arguments: native.Raw(input), ParentID: parent,
	}}}
	if todos := input.GetArray("todos"); c.name == "TodoWrite" && todos != nil {
		events = append(events, agents.Event{Body: todoList(todos)})
	}
	return events
}

func todoList(todos []*fastjson.Value) agents.TodoList {
	var list agents.TodoList
	for _, t := range todos {
		list.Items = append(list.Items, agents.TodoItem{Text: native.String(t, "content"), Status: native.String(t, "status")})
	}
	return list
}

// endTool closes the call that a tool_result block answers. line is the whole
// message: it has the structured result beside the text for the model, and says
// who refused the call. Neither is there for the tools of a subagent.
func (d *dialog) endTool(block, line *fastjson.Value) []agents.Event {
	id := native.String(block, "tool_use_id")
	c, ok := d.calls[id]
	if !ok { // nothing was called, or it has ended
		return native.Unknown("user/tool_result", block)
	}
	delete(d.calls, id)
	done := agents.ToolCompleted{ToolID: id, Success: !block.GetBool("is_error")}
	if done.Success {
		done.Result = native.Raw(block, "content")
		return append([]agents.Event{{Body: done}}, fileChanged(id, c, block, structured(line))...)
	}
	if done.Error = contentText(block.Get("content")); done.Error == "" {
		done.Error = "the tool failed without a message"
	}
	done.Declined = c.declined || refused(line.GetArray("tool_result_meta"), id) || d.unmade(id, done.Error) ||
		native.String(line, "permissionDecision", "decision") == "reject" // in a session's file
	if c.tool == agents.ToolShell {
		done.ExitCode = exitCode(done.Error)
	}
	return []agents.Event{{Body: done}}
}

// structured is the structured result on a line of the stream, or of a session's file.
func structured(line *fastjson.Value) *fastjson.Value {
	if v := line.Get("tool_use_result"); v != nil {
		return v
	}
	return line.Get("toolUseResult")
}

// refused reports whether the metadata of results says that call id never ran.
func refused(meta []*fastjson.Value, id string) bool {
	for _, m := range meta {
		if native.String(m, "id") != id {
			continue
		}
		kind := native.String(m, "non_execution_kind")
		return kind == "user-rejected" || kind == "permission-rule" || kind == "cancelled" ||
			native.String(m, "permission_decision", "decision") == "reject"
	}
	return false
}

// unmade reports whether the error says that the call was not made: there is no such tool
// for the agent, or the CLI found the input wrong before it asked flow about the call.
func (d *dialog) unmade(id, text string) bool {
	text, ok := strings.CutPrefix(text, "<tool_use_error>")
	return ok && (strings.HasPrefix(text, "Error: No such tool available") || d.consulted != nil && !d.consulted[id])
}

// exitCode reads the first line of a failed shell command's output. Commands that
// succeed have none: some that end with another status than 0 count as successes.
func exitCode(text string) *int {
	first, _, _ := strings.Cut(text, "\n")
	digits, ok := strings.CutPrefix(first, "Exit code ")
	code, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return nil
	}
	return &code
}

// fileChanged is what a successful editing tool did. structured is its structured
// result, nil where there is none.
func fileChanged(id string, c call, block, structured *fastjson.Value) []agents.Event {
	if c.tool != agents.ToolWriteFile && c.tool != agents.ToolEditFile {
		return nil
	}
	change := agents.FileChanged{FilePath: native.String(structured, "filePath"), ChangeType: agents.Modified, ToolID: id}
	if change.FilePath == "" {
		change.FilePath = c.target
	}
	created := native.String(structured, "type") == "create"
	if structured == nil || structured.Type() != fastjson.TypeObject { // a subagent's call: only the text for the model
		created = strings.HasPrefix(contentText(block.Get("content")), "File created")
	}
	if created {
		change.ChangeType = agents.Created
	}
	change.Diff = unified(structured.GetArray("structuredPatch"))
	return []agents.Event{{Body: change}}
}

// unified is a structuredPatch as the hunks of a unified diff.
func unified(hunks []*fastjson.Value) string {
	var b strings.Builder
	for _, h := range hunks {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n",
			int(native.Int(h, "oldStart")), int(native.Int(h, "oldLines")), int(native.Int(h, "newStart")), int(native.Int(h, "newLines")))
		for _, line := range h.GetArray("lines") {
			b.WriteString(native.String(line))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// contentText is the text of a content that is a string or an array of blocks.
func contentText(content *fastjson.Value) string {
	if content == nil {
		return ""
	}
	if content.Type() == fastjson.TypeString {
		return native.String(content)
	}
	var texts []string
	for _, block := range content.GetArray() {
		if native.String(block, "type") == "text" {
			texts = append(texts, native.String(block, "text"))
		}
	}
	return strings.Join(texts, "\n")
}
