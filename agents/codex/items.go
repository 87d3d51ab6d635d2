package codex

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// toolState is how far the item of a tool has come.
type toolState int

const (
	toolUnseen toolState = iota
	toolOpen
	toolClosed
)

// item translates item.started, item.updated and item.completed.
func (d *dialog) item(phase string, v *fastjson.Value) []agents.Event {
	item := v.Get("item")
	typ := native.String(item, "type")
	if typ != "error" {
		d.trouble = ""
	}
	switch typ {
	case "agent_message", "reasoning":
		return d.message(phase, typ, native.String(item, "text"))
	case "todo_list":
		d.began = true
		return bodies(todoList(item))
	case "error": // a warning: unknown model, ignored setting, another transport …
		return bodies(agents.System{Subtype: "warning", Message: native.String(item, "message")})
	case "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call":
		return d.tool(phase, item, v)
	default:
		return native.Unknown(strings.TrimSpace(phase+" "+typ), v)
	}
}

// message takes what the model says. It comes whole, when it is completed: whatever
// came before would be said twice. The last message is the answer; those before it
// comment the work.
func (d *dialog) message(phase, typ, text string) []agents.Event {
	if phase != "item.completed" {
		return nil
	}
	d.began = true
	if typ == "reasoning" {
		return bodies(agents.Reasoning{Content: text})
	}
	d.answer = &text
	return bodies(agents.TextChunk{Content: text, Role: "assistant"})
}

func todoList(item *fastjson.Value) agents.TodoList {
	var list agents.TodoList
	for _, entry := range item.GetArray("items") {
		status := "pending"
		if entry.GetBool("completed") {
			status = "completed"
		}
		list.Items = append(list.Items, agents.TodoItem{Text: native.String(entry, "text"), Status: status})
	}
	return list
}

// tool translates an item that is a tool call. Either end may be missing: quick
// commands are only completed, those under way at the end only started.
func (d *dialog) tool(phase string, item, line *fastjson.Value) []agents.Event {
	// A web_search has the key id twice. The first is the item's, as everywhere.
	id := native.String(item, "id")
	state := d.tools[id]
	if id == "" || state == toolClosed {
		return native.Unknown(phase+" "+native.String(item, "type"), line)
	}
	d.began = true
	call := readCall(item, d.request.Dir)
	var events []agents.Event
	if state == toolUnseen {
		d.tools[id] = toolOpen
		events = bodies(call.started(id))
	}
	switch phase {
	case "item.updated":
		return append(events, bodies(agents.ToolProgress{ToolID: id})...)
	case "item.completed":
		d.tools[id] = toolClosed
		delete(d.tools, d.closed.Put(id))
		return append(events, d.completed(id, call, item)...)
	default:
		return events
	}
}

// completed is the end of a call and what it brought about.
func (d *dialog) completed(id string, c call, item *fastjson.Value) []agents.Event {
	end := agents.ToolCompleted{ToolID: id, Result: result(item)}
	switch status := native.String(item, "status"); status {
	case "completed":
		end.Success = true
	case "": // a web search has none
		end.Success = native.String(item, "type") == "web_search"
	case "declined":
		end.Declined = true
		d.denied = append(d.denied, string(c.name)+": "+c.target)
	}
	if code := item.Get("exit_code"); code != nil && code.Type() == fastjson.TypeNumber {
		n := int(native.Int(code))
		end.ExitCode = &n
	}
	if !end.Success {
		end.Error = failure(item, end)
	}
	events := bodies(end)
	if end.Success {
		events = append(events, changes(id, item)...)
	}
	return append(events, subagents(id, item.GetObject("agents_states"))...)
}

func result(item *fastjson.Value) []byte {
	switch native.String(item, "type") {
	case "command_execution":
		return native.Raw(item, "aggregated_output")
	case "mcp_tool_call":
		return native.Raw(item, "result")
	case "web_search":
		return native.Raw(item, "action")
	case "collab_tool_call":
		return native.Raw(item, "agents_states")
	default:
		return nil
	}
}

// failure says why a call failed, as far as codex does.
func failure(item *fastjson.Value, end agents.ToolCompleted) string {
	switch message := cmp.Or(native.String(item, "error", "message"), native.String(item, "result", "content", "0", "text")); {
	case message != "":
		return message
	case end.Declined:
		return "refused: codex exec asks nobody"
	case end.ExitCode != nil:
		return "exit status " + strconv.Itoa(*end.ExitCode)
	default:
		return fmt.Sprintf("codex says %q and no more", native.String(item, "status"))
	}
}

// changes are the files of a patch, one event each. Codex prints no diff, and a
// renamed file only under its old name, as an update. What a command changed is not
// told at all.
func changes(id string, item *fastjson.Value) []agents.Event {
	var events []agents.Event
	for _, change := range item.GetArray("changes") {
		kind := agents.Modified
		switch native.String(change, "kind") {
		case "add":
			kind = agents.Created
		case "delete":
			kind = agents.Deleted
		}
		events = append(events, bodies(agents.FileChanged{FilePath: native.String(change, "path"), ChangeType: kind, ToolID: id})...)
	}
	return events
}

// subagents tells how the threads stand that a call of the collaboration tool is about.
func subagents(id string, states *fastjson.Object) []agents.Event {
	if states == nil {
		return nil
	}
	var events []agents.Event
	states.Visit(func(thread []byte, state *fastjson.Value) {
		events = append(events, bodies(agents.Subagent{
			SubagentID: string(thread), Status: subagentStatus(native.String(state, "status")),
			ParentID: id, Message: native.String(state, "message"),
		})...)
	})
	return events
}

// subagentStatus reads a state in the spelling of exec or of app-server.
func subagentStatus(s string) string {
	switch s {
	case "pending_init", "pendingInit":
		return "started"
	case "completed", "shutdown":
		return "completed"
	case "errored", "interrupted", "not_found", "notFound":
		return "failed"
	default:
		return "progress"
	}
}
