package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// An rpcClient is a client of an agent that speaks JSON-RPC.
type rpcClient struct {
	*peer
	version string
	sent    int
	methods map[string]string // of what was sent, by id
}

// request sends a request and returns the answer.
func (c *rpcClient) request(method string, params object) map[string]any {
	c.t.Helper()
	id := c.send(method, params)
	return c.await("answer to "+method, func(v map[string]any) bool { return v["id"] == float64(id) && v["method"] == nil })
}

// send sends a request and returns its id.
func (c *rpcClient) send(method string, params object) int {
	c.t.Helper()
	c.sent++
	if c.methods == nil {
		c.methods = map[string]string{}
	}
	c.methods[fmt.Sprint(c.sent)] = method
	line := object{"id": c.sent, "method": method, "params": params}
	if c.version != "" {
		line["jsonrpc"] = c.version
	}
	c.say(line)
	return c.sent
}

// answer answers a request of the agent.
func (c *rpcClient) answer(id any, result object) {
	c.t.Helper()
	line := object{"id": id, "result": result}
	if c.version != "" {
		line["jsonrpc"] = c.version
	}
	c.say(line)
}

// asked awaits a request of the agent.
func (c *rpcClient) asked(method string) (id any, params map[string]any) {
	c.t.Helper()
	v := c.await(method, func(v map[string]any) bool {
		return v["id"] != nil && v["method"] != nil && v["method"] != "fs/write_text_file"
	})
	if v["method"] != method {
		c.t.Fatalf("asks %v, want %s", v, method)
	}
	return v["id"], v["params"].(map[string]any)
}

// said awaits a notification.
func (c *rpcClient) said(method string) map[string]any {
	c.t.Helper()
	v := c.await(method, func(v map[string]any) bool { return v["method"] == method && v["id"] == nil })
	return v["params"].(map[string]any)
}

// serving starts an app-server and initializes it.
func (l *lab) serving(args ...string) *rpcClient {
	l.t.Helper()
	c := &rpcClient{peer: l.talk(Codex, append([]string{"app-server"}, args...)...)}
	c.request("initialize", object{"clientInfo": object{"name": "test", "version": "1"}, "capabilities": object{"experimentalApi": true}})
	c.say(object{"method": "initialized"})
	return c
}

// thread starts a thread and returns its id.
func (c *rpcClient) thread(sandbox, approval string) string {
	c.t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		c.t.Fatal(err)
	}
	v := c.request("thread/start", object{"cwd": dir, "sandbox": sandbox, "approvalPolicy": approval})
	return get(c.t, v, "result.thread.id").(string)
}

// prompt starts a turn and returns its id.
func (c *rpcClient) prompt(thread, text string) string {
	c.t.Helper()
	v := c.request("turn/start", object{"threadId": thread, "input": []object{{"type": "text", "text": text}}})
	return get(c.t, v, "result.turn.id").(string)
}

// turned awaits the end of a turn.
func (c *rpcClient) turned() map[string]any {
	c.t.Helper()
	return c.said("turn/completed")["turn"].(map[string]any)
}

// items are the completed items of a type.
func (c *rpcClient) items(typ string) []map[string]any {
	var out []map[string]any
	for _, v := range c.heard {
		if v["method"] == "item/completed" {
			if item := get(c.t, v, "params.item").(map[string]any); item["type"] == typ {
				out = append(out, item)
			}
		}
	}
	return out
}

