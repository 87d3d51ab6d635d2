package simulate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const uuidA, uuidB = "aaaaaaaa-2222-4333-8444-555555555555", "bbbbbbbb-2222-4333-8444-555555555555"

// talking is the command line of a Claude Code that asks its client.
func talking(more ...string) []string {
	return argv(Claude, append([]string{"--input-format", "stream-json", "--permission-prompt-tool", "stdio"}, more...)...)
}

func userSays(text, uuid string) object {
	return object{"type": "user", "message": object{"role": "user", "content": text}, "uuid": uuid}
}

func controls(id, subtype string, more object) object {
	request := object{"subtype": subtype}
	maps.Copy(request, more)
	return object{"type": "control_request", "request_id": id, "request": request}
}

func answers(id any, response object) object {
	return object{"type": "control_response", "response": object{"subtype": "success", "request_id": id, "response": response}}
}

func hookSays(id any, decision string, more object) object {
	out := object{"hookEventName": "PreToolUse", "permissionDecision": decision}
	maps.Copy(out, more)
	return answers(id, object{"hookSpecificOutput": out})
}

// hooking asks to be called before every tool.
func hooking() object {
	return controls("i1", "initialize", object{"hooks": object{"PreToolUse": []object{{"matcher": "*", "hookCallbackIds": []string{"hook_0"}}}}})
}

// asks awaits a control request of that subtype and returns its id and the request.
func (p *peer) asks(subtype string) (any, map[string]any) {
	p.t.Helper()
	v := p.await(subtype, func(v map[string]any) bool { return v["type"] == "control_request" })
	request := v["request"].(map[string]any)
	if request["subtype"] != subtype {
		p.t.Fatalf("asks %v, want %s", request, subtype)
	}
	return v["request_id"], request
}

// result awaits the end of a turn of Claude Code.
func (p *peer) result() map[string]any {
	p.t.Helper()
	return p.await("result", func(v map[string]any) bool { return v["type"] == "result" })
}

// Where the flags would have the user asked, the client is.
func TestClaudeAsksTheClient(t *testing.T) {
	tests := []struct {
		script, mode string
		allowed      []string
		asked        bool
	}{
		{"edit=a.txt", "default", nil, true},
		{"edit=a.txt", "acceptEdits", nil, false},
		{"edit=../a.txt", "acceptEdits", nil, true},
		{"edit=.git/config", "acceptEdits", nil, true},
		{"run=touch a.txt", "default", nil, true},
		{"run=touch a.txt", "acceptEdits", nil, false},
		{"run=ls", "default", nil, false},
		{"run=ls; touch a.txt", "acceptEdits", nil, true},
		{"run=touch a.txt", "default", []string{"--allowedTools", "Bash(touch *)"}, false},
		{"edit=a.txt", "bypassPermissions", nil, false},
		{"run=ls;asks", "bypassPermissions", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.script+" "+tt.mode, func(t *testing.T) {
			l := newLab(t).script(tt.script).with("IS_SANDBOX", "1")
			p := l.talk(Claude, talking(append(tt.allowed, "--permission-mode", tt.mode)...)...)
			p.say(userSays("go", ""))
			if tt.asked {
				id, request := p.asks("can_use_tool")
				if request["tool_use_id"] == "" || request["display_name"] != request["tool_name"] {
					t.Errorf("request %v", request)
				}
				p.say(answers(id, object{"behavior": "deny", "message": "flow says no"}))
			}
			r := p.result()
			if n := len(r["permission_denials"].([]any)); (n == 1) != tt.asked || r["is_error"] != false {
				t.Errorf("%d denials, %v", n, r)
			}
			denied := slices.ContainsFunc(p.heard, func(v map[string]any) bool {
				return v["type"] == "user" && get(t, v, "message.content.0.content") == "flow says no"
			})
			if denied != tt.asked {
				t.Errorf("the model hears of the denial: %v", denied)
			}
			if _, status := p.close(); status != 0 {
				t.Errorf("status %d", status)
			}
		})
	}
}

