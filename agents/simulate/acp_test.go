package simulate

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// acpTalkers are the two kinds of agents that speak ACP, with what makes them do so.
func acpTalkers() map[string][]string {
	return map[string][]string{Gemini: {"--acp", "-m", "gemini-2.5-flash"}, "opencode": {"acp"}}
}

// acp starts an agent that speaks ACP and initializes it.
func (l *lab) acp(name string, more ...string) *rpcClient {
	l.t.Helper()
	c := &rpcClient{peer: l.talk(name, append(acpTalkers()[name], more...)...), version: "2.0"}
	c.refuse = func(v map[string]any) { // what was not offered
		if v["method"] == "fs/write_text_file" {
			c.say(object{"jsonrpc": "2.0", "id": v["id"], "error": object{"code": rpcNoMethod, "message": "Method not found"}})
		}
	}
	c.request("initialize", object{"protocolVersion": 1})
	return c
}

// session begins a session and returns its id.
func (c *rpcClient) session(dir string) string {
	c.t.Helper()
	v := c.request("session/new", object{"cwd": dir, "mcpServers": []any{}})
	return get(c.t, v, "result.sessionId").(string)
}

// tell sends a prompt and returns its id.
func (c *rpcClient) tell(session, text string) int {
	c.t.Helper()
	return c.send("session/prompt", object{"sessionId": session, "prompt": []object{{"type": "text", "text": text}}})
}

// told awaits the answer to a prompt.
func (c *rpcClient) told(id int) map[string]any {
	c.t.Helper()
	return c.await("answer to the prompt", func(v map[string]any) bool { return v["id"] == float64(id) && v["method"] == nil })
}

// choose answers a request for permission with the option of that kind.
func (c *rpcClient) choose(kind string) map[string]any {
	c.t.Helper()
	id, params := c.asked("session/request_permission")
	for _, o := range params["options"].([]any) {
		if get(c.t, o, "kind") == kind {
			c.answer(id, object{"outcome": object{"outcome": "selected", "optionId": get(c.t, o, "optionId")}})
			return params
		}
	}
	c.t.Fatalf("no option of kind %s in %v", kind, params)
	return nil
}

// updates are what the session updates of a kind say.
func (c *rpcClient) updates(kind string) []map[string]any {
	var out []map[string]any
	for _, v := range c.heard {
		if v["method"] == "session/update" && get(c.t, v, "params.update.sessionUpdate") == kind {
			out = append(out, get(c.t, v, "params.update").(map[string]any))
		}
	}
	return out
}

// text joins the chunks of a kind.
func (c *rpcClient) text(kind string) string {
	var b strings.Builder
	for _, u := range c.updates(kind) {
		b.WriteString(get(c.t, u, "content.text").(string))
	}
	return b.String()
}

func (c *rpcClient) forget() { c.heard = nil }

func TestACPAsks(t *testing.T) {
	for agent := range acpTalkers() {
		t.Run(agent, func(t *testing.T) {
			l := newLab(t).script("edit=made.txt:one;run=echo hi && exit 3;edit=not.txt;run=touch not;edit=also.txt")
			c := l.acp(agent)
			id := c.tell(c.session(l.dir), "go")
			for _, kind := range []string{"allow_once", "allow_once", "reject_once", "reject_once"} {
				if exists(filepath.Join(l.dir, "not.txt")) || exists(filepath.Join(l.dir, "not")) {
					t.Error("a tool runs before it is allowed")
				}
				params := c.choose(kind)
				if get(t, params, "toolCall.status") != "pending" || get(t, params, "toolCall.title") == "" {
					t.Errorf("%v", params)
				}
			}
			request, _ := c.asked("session/request_permission")
			c.answer(request, object{"outcome": object{"outcome": "cancelled"}})
			if got := get(t, c.told(id), "result.stopReason"); got != "end_turn" {
				t.Errorf("%v", got)
			}
			if content(t, filepath.Join(l.dir, "made.txt")) != "one\n" || exists(filepath.Join(l.dir, "also.txt")) {
				t.Error("the answers are not heeded")
			}
			ended := []string{}
			for _, u := range c.updates("tool_call_update") {
				if s := fmt.Sprint(u["status"]); s == "completed" || s == "failed" {
					ended = append(ended, s)
				}
			}
			want := []string{"completed", "completed"} // Gemini says nothing of what is rejected
			if agent != Gemini {
				want = append(want, "failed", "failed", "failed")
			}
			if !slices.Equal(ended, want) {
				t.Errorf("ended %v", ended)
			}
			if _, status := c.close(); status != 0 {
				t.Errorf("status %d", status)
			}
		})
	}
}

