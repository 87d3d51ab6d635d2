package simulate

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The lines of a conversation are shaped like the recorded ones, whatever the client
// answers.
func TestClaudeTalksAsRecorded(t *testing.T) {
	allow := func(id any, subtype string) object {
		if subtype == "hook_callback" {
			return answers(id, object{})
		}
		return answers(id, object{"behavior": "allow"})
	}
	deny := func(id any, _ string) object {
		return answers(id, object{"behavior": "deny", "message": "no", "hookSpecificOutput": object{"permissionDecision": "deny"}})
	}
	ask := func(id any, subtype string) object {
		if subtype == "hook_callback" {
			return hookSays(id, "ask", nil)
		}
		return answers(id, object{"behavior": "deny", "message": "no", "interrupt": true})
	}
	fail := func(id any, _ string) object {
		return object{"type": "control_response", "response": object{"subtype": "error", "request_id": id, "error": "broken"}}
	}
	stop := func(any, string) object { return controls("stop", "interrupt", nil) }
	shapes := recorded(t, Claude)
	for name, answer := range map[string]func(any, string) object{"allow": allow, "deny": deny, "ask": ask, "fail": fail, "stop": stop} {
		for _, script := range []string{"edit=new.txt;edit=old.txt;run=touch ran", "question", "edit=.git/config;asks", "fail=auth"} {
			t.Run(name+" "+script, func(t *testing.T) {
				l := newLab(t).script(script)
				write(t, filepath.Join(l.dir, "old.txt"), "old\n")
				p := l.talk(Claude, talking("--replay-user-messages")...)
				p.say(hooking())
				p.say(userSays("go", uuidA))
				p.say(controls("mode", "set_permission_mode", object{"mode": "default"}))
				p.say(controls("none", "zork", nil))
				for v := p.next(); v != nil && v["type"] != "result"; v = p.next() {
					if v["type"] == "control_request" {
						p.say(answer(v["request_id"], get(t, v, "request.subtype").(string)))
					}
				}
				p.say(controls("model", "set_model", object{"model": "haiku"}))
				p.close()
				for _, line := range p.heard {
					compare(t, shapes, read()[Claude], line)
				}
			})
		}
	}
}

// rpcKind is what decides the keys of a message: its method, or that of the request it
// answers, and the type of what it is about.
func rpcKind(m map[string]any, methods map[string]string) string {
	if m["method"] == nil {
		if m["error"] != nil {
			return "refusal"
		}
		return "result of " + methods[fmt.Sprint(m["id"])]
	}
	out := fmt.Sprint(m["method"])
	params, _ := m["params"].(map[string]any)
	if item, ok := params["item"].(map[string]any); ok {
		out += fmt.Sprint("/", item["type"])
	}
	if update, ok := params["update"].(map[string]any); ok {
		out += fmt.Sprint("/", update["sessionUpdate"])
	}
	return out
}

// recordedTalk returns the shapes of what agents say in recorded conversations.
func recordedTalk(t *testing.T, pattern string) map[string]shape {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "recordings", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings like %s (%v)", pattern, err)
	}
	out := map[string]shape{}
	for _, file := range files {
		methods := map[string]string{}
		for line := range strings.Lines(content(t, file)) {
			var l struct {
				Dir string         `json:"dir"`
				Msg map[string]any `json:"msg"`
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if l.Dir == "out" || l.Dir == "->" {
				if l.Msg["id"] != nil && l.Msg["method"] != nil {
					methods[fmt.Sprint(l.Msg["id"])] = l.Msg["method"].(string)
				}
				continue
			}
			name := rpcKind(l.Msg, methods)
			if out[name] == nil {
				out[name] = shape{}
			}
			paths(out[name], "", l.Msg)
		}
	}
	return out
}

// compareTalk holds what an agent said against the recordings. Kinds that no recording
// has are left to the tests that read them.
func (c *rpcClient) compareTalk(shapes map[string]shape, needed map[string][]string) {
	c.t.Helper()
	for _, v := range c.heard {
		name := rpcKind(v, c.methods)
		if _, ok := shapes[name]; ok {
			compareAs(c.t, name, shapes, needed, v)
		}
	}
}