// A mode that never asks denies without a word to the client, and the rules of the flags
// stand above what hooks say.
func TestClaudeDeniesByItself(t *testing.T) {
	for _, flags := range [][]string{
		{"--permission-mode", "dontAsk"},
		{"--permission-mode", "plan"},
		{"--permission-mode", "acceptEdits", "--disallowedTools", "Write,Edit"},
	} {
		l := newLab(t).script("edit=a.txt")
		p := l.talk(Claude, talking(flags...)...)
		p.say(userSays("go", ""))
		r := p.result()
		if exists(filepath.Join(l.dir, "a.txt")) || r["is_error"] != false {
			t.Errorf("%v: %v", flags, r)
		}
		if slices.ContainsFunc(p.heard, func(v map[string]any) bool { return v["type"] == "control_request" }) {
			t.Errorf("%v: the client is asked", flags)
		}
		p.close()
	}
	l := newLab(t).script("run=touch a.txt")
	p := l.talk(Claude, talking("--disallowedTools", "Bash(touch *)")...)
	p.say(hooking())
	p.say(userSays("go", ""))
	id, _ := p.asks("hook_callback")
	p.say(hookSays(id, "allow", nil))
	if p.result(); exists(filepath.Join(l.dir, "a.txt")) {
		t.Error("a hook allows what the flags forbid")
	}
	p.close()
}

func TestClaudeHooks(t *testing.T) {
	tests := []struct {
		name, mode string
		answer     func(id any) object
		asked      bool // can_use_tool follows, and is allowed
		made       bool
		says       string
	}{
		{"allow", "default", func(id any) object { return hookSays(id, "allow", nil) }, false, true, ""},
		{"allow in plan mode", "plan", func(id any) object { return hookSays(id, "allow", nil) }, false, true, ""},
		{"deny", "bypassPermissions", func(id any) object {
			return hookSays(id, "deny", object{"permissionDecisionReason": "not now"})
		}, false, false, "PreToolUse:Write hook error: not now"},
		{"ask", "acceptEdits", func(id any) object { return hookSays(id, "ask", nil) }, true, true, ""},
		{"ask where nobody would", "dontAsk", func(id any) object { return hookSays(id, "ask", nil) }, true, true, ""},
		{"no opinion", "acceptEdits", func(id any) object { return answers(id, object{}) }, false, true, ""},
		{"no opinion, but the mode asks", "default", func(id any) object { return answers(id, object{}) }, true, true, ""},
		{"an error is no opinion", "acceptEdits", func(id any) object {
			return object{"type": "control_response", "response": object{"subtype": "error", "request_id": id, "error": "broken"}}
		}, false, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t).script("edit=a.txt").with("IS_SANDBOX", "1")
			p := l.talk(Claude, talking("--permission-mode", tt.mode)...)
			p.say(hooking())
			p.say(userSays("go", ""))
			id, request := p.asks("hook_callback")
			if request["callback_id"] != "hook_0" || get(t, request, "input.tool_name") != "Write" || get(t, request, "input.permission_mode") != tt.mode {
				t.Errorf("request %v", request)
			}
			if exists(filepath.Join(l.dir, "a.txt")) {
				t.Error("the file is written before the answer")
			}
			p.say(tt.answer(id))
			if tt.asked {
				id, _ := p.asks("can_use_tool")
				p.say(answers(id, object{"behavior": "allow"}))
			}
			p.result()
			if made := exists(filepath.Join(l.dir, "a.txt")); made != tt.made {
				t.Errorf("made is %v", made)
			}
			if said := fmt.Sprint(p.heard); !strings.Contains(said, tt.says) {
				t.Errorf("nobody says %q", tt.says)
			}
			p.close()
		})
	}
}

// What really runs is what the client answers.
func TestClaudeRunsTheChangedInput(t *testing.T) {
	l := newLab(t).script("edit=new.txt:one;edit=old.txt:two;run=touch ran")
	write(t, filepath.Join(l.dir, "old.txt"), "old\n")
	p := l.talk(Claude, talking()...)
	p.say(hooking())
	p.say(userSays("go", ""))
	id, _ := p.asks("hook_callback")
	p.say(hookSays(id, "allow", object{"updatedInput": object{"file_path": filepath.Join(l.dir, "other.txt"), "content": "HOOKED"}}))
	id, _ = p.asks("hook_callback")
	p.say(answers(id, object{}))
	id, request := p.asks("can_use_tool")
	input := request["input"].(map[string]any)
	input["new_string"] = "CHANGED\n"
	p.say(answers(id, object{"behavior": "allow", "updatedInput": input}))
	id, _ = p.asks("hook_callback")
	p.say(hookSays(id, "ask", nil))
	id, _ = p.asks("can_use_tool")
	p.say(answers(id, object{"behavior": "allow", "updatedInput": object{"command": "touch instead"}}))
	p.result()
	p.close()
	if exists(filepath.Join(l.dir, "new.txt")) || exists(filepath.Join(l.dir, "ran")) || !exists(filepath.Join(l.dir, "instead")) {
		t.Error("the first input is used")
	}
	if got := content(t, filepath.Join(l.dir, "other.txt")) + content(t, filepath.Join(l.dir, "old.txt")); got != "HOOKEDCHANGED\n" {
		t.Errorf("%q", got)
	}
}

