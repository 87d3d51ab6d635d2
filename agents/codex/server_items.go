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

// threadItem is what is known of an item of the thread.
type threadItem struct {
	state toolState       // of a tool call
	call  call            // while it is open
	order int             // of its start among the tool calls
	said  strings.Builder // the pieces of a message or a reasoning so far
}

// at is the item of that id, a new one if there is none.
func (c *Conversation) at(id string) *threadItem {
	if c.items[id] == nil {
		c.items[id] = &threadItem{}
	}
	return c.items[id]
}

// item translates item/started and item/completed.
func (c *Conversation) item(done bool, params, line *fastjson.Value) []agents.Event {
	v := params.Get("item")
	typ, id := native.String(v, "type"), native.String(v, "id")
	foreign := c.foreign(native.String(params, "threadId"))
	if foreign && (typ == "agentMessage" || typ == "reasoning") {
		return c.subagentSaid(done, native.String(params, "threadId"), native.String(v, "text"))
	}
	switch typ {
	case "userMessage", "hookPrompt":
		return nil
	case "agentMessage":
		return c.message(done, id, native.String(v, "text"))
	case "reasoning":
		return c.reasoning(done, id, v)
	case "commandExecution", "fileChange", "mcpToolCall", "webSearch", "collabAgentToolCall", "dynamicToolCall", "imageView",
		"imageGeneration", "sleep":
		return c.tool(done, id, v, line)
	case "subAgentActivity", "contextCompaction", "enteredReviewMode", "exitedReviewMode", "plan":
		return c.notice(done, typ, v)
	default:
		return native.Unknown(typ, line)
	}
}

func (c *Conversation) subagentSaid(done bool, thread, text string) []agents.Event {
	if !done || text == "" {
		return nil
	}
	return bodies(agents.Subagent{SubagentID: thread, Status: "progress", Message: text})
}

// message takes what the model says. The last message is the answer; those before it
// comment the work.
func (c *Conversation) message(done bool, id, text string) []agents.Event {
	c.began, c.trouble = true, ""
	if !done {
		return nil
	}
	if c.end == nil { // what is said after the end of the turn is not its answer
		c.answer = &text
	}
	rest, partial := c.rest(id, text)
	if rest == "" && partial {
		return nil
	}
	return bodies(agents.TextChunk{Content: rest, IsPartial: partial, Role: "assistant", MessageID: id})
}

// reasoning takes what the model thinks: the summary, or all of it where codex tells that.
func (c *Conversation) reasoning(done bool, id string, v *fastjson.Value) []agents.Event {
	c.began, c.trouble = true, ""
	if !done {
		return nil
	}
	text := cmp.Or(lines(v.GetArray("summary")), lines(v.GetArray("content")))
	rest, partial := c.rest(id, text)
	if rest == "" {
		return nil
	}
	return bodies(agents.Reasoning{Content: rest, IsPartial: partial})
}

// lines joins parts, a line each.
func lines(parts []*fastjson.Value) string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = native.String(part)
	}
	return strings.Join(texts, "\n")
}

// rest is what the pieces of an item have not said of its whole text, and whether there
// were pieces. What was said otherwise cannot be taken back: then it is nothing.
func (c *Conversation) rest(id, text string) (rest string, partial bool) {
	said := ""
	if it := c.items[id]; it != nil {
		said = it.said.String()
		delete(c.items, id)
	}
	if said == "" {
		return text, false
	}
	rest, _ = strings.CutPrefix(text, said)
	if rest == text {
		return "", true
	}
	return rest, true
}

// notice translates items that are no call and no message.
func (c *Conversation) notice(done bool, typ string, v *fastjson.Value) []agents.Event {
	if !done {
		return nil
	}
	switch typ {
	case "subAgentActivity":
		return bodies(agents.Subagent{SubagentID: native.String(v, "agentThreadId"), Status: activity(native.String(v, "kind")), Message: native.String(v, "agentPath")})
	case "contextCompaction":
		return bodies(agents.System{Subtype: "compaction"})
	case "exitedReviewMode":
		review := native.String(v, "review") // a message says it again
		c.began, c.answer = true, &review
		return bodies(agents.System{Subtype: "review", Message: "ended"})
	case "plan":
		return bodies(agents.System{Subtype: "plan", Message: native.String(v, "text")})
	default:
		return bodies(agents.System{Subtype: "review", Message: native.String(v, "review")})
	}
}

func activity(kind string) string {
	switch kind {
	case "started", "completed":
		return kind
	case "interrupted":
		return "failed"
	default:
		return "progress"
	}
}

// tool translates an item that is a tool call.
func (c *Conversation) tool(done bool, id string, v, line *fastjson.Value) []agents.Event {
	it := c.at(id)
	if id == "" || it.state == toolClosed {
		return native.Unknown("item "+native.String(v, "type"), line)
	}
	c.began, c.trouble = true, ""
	var events []agents.Event
	if it.state == toolUnseen {
		c.started++
		it.state, it.call, it.order = toolOpen, readItem(v, c.request.Dir), c.started
		events = bodies(it.call.started(id))
	}
	if !done {
		return events
	}
	made := it.call
	it.state, it.call = toolClosed, call{}
	delete(c.items, c.closed.Put(id))
	return append(events, c.completed(id, made, v)...)
}

