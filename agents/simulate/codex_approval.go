package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// begin tells of a call and asks the client about it, where the approval policy wants
// that. What a client allows is made outside the sandbox, unless the thread is held in it.
func (c *codexTurn) begin(x call) (call, bool) {
	c.calls++
	why := codexForbids(c.turn, c.thread.sandbox, append(c.server.args.writableRoots(), c.thread.roots...), x)
	ask := (c.odd.asks || c.asks(x, why)) && !c.thread.granted[grant(x)]
	if x.command == "" && why != "" && !ask {
		c.complain("%s ERROR codex_core::tools::router: error=%s", timestamp(), why)
		return x, false
	}
	c.pending = c.item(x)
	if !ask {
		c.started(c.pending)
	} else if !c.approve(x) {
		return x, false
	}
	free := !c.thread.held && (ask || c.thread.granted[grant(x)])
	if why != "" && !free {
		c.end(x, result{output: why, status: 1})
		return x, false
	}
	return x, true
}

// asks reports whether the approval policy has the client asked about a call that the
// sandbox objects to, or not: why.
func (c *codexTurn) asks(x call, why string) bool {
	switch c.thread.policy() {
	case "never":
		return false
	case "untrusted":
		return x.command == "" || !simpleCommand(x.command, readers())
	}
	if x.command == "" {
		return why != ""
	}
	return strings.HasPrefix(x.command, "rm -rf") || strings.HasPrefix(x.command, "rm -f")
}

// grant is what the client allows with acceptForSession: this command, or this file.
func grant(x call) string {
	if x.command != "" {
		return "command " + x.command
	}
	return "file " + x.target
}

// item is a call as it begins.
func (c *codexTurn) item(x call) object {
	id := fmt.Sprintf("call_%d_%d", c.thread.turns, c.calls)
	if x.command == "" {
		return object{"type": "fileChange", "id": id, "changes": []object{codexChange(x)}, "status": "inProgress"}
	}
	return object{
		"type": "commandExecution", "id": id, "pluginId": nil, "scriptPath": nil, "command": "/bin/bash -lc " + shellQuote(x.command),
		"cwd": c.dir, "processId": nil, "source": "agent", "status": "inProgress",
		"commandActions":   []object{{"type": "unknown", "command": x.command}},
		"aggregatedOutput": nil, "exitCode": nil, "durationMs": nil,
	}
}

// codexChange is an edit: the whole of a new file, or the lines that are added.
func codexChange(x call) object {
	if !x.exists {
		return object{"path": x.target, "kind": object{"type": "add"}, "diff": x.after}
	}
	return object{"path": x.target, "kind": object{"type": "update", "move_path": nil}, "diff": hunk(x)}
}

// hunk is an edit as a unified diff without context.
func hunk(x call) string {
	added := strings.TrimSuffix(strings.TrimPrefix(x.after, x.before), "\n")
	lines := strings.Split(added, "\n")
	at := strings.Count(x.before, "\n")
	return fmt.Sprintf("@@ -%d,0 +%d,%d @@\n+%s\n", at, at+1, len(lines), strings.Join(lines, "\n+"))
}

// approve asks the client about the call that is pending, and shows what it forbids.
func (c *codexTurn) approve(x call) bool {
	var kind string
	params := object{
		"threadId": c.session.ID, "turnId": c.id, "itemId": c.pending["id"], "startedAtMs": c.began.UnixMilli(),
	}
	if x.command != "" {
		kind = "item/commandExecution/requestApproval"
		c.status("active", "waitingOnApproval")
		c.started(c.pending)
		params["kind"], params["environmentId"] = "command", "local"
		params["command"], params["cwd"], params["commandActions"] = c.pending["command"], c.dir, c.pending["commandActions"]
		params["proposedExecpolicyAmendment"] = strings.Fields(x.command)
		params["availableDecisions"] = []any{"accept", object{"acceptWithExecpolicyAmendment": object{"execpolicy_amendment": strings.Fields(x.command)}}, "cancel"}
	} else {
		kind = "item/fileChange/requestApproval"
		c.started(c.pending)
		c.status("active", "waitingOnApproval")
		params["reason"], params["grantRoot"] = nil, nil
	}
	decision, err := c.decision(c.ask(kind, params))
	if c.interrupted() != nil {
		return false
	}
	return c.heed(x, decision, err)
}