// What is allowed for the session is not asked again.
func TestACPRemembers(t *testing.T) {
	for agent := range acpTalkers() {
		l := newLab(t).script("run=touch a;run=touch b")
		c := l.acp(agent)
		session := c.session(l.dir)
		id := c.tell(session, "go")
		c.choose("allow_always")
		c.told(id)
		c.told(c.tell(session, "again"))
		if !exists(filepath.Join(l.dir, "b")) {
			t.Errorf("%s: not made", agent)
		}
		c.close()
	}
}

func TestACPModes(t *testing.T) {
	tests := []struct {
		agent, mode string
		flags       []string
		asked       int
		edited, ran bool
	}{
		{Gemini, "", nil, 2, true, true},
		{Gemini, "autoEdit", nil, 1, true, true},
		{Gemini, "", []string{"--approval-mode", "auto_edit"}, 1, true, true},
		{Gemini, "yolo", nil, 0, true, true},
		{Gemini, "plan", nil, 0, false, false},
		{Gemini, "", []string{"--policy", "deny.toml"}, 1, true, false},
		{Gemini, "", []string{"--policy", "allow.toml"}, 1, true, true},
		{"opencode", "", nil, 2, true, true},
		{"opencode", "plan", nil, 0, false, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.agent, tt.mode, tt.flags), func(t *testing.T) {
			l := newLab(t).script("edit=edited;run=touch ran")
			write(t, filepath.Join(l.dir, "deny.toml"), "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"deny\"\n")
			write(t, filepath.Join(l.dir, "allow.toml"), "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch\"\ndecision = \"allow\"\n")
			c := l.acp(tt.agent, tt.flags...)
			session := c.session(l.dir)
			if tt.mode != "" && tt.agent == Gemini {
				c.request("session/set_mode", object{"sessionId": session, "modeId": tt.mode})
				if got := c.text("agent_message_chunk"); got != "[MODE_UPDATE] "+tt.mode {
					t.Errorf("%q", got)
				}
			} else if tt.mode != "" {
				c.request("session/set_config_option", object{"sessionId": session, "configId": "mode", "value": tt.mode})
			}
			id := c.tell(session, "go")
			for range tt.asked {
				c.choose("allow_once")
			}
			c.told(id)
			edited, ran := exists(filepath.Join(l.dir, "edited")), exists(filepath.Join(l.dir, "ran"))
			if edited != tt.edited || ran != tt.ran {
				t.Errorf("edited %v, ran %v", edited, ran)
			}
			c.close()
		})
	}
}

func TestACPSessions(t *testing.T) {
	for agent := range acpTalkers() {
		t.Run(agent, func(t *testing.T) {
			l := newLab(t).script("tokens=100:20")
			c := l.acp(agent)
			id := c.session(l.dir)
			c.told(c.tell(id, "first"))
			c.told(c.tell(id, "second"))
			if got := c.text("agent_message_chunk"); got != "Simulated "+agent+" answer to: firstSimulated "+agent+" answer to: second (turn 2)" {
				t.Errorf("%q", got)
			}
			c.close()

			c = l.acp(agent)
			load := c.send("session/load", object{"sessionId": id, "cwd": l.dir, "mcpServers": []any{}})
			prompt := c.tell(id, "third")
			c.told(load)
			before := len(c.updates("user_message_chunk"))
			if agent == Gemini && before != 1 || agent != Gemini && before != 2 {
				t.Errorf("%d messages are repeated before the answer", before)
			}
			c.await("commands", func(v map[string]any) bool { return strings.Contains(fmt.Sprint(v), "available_commands_update") })
			if got := c.text("agent_message_chunk"); !strings.HasSuffix(got, "(turn 2)") {
				t.Errorf("repeated %q", got)
			}
			c.forget()
			c.told(prompt)
			if got := c.text("agent_message_chunk"); got != "Simulated "+agent+" answer to: third (turn 3)" {
				t.Errorf("%q", got)
			}
			c.close()
		})
	}
}

func TestACPGeneralSessions(t *testing.T) {
	l := newLab(t).script("tokens=1000:200")
	c := l.acp("opencode")
	id := c.session(l.dir)
	answer := c.told(c.tell(id, "first"))
	if get(t, answer, "result.usage.inputTokens") != 1000.0 || get(t, c.updates("usage_update")[0], "cost.amount") != 0.0008 {
		t.Errorf("%v", answer)
	}
	forked := get(t, c.request("session/fork", object{"sessionId": id, "cwd": l.dir}), "result.sessionId").(string)
	c.told(c.tell(forked, "other"))
	if list := get(t, c.request("session/list", object{}), "result.sessions").([]any); len(list) != 2 || forked == id {
		t.Errorf("%v", list)
	}
	c.request("session/close", object{"sessionId": id})
	if got := get(t, c.told(c.tell(id, "closed")), "error.code"); got != float64(rpcNotFound) {
		t.Errorf("%v", got)
	}
	c.forget()
	if got := c.request("session/resume", object{"sessionId": id, "cwd": l.dir}); got["error"] != nil || len(c.updates("user_message_chunk")) != 0 {
		t.Errorf("%v", got)
	}
	if got := c.request("session/set_config_option", object{"sessionId": id, "configId": "model", "value": "other/model"}); get(t, got, "result.configOptions.0.currentValue") != "other/model" {
		t.Errorf("%v", got)
	}
	c.close()
}

