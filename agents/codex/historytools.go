package codex

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A storedCall is a tool call in a thread's file.
type storedCall struct {
	call
	ended bool
}

// response is a line of what the model has: its calls of tools, and their results.
// Messages and reasoning are told by events.
func (h *history) response(payload *fastjson.Value) []agents.Event {
	id := native.String(payload, "call_id")
	switch typ := native.String(payload, "type"); typ {
	case "message", "reasoning", "compaction", "compaction_summary", "ghost_snapshot", "agent_message",
		"additional_tools", "configuration_update", "web_search_call", "image_generation_call":
		return nil
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		return h.called(id, modelCall(payload, h.about.Dir))
	case "function_call_output", "custom_tool_call_output", "tool_search_output":
		return h.answered(id, payload.Get("output"))
	default:
		return native.Unknown("response_item "+typ, payload)
	}
}

// called begins a tool, unless it has begun.
func (h *history) called(id string, c call) []agents.Event {
	if id == "" || h.calls[id] != nil {
		return nil
	}
	h.calls[id] = &storedCall{call: c}
	events := bodies(c.started(id))
	if c.native == "update_plan" {
		events = append(events, plan(c.arguments)...)
	}
	return events
}

// modelCall is a call as the model made it.
func modelCall(payload *fastjson.Value, dir string) call {
	c := call{native: cmp.Or(native.String(payload, "name"), native.String(payload, "type"))}
	arguments := callArguments(payload)
	switch c.native {
	case "exec_command", "shell", "shell_command", "local_shell_call", "container.exec":
		c.name, c.target = agents.ToolShell, commandOf(arguments)
	case "apply_patch":
		c.name, c.target = agents.ToolEditFile, patched(cmp.Or(native.String(payload, "input"), native.String(arguments, "input")))
	case "view_image":
		c.name, c.target = agents.ToolReadFile, native.String(arguments, "path")
	case "update_plan":
		c.name = agents.ToolTodo
	case "spawn_agent", "send_input", "resume_agent", "wait_agent", "close_agent", "wait":
		c.name, c.target = agents.ToolSubagent, native.String(arguments, "message")
	default:
		c.name = agents.ToolOther
		if server, tool, ok := strings.Cut(strings.TrimPrefix(c.native, "mcp__"), "__"); ok && strings.HasPrefix(c.native, "mcp__") {
			c.name, c.target = agents.ToolMCP, server+"."+tool
		}
	}
	c.arguments = native.Raw(arguments)
	if c.arguments == nil {
		c.arguments = pick(payload, "input", "arguments")
	}
	c.risk = agents.RiskOf(c.name, c.target, dir)
	return c
}

// callArguments are the arguments of a function, which stand in a string, or the action of
// a local shell. nil where there are none that can be read.
func callArguments(payload *fastjson.Value) *fastjson.Value {
	if action := payload.Get("action"); action != nil {
		return action
	}
	v, err := fastjson.Parse(native.String(payload, "arguments"))
	if err != nil || v.Type() != fastjson.TypeObject {
		return nil
	}
	return v
}

// commandOf is what a shell is told to run: one text, or an argument vector that mostly
// ends with one.
func commandOf(arguments *fastjson.Value) string {
	for _, key := range []string{"cmd", "command"} {
		if text := native.String(arguments, key); text != "" {
			return text
		}
		if words := arguments.GetArray(key); len(words) > 0 {
			return scriptOf(words)
		}
	}
	return ""
}

// scriptOf is the script in an argument vector (bash -lc SCRIPT), or all its words.
func scriptOf(words []*fastjson.Value) string {
	var texts []string
	for _, w := range words {
		texts = append(texts, native.String(w))
	}
	if n := len(texts); n == 3 && (texts[1] == "-lc" || texts[1] == "-c") {
		return texts[2]
	}
	return strings.Join(texts, " ")
}

var patchedFile = regexp.MustCompile(`(?m)^\*\*\* (?:Update|Add|Delete) File: (.+)$`)

// patched is the first file of a patch.
func patched(patch string) string {
	if m := patchedFile.FindStringSubmatch(patch); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}

// plan is the list of a call of update_plan.
func plan(arguments json.RawMessage) []agents.Event {
	var given struct {
		Plan []struct {
			Step   string `json:"step"`
			Status string `json:"status"`
		} `json:"plan"`
	}
	if json.Unmarshal(arguments, &given) != nil || len(given.Plan) == 0 {
		return nil
	}
	var list agents.TodoList
	for _, p := range given.Plan {
		list.Items = append(list.Items, agents.TodoItem{Text: p.Step, Status: p.Status})
	}
	return bodies(list)
}

