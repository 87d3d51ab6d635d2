package acpclient

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"flow/agents"
	"flow/agents/internal/native"
)

// tool is what the call does. The protocol's kind decides, and the name only within it:
// names are the agent's own, and an MCP server may take any. Of a call whose kind says
// nothing, only names are believed that make it no less strict than unknown.
func (k *call) tool() agents.Tool {
	name := strings.ToLower(k.name)
	switch k.kind {
	case "read":
		return agents.ToolReadFile
	case "edit", "delete", "move":
		if strings.Contains(name, "write") || strings.Contains(name, "create") {
			return agents.ToolWriteFile
		}
		return agents.ToolEditFile
	case "search":
		if slices.Contains([]string{"glob", "find", "list", "ls", "list_directory"}, name) {
			return agents.ToolFindFiles
		}
		return agents.ToolSearchContent
	case "execute":
		return agents.ToolShell
	case "fetch":
		if strings.Contains(name, "search") {
			return agents.ToolWebSearch
		}
		return agents.ToolWebFetch
	}
	return toolOfName(name)
}

func toolOfName(name string) agents.Tool {
	switch {
	case strings.HasPrefix(name, "mcp_"):
		return agents.ToolMCP
	case slices.Contains([]string{"task", "invoke_agent"}, name):
		return agents.ToolSubagent
	case slices.Contains([]string{"todowrite", "todoread", "write_todos", "update_topic"}, name):
		return agents.ToolTodo
	}
	return agents.ToolOther
}

// target is what the call is made on, and whether the agent has said it in so many words:
// a title may be all that there is.
func (k *call) target() (target string, certain bool) {
	switch k.tool() {
	case agents.ToolShell:
		if target = k.input.text("command", "cmd", "script"); target != "" {
			target = native.Script(target, k.input.text("workdir", "cwd", "dir_path", "directory", "working_directory"), k.dir)
		}
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile:
		if files := k.files(); len(files) > 0 {
			target = files[0]
		}
	case agents.ToolSearchContent, agents.ToolFindFiles:
		target = k.input.text("pattern", "query", "glob", "path")
	case agents.ToolWebFetch, agents.ToolWebSearch:
		target = k.input.text("url", "query", "prompt")
	default:
	}
	if target != "" {
		return target, true
	}
	return bare(k.title), false
}

// bare is a title without the marks that make it code.
func bare(title string) string {
	if inner := strings.Trim(title, "`"); len(inner) == len(title)-2 {
		return inner
	}
	return title
}

// files are all files that the call is said to touch.
func (k *call) files() []string {
	var all []string
	add := func(path string) {
		if path != "" && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	add(k.input.text("file_path", "filePath", "filepath", "absolute_path", "path", "notebook_path", "target_file"))
	for _, d := range k.diffs {
		add(d.path)
	}
	for _, path := range k.locations {
		add(path)
	}
	return all
}

// arguments are those of the call, with all its files as "changes", which is where those
// who judge a call look for them.
func (k *call) arguments() json.RawMessage {
	fields := map[string]json.RawMessage{}
	if k.input != nil {
		maps.Copy(fields, k.input.fields)
	}
	delete(fields, "changes")
	switch k.tool() {
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile:
		var changes []object
		for _, path := range k.files() {
			changes = append(changes, object{"path": path})
		}
		if len(changes) > 0 {
			fields["changes"], _ = json.Marshal(changes)
		}
	default:
	}
	if len(fields) == 0 {
		return nil
	}
	data, _ := json.Marshal(fields)
	return data
}

// String names the call for people.
func (k *call) String() string {
	target, _ := k.target()
	if target == "" || target == k.nativeName() {
		return k.nativeName()
	}
	return k.nativeName() + ": " + target
}

func (k *call) nativeName() string { return cmp.Or(k.name, k.kind, "tool") }