// Bad answers deny, and the turn goes on.
func TestClaudeAnswersThatAreNone(t *testing.T) {
	tests := []struct {
		name   string
		answer func(p *peer, id any)
		says   string
	}{
		{"an error", func(p *peer, id any) {
			p.say(object{"type": "control_response", "response": object{"subtype": "error", "request_id": id, "error": "broken"}})
		}, "Tool permission request failed: Error: broken"},
		{"no behaviour", func(p *peer, id any) { p.say(answers(id, object{"decision": "allow"})) }, "Tool permission request failed: ZodError"},
		{"another id first", func(p *peer, id any) {
			p.say(answers("no such request", object{"behavior": "allow"}))
			p.say(answers(id, object{"behavior": "deny", "message": "no"}))
		}, "no"},
		{"the end of the input", func(p *peer, _ any) {
			if err := p.in.Close(); err != nil {
				p.t.Error(err)
			}
		}, "Tool permission stream closed before response received"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t).script("run=touch ran")
			p := l.talk(Claude, talking()...)
			p.say(userSays("go", ""))
			id, _ := p.asks("can_use_tool")
			tt.answer(p, id)
			if r := p.result(); r["is_error"] != false || exists(filepath.Join(l.dir, "ran")) {
				t.Errorf("%v", r)
			}
			if !strings.Contains(fmt.Sprint(p.heard), tt.says) {
				t.Errorf("nobody says %q: %v", tt.says, p.heard)
			}
		})
	}
}