func TestCodexServesThreads(t *testing.T) {
	l := newLab(t).script("tokens=100:10")
	c := l.serving()
	id := c.thread("read-only", "never")
	for i := range 2 {
		turn := c.prompt(id, "question")
		done := c.turned()
		if done["status"] != "completed" || done["id"] != turn || done["error"] != nil {
			t.Errorf("turn %d: %v", i, done)
		}
	}
	if got := get(t, c.items("agentMessage")[1], "text"); got != "Simulated codex answer to: question (turn 2)" {
		t.Errorf("%v", got)
	}
	totals := []any{}
	for _, v := range c.heard {
		if v["method"] == "thread/tokenUsage/updated" {
			totals = append(totals, get(t, v, "params.tokenUsage.total.inputTokens"), get(t, v, "params.tokenUsage.last.inputTokens"))
		}
	}
	if fmt.Sprint(totals) != "[100 100 200 100]" {
		t.Errorf("usage %v", totals)
	}
	forked := get(t, c.request("thread/fork", object{"threadId": id}), "result.thread").(map[string]any)
	if forked["forkedFromId"] != id || forked["id"] == id {
		t.Errorf("fork %v", forked)
	}
	if list := get(t, c.request("thread/list", object{}), "result.data").([]any); len(list) != 1 {
		t.Errorf("%d threads: only those with turns are kept", len(list))
	}
	if turns := get(t, c.request("thread/read", object{"threadId": id, "includeTurns": true}), "result.thread.turns").([]any); len(turns) != 2 {
		t.Errorf("%d turns", len(turns))
	}
	if o := l.run(Codex, "p", codexArgv("resume", id)...); !strings.Contains(o.stderr, "already has an active writer") {
		t.Errorf("another process writes: %+v", o)
	}
	if rest, status := c.close(); status != 0 || len(rest) != 0 {
		t.Errorf("status %d, %v", status, rest)
	}
	if o := l.run(Codex, "p", codexArgv("resume", id)...); sessionOf(t, o) != id || get(t, o.last(t), "usage.input_tokens") != 300.0 {
		t.Errorf("exec does not go on in the thread: %+v", o)
	}
	c = l.serving()
	if got := get(t, c.request("thread/resume", object{"threadId": id}), "result.thread.id"); got != id {
		t.Errorf("resumed %v", got)
	}
	c.request("thread/archive", object{"threadId": id})
	if list := get(t, c.request("thread/list", object{}), "result.data").([]any); len(list) != 0 {
		t.Errorf("an archived thread is listed: %v", list)
	}
	c.close()
}

func TestCodexRefusesRequests(t *testing.T) {
	l := newLab(t)
	c := &rpcClient{peer: l.talk(Codex, "app-server")}
	message := func(v map[string]any) string { return fmt.Sprint(get(t, v, "error.message")) }
	if got := message(c.request("thread/start", object{})); got != "Not initialized" {
		t.Error(got)
	}
	c.say("this is no JSON")
	c.request("initialize", object{"clientInfo": object{"name": "test", "version": "1"}})
	first := c.thread("read-only", "never")
	other := l.serving()
	kept := other.thread("read-only", "never")
	other.prompt(kept, "p")
	other.turned()
	tests := []struct {
		method string
		params object
		want   string
	}{
		{"initialize", object{"clientInfo": object{"name": "test", "version": "1"}}, "Already initialized"},
		{"sendUserMessage", object{}, "unknown variant `sendUserMessage`"},
		{"thread/start", object{"sandbox": "none"}, "unknown variant `none`"},
		{"thread/start", object{"approvalPolicy": "on-failure"}, "unknown variant `on-failure`"},
		{"thread/start", object{"approvalPolicy": object{"granular": object{}}}, "requires experimentalApi"},
		{"thread/start", object{"cwd": "/no/such"}, "/no/such"},
		{"thread/resume", object{"threadId": idB}, "no rollout found for thread id " + idB},
		{"thread/resume", object{"threadId": "x"}, "invalid thread id"},
		{"thread/resume", object{"threadId": kept}, "already has an active writer"},
		{"thread/backgroundTerminals/clean", object{"threadId": first}, "requires experimentalApi"},
		{"turn/start", object{"threadId": idB}, "thread not found"},
		{"turn/start", object{"threadId": first, "input": []object{{"type": "text", "text": strings.Repeat("x", 1<<20+1)}}}, "Input exceeds the maximum length"},
		{"turn/interrupt", object{"threadId": first, "turnId": "x"}, "no active turn to interrupt"},
		{"turn/steer", object{"threadId": first, "expectedTurnId": "x"}, "no active turn to steer"},
	}
	for _, tt := range tests {
		if got := message(c.request(tt.method, tt.params)); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.method, got, tt.want)
		}
	}
	other.close()
	c.close()
	if o := l.run(Codex, "", "app-server", "-m", "x"); o.status != 2 {
		t.Errorf("%+v", o)
	}
}

