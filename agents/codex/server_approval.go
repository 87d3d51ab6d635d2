package codex

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// The answers to an approval of a command or a patch. Codex knows two more, which flow
// does not give: acceptForSession, after which it asks no more about the same call, and
// acceptWithExecpolicyAmendment, which writes a rule into the user's CODEX_HOME.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel" // and end the turn
)

// approval is a request of codex that waits for an answer.
type approval struct {
	id     json.RawMessage // as it came: a number, 0 among them, or a text
	method string
	tool   string // the id of the item that it is about, or ""
	call   call
	reason string
	asked  json.RawMessage // the rights that item/permissions/requestApproval wants
	beyond string          // why a yes would leave the sandbox, or ""
}

func (a *approval) what() string {
	if a.call.target == "" {
		return a.call.native
	}
	return a.call.native + " " + clip(a.call.target, 200)
}

// asked takes a request of codex. One that flow does not know gets an error, and the
// turn goes on.
func (c *Conversation) asked(method string, id json.RawMessage, v *fastjson.Value) []agents.Event {
	a := &approval{id: id, method: method}
	params := v.Get("params")
	a.tool, a.reason = native.String(params, "itemId"), native.String(params, "reason")
	switch method {
	case "item/commandExecution/requestApproval":
		c.aboutCommand(a, params)
	case "item/fileChange/requestApproval":
		c.aboutPatch(a, params)
	case "mcpServer/elicitation/request":
		c.aboutServer(a, params)
	case "item/permissions/requestApproval":
		a.asked = native.Raw(params, "permissions")
		a.call = call{name: agents.ToolOther, native: "request_permissions", target: a.reason, risk: agents.RiskHigh, arguments: pick(params, "permissions", "cwd")}
		a.beyond = "it asks for rights that the sandbox does not give"
	case "item/tool/requestUserInput":
		a.call = question(params)
	default:
		c.rpc.refuse(id, errMethodNotFound, "flow has no answer to "+method)
		return native.Unknown(method, v)
	}
	if slices.ContainsFunc(c.pending, func(b *approval) bool { return string(b.id) == string(id) }) {
		return native.Unknown(method, v) // a second one of this id: an answer could be to either
	}
	if a.beyond != "" && profiled(c.request) {
		return c.heldBack(a)
	}
	c.pending = append(c.pending, a)
	return bodies(agents.PermissionRequested{
		RequestID: string(id), ToolID: a.tool, ToolName: a.call.name, NativeName: a.call.native,
		Target: a.call.target, Risk: a.call.risk, Arguments: a.call.arguments, Reason: a.reason,
	})
}

// heldBack declines what a yes would let out of the sandbox: nobody is asked. The end of
// the call tells that it was declined.
func (c *Conversation) heldBack(a *approval) []agents.Event {
	c.rpc.reply(a.id, a.answer(agents.Verdict{Effect: agents.EffectDeny}))
	return bodies(agents.Error{Message: "held back by the sandbox: " + a.what() + ": " + a.beyond, Cause: agents.CausePermission})
}

// aboutCommand reads the request to run a command.
func (c *Conversation) aboutCommand(a *approval, params *fastjson.Value) {
	a.call = command(native.String(params, "command"), native.String(params, "cwd"), c.request.Dir)
	if it := c.items[a.tool]; it != nil && native.String(params, "command") == "" {
		a.call = it.call
	}
	host := native.String(params, "networkApprovalContext", "host")
	switch {
	case host != "":
		a.call = call{name: agents.ToolWebFetch, native: "network", target: host, risk: agents.RiskHigh, arguments: pick(params, "command", "networkApprovalContext")}
		if c.request.Network != agents.NetworkOn {
			a.beyond = "the sandbox has no network"
		}
	case present(params, "additionalPermissions"):
		a.beyond = "it asks for rights that the sandbox does not give"
	}
}

// aboutPatch reads the request to apply a patch, which the item just started holds. With
// a yes codex writes also what its sandbox does not let commands write.
func (c *Conversation) aboutPatch(a *approval, params *fastjson.Value) {
	a.call = call{name: agents.ToolEditFile, native: "fileChange", risk: agents.RiskHigh}
	if it := c.items[a.tool]; it != nil && it.call.native == "fileChange" {
		a.call = it.call
	}
	switch {
	case present(params, "grantRoot"):
		a.beyond = "it asks for the right to write in " + native.String(params, "grantRoot")
	case sandbox(c.request) == agents.SandboxReadOnly:
		a.beyond = "the sandbox is read-only"
	default:
		a.beyond = c.outside(a.call.arguments)
	}
}

// outside says which file of a patch the sandbox lets nobody write, or "".
func (c *Conversation) outside(arguments json.RawMessage) string {
	var patch struct {
		Changes []struct {
			Path string `json:"path"`
		} `json:"changes"`
	}
	if json.Unmarshal(arguments, &patch) != nil || len(patch.Changes) == 0 {
		return "the patch does not say which files it changes"
	}
	for _, change := range patch.Changes {
		if !c.writable(change.Path) {
			return change.Path + " is not writable"
		}
	}
	return ""
}

