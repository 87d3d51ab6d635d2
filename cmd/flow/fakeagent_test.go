package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A fake is an agent that knows the lines of one protocol by heart, and says them in
// whatever order a fault wants: fakeagent PROTOCOL FAULT [ARGUMENTS OF THE REAL ONE]
//
// Where `flow simulate` behaves like the real CLIs, a fake does what none of them does.
type fake struct {
	voice
	in     *bufio.Reader
	prompt string // the id of the request that had the prompt, where there are ids
}

// A voice is what one protocol has for the parts of a turn.
type voice struct {
	hears func(f *fake, line string) (prompted bool) // takes one line; nil: it is told nothing but the prompt
	begin []string                                   // the session and its turn have begun
	text  string                                     // says TEXT
	ask   string                                     // asks for leave to run the command TEXT, by the id TEXT
	well  string                                     // the end of a turn that succeeded; ID is the prompt's
	badly string                                     // that of one that failed
}

const fakeSession = "0d9a1f5c-7a53-4b8e-9f2b-1c2d3e4f5a6b"

// voices are the protocols, by name.
func voices() map[string]voice {
	claude := voice{
		begin: []string{`{"type":"system","subtype":"init","session_id":"S","claude_code_version":"2.1.329","model":"m","tools":[]}`},
		text:  `{"type":"assistant","session_id":"S","message":{"id":"m1","model":"m","content":[{"type":"text","text":"TEXT"}]}}`,
		ask:   `{"type":"control_request","request_id":"rTEXT","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"echo TEXT"},"tool_use_id":"cTEXT"}}`,
		well:  `{"type":"result","subtype":"success","is_error":false,"session_id":"S","num_turns":1,"result":"done"}`,
		badly: `{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"S","num_turns":1,"errors":["it broke"]}`,
	}
	codex := voice{
		begin: []string{`{"type":"thread.started","thread_id":"S"}`, `{"type":"turn.started"}`},
		text:  `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"TEXT"}}`,
		well:  `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}`,
		badly: `{"type":"turn.failed","error":{"message":"it broke"}}`,
	}
	server := voice{
		hears: hearServer,
		begin: []string{`{"method":"turn/started","params":{"threadId":"S","turn":{"id":"t1"}}}`},
		text:  `{"method":"item/completed","params":{"threadId":"S","turnId":"t1","item":{"id":"i1","type":"agentMessage","text":"TEXT"}}}`,
		ask:   `{"id":"rTEXT","method":"item/commandExecution/requestApproval","params":{"threadId":"S","turnId":"t1","itemId":"cTEXT","command":"echo TEXT","cwd":"/"}}`,
		well:  `{"method":"turn/completed","params":{"threadId":"S","turn":{"id":"t1","status":"completed"}}}`,
		badly: `{"method":"turn/completed","params":{"threadId":"S","turn":{"id":"t1","status":"failed","error":{"message":"it broke"}}}}`,
	}
	gemini := voice{
		begin: []string{`{"type":"init","session_id":"S","model":"m"}`},
		text:  `{"type":"message","role":"assistant","content":"TEXT","delta":true}`,
		well:  `{"type":"result","status":"success","stats":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`,
		badly: `{"type":"result","status":"error","error":{"type":"unknown","message":"it broke"},"stats":{}}`,
	}
	acp := voice{
		hears: hearACP,
		text:  `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"TEXT"}}}}`,
		ask: `{"jsonrpc":"2.0","id":"rTEXT","method":"session/request_permission","params":{"sessionId":"S","toolCall":{"toolCallId":"cTEXT","kind":"execute","title":"echo TEXT","rawInput":{"command":"echo TEXT"}},` +
			`"options":[{"optionId":"y","kind":"allow_once","name":"yes"},{"optionId":"n","kind":"reject_once","name":"no"}]}}`,
		well:  `{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn"}}`,
		badly: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"it broke"}}`,
	}
	talking := claude
	talking.hears = hearClaude
	return map[string]voice{
		"claude/print": claude, "claude/stream-json": talking, "codex/exec": codex, "codex/app-server": server,
		"gemini/headless": gemini, "gemini/acp": acp, "acp": acp,
		"exec/jsonl": {
			begin: []string{`{"session":"S"}`}, text: `{"text":"TEXT"}`, well: `{"done":true}`, badly: `{"error":"it broke"}`,
		},
		"exec/text": {text: "TEXT"},
	}
}

// fakeAgent is the command fakeagent.
func fakeAgent() {
	v, known := voices()[os.Args[1]]
	do := faults()[os.Args[2]]
	if !known || do == nil {
		fmt.Fprintln(os.Stderr, "fakeagent: unknown", os.Args[1:3])
		os.Exit(2)
	}
	if slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.329")
		os.Exit(0)
	}
	os.Exit(do(&fake{voice: v, in: bufio.NewReaderSize(os.Stdin, 1<<20)}))
}

// listen takes in what is said until the prompt is there.
func (f *fake) listen() {
	if f.hears == nil {
		_, _ = io.Copy(io.Discard, f.in)
		return
	}
	for {
		line, err := f.in.ReadString('\n')
		if err != nil || f.hears(f, line) {
			return
		}
	}
}

// leave waits until nothing more is said, as agents do that are talked to.
func (f *fake) leave() int {
	_, _ = io.Copy(io.Discard, f.in)
	return 0
}

// say prints lines; S, ID and TEXT are what they stand for.
func (f *fake) say(lines ...string) {
	for _, line := range lines {
		if line != "" {
			f.print(line + "\n")
		}
	}
}

// print writes what need not be a line.
func (f *fake) print(s string) {
	_, _ = os.Stdout.WriteString(f.fill(s))
}

func (f *fake) fill(s string) string {
	return strings.NewReplacer(`"S"`, `"`+fakeSession+`"`, ":ID,", ":"+f.prompt+",").Replace(s)
}

// speak says a text, which must need no escaping.
func (f *fake) speak(text string) { f.say(strings.ReplaceAll(f.text, "TEXT", text)) }

// request asks for leave to run a command.
func (f *fake) request(id string) { f.say(strings.ReplaceAll(f.ask, "TEXT", id)) }

// work is the part of a turn before its end.
func (f *fake) work() {
	f.listen()
	f.say(f.begin...)
	f.speak("done")
}

// A call is what there is to know of a request, in all protocols.
type fakeCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Type   string          `json:"type"`
	Ask    string          `json:"request_id"`
}

func readCall(line string) (c fakeCall) {
	_ = json.Unmarshal([]byte(line), &c) // what cannot be read is not understood
	return c
}

func hearClaude(f *fake, line string) bool {
	c := readCall(line)
	if c.Type == "control_request" {
		f.say(`{"type":"control_response","response":{"subtype":"success","request_id":"` + c.Ask + `","response":{}}}`)
	}
	return c.Type == "user"
}

func hearServer(f *fake, line string) bool {
	c := readCall(line)
	result := `{}`
	switch c.Method {
	case "initialize":
		result = `{"userAgent":"codex/0.169.0 (fake)"}`
	case "thread/start", "thread/resume":
		result = `{"thread":{"id":"S"},"model":"m","activePermissionProfile":{"id":"flow-step"}}`
	case "turn/start":
		result = `{"turn":{"id":"t1"}}`
	}
	if len(c.ID) > 0 && c.Method != "" {
		f.say(`{"id":` + string(c.ID) + `,"result":` + result + `}`)
	}
	return c.Method == "turn/start"
}

func hearACP(f *fake, line string) bool {
	c := readCall(line)
	result := `{}`
	switch c.Method {
	case "initialize":
		result = `{"protocolVersion":1,"agentCapabilities":{}}`
	case "session/new":
		result = `{"sessionId":"S"}`
	case "session/prompt":
		f.prompt = string(c.ID)
		return true
	}
	if len(c.ID) > 0 && c.Method != "" {
		f.say(`{"jsonrpc":"2.0","id":` + string(c.ID) + `,"result":` + result + `}`)
	}
	return false
}

// answered waits until so many requests are answered. It is false when nothing more is said.
func (f *fake) answered(n int) bool {
	for n > 0 {
		line, err := f.in.ReadString('\n')
		if err != nil {
			return false
		}
		if c := readCall(line); c.Type == "control_response" || c.Type == "" && c.Method == "" {
			n--
		}
	}
	return true
}

// stay does not end by itself.
func stay() int {
	time.Sleep(time.Hour)
	return 0
}

// dieBy ends the process by a signal. The Go runtime reports a SIGSEGV as a panic, so a
// shell takes its place and dies of it.
func dieBy(signal string) int {
	_ = syscall.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c 0; kill -" + signal + " $$"}, os.Environ())
	return 1
}
