package gemini

import (
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A kind says what a native tool is: its normalised name, and the parameters of
// which the first present one is the target.
type kind struct {
	tool   agents.Tool
	target []string
}

// kindOf knows the built-in tools of 0.61.0. The names of MCP tools begin with
// "mcp_"; ok is false for a name that is neither.
func kindOf(name string) (k kind, ok bool) {
	switch name {
	case "run_shell_command":
		return kind{agents.ToolShell, []string{"command"}}, true
	case "read_file", "get_internal_docs":
		return kind{agents.ToolReadFile, []string{"file_path", "path"}}, true
	case "read_many_files":
		return kind{agents.ToolReadFile, []string{"include"}}, true
	case "write_file":
		return kind{agents.ToolWriteFile, []string{"file_path"}}, true
	case "replace":
		return kind{agents.ToolEditFile, []string{"file_path"}}, true
	case "grep_search", "search_file_content":
		return kind{agents.ToolSearchContent, []string{"pattern"}}, true
	case "glob", "list_directory":
		return kind{agents.ToolFindFiles, []string{"pattern", "dir_path"}}, true
	case "web_fetch":
		return kind{agents.ToolWebFetch, []string{"url", "prompt"}}, true
	case "google_web_search":
		return kind{agents.ToolWebSearch, []string{"query"}}, true
	case "write_todos", "update_topic", "enter_plan_mode", "exit_plan_mode", "complete_task":
		return kind{agents.ToolTodo, []string{"title", "reason", "plan_path"}}, true
	case "invoke_agent", "codebase_investigator", "cli_help":
		return kind{agents.ToolSubagent, []string{"agent_name", "objective", "question"}}, true
	case "list_mcp_resources", "read_mcp_resource":
		return kind{agents.ToolMCP, []string{"uri"}}, true
	case "activate_skill", "ask_user", "list_background_processes", "read_background_output":
		return kind{agents.ToolOther, []string{"name"}}, true
	}
	switch {
	case strings.HasPrefix(name, "mcp_"):
		return kind{agents.ToolMCP, []string{}}, true
	case strings.HasPrefix(name, "tracker_"):
		return kind{agents.ToolTodo, []string{"title", "id"}}, true
	}
	return kind{tool: agents.ToolOther}, false
}

// A call is what is remembered of a tool_use.
type call struct {
	name    string
	tool    agents.Tool
	target  string
	known   bool // the tool exists: a call that finds none was not granted it
	creates bool // a replacement of nothing, which makes a new file
	todos   []agents.TodoItem
	ended   bool // its tool_result has come
	untold  bool // … before any tool_use
}

// newCall reads a call of an agent that works in dir.
func newCall(name string, parameters *fastjson.Value, dir string) call {
	k, known := kindOf(name)
	c := call{name: name, tool: k.tool, target: target(parameters, k.target), known: known}
	switch name {
	case "run_shell_command":
		c.target = native.Script(c.target, native.String(parameters, "dir_path"), dir)
	case "replace":
		old := parameters.Get("old_string")
		c.creates = old != nil && len(old.GetStringBytes()) == 0
	case "write_todos":
		c.todos = todos(parameters)
	}
	return c
}

// target is the first of keys that holds a text or a list of texts.
func target(parameters *fastjson.Value, keys []string) string {
	for _, key := range keys {
		if text := native.String(parameters, key); text != "" {
			return text
		}
		var items []string
		for _, item := range parameters.GetArray(key) {
			items = append(items, native.String(item))
		}
		if len(items) > 0 {
			return strings.Join(items, " ")
		}
	}
	return ""
}

// todos reads a write_todos call. Cancelled items are no longer part of the plan.
func todos(parameters *fastjson.Value) []agents.TodoItem {
	var items []agents.TodoItem
	for _, todo := range parameters.GetArray("todos") {
		item := agents.TodoItem{Text: native.String(todo, "description"), Status: native.String(todo, "status")}
		switch item.Status {
		case "cancelled":
			continue
		case "in_progress", "completed":
		default:
			item.Status = "pending"
		}
		items = append(items, item)
	}
	return items
}

// effects are the events that the success of a call implies.
func (c call) effects(id string) []agents.Event {
	switch {
	case (c.tool == agents.ToolWriteFile || c.tool == agents.ToolEditFile) && c.target != "":
		change := agents.Modified // write_file does not tell whether the file is new
		if c.creates {
			change = agents.Created
		}
		return []agents.Event{{Body: agents.FileChanged{FilePath: c.target, ChangeType: change, ToolID: id}}}
	case c.name == "write_todos":
		return []agents.Event{{Body: agents.TodoList{Items: c.todos}}}
	}
	return nil
}

// declined reports whether a failed call was refused rather than tried: by a
// policy, because the mode does not grant the tool, or because the path lies
// outside the workspace.
func (c call) declined(errorType, message string) bool {
	switch errorType {
	case "policy_violation":
		return true
	case "tool_not_registered":
		return c.known
	case "invalid_tool_params":
		return strings.HasPrefix(message, "Path not in workspace")
	}
	return false
}

// notMade reports whether an error ended a call before it was made: it was refused, wrong,
// or of a tool that there is not.
func notMade(errorType string) bool {
	return slices.Contains([]string{"policy_violation", "tool_not_registered", "invalid_tool_params"}, errorType)
}

// String names the call in Outcome.Denied.
func (c call) String() string {
	if c.target == "" {
		return c.name
	}
	return c.name + ": " + c.target
}