// readItem reads the item of a tool call by an agent that works in dir.
func readItem(v *fastjson.Value, dir string) call {
	c := call{name: agents.ToolOther, native: native.String(v, "type")}
	switch c.native {
	case "commandExecution":
		return command(native.String(v, "command"), native.String(v, "cwd"), dir)
	case "fileChange":
		return fileChange(v, dir)
	case "mcpToolCall":
		return mcpCall(native.String(v, "server"), native.String(v, "tool"), mcpArguments(v))
	case "webSearch":
		c.name, c.target, c.arguments = agents.ToolWebSearch, native.String(v, "query"), pick(v, "query", "action")
	case "collabAgentToolCall":
		c.name, c.native = agents.ToolSubagent, native.String(v, "tool")
		c.target, c.arguments = native.String(v, "receiverThreadIds", "0"), pick(v, "receiverThreadIds", "prompt")
	case "imageView":
		c.name, c.target, c.arguments = agents.ToolReadFile, native.String(v, "path"), pick(v, "path")
	case "dynamicToolCall":
		c.native, c.arguments = native.String(v, "tool"), mcpArguments(v)
	case "sleep":
		c.risk, c.arguments = agents.RiskLow, pick(v, "durationMs")
		return c
	}
	c.risk = agents.RiskOf(c.name, c.target, dir)
	return c
}

// command is a shell command in cwd. In another directory than dir it counts as a script
// that goes there first: what it names is to be understood from there.
func command(text, cwd, dir string) call {
	c := call{name: agents.ToolShell, native: "commandExecution", target: script(text), risk: agents.RiskHigh}
	c.arguments = pickText("command", text)
	if there := native.Script(c.target, cwd, dir); there != c.target {
		c.target, c.arguments = there, pickText("command", text, "cwd", cwd)
	}
	return c
}

// fileChange is a call of apply_patch. Its arguments name every file that it touches: of
// a renamed one also the new name, as a file of its own.
func fileChange(v *fastjson.Value, dir string) call {
	c := call{name: agents.ToolEditFile, native: "fileChange"}
	b := []byte(`{"changes":[`)
	for i, f := range filesOf(v) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(agents.AppendString(append(b, `{"path":`...), f.path), `,"kind":`...)
		b = agents.AppendString(b, f.kind)
		if f.diff != "" {
			b = agents.AppendString(append(b, `,"diff":`...), f.diff)
		}
		b = append(b, '}')
		if risk := agents.RiskOf(c.name, f.path, dir); c.target == "" || risk == agents.RiskHigh && c.risk != agents.RiskHigh {
			c.target, c.risk = f.path, risk
		}
	}
	c.arguments = append(b, "]}"...)
	c.risk = cmp.Or(c.risk, agents.RiskHigh) // a patch of no known file
	return c
}

// changedFile is one file of a patch.
type changedFile struct {
	path, kind, diff string // kind is add, delete or update
}

// filesOf lists the files of a patch: a renamed one is deleted under its old name and
// added under the new one.
func filesOf(v *fastjson.Value) []changedFile {
	var files []changedFile
	for _, change := range v.GetArray("changes") {
		f := changedFile{native.String(change, "path"), native.String(change, "kind", "type"), native.String(change, "diff")}
		if to := native.String(change, "kind", "move_path"); to != "" && to != f.path {
			files = append(files, changedFile{path: f.path, kind: "delete"}, changedFile{to, "add", f.diff})
			continue
		}
		files = append(files, f)
	}
	return files
}

// changed are the events of the files that a patch has changed.
func changed(id string, v *fastjson.Value) []agents.Event {
	kinds := map[string]agents.ChangeType{"add": agents.Created, "delete": agents.Deleted}
	var events []agents.Event
	for _, f := range filesOf(v) {
		kind := cmp.Or(kinds[f.kind], agents.Modified)
		events = append(events, bodies(agents.FileChanged{FilePath: f.path, ChangeType: kind, Diff: f.diff, ToolID: id})...)
	}
	return events
}

// mcpCall is a call of an MCP server's tool.
func mcpCall(server, tool string, arguments []byte) call {
	return call{
		name: agents.ToolMCP, native: "mcp__" + server + "__" + tool, target: server + "." + tool,
		risk: agents.RiskHigh, arguments: arguments,
	}
}

// pickText is an object of texts: a key, its value, and so on.
func pickText(pairs ...string) []byte {
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = agents.AppendString(append(agents.AppendString(b, pairs[i]), ':'), pairs[i+1])
	}
	return append(b, '}')
}

// completed is the end of a call and what it brought about.
func (c *Conversation) completed(id string, call call, v *fastjson.Value) []agents.Event {
	end := agents.ToolCompleted{ToolID: id, Result: resultOf(v)}
	status := native.String(v, "status")
	switch {
	case status == "completed", status == "" && call.native != "collabAgentToolCall":
		end.Success = true
	case status == "declined", strings.Contains(native.String(v, "error", "message"), "user rejected"):
		end.Declined = true
		c.denied = append(c.denied, string(call.name)+": "+call.target)
	}
	if code := v.Get("exitCode"); code != nil && code.Type() == fastjson.TypeNumber {
		n := int(native.Int(code))
		end.ExitCode = &n
	}
	if !end.Success {
		end.Error = whyFailed(v, end)
	}
	events := bodies(end)
	if end.Success && call.native == "fileChange" {
		events = append(events, changed(id, v)...)
	}
	return append(events, subagents(id, v.GetObject("agentsStates"))...)
}

func resultOf(v *fastjson.Value) []byte {
	for _, key := range []string{"aggregatedOutput", "result", "contentItems", "agentsStates", "action", "savedPath"} {
		if result := native.Raw(v, key); result != nil {
			return result
		}
	}
	return nil
}

func whyFailed(v *fastjson.Value, end agents.ToolCompleted) string {
	switch message := cmp.Or(native.String(v, "error", "message"), native.String(v, "result", "content", "0", "text")); {
	case message != "":
		return message
	case end.Declined:
		return "declined"
	case end.ExitCode != nil:
		return "exit status " + strconv.Itoa(*end.ExitCode)
	default:
		return fmt.Sprintf("codex says %q and no more", native.String(v, "status"))
	}
}