// codexRead are the keys that a reader of the app-server's messages relies on.
func codexRead() map[string][]string {
	item := []string{".params.item.id", ".params.threadId", ".params.turnId"}
	return map[string][]string{
		"result of thread/start":                {".result.thread.id", ".result.model", ".result.sandbox.type", ".result.approvalPolicy", ".result.cwd"},
		"result of turn/start":                  {".result.turn.id", ".result.turn.status"},
		"thread/started":                        {".params.thread.id"},
		"thread/status/changed":                 {".params.threadId", ".params.status.type"},
		"turn/started":                          {".params.threadId", ".params.turn.id"},
		"turn/completed":                        {".params.threadId", ".params.turn.id", ".params.turn.status", ".params.turn.error", ".params.turn.durationMs"},
		"error":                                 {".params.willRetry", ".params.error.message", ".params.error.codexErrorInfo"},
		"thread/tokenUsage/updated":             {".params.tokenUsage.total.inputTokens", ".params.tokenUsage.last.outputTokens"},
		"item/agentMessage/delta":               {".params.itemId", ".params.delta"},
		"item/completed/agentMessage":           append(item, ".params.item.text", ".params.item.phase"),
		"item/started/commandExecution":         append(item, ".params.item.command", ".params.item.cwd", ".params.item.status"),
		"item/completed/commandExecution":       append(item, ".params.item.exitCode", ".params.item.aggregatedOutput", ".params.item.status"),
		"item/completed/fileChange":             append(item, ".params.item.changes[].path", ".params.item.changes[].kind.type", ".params.item.changes[].diff"),
		"item/commandExecution/requestApproval": {".id", ".params.itemId", ".params.command", ".params.cwd", ".params.availableDecisions"},
		"item/fileChange/requestApproval":       {".id", ".params.itemId", ".params.threadId", ".params.turnId"},
		"serverRequest/resolved":                {".params.requestId", ".params.threadId"},
	}
}

func TestCodexServesAsRecorded(t *testing.T) {
	shapes := recordedTalk(t, "codex-server/*.jsonl")
	for _, decision := range []string{"accept", "decline", "cancel", "approved"} {
		for _, script := range []string{"edit=new.txt;edit=old.txt;run=echo hi && exit 3;asks", "fail=auth", "fail=usage_limit"} {
			t.Run(decision+" "+script, func(t *testing.T) {
				l := newLab(t).script(script)
				write(t, filepath.Join(l.dir, "old.txt"), "old\n")
				c := l.serving()
				c.prompt(c.thread("workspace-write", "on-request"), "go")
				for v := c.next(); v["method"] != "turn/completed"; v = c.next() {
					if v["id"] != nil && v["method"] != nil {
						c.answer(v["id"], object{"decision": decision})
					}
				}
				c.close()
				c.compareTalk(shapes, codexRead())
				if len(c.heard) < 9 {
					t.Errorf("only %d messages", len(c.heard))
				}
			})
		}
	}
}

// acpRead are the keys that a reader of ACP relies on.
func acpRead() map[string][]string {
	return map[string][]string{
		"result of initialize":               {".result.protocolVersion", ".result.agentInfo.name", ".result.agentCapabilities.loadSession"},
		"result of session/new":              {".result.sessionId"},
		"result of session/prompt":           {".result.stopReason"},
		"session/request_permission":         {".id", ".params.sessionId", ".params.options[].optionId", ".params.options[].kind", ".params.toolCall.toolCallId", ".params.toolCall.title", ".params.toolCall.kind"},
		"session/update/agent_message_chunk": {".params.sessionId", ".params.update.content.text"},
		"session/update/tool_call":           {".params.update.toolCallId", ".params.update.status", ".params.update.kind"},
		"session/update/tool_call_update":    {".params.update.toolCallId", ".params.update.status"},
		"session/update/usage_update":        {".params.update.cost.amount", ".params.update.used"},
	}
}

func TestACPAsRecorded(t *testing.T) {
	recordings := map[string]string{Gemini: "acp/20-*.jsonl", "opencode": "acp/22-*.jsonl"}
	for agent, pattern := range recordings {
		shapes := recordedTalk(t, pattern)
		for _, kind := range []string{"allow_once", "reject_once"} {
			for _, script := range []string{"edit=new.txt;edit=old.txt;run=echo hi && exit 3", "fail=server"} {
				t.Run(agent+" "+kind+" "+script, func(t *testing.T) {
					l := newLab(t).script(script)
					write(t, filepath.Join(l.dir, "old.txt"), "old\n")
					c := l.acp(agent)
					id := c.tell(c.session(l.dir), "go")
					if strings.HasPrefix(script, "edit") {
						for range 3 {
							c.choose(kind)
						}
					}
					c.told(id)
					c.close()
					c.compareTalk(shapes, acpRead())
				})
			}
		}
	}
}