// writable reports whether the sandbox lets path be written, as far as its name tells;
// where links lead codex finds out itself.
func (c *Conversation) writable(path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.request.Dir, path)
	}
	for _, dir := range append([]string{c.request.Dir}, c.request.AddDirs...) {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		first, _, _ := strings.Cut(rel, "/")
		return !slices.Contains([]string{".git", ".codex", ".agents"}, first)
	}
	return false
}

// aboutServer reads the request of an MCP server: to run one of its tools, which codex
// itself asks, or to be told something.
func (c *Conversation) aboutServer(a *approval, params *fastjson.Value) {
	server := native.String(params, "serverName")
	a.reason = native.String(params, "message")
	if native.String(params, "_meta", "codex_approval_kind") != "mcp_tool_call" {
		a.call = call{name: agents.ToolOther, native: "elicitation", target: a.reason, risk: agents.RiskHigh, arguments: pick(params, "serverName", "url", "requestedSchema")}
		return
	}
	a.call = mcpCall(server, native.String(params, "_meta", "tool_name"), native.Raw(params, "_meta", "tool_params"))
	last := 0
	for id, it := range c.items { // the request does not say which call it is about
		if it.state == toolOpen && it.call.native == a.call.native && it.order > last {
			a.tool, last = id, it.order
		}
	}
}

// question is what the model asks the user.
func question(params *fastjson.Value) call {
	var texts []string
	for _, q := range params.GetArray("questions") {
		texts = append(texts, native.String(q, "question"))
	}
	return call{
		name: agents.ToolOther, native: "request_user_input", target: strings.Join(texts, "\n"), risk: agents.RiskHigh,
		arguments: pick(params, "questions"),
	}
}

func present(v *fastjson.Value, key string) bool {
	value := v.Get(key)
	return value != nil && value.Type() != fastjson.TypeNull
}

// Decide answers the request of that id. A call with another input than the model's is
// not something that codex can be told: it is declined. The input of an answer to a
// question is an object, a text for each question's id; that of an elicitation is its
// content.
func (c *Conversation) Decide(id string, v agents.Verdict) bool {
	a := c.take(id)
	if a == nil {
		return false
	}
	c.rpc.reply(a.id, a.answer(v))
	return true
}

// take returns the pending request of that id and takes it from the list, nil for none.
func (c *Conversation) take(id string) *approval {
	i := slices.IndexFunc(c.pending, func(a *approval) bool { return string(a.id) == id })
	if i < 0 {
		return nil
	}
	a := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	return a
}

// answer is what a verdict is in the words of the request.
func (a *approval) answer(v agents.Verdict) any {
	decision := decline
	switch {
	case v.Effect == agents.EffectAllow:
		decision = accept
	case v.Interrupt:
		decision = cancel
	}
	switch a.method {
	case "mcpServer/elicitation/request":
		return elicited(decision, v.Input, a.call.name == agents.ToolMCP)
	case "item/permissions/requestApproval":
		if decision == accept && a.asked != nil {
			return map[string]any{"permissions": a.asked, "scope": "turn"}
		}
		return map[string]any{"permissions": struct{}{}, "scope": "turn"}
	case "item/tool/requestUserInput":
		return map[string]any{"answers": answers(decision, v.Input)}
	}
	if decision == accept && len(v.Input) > 0 {
		decision = decline
	}
	return map[string]any{"decision": decision}
}

// elicited answers an MCP server. The input of one of its tools cannot be changed.
func elicited(decision string, content json.RawMessage, tool bool) any {
	if decision == accept && tool && len(content) > 0 {
		decision = decline
	}
	if decision != accept {
		return map[string]any{"action": decision}
	}
	if !json.Valid(content) {
		content = json.RawMessage("{}")
	}
	return map[string]any{"action": accept, "content": content}
}

// answers are what a person has said, by the questions' ids; empty without a person.
func answers(decision string, said json.RawMessage) map[string]any {
	out := map[string]any{}
	var texts map[string]string
	if decision != accept || json.Unmarshal(said, &texts) != nil {
		return out
	}
	for id, text := range texts {
		out[id] = map[string]any{"answers": []string{text}}
	}
	return out
}

// allowedBy reports whether the answer of another client says yes.
func (a *approval) allowedBy(result *fastjson.Value) bool {
	if a.method == "mcpServer/elicitation/request" {
		return native.String(result, "action") == accept
	}
	if decision := result.Get("decision"); decision != nil && decision.Type() == fastjson.TypeString {
		return strings.HasPrefix(native.String(decision), accept) // acceptForSession
	}
	return result.Get("decision", "acceptWithExecpolicyAmendment") != nil || result.Get("permissions", "fileSystem") != nil
}

// resolved takes in that codex wants no answer any more. Of what was answered it says the
// same.
func (c *Conversation) resolved(id string) []agents.Event {
	if a := c.take(id); a != nil {
		return withdrawn(a)
	}
	return nil
}

func (c *Conversation) withdrawAll() []agents.Event {
	var events []agents.Event
	for _, a := range c.pending {
		events = append(events, withdrawn(a)...)
	}
	c.pending = nil
	return events
}

func withdrawn(a *approval) []agents.Event {
	return bodies(agents.PermissionDecided{
		RequestID: string(a.id), ToolID: a.tool, Decision: agents.EffectDeny, By: "agent", Message: "withdrawn",
	})
}