// answered ends a tool with what the model was told, unless an event has ended it.
func (h *history) answered(id string, output *fastjson.Value) []agents.Event {
	c := h.calls[id]
	if c == nil || c.ended {
		return nil
	}
	c.ended = true
	done := agents.ToolCompleted{ToolID: id, Success: true, Result: native.Raw(output)}
	text := outputText(output)
	if code, ok := exitStatus(text); ok {
		done.ExitCode, done.Success = &code, code == 0
	}
	if failed := output.Get("success"); failed != nil && !failed.GetBool() || unusable(text) {
		done.Success = false
	}
	if !done.Success {
		done.Error = text
		if done.ExitCode != nil {
			done.Error = "exit status " + strconv.Itoa(*done.ExitCode)
		}
	}
	return bodies(done)
}

// outputText is the text of an output: a string, an object with one, or a list of them.
func outputText(output *fastjson.Value) string {
	if output == nil {
		return ""
	}
	return cmp.Or(native.String(output), cmp.Or(native.String(output, "content"), itemText(output.GetArray())))
}

// unusable reports whether a call came to nothing: codex says so in words only.
func unusable(text string) bool {
	return strings.HasPrefix(text, "unsupported call: ") || strings.HasPrefix(text, "aborted")
}

var statusLine = regexp.MustCompile(`(?m)^(?:Process exited with code|Exit code:) (-?\d+)$`)

// exitStatus reads what stands before a command's output.
func exitStatus(text string) (code int, ok bool) {
	head, _, _ := strings.Cut(text, "\nOutput:")
	m := statusLine.FindStringSubmatch(head)
	if m == nil {
		return 0, false
	}
	code, err := strconv.Atoi(m[1])
	return code, err == nil
}

// toolItem ends a tool as an event tells it, and begins it where that is the first word of
// it.
func (h *history) toolItem(typ string, item *fastjson.Value) []agents.Event {
	id := native.String(item, "id")
	events := h.called(id, itemCall(typ, item, h.about.Dir))
	c := h.calls[id]
	if c == nil || c.ended {
		return events
	}
	c.ended = true
	done := agents.ToolCompleted{ToolID: id, Result: itemResult(item)}
	status := native.String(item, "status")
	done.Success, done.Declined = status == "completed" || status == "", status == "declined"
	if code := item.Get("exit_code"); code != nil && code.Type() == fastjson.TypeNumber {
		n := int(native.Int(code))
		done.ExitCode = &n
	}
	if !done.Success {
		done.Error = failure(item, done)
	}
	events = append(events, bodies(done)...)
	if done.Success {
		events = append(events, storedChanges(id, item)...)
	}
	return events
}

// itemCall is a call that only an event tells of: one of a person, or one that Codex made
// on its own.
func itemCall(typ string, item *fastjson.Value, dir string) call {
	c := call{native: typ, name: agents.ToolOther, arguments: pick(item, "arguments", "command", "query", "path")}
	switch typ {
	case "CommandExecution":
		c.name, c.target = agents.ToolShell, commandOf(item)
	case "FileChange":
		c.name = agents.ToolEditFile
		item.GetObject("changes").Visit(func(path []byte, _ *fastjson.Value) {
			c.target = cmp.Or(c.target, string(path))
		})
	case "McpToolCall":
		c.name, c.target = agents.ToolMCP, native.String(item, "server")+"."+native.String(item, "tool")
	case "WebSearch":
		c.name, c.target = agents.ToolWebSearch, native.String(item, "query")
	case "ImageView":
		c.name, c.target = agents.ToolReadFile, native.String(item, "path")
	case "CollabAgentToolCall":
		c.name, c.target = agents.ToolSubagent, native.String(item, "prompt")
	}
	c.risk = agents.RiskOf(c.name, c.target, dir)
	return c
}

// itemResult is what an item brought about, in whichever of the places it stands.
func itemResult(item *fastjson.Value) json.RawMessage {
	for _, key := range []string{"aggregated_output", "result", "stdout", "content_items", "action"} {
		if v := native.Raw(item, key); v != nil {
			return v
		}
	}
	return nil
}

// storedChanges are the files of a patch, with what changed in them.
func storedChanges(id string, item *fastjson.Value) []agents.Event {
	changes := item.GetObject("changes")
	if changes == nil {
		return nil
	}
	var events []agents.Event
	changes.Visit(func(path []byte, change *fastjson.Value) {
		f := agents.FileChanged{FilePath: string(path), ChangeType: agents.Modified, ToolID: id, Diff: native.String(change, "unified_diff")}
		switch native.String(change, "type") {
		case "add":
			f.ChangeType = agents.Created
		case "delete":
			f.ChangeType = agents.Deleted
		}
		events = append(events, bodies(f)...)
	})
	return events
}