func TestClaudeInterrupts(t *testing.T) {
	t.Run("denied with interrupt", func(t *testing.T) {
		p := newLab(t).script("run=touch ran").talk(Claude, talking()...)
		p.say(userSays("go", uuidA))
		id, _ := p.asks("can_use_tool")
		p.say(answers(id, object{"behavior": "deny", "message": "stop it", "interrupt": true}))
		r := p.result()
		if r["terminal_reason"] != "aborted_tools" || r["subtype"] != "error_during_execution" || len(r["permission_denials"].([]any)) != 1 {
			t.Errorf("%v", r)
		}
		if rest, status := p.close(); status != 1 || rest[0]["state"] != "cancelled" {
			t.Errorf("status %d, %v", status, rest)
		}
	})
	t.Run("while a request is pending", func(t *testing.T) {
		p := newLab(t).script("edit=a.txt").talk(Claude, talking()...)
		p.say(hooking())
		p.say(userSays("go", ""))
		id, _ := p.asks("hook_callback")
		p.say(controls("int", "interrupt", nil))
		if v := p.next(); v["type"] != "control_cancel_request" || v["request_id"] != id {
			t.Errorf("the request is not taken back: %v", v)
		}
		if v := p.next(); get(t, v, "response.request_id") != "int" {
			t.Errorf("no answer: %v", v)
		}
		if r := p.result(); r["terminal_reason"] != "aborted_tools" {
			t.Errorf("%v", r)
		}
		p.say(userSays("again", ""))
		id, _ = p.asks("hook_callback")
		p.say(hookSays(id, "deny", nil))
		if r := p.result(); r["is_error"] != false || r["result_index"] != 1.0 {
			t.Errorf("the next turn: %v", r)
		}
		if _, status := p.close(); status != 0 {
			t.Errorf("status %d: the last turn decides", status)
		}
	})
	t.Run("in a command", func(t *testing.T) {
		l := newLab(t)
		fifo := filepath.Join(l.dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		p := l.script("run=read line < fifo").talk(Claude, talking("--allowedTools", "Bash")...)
		p.say(userSays("go", ""))
		end, err := os.OpenFile(fifo, os.O_WRONLY, 0) // opens once the command reads
		if err != nil {
			t.Fatal(err)
		}
		defer end.Close()
		p.say(controls("int", "interrupt", nil))
		if r := p.result(); r["terminal_reason"] != "aborted_tools" {
			t.Errorf("%v", r)
		}
		if _, err := end.WriteString("x\n"); err == nil {
			t.Error("the command is alive")
		}
		if _, status := p.close(); status != 1 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("in a stall", func(t *testing.T) {
		p := newLab(t).script("stall=1h@1").talk(Claude, talking()...)
		p.say(userSays("go", ""))
		p.await("init", func(v map[string]any) bool { return v["subtype"] == "init" })
		p.say(controls("int", "interrupt", nil))
		if r := p.result(); r["terminal_reason"] != "aborted_streaming" {
			t.Errorf("%v", r)
		}
		p.close()
	})
}

func TestClaudeAnswersControlRequests(t *testing.T) {
	p := newLab(t).talk(Claude, talking()...)
	tests := []struct {
		subtype string
		more    object
		code    any // of the error, or nil
	}{
		{"initialize", nil, nil},
		{"interrupt", nil, nil},
		{"mcp_status", nil, nil},
		{"set_permission_mode", object{"mode": "acceptEdits"}, nil},
		{"set_permission_mode", object{"mode": "zork"}, "invalid_mode"},
		{"set_permission_mode", object{"mode": "bypassPermissions"}, "bypass_not_launched"},
		{"set_model", object{"model": "haiku"}, nil},
		{"zork", nil, "unsupported_request"},
	}
	for i, tt := range tests {
		id := fmt.Sprint("c", i)
		p.say(controls(id, tt.subtype, tt.more))
		v := p.await("answer to "+tt.subtype, func(v map[string]any) bool { return v["type"] == "control_response" })
		if get(t, v, "response.request_id") != id || get(t, v, "response.error_code") != tt.code {
			t.Errorf("%s: %v", tt.subtype, v)
		}
	}
	p.say(userSays("go", ""))
	init := p.await("init", func(v map[string]any) bool { return v["subtype"] == "init" })
	if init["model"] != "claude-haiku-5-5" || init["permissionMode"] != "acceptEdits" {
		t.Errorf("the changes do not show: %v", init)
	}
	p.close()
}

func TestClaudeTurnsInOneProcess(t *testing.T) {
	l := newLab(t).script("tokens=100:20")
	p := l.talk(Claude, talking("--session-id", idA, "--replay-user-messages")...)
	for i, uuid := range []string{uuidA, uuidB} {
		p.say(userSays("question", uuid))
		r := p.result()
		if r["session_id"] != idA || r["result_index"] != float64(i) || r["user_message_uuid"] != uuid || r["total_cost_usd"] != claudeCost(usageOf(100*(i+1), 20*(i+1))) {
			t.Errorf("turn %d: %v", i, r)
		}
	}
	p.say("")
	p.say(object{"type": "message", "role": "user", "content": "of another dialect: ignored"})
	rest, status := p.close()
	if status != 0 || len(rest) != 1 {
		t.Errorf("status %d, %v", status, rest)
	}
	states := []string{}
	for _, v := range p.heard {
		if v["type"] == "command_lifecycle" && v["command_uuid"] == uuidA {
			states = append(states, v["state"].(string))
		}
		if v["isReplay"] == true && v["uuid"] != uuidA && v["uuid"] != uuidB {
			t.Errorf("a replay under another name: %v", v)
		}
	}
	if !slices.Equal(states, []string{"queued", "started", "completed"}) {
		t.Errorf("states %v", states)
	}
	third := l.run(Claude, "three", argv(Claude, "--resume", idA)...).last(t)
	if third["result"] != "Simulated claude answer to: three (turn 3)" {
		t.Errorf("the session goes on in another process: %v", third)
	}
}

// A message that comes during a tool belongs to the turn under way, one that comes
// before or after it to the next.
func TestClaudeFoldsMessages(t *testing.T) {
	l := newLab(t).script("run=touch ran")
	p := l.talk(Claude, talking()...)
	p.say(userSays("first", uuidA))
	id, _ := p.asks("can_use_tool")
	p.say(userSays("more", uuidB))
	p.say(answers(id, object{"behavior": "allow"}))
	if got := fmt.Sprint(p.result()["user_message_uuids"]); got != "["+uuidA+" "+uuidB+"]" {
		t.Errorf("the result is for %s", got)
	}
	p.close()

	p = newLab(t).talk(Claude, talking()...)
	p.say(userSays("first", uuidA))
	p.say(userSays("second", uuidB))
	for _, uuid := range []string{uuidA, uuidB} {
		if r := p.result(); fmt.Sprint(r["user_message_uuids"]) != "["+uuid+"]" {
			t.Errorf("the result of %s is for %v", uuid, r["user_message_uuids"])
		}
	}
	p.close()
}

func TestClaudeEndsWithItsInput(t *testing.T) {
	l := newLab(t)
	tests := []struct {
		name, script, input string
		args                []string
		status              int
		stderr              string
	}{
		{"no message", "", "", nil, 0, ""},
		{"a line that is no JSON", "", "this is not json\n", nil, 1, "Error parsing streaming input line (type=unknown, 16 chars): SyntaxError"},
		{"a message without a role", "", `{"type":"user","content":"hi"}` + "\n", nil, 1, "Error: Expected message role 'user', got 'undefined'"},
		{"a failure", "fail=auth", `{"type":"user","message":{"role":"user","content":"hi"}}` + "\n", nil, 1, ""},
		{"an answer", "", `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`, nil, 0, ""},
		{"a session that is not there", "", "", []string{"--resume", idB}, 1, "No conversation found with session ID: " + idB},
		{"an end in the middle", "exit=7", `{"type":"user","message":{"role":"user","content":"hi"}}` + "\n", nil, 7, ""},
		{"silence", "silent", `{"type":"user","message":{"role":"user","content":"hi"}}` + "\n", nil, 0, ""},
	}
	for _, tt := range tests {
		o := l.script(tt.script).run(Claude, tt.input, talking(tt.args...)...)
		if o.status != tt.status || !strings.Contains(o.stderr, tt.stderr) {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
}

func TestClaudeOddities(t *testing.T) {
	start := func(t *testing.T, script string) *peer {
		t.Helper()
		p := newLab(t).script(script).talk(Claude, talking()...)
		p.say(userSays("go", ""))
		return p
	}
	t.Run("question", func(t *testing.T) {
		p := start(t, "question")
		id, request := p.asks("can_use_tool")
		if request["tool_name"] != askUser || request["requires_user_interaction"] != true {
			t.Errorf("%v", request)
		}
		p.say(answers(id, object{"behavior": "allow", "updatedInput": object{"answers": object{simulatedQuestion: "B"}}}))
		p.result()
		if !strings.Contains(fmt.Sprint(p.heard), `"`+simulatedQuestion+`"="B"`) {
			t.Errorf("the answer is not heard: %v", p.heard)
		}
	})
	t.Run("unknown-request", func(t *testing.T) {
		p := start(t, "unknown-request")
		id, _ := p.asks("simulated_request")
		p.say(object{"type": "control_response", "response": object{"subtype": "error", "request_id": id, "error": "no such request"}})
		p.result()
		if !strings.Contains(fmt.Sprint(p.heard), "was refused: Error: no such request") {
			t.Errorf("%v", p.heard)
		}
	})
	t.Run("id0 and duplicate-id", func(t *testing.T) {
		p := start(t, "id0;duplicate-id;run=touch ran")
		for range 2 { // the same request twice
			if id, _ := p.asks("can_use_tool"); id != "0" {
				t.Errorf("id %v", id)
			}
		}
		for range 2 {
			p.say(answers("0", object{"behavior": "deny", "message": "no"}))
		}
		if r := p.result(); len(r["permission_denials"].([]any)) != 1 {
			t.Errorf("%v", r)
		}
	})
	t.Run("withdraw", func(t *testing.T) {
		p := start(t, "withdraw;run=touch ran")
		id, _ := p.asks("can_use_tool")
		if v := p.next(); v["type"] != "control_cancel_request" || v["request_id"] != id {
			t.Errorf("%v", v)
		}
		if r := p.result(); r["is_error"] != false {
			t.Errorf("%v", r)
		}
	})
	t.Run("late-update", func(t *testing.T) {
		p := start(t, "late-update")
		p.result()
		if rest, _ := p.close(); len(rest) != 1 || rest[0]["type"] != "assistant" {
			t.Errorf("%v", rest)
		}
	})
}
