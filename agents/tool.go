package agents

import (
	"path/filepath"
	"strings"
)

// Tool is a tool in names that all agents share.
type Tool string

// The normalised tools.
const (
	ToolShell         Tool = "shell"
	ToolReadFile      Tool = "read_file"
	ToolWriteFile     Tool = "write_file"
	ToolEditFile      Tool = "edit_file"
	ToolSearchContent Tool = "search_content"
	ToolFindFiles     Tool = "find_files"
	ToolWebFetch      Tool = "web_fetch"
	ToolWebSearch     Tool = "web_search"
	ToolMCP           Tool = "mcp"      // a tool of an MCP server
	ToolSubagent      Tool = "subagent" // another agent
	ToolTodo          Tool = "todo"     // the agent's own plan
	ToolOther         Tool = "other"    // see the native name
)

// Risk is how much harm a tool call could do.
type Risk string

// The risk levels.
const (
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// RiskOf judges a call of tool on target by an agent that works in dir ("" when
// unknown, which makes every path an outside one unless it is relative). Reading
// inside dir is low; writing there and reaching the web is medium; the rest (any
// shell command, anything outside dir, MCP, unknown tools) is high.
func RiskOf(tool Tool, target, dir string) Risk {
	switch tool {
	case ToolTodo:
		return RiskLow
	case ToolSearchContent, ToolFindFiles:
		return RiskLow
	case ToolReadFile:
		if inside(target, dir) {
			return RiskLow
		}
	case ToolWriteFile, ToolEditFile:
		if inside(target, dir) {
			return RiskMedium
		}
	case ToolWebFetch, ToolWebSearch:
		return RiskMedium
	case ToolShell, ToolMCP, ToolSubagent, ToolOther:
	}
	return RiskHigh
}

func inside(path, dir string) bool {
	if !filepath.IsAbs(path) {
		return filepath.IsLocal(path)
	}
	rel, err := filepath.Rel(dir, path)
	return dir != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