// What the client is asked, and what its answers do.
func TestCodexApprovals(t *testing.T) {
	tests := []struct {
		name, script, sandbox, policy string
		answer                        any // nil is not to be asked
		made                          bool
		item, turn                    string
	}{
		{"untrusted", "run=touch ran", "workspace-write", "untrusted", object{"decision": "accept"}, true, "completed", "completed"},
		{"trusted", "run=ls", "workspace-write", "untrusted", nil, false, "completed", "completed"},
		{"declined", "run=touch ran", "workspace-write", "untrusted", object{"decision": "decline"}, false, "declined", "completed"},
		{"cancelled", "run=touch ran", "workspace-write", "untrusted", object{"decision": "cancel"}, false, "declined", "interrupted"},
		{"a wrong value", "run=touch ran", "workspace-write", "untrusted", object{"decision": "approved"}, false, "failed", "completed"},
		{"no decision", "run=touch ran", "workspace-write", "untrusted", object{}, false, "failed", "completed"},
		{"an amendment", "run=touch ran", "workspace-write", "untrusted", object{"decision": object{"acceptWithExecpolicyAmendment": object{"execpolicy_amendment": []string{"touch"}}}}, true, "completed", "completed"},
		{"within the sandbox", "run=touch ran", "workspace-write", "on-request", nil, true, "completed", "completed"},
		{"a dangerous command", "run=rm -rf ran; touch ran", "workspace-write", "on-request", object{"decision": "accept"}, true, "completed", "completed"},
		{"never", "run=touch ran", "read-only", "never", nil, false, "failed", "completed"},
		{"asked all the same", "run=touch ran;asks", "danger-full-access", "never", object{"decision": "decline"}, false, "declined", "completed"},
		{"a patch", "edit=ran", "workspace-write", "untrusted", object{"decision": "accept"}, true, "completed", "completed"},
		{"a patch within the sandbox", "edit=ran", "workspace-write", "on-request", nil, true, "completed", "completed"},
		{"a patch that the sandbox forbids", "edit=ran", "read-only", "on-request", object{"decision": "accept"}, true, "completed", "completed"},
		{"a declined patch", "edit=ran", "read-only", "on-request", object{"decision": "decline"}, false, "declined", "completed"},
		{"a cancelled patch", "edit=ran", "read-only", "on-request", object{"decision": "cancel"}, false, "", "interrupted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t).script(tt.script)
			c := l.serving()
			id := c.thread(tt.sandbox, tt.policy)
			c.prompt(id, "go")
			method, typ := "item/commandExecution/requestApproval", "commandExecution"
			if strings.HasPrefix(tt.script, "edit") {
				method, typ = "item/fileChange/requestApproval", "fileChange"
			}
			if tt.answer != nil {
				request, params := c.asked(method)
				if request != 0.0 || params["threadId"] != id || exists(filepath.Join(l.dir, "ran")) {
					t.Errorf("id %v, %v", request, params)
				}
				c.answer(request, tt.answer.(object))
				if got := c.said("serverRequest/resolved")["requestId"]; got != request {
					t.Errorf("resolved %v", got)
				}
			}
			if got := c.turned()["status"]; got != tt.turn {
				t.Errorf("turn %v", got)
			}
			asked := slices.ContainsFunc(c.heard, func(v map[string]any) bool { return v["id"] != nil && v["method"] != nil })
			if asked != (tt.answer != nil) {
				t.Errorf("asked is %v", asked)
			}
			status := ""
			if items := c.items(typ); len(items) > 0 {
				status = items[0]["status"].(string)
			}
			if made := exists(filepath.Join(l.dir, "ran")); made != tt.made || status != tt.item {
				t.Errorf("made is %v, item %q", made, status)
			}
			if _, status := c.close(); status != 0 {
				t.Errorf("status %d", status)
			}
		})
	}
}

// A profile that denies a path is not left, whatever the client allows.
func TestCodexPermissionProfiles(t *testing.T) {
	for _, tt := range []struct {
		profile     string
		edit        string
		edited, ran bool
	}{
		{`{":root"="read",":workspace_roots"={"."="write"},"/proc/x"="deny"}`, "a.txt", true, true},
		{`{":root"="read",":workspace_roots"={"."="write"},"/proc/x"="deny"}`, "/nowhere/a.txt", false, true},
		{`{":root"="read","/proc/x"="deny"}`, "a.txt", false, false},
		{`{":root"="read"}`, "a.txt", true, true},
	} {
		l := newLab(t).script("edit=" + tt.edit + ";run=touch ran")
		c := l.serving("-c", `default_permissions="p"`, "-c", "permissions.p.filesystem="+tt.profile)
		v := c.request("thread/start", object{"cwd": l.dir, "approvalPolicy": "untrusted", "permissions": "p"})
		c.prompt(get(t, v, "result.thread.id").(string), "go")
		for range 2 {
			v := c.await("request", func(v map[string]any) bool { return v["id"] != nil && v["method"] != nil })
			c.answer(v["id"], object{"decision": "accept"})
		}
		c.turned()
		if edited, ran := exists(filepath.Join(l.dir, "a.txt")), exists(filepath.Join(l.dir, "ran")); edited != tt.edited || ran != tt.ran {
			t.Errorf("%s: edited %v, ran %v", tt.profile, edited, ran)
		}
		if got := get(t, c.request("thread/start", object{"permissions": "none"}), "error.message").(string); !strings.Contains(got, "`none`") {
			t.Errorf("%v", got)
		}
		c.close()
	}
}