func TestACPRefuses(t *testing.T) {
	l := newLab(t)
	tests := []struct {
		agent, method string
		params        object
		code          float64
	}{
		{Gemini, "session/list", object{}, rpcNoMethod},
		{Gemini, "session/resume", object{"sessionId": idA, "cwd": l.dir}, rpcNoMethod},
		{Gemini, "session/load", object{"sessionId": idA, "cwd": l.dir}, rpcInternal},
		{Gemini, "zork", object{}, rpcNoMethod},
		{"opencode", "session/load", object{"sessionId": idA, "cwd": l.dir}, rpcNotFound},
		{"opencode", "session/new", object{"cwd": "relative"}, rpcInvalidParams},
		{"opencode", "session/set_config_option", object{"sessionId": idA}, rpcNotFound},
	}
	for _, tt := range tests {
		c := l.acp(tt.agent)
		if got := get(t, c.request(tt.method, tt.params), "error.code"); got != tt.code {
			t.Errorf("%s, %s: %v", tt.agent, tt.method, got)
		}
		c.close()
	}
}

func TestACPCancels(t *testing.T) {
	for agent := range acpTalkers() {
		t.Run(agent, func(t *testing.T) {
			l := newLab(t)
			fifo := filepath.Join(l.dir, "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			c := l.script("run=read line < fifo").acp(agent)
			session := c.session(l.dir)
			id := c.tell(session, "go")
			c.choose("allow_once")
			end, err := os.OpenFile(fifo, os.O_WRONLY, 0) // opens once the command reads
			if err != nil {
				t.Fatal(err)
			}
			defer end.Close()
			c.say(object{"jsonrpc": "2.0", "method": "session/cancel", "params": object{"sessionId": session}})
			if got := get(t, c.told(id), "result.stopReason"); got != "cancelled" {
				t.Errorf("%v", got)
			}
			if _, err := end.WriteString("x\n"); err == nil {
				t.Error("the command is alive")
			}
			id = c.tell(session, "again") // now while it is asked
			request, _ := c.asked("session/request_permission")
			c.say(object{"jsonrpc": "2.0", "method": "session/cancel", "params": object{"sessionId": session}})
			c.answer(request, object{"outcome": object{"outcome": "cancelled"}})
			if got := get(t, c.told(id), "result.stopReason"); got != "cancelled" {
				t.Errorf("%v", got)
			}
			id = c.tell(session, "and again")
			c.choose("reject_once")
			if got := get(t, c.told(id), "result.stopReason"); got != "end_turn" {
				t.Errorf("the session goes on: %v", got)
			}
			if _, status := c.close(); status != 0 {
				t.Errorf("status %d", status)
			}
		})
	}
}

func TestACPFailsByCause(t *testing.T) {
	tests := []struct{ agent, cause, want string }{
		{Gemini, "auth", "code:401"},
		{Gemini, "billing", "code:403"},
		{Gemini, "rate_limit", "code:429"},
		{Gemini, "usage_limit", "daily quota"},
		{Gemini, "overloaded", "code:503"},
		{Gemini, "server", "code:500"},
		{Gemini, "network", "fetch failed"},
		{Gemini, "model_not_found", "code:404"},
		{Gemini, "max_turns", "stopReason:max_turn_requests"},
		{Gemini, "max_output", "stopReason:end_turn"},
		{Gemini, "refusal", "stopReason:end_turn"},
		{"opencode", "auth", "Authentication required"},
		{"opencode", "rate_limit", "rate limit"},
		{"opencode", "server", "code:500"},
		{"opencode", "max_output", "stopReason:max_tokens"},
		{"opencode", "refusal", "stopReason:refusal"},
		{"opencode", "max_turns", "stopReason:max_turn_requests"},
	}
	for _, tt := range tests {
		l := newLab(t).script("fail=" + tt.cause)
		c := l.acp(tt.agent)
		if got := fmt.Sprint(c.told(c.tell(c.session(l.dir), "go"))); !strings.Contains(got, tt.want) {
			t.Errorf("%s, %s: %s", tt.agent, tt.cause, got)
		}
		c.close()
	}
}

func TestACPOddities(t *testing.T) {
	start := func(t *testing.T, script string) (*rpcClient, int) {
		t.Helper()
		l := newLab(t).script(script)
		c := l.acp("opencode")
		return c, c.tell(c.session(l.dir), "go")
	}
	t.Run("question", func(t *testing.T) {
		c, id := start(t, "question")
		request, _ := c.asked("elicitation/create")
		c.answer(request, object{"action": "accept", "content": object{"choice": "B"}})
		if c.told(id); !strings.Contains(c.text("agent_message_chunk"), "was answered: B") {
			t.Errorf("%v", c.heard)
		}
	})
	t.Run("unknown-request", func(t *testing.T) {
		c, id := start(t, "unknown-request")
		request, _ := c.asked("simulated/request")
		c.say(object{"jsonrpc": "2.0", "id": request, "error": object{"code": rpcNoMethod, "message": "no such method"}})
		if c.told(id); !strings.Contains(c.text("agent_message_chunk"), "was refused: no such method") {
			t.Errorf("%v", c.heard)
		}
	})
	t.Run("id0 and duplicate-id", func(t *testing.T) {
		c, id := start(t, "id0;duplicate-id;run=touch a;run=touch b")
		for _, want := range []string{"0", "1"} {
			for range 2 {
				if request, _ := c.asked("session/request_permission"); request != want {
					t.Errorf("id %v", request)
				}
			}
			c.answer(want, object{"outcome": object{"outcome": "selected", "optionId": "reject"}})
		}
		c.told(id)
	})
	t.Run("withdraw", func(t *testing.T) {
		c, id := start(t, "withdraw;run=touch a")
		request, _ := c.asked("session/request_permission")
		if got := c.said("$/cancel_request")["requestId"]; got != request {
			t.Errorf("%v", got)
		}
		c.told(id)
	})
	t.Run("late-update", func(t *testing.T) {
		c, id := start(t, "late-update")
		c.told(id)
		c.forget()
		if c.close(); c.text("agent_message_chunk") != "This comes after the end of the turn." {
			t.Errorf("%v", c.heard)
		}
	})
}

// An agent that dies while it asks leaves its request open.
func TestDyingWhileAsking(t *testing.T) {
	l := newLab(t).script("die-asking;run=touch ran")
	inputs := map[string]string{
		Claude:     `{"type":"user","message":{"role":"user","content":"go"}}` + "\n",
		"opencode": `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"` + l.dir + `"}}` + "\n",
	}
	for agent, input := range inputs {
		args := talking()
		if agent != Claude {
			args = []string{"acp"}
		}
		cmd := l.command(agent, "", args...)
		cmd.Stdin = nil
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := &rpcClient{peer: &peer{t: t, out: bufio.NewReader(out)}}
		if _, err := in.Write([]byte(input)); err != nil {
			t.Fatal(err)
		}
		if agent != Claude {
			v := p.next()
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`+"\n", get(t, v, "result.sessionId")); err != nil {
				t.Fatal(err)
			}
		}
		var last map[string]any
		for v := p.next(); v != nil; v = p.next() {
			last = v
		}
		_ = cmd.Wait() // the status says it
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		asked := last["type"] == "control_request" || last["method"] == "session/request_permission"
		if !asked || status.Signal() != syscall.SIGSEGV {
			t.Errorf("%s: %v, last %v", agent, cmd.ProcessState, last)
		}
	}
}

// The agents that are known by name are one and the same.
func TestACPNames(t *testing.T) {
	for _, name := range known() {
		l := newLab(t)
		c := &rpcClient{peer: l.talk(name, "--acp"), version: "2.0"}
		c.told(c.tell(c.session(l.dir), "hello"))
		if got := c.text("agent_message_chunk"); got != "Simulated "+name+" answer to: hello" {
			t.Errorf("%q", got)
		}
		c.close()
		if o := l.run(name, "", "--version"); o.status != 0 || o.stdout == "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestProgram(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(l.dir, "prompt.txt")
	write(t, file, "from a file")
	tests := []struct {
		script, stdin string
		args          []string
		status        int
		stdout        string
		stderr        string
	}{
		{"", "hello", nil, 0, "Simulated exec answer to: hello\n", ""},
		{"", "", []string{"--message", "hello"}, 0, "Simulated exec answer to: hello\n", ""},
		{"", "", []string{file}, 0, "Simulated exec answer to: from a file\n", ""},
		{"", "", nil, 1, "", "no prompt"},
		{"edit=made.txt;text=done", "hello", nil, 0, "done\n", ""},
		{"fail=rate_limit", "hello", nil, 1, "", "rate limit"},
		{"exit=3", "hello", nil, 3, "I am working on it.\n", ""},
	}
	for _, tt := range tests {
		o := l.script(tt.script).run(Exec, tt.stdin, tt.args...)
		if o.status != tt.status || o.stdout != tt.stdout || !strings.Contains(o.stderr, tt.stderr) {
			t.Errorf("%s %v: %+v", tt.script, tt.args, o)
		}
	}
	if !exists(filepath.Join(l.dir, "made.txt")) {
		t.Error("its tools do nothing")
	}
}
