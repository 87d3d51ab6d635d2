package codex

import (
	"encoding/json"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// call is a tool call in terms that all agents share.
type call struct {
	name      agents.Tool
	native    string
	target    string
	risk      agents.Risk
	arguments json.RawMessage
}

func (c call) started(id string) agents.ToolStarted {
	return agents.ToolStarted{
		ToolID: id, ToolName: c.name, NativeName: c.native, Target: c.target, Risk: c.risk, Arguments: c.arguments,
	}
}

// readCall reads the item of a tool call by an agent that works in dir. The native
// name is the item's type, except where the item names a tool itself.
func readCall(item *fastjson.Value, dir string) call {
	c := call{native: native.String(item, "type")}
	switch c.native {
	case "command_execution":
		c.name, c.target = agents.ToolShell, script(native.String(item, "command"))
		c.arguments = pick(item, "command")
	case "file_change":
		return patch(item, dir)
	case "mcp_tool_call":
		server, tool := native.String(item, "server"), native.String(item, "tool")
		c.name, c.native, c.target = agents.ToolMCP, "mcp__"+server+"__"+tool, server+"."+tool
		c.arguments = mcpArguments(item)
	case "web_search":
		c.name, c.target = agents.ToolWebSearch, native.String(item, "query") // "" until it is completed
		c.arguments = pick(item, "query", "action")
	case "collab_tool_call":
		c.name, c.native = agents.ToolSubagent, native.String(item, "tool")
		c.target = native.String(item, "receiver_thread_ids", "0")
		c.arguments = pick(item, "receiver_thread_ids", "prompt")
	}
	c.risk = agents.RiskOf(c.name, c.target, dir)
	return c
}

// patch is a call of apply_patch. Its target is its first file, or the first one
// that makes the whole risky.
func patch(item *fastjson.Value, dir string) call {
	c := call{name: agents.ToolEditFile, native: "file_change", arguments: pick(item, "changes")}
	for _, change := range item.GetArray("changes") {
		path := native.String(change, "path")
		risk := agents.RiskOf(c.name, path, dir)
		if c.target == "" || risk == agents.RiskHigh && c.risk != agents.RiskHigh {
			c.target, c.risk = path, risk
		}
	}
	if c.risk == "" {
		c.risk = agents.RiskHigh // a patch of no known file
	}
	return c
}

// mcpArguments are the arguments of an MCP call, which may be any JSON, as an object.
func mcpArguments(item *fastjson.Value) json.RawMessage {
	if v := item.Get("arguments"); v != nil && v.Type() != fastjson.TypeObject {
		return pick(item, "arguments")
	}
	return native.Raw(item, "arguments")
}

// pick returns an object with those keys of v that are there and not null.
func pick(v *fastjson.Value, keys ...string) json.RawMessage {
	b := []byte{'{'}
	for _, key := range keys {
		value := native.Raw(v, key)
		if value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(agents.AppendString(b, key), ':')
		b = append(b, value...)
	}
	return append(b, '}')
}

// script returns what a shell is told to run: codex prints `/bin/bash -lc 'ls -l'`,
// of which people and policies want `ls -l`. A command of another form is returned
// as it is, and so is one of a shell that lies where a model could have put it.
func script(command string) string {
	shell, rest, _ := strings.Cut(command, " ")
	flag, word, found := strings.Cut(rest, " ")
	if !found || flag != "-lc" && flag != "-c" || !native.SystemShell(shell) {
		return command
	}
	if s, ok := unquote(word); ok {
		return s
	}
	return command
}

// unquote undoes the quoting of one word of a POSIX shell. It reports false when s
// is not exactly one word.
func unquote(s string) (string, bool) {
	var b strings.Builder
	var quote byte // ' or " inside quotes, else 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'':
			if i++; i == len(s) {
				return "", false
			}
			if quote == '"' && !strings.ContainsRune("$`\"\\", rune(s[i])) {
				b.WriteByte(c)
			}
			b.WriteByte(s[i])
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.ContainsRune(" \t\n;&|<>()", rune(c)):
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), quote == 0 && s != ""
}