func TestCodexRemembersForTheSession(t *testing.T) {
	l := newLab(t).script("run=touch ran;run=touch ran;run=touch other")
	c := l.serving()
	c.prompt(c.thread("workspace-write", "untrusted"), "go")
	for i, decision := range []string{"acceptForSession", "decline"} {
		id, _ := c.asked("item/commandExecution/requestApproval")
		if id != float64(i) {
			t.Errorf("id %v", id)
		}
		c.answer(id, object{"decision": decision})
	}
	c.turned()
	if n := len(c.items("commandExecution")); n != 3 || exists(filepath.Join(l.dir, "other")) {
		t.Errorf("%d items", n)
	}
	c.close()
}

func TestCodexInterrupts(t *testing.T) {
	start := func(t *testing.T, script string) (l *lab, c *rpcClient, end *os.File, stop func()) {
		t.Helper()
		l = newLab(t).script(script)
		fifo := filepath.Join(l.dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		c = l.serving()
		thread := c.thread("workspace-write", "never")
		turn := c.prompt(thread, "go")
		end, err := os.OpenFile(fifo, os.O_WRONLY, 0) // opens once the command reads
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end.Close() })
		return l, c, end, func() { c.request("turn/interrupt", object{"threadId": thread, "turnId": turn}) }
	}
	alive := func(end *os.File) bool {
		_, err := end.WriteString("x\n")
		return err == nil
	}
	t.Run("by the client", func(t *testing.T) {
		_, c, end, stop := start(t, "run=while read line; do :; done < fifo")
		stop()
		if got := c.turned()["status"]; got != "interrupted" {
			t.Errorf("%v", got)
		}
		if !alive(end) {
			t.Error("the command ends with the turn")
		}
		c.close()
		if alive(end) {
			t.Error("the command outlives the process")
		}
	})
	t.Run("and cleaned", func(t *testing.T) {
		_, c, end, stop := start(t, "run=while read line; do :; done < fifo")
		stop()
		c.turned()
		c.request("thread/backgroundTerminals/clean", object{})
		if alive(end) {
			t.Error("the command runs on")
		}
		c.close()
	})
	t.Run("by the end of the input", func(t *testing.T) {
		_, c, end, _ := start(t, "run=while read line; do :; done < fifo")
		if _, status := c.close(); status != 0 || alive(end) {
			t.Errorf("status %d", status)
		}
	})
	t.Run("while a request is pending", func(t *testing.T) {
		c := newLab(t).script("run=touch ran").serving()
		thread := c.thread("workspace-write", "untrusted")
		turn := c.prompt(thread, "go")
		id, _ := c.asked("item/commandExecution/requestApproval")
		c.request("turn/interrupt", object{"threadId": thread, "turnId": turn})
		if got := c.turned()["status"]; got != "interrupted" {
			t.Errorf("%v", got)
		}
		if got := c.said("serverRequest/resolved")["requestId"]; got != id {
			t.Errorf("%v", got)
		}
		c.answer(id, object{"decision": "accept"}) // to nothing
		c.prompt(thread, "again")
		id, _ = c.asked("item/commandExecution/requestApproval")
		c.answer(id, object{"decision": "decline"})
		if got := c.turned()["status"]; got != "completed" {
			t.Errorf("the next turn: %v", got)
		}
		c.close()
	})
}