// ask sends a request, and tells that it is resolved once it is.
func (c *codexTurn) ask(method string, params object) *rpcCall {
	a := c.server.call(c.odd, method, params, func(*rpcCall) {})
	if c.interrupted() != nil && !a.over() {
		c.unresolved = a.id
		return a
	}
	c.resolved(a.id)
	c.status("active")
	return a
}

func (c *codexTurn) resolved(id any) {
	c.server.notify("serverRequest/resolved", object{"threadId": c.session.ID, "requestId": id})
}

// decision reads the client's answer. An amendment of the rules counts as allowed for
// the session: nothing is written.
func (c *codexTurn) decision(a *rpcCall) (string, error) {
	if a.err != nil {
		return "", a.err
	}
	var answer struct {
		Decision json.RawMessage `json:"decision"`
	}
	if err := json.Unmarshal(a.result, &answer); err != nil {
		return "", err
	}
	var name string
	if json.Unmarshal(answer.Decision, &name) == nil {
		return name, nil
	}
	var amended map[string]any
	if json.Unmarshal(answer.Decision, &amended) == nil && amended["acceptWithExecpolicyAmendment"] != nil {
		return "acceptForSession", nil
	}
	return "", errors.New("the decision cannot be read")
}

// heed does what the client decided, and reports whether the call is to be made. What it
// cannot have meant fails the call, and the turn goes on.
func (c *codexTurn) heed(x call, decision string, err error) bool {
	switch {
	case err == nil && decision == "accept":
		return true
	case err == nil && decision == "acceptForSession":
		c.thread.granted[grant(x)] = true
		return true
	case err == nil && decision == "decline":
		c.pending["status"] = "declined"
	case err == nil && decision == "cancel":
		c.pending["status"] = "declined"
		if x.command != "" { // a patch is never completed
			c.completed(c.pending)
		}
		c.cancel(errStopped)
		return false
	default:
		c.pending["status"] = "failed"
	}
	c.completed(c.pending)
	return false
}

// end shows what became of a call that was made.
func (c *codexTurn) end(x call, r result) {
	item := c.pending
	item["status"] = "completed"
	if r.err != nil || r.status != 0 {
		item["status"] = "failed"
	}
	if x.command != "" {
		item["source"], item["exitCode"], item["durationMs"] = "unifiedExecStartup", r.status, 0
		if r.output != "" {
			item["aggregatedOutput"] = r.output
		}
	}
	c.completed(item)
	if x.command == "" && item["status"] == "completed" {
		c.notify("turn/diff/updated", object{"diff": "--- a/" + x.path + "\n+++ b/" + x.path + "\n" + hunk(x)})
	}
	c.fold()
}

// question asks the user through the client.
func (c *codexTurn) question() {
	a := c.ask("item/tool/requestUserInput", object{
		"threadId": c.session.ID, "turnId": c.id, "itemId": "call_question", "questions": []object{{
			"id": "choice", "header": "Choice", "question": simulatedQuestion, "isOther": false, "isSecret": false,
			"options": []object{{"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}},
		}},
	})
	var answer struct {
		Answers map[string]struct {
			Answers []string `json:"answers"`
		} `json:"answers"`
	}
	switch {
	case c.interrupted() != nil:
	case a.err != nil || json.Unmarshal(a.result, &answer) != nil:
		c.say("The question was not answered.")
	default:
		c.say("The question was answered: " + strings.Join(answer.Answers["choice"].Answers, ", "))
	}
}

// unknown sends a request of a method that nobody knows.
func (c *codexTurn) unknown() {
	a := c.ask("simulated/request", object{"threadId": c.session.ID})
	if c.interrupted() != nil {
		return
	}
	problem := ""
	if a.err != nil {
		problem = a.err.Message
	}
	c.say(unknownAnswered(problem))
}