func TestCodexEndsBySignals(t *testing.T) {
	for signal, want := range map[syscall.Signal]syscall.Signal{syscall.SIGTERM: 0, syscall.SIGINT: syscall.SIGINT} {
		l := newLab(t)
		cmd := l.command(Codex, "", "app-server")
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
		if _, err := in.Write([]byte(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}` + "\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 4096)); err != nil { // it is ready
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the status says it
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if want == 0 && status.ExitStatus() != 0 || want != 0 && status.Signal() != want {
			t.Errorf("%v: %v", signal, cmd.ProcessState)
		}
	}
}

func TestCodexSteers(t *testing.T) {
	l := newLab(t).script("run=touch ran")
	c := l.serving()
	thread := c.thread("workspace-write", "untrusted")
	turn := c.prompt(thread, "go")
	id, _ := c.asked("item/commandExecution/requestApproval")
	if got := get(t, c.request("turn/steer", object{"threadId": thread, "expectedTurnId": turn, "input": []object{{"type": "text", "text": "left"}}}), "result.turnId"); got != turn {
		t.Errorf("steered %v", got)
	}
	if got := c.prompt(thread, "right"); got != turn {
		t.Errorf("a second turn does not steer the first: %v", got)
	}
	c.answer(id, object{"decision": "accept"})
	c.turned()
	if got := len(c.items("userMessage")); got != 3 {
		t.Errorf("%d messages of the user", got)
	}
	c.close()
}

func TestCodexFailsByCause(t *testing.T) {
	for cause, want := range map[string]string{
		"auth": `{"httpConnectionFailed":{"httpStatusCode":401}}`, "billing": `"usageLimitExceeded"`,
		"rate_limit": `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "usage_limit": `"usageLimitExceeded"`,
		"overloaded": `"serverOverloaded"`, "server": `"internalServerError"`, "context": `"contextWindowExceeded"`,
		"model_not_found": `"modelNotFound"`, "max_output": `"other"`, "invalid_request": `"other"`,
	} {
		c := newLab(t).script("fail=" + cause).serving()
		c.prompt(c.thread("read-only", "never"), "go")
		done := c.turned()
		got, err := json.Marshal(get(t, done, "error.codexErrorInfo"))
		if err != nil || done["status"] != "failed" || string(got) != want {
			t.Errorf("%s: %s, %v", cause, got, done)
		}
		if _, status := c.close(); status != 0 {
			t.Errorf("%s: status %d", cause, status)
		}
	}
}

func TestCodexAnswersBySchema(t *testing.T) {
	c := newLab(t).serving()
	thread := c.thread("read-only", "never")
	c.request("turn/start", object{"threadId": thread, "input": []object{{"type": "text", "text": "go"}}, "outputSchema": object{
		"type": "object", "properties": object{"ok": object{"type": "boolean"}}, "required": []string{"ok"},
	}})
	c.turned()
	c.prompt(thread, "freely") // the schema is of one turn only
	c.turned()
	got := c.items("agentMessage")
	if got[0]["text"] != `{"ok":true}` || got[1]["text"] != "Simulated codex answer to: freely (turn 2)" {
		t.Errorf("%v", got)
	}
	c.close()
}

func TestCodexOddities(t *testing.T) {
	start := func(t *testing.T, script string) *rpcClient {
		t.Helper()
		c := newLab(t).script(script).serving()
		c.prompt(c.thread("workspace-write", "untrusted"), "go")
		return c
	}
	t.Run("question", func(t *testing.T) {
		c := start(t, "question")
		id, _ := c.asked("item/tool/requestUserInput")
		c.answer(id, object{"answers": object{"choice": object{"answers": []string{"B"}}}})
		c.turned()
		if got := c.items("agentMessage")[0]["text"]; got != "The question was answered: B" {
			t.Errorf("%v", got)
		}
	})
	t.Run("unknown-request", func(t *testing.T) {
		c := start(t, "unknown-request")
		id, _ := c.asked("simulated/request")
		c.say(object{"id": id, "error": object{"code": rpcNoMethod, "message": "no such method"}})
		c.turned()
		if got := c.items("agentMessage")[0]["text"]; got != "The unknown request was refused: no such method" {
			t.Errorf("%v", got)
		}
	})
	t.Run("id0 and duplicate-id", func(t *testing.T) {
		c := start(t, "id0;duplicate-id;run=touch ran;run=touch ran")
		for _, want := range []string{"0", "1"} {
			for range 2 {
				if id, _ := c.asked("item/commandExecution/requestApproval"); id != want {
					t.Errorf("id %v", id)
				}
			}
			c.answer(want, object{"decision": "decline"})
		}
		if got := c.turned()["status"]; got != "completed" {
			t.Errorf("%v", got)
		}
	})
	t.Run("withdraw", func(t *testing.T) {
		c := start(t, "withdraw;run=touch ran")
		id, _ := c.asked("item/commandExecution/requestApproval")
		if got := c.said("serverRequest/resolved")["requestId"]; got != id {
			t.Errorf("%v", got)
		}
		if got := c.turned()["status"]; got != "completed" || c.items("commandExecution")[0]["status"] != "failed" {
			t.Errorf("%v", got)
		}
	})
	t.Run("late-update", func(t *testing.T) {
		c := start(t, "late-update")
		c.turned()
		if rest, _ := c.close(); !strings.Contains(fmt.Sprint(rest), "after the end of the turn") {
			t.Errorf("%v", rest)
		}
	})
}
