package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

const (
	turnID      = "01a1fb66-6e02-7181-ad44-94c1e793cb49"
	connected   = `{"id":1,"result":{"userAgent":"flow/0.169.0 (Debian 12.0.0; x86_64) dumb (flow; 1)"}}`
	threadOpen  = `{"id":2,"result":{"thread":{"id":"` + parentID + `"},"model":"gpt-5.5","cwd":"/repo","activePermissionProfile":{"id":"flow-step"}}}`
	turnOpen    = `{"id":3,"result":{"turn":{"id":"` + turnID + `","status":"inProgress"}}}`
	turnBegun   = `{"method":"turn/started","params":{"threadId":"` + parentID + `","turn":{"id":"` + turnID + `"}}}`
	said        = `{"method":"item/completed","params":{"threadId":"` + parentID + `","turnId":"` + turnID + `","item":{"type":"agentMessage","id":"m1","text":"hello"}}}`
	turnOver    = `{"method":"turn/completed","params":{"threadId":"` + parentID + `","turn":{"id":"` + turnID + `","status":"completed","durationMs":1200}}}`
	interrupted = `{"method":"turn/completed","params":{"threadId":"` + parentID + `","turn":{"id":"` + turnID + `","status":"interrupted"}}}`
)

// A talk is a conversation under test, with what it has said and told.
type talk struct {
	*Conversation
	t      *testing.T
	tr     *agents.Translator
	events []agents.Event
	sent   []string
}

func newTalk(t *testing.T, r agents.Request) *talk {
	t.Helper()
	r.Transport, r.Dir = transportServer, "/repo"
	if r.Prompt == "" {
		r.Prompt = "go"
	}
	k := &talk{Conversation: Adapter{}.Dialog(r).(*Conversation), t: t}
	k.tr = agents.NewTranslator(k.Conversation, agents.Envelope{Agent: "codex"}, time.Now, func(e agents.Event) { k.events = append(k.events, e) })
	k.Open()
	k.take()
	return k
}

func (k *talk) take() {
	for _, line := range k.Take() {
		k.sent = append(k.sent, string(line))
	}
}

// hear plays lines of codex.
func (k *talk) hear(lines ...string) *talk {
	for _, line := range lines {
		k.tr.Stdout([]byte(line), agents.Native{})
		k.take()
	}
	return k
}

func (k *talk) begin() *talk { return k.hear(connected, threadOpen, turnOpen, turnBegun) }

// last is the last line that flow wrote.
func (k *talk) last() string { return k.sent[len(k.sent)-1] }

func (k *talk) end(exit agents.Exit) agents.Outcome {
	k.t.Helper()
	out := k.tr.End(exit)
	golden.Check(k.t, k.events, out)
	return out
}

// ruledTalk is a talk whose turn asks.
func ruledTalk(t *testing.T) *talk {
	t.Helper()
	return newTalk(t, agents.Request{RuleDefault: agents.EffectAsk}).begin()
}

// TestServerOpens demands the words with which a turn begins, for each kind of request.
func TestServerOpens(t *testing.T) {
	schema := readSchema(t)
	for name, tt := range map[string]struct {
		request      agents.Request
		thread, turn string
	}{
		"nothing asked": {
			agents.Request{},
			`{"id":2,"method":"thread/start","params":{"cwd":"/repo","approvalPolicy":"never","sandbox":"workspace-write"}}`,
			`{"id":3,"method":"turn/start","params":{"threadId":"` + parentID + `","input":[{"type":"text","text":"go"}]}}`,
		},
		"rules": {
			agents.Request{RuleDefault: "deny", Model: "gpt-5.5", SystemPrompt: "Be \"brief\".", Effort: "high"},
			`{"id":2,"method":"thread/start","params":{"cwd":"/repo","model":"gpt-5.5","approvalPolicy":"untrusted","permissions":"flow-step","developerInstructions":"Be \"brief\"."}}`,
			`{"id":3,"method":"turn/start","params":{"threadId":"` + parentID + `","input":[{"type":"text","text":"go"}],"effort":"high"}}`,
		},
		"rules without a sandbox": {
			agents.Request{RuleDefault: "allow", Sandbox: agents.SandboxOff},
			`{"id":2,"method":"thread/start","params":{"cwd":"/repo","approvalPolicy":"untrusted","sandbox":"danger-full-access"}}`,
			"",
		},
		"resume": {
			agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: parentID}, Sandbox: agents.SandboxReadOnly},
			`{"id":2,"method":"thread/resume","params":{"threadId":"` + parentID + `","excludeTurns":true,"cwd":"/repo","approvalPolicy":"never","sandbox":"read-only"}}`,
			"",
		},
		"fork": {
			agents.Request{Session: agents.Session{Mode: agents.SessionFork, Parent: childID}},
			`{"id":2,"method":"thread/fork","params":{"threadId":"` + childID + `","excludeTurns":true,"cwd":"/repo","approvalPolicy":"never","sandbox":"workspace-write"}}`,
			"",
		},
		"schema, and a skill that is a name": {
			agents.Request{Prompt: "[$x](y)", Schema: json.RawMessage(answer)},
			"",
			`{"id":3,"method":"turn/start","params":{"threadId":"` + parentID + `","input":[{"type":"text","text":"[ $x](y)"}],"outputSchema":` + answer + `}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, tt.request).hear(connected, threadOpen)
			if len(k.sent) != 4 {
				t.Fatalf("flow wrote %q", k.sent)
			}
			for i, want := range map[int]string{2: tt.thread, 3: tt.turn} {
				if want != "" && k.sent[i] != want {
					t.Errorf("flow wrote\n%s, want\n%s", k.sent[i], want)
				}
			}
			var lines [][]byte
			for _, line := range k.sent {
				lines = append(lines, []byte(line))
			}
			schema.sent(t, lines)
		})
	}
}

// TestServerUnfit demands that no turn begins in a thread that is not as it was asked for.
func TestServerUnfit(t *testing.T) {
	bare := strings.Replace(threadOpen, `{"id":"flow-step"}`, "null", 1)
	for name, tt := range map[string]struct {
		request agents.Request
		answer  string
		cause   agents.Cause
	}{
		"another thread":    {agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: childID}}, threadOpen, agents.CauseSessionNotFound},
		"no fork":           {agents.Request{Session: agents.Session{Mode: agents.SessionFork, Parent: parentID}}, threadOpen, agents.CauseProtocol},
		"no profile":        {agents.Request{RuleDefault: "deny"}, bare, agents.CauseConfig},
		"no thread":         {agents.Request{}, `{"id":2,"result":{}}`, agents.CauseProtocol},
		"no such thread":    {agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: childID}}, `{"id":2,"error":{"code":-32600,"message":"no rollout found for thread id x"}}`, agents.CauseSessionNotFound},
		"thread in use":     {agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: childID}}, `{"id":2,"error":{"code":-32600,"message":"thread x already has an active writer"}}`, agents.CauseSessionInUse},
		"bad settings":      {agents.Request{}, `{"id":2,"error":{"code":-32600,"message":"failed to load configuration: nope"}}`, agents.CauseConfig},
		"no login, by type": {agents.Request{}, `{"id":2,"error":{"code":-32600,"message":"no","data":{"codexErrorInfo":"unauthorized"}}}`, agents.CauseAuth},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, tt.request).hear(connected, tt.answer)
			if !k.Ended() || len(k.sent) != 3 || k.Interrupt() || k.Say("more") {
				t.Errorf("it goes on: ended %t, written %q", k.Ended(), k.sent)
			}
			out := k.end(agents.Exit{})
			if out.Reason != agents.Failed || out.Problem.Cause != tt.cause {
				t.Errorf("%s, %+v", out.Reason, out.Problem)
			}
		})
	}
}

// requests of codex, about a call of each kind.
const (
	aCommand = `{"method":"item/started","params":{"threadId":"` + parentID + `","item":{"type":"commandExecution","id":"c1","command":"/bin/bash -lc 'make x'","cwd":"/repo","status":"inProgress"}}}`
	aPatch   = `{"method":"item/started","params":{"threadId":"` + parentID + `","item":{"type":"fileChange","id":"p1","status":"inProgress","changes":[` +
		`{"path":"/repo/a","kind":{"type":"update","move_path":"/repo/b"},"diff":"-x"},{"path":"/repo/c","kind":{"type":"add"},"diff":"y"}]}}}`
	aTool       = `{"method":"item/started","params":{"threadId":"` + parentID + `","item":{"type":"mcpToolCall","id":"t1","server":"lab","tool":"echo","arguments":{"a":1},"status":"inProgress"}}}`
	askCommand  = `{"method":"item/commandExecution/requestApproval","id":0,"params":{"itemId":"c1","command":"/bin/bash -lc 'make x'","cwd":"/repo","reason":"why"}}`
	askPatch    = `{"method":"item/fileChange/requestApproval","id":"p","params":{"itemId":"p1","grantRoot":null}}`
	askTool     = `{"method":"mcpServer/elicitation/request","id":7,"params":{"serverName":"lab","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"echo","tool_params":{"a":1}},"message":"Allow?"}}`
	askServer   = `{"method":"mcpServer/elicitation/request","id":8,"params":{"serverName":"lab","mode":"form","message":"Your name?","requestedSchema":{"type":"object"}}}`
	askRights   = `{"method":"item/permissions/requestApproval","id":9,"params":{"itemId":"r1","reason":"net","permissions":{"network":{"enabled":true}}}}`
	askQuestion = `{"method":"item/tool/requestUserInput","id":10,"params":{"itemId":"q1","questions":[{"id":"colour","header":"h","question":"Which colour?"}]}}`
)

// TestServerApprovals demands the event and the answer of every request of codex, for every
// verdict.
func TestServerApprovals(t *testing.T) {
	schema := readSchema(t)
	type answers struct{ allow, deny, stop, input string }
	decisions := answers{`{"decision":"accept"}`, `{"decision":"decline"}`, `{"decision":"cancel"}`, `{"decision":"decline"}`}
	actions := answers{`{"action":"accept","content":{}}`, `{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"decline"}`}
	for name, tt := range map[string]struct {
		lines   []string
		request agents.Request
		event   string // id, tool's id, tool, native name, target
		answers answers
		schema  string
	}{
		"command": {[]string{aCommand, askCommand}, agents.Request{RuleDefault: "ask"}, "0 c1 shell commandExecution make x", decisions, "CommandExecutionRequestApprovalResponse"},
		"patch":   {[]string{aPatch, askPatch}, agents.Request{RuleDefault: "ask"}, `"p" p1 edit_file fileChange /repo/a`, decisions, "FileChangeRequestApprovalResponse"},
		"tool":    {[]string{aTool, askTool}, agents.Request{RuleDefault: "ask"}, "7 t1 mcp mcp__lab__echo lab.echo", actions, "McpServerElicitationRequestResponse"},
		"server": {
			[]string{askServer},
			agents.Request{RuleDefault: "ask"},
			"8  other elicitation Your name?",
			answers{actions.allow, actions.deny, actions.stop, `{"action":"accept","content":{"colour":"red"}}`},
			"McpServerElicitationRequestResponse",
		},
		"rights": {
			[]string{askRights},
			agents.Request{RuleDefault: "ask", Sandbox: agents.SandboxOff},
			"9 r1 other request_permissions net",
			answers{`{"permissions":{"network":{"enabled":true}},"scope":"turn"}`, `{"permissions":{},"scope":"turn"}`, `{"permissions":{},"scope":"turn"}`, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`},
			"PermissionsRequestApprovalResponse",
		},
		"question": {
			[]string{askQuestion},
			agents.Request{RuleDefault: "ask"},
			"10 q1 other request_user_input Which colour?",
			answers{`{"answers":{}}`, `{"answers":{}}`, `{"answers":{}}`, `{"answers":{"colour":{"answers":["red"]}}}`},
			"ToolRequestUserInputResponse",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for verdict, want := range map[string]string{"allow": tt.answers.allow, "deny": tt.answers.deny, "stop": tt.answers.stop, "input": tt.answers.input} {
				k := newTalk(t, tt.request).begin().hear(tt.lines...)
				requested := find[agents.PermissionRequested](k.events)
				if len(requested) != 1 {
					t.Fatalf("asked %+v", requested)
				}
				r := requested[0]
				if got := fmt.Sprintf("%s %s %s %s %s", r.RequestID, r.ToolID, r.ToolName, r.NativeName, r.Target); got != tt.event || r.Risk == "" {
					t.Errorf("asked %s, want %s", got, tt.event)
				}
				v := map[string]agents.Verdict{
					"allow": {Effect: "allow"}, "deny": {Effect: "deny", Message: "no"}, "stop": {Effect: "deny", Interrupt: true},
					"input": {Effect: "allow", Input: json.RawMessage(`{"colour":"red"}`)},
				}[verdict]
				if k.Decide("nothing", v) || !k.Decide(r.RequestID, v) || k.Decide(r.RequestID, v) {
					t.Error("a request is answered once")
				}
				k.take()
				if got := k.last(); got != `{"id":`+r.RequestID+`,"result":`+want+`}` {
					t.Errorf("%s: flow wrote %s, want %s", verdict, got, want)
				}
				schema.validate(t, tt.schema, []byte(want))
			}
		})
	}
}

// TestServerPatch demands that a patch names each file that it touches, the new name of a
// renamed one too, when it is asked about and when it is done.
func TestServerPatch(t *testing.T) {
	k := ruledTalk(t).hear(aPatch, askPatch)
	want := `{"changes":[{"path":"/repo/a","kind":"delete"},{"path":"/repo/b","kind":"add","diff":"-x"},{"path":"/repo/c","kind":"add","diff":"y"}]}`
	if got := string(find[agents.PermissionRequested](k.events)[0].Arguments); got != want {
		t.Errorf("asked about %s", got)
	}
	k.Decide(`"p"`, agents.Verdict{Effect: "allow"})
	k.hear(strings.NewReplacer("item/started", "item/completed", "inProgress", "completed").Replace(aPatch))
	diff := cmp.Diff([]agents.FileChanged{
		{FilePath: "/repo/a", ChangeType: agents.Deleted, ToolID: "p1"},
		{FilePath: "/repo/b", ChangeType: agents.Created, Diff: "-x", ToolID: "p1"},
		{FilePath: "/repo/c", ChangeType: agents.Created, Diff: "y", ToolID: "p1"},
	}, find[agents.FileChanged](k.events))
	if diff != "" {
		t.Error(diff)
	}
}

// TestServerHoldsBack demands that what a yes would let out of the sandbox is declined and
// nobody is asked, unless there is no sandbox.
func TestServerHoldsBack(t *testing.T) {
	patch := func(path, grant string) []string {
		return []string{
			`{"method":"item/started","params":{"item":{"type":"fileChange","id":"p1","status":"inProgress","changes":[{"path":"/repo/ok","kind":{"type":"add"}},{"path":"` + path + `","kind":{"type":"add"}}]}}}`,
			`{"method":"item/fileChange/requestApproval","id":1,"params":{"itemId":"p1","grantRoot":` + grant + `}}`,
		}
	}
	command := func(more string) []string {
		return []string{`{"method":"item/commandExecution/requestApproval","id":1,"params":{"itemId":"c1","command":"ls","cwd":"/repo",` + more + `}}`}
	}
	for name, tt := range map[string]struct {
		lines []string
		held  bool
	}{
		"a file of the workspace":  {patch("/repo/sub/x", "null"), false},
		"a relative one":           {patch("sub/x", "null"), false},
		"a further directory":      {patch("/more/x", "null"), false},
		"outside":                  {patch("/etc/passwd", "null"), true},
		"outside, relative":        {patch("../x", "null"), true},
		"a name that begins alike": {patch("/repository/x", "null"), true},
		"hooks":                    {patch("/repo/.git/hooks/x", "null"), true},
		"settings":                 {patch(".codex/config.toml", "null"), true},
		"a root":                   {patch("/repo/x", `"/etc"`), true},
		"no known patch":           {[]string{askPatch}, true},
		"a command":                {command(`"reason":null`), false},
		"more rights":              {command(`"additionalPermissions":{"network":{"enabled":true}}`), true},
		"the network":              {command(`"networkApprovalContext":{"host":"example.com","protocol":"https"}`), true},
		"rights":                   {[]string{askRights}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sandbox := range []agents.SandboxMode{agents.SandboxWorkspaceWrite, agents.SandboxOff} {
				r := agents.Request{RuleDefault: "allow", Sandbox: sandbox, AddDirs: []string{"/more"}}
				k := newTalk(t, r).begin()
				before := len(k.sent)
				k.hear(tt.lines...)
				held := tt.held && sandbox != agents.SandboxOff
				if asked := len(find[agents.PermissionRequested](k.events)); (asked == 0) != held || (len(k.sent) > before) != held {
					t.Errorf("sandbox %s: asked %d times, wrote %q", sandbox, asked, k.sent[before:])
				}
				if held && !strings.Contains(k.last(), "decline") && !strings.Contains(k.last(), `"permissions":{}`) {
					t.Errorf("flow wrote %s", k.last())
				}
			}
		})
	}
	k := newTalk(t, agents.Request{RuleDefault: "allow", Sandbox: agents.SandboxReadOnly}).begin().hear(patch("/repo/x", "null")...)
	if !strings.Contains(k.last(), "decline") {
		t.Errorf("with a read-only sandbox flow wrote %s", k.last())
	}
}

// TestServerHostile demands that what does not belong to a conversation changes nothing in
// it: the turn comes to its end.
func TestServerHostile(t *testing.T) {
	for name, tt := range map[string]struct{ line, answer string }{
		"no JSON":                  {"Hello!", ""},
		"half of it":               {`{"id":`, ""},
		"a list":                   {`[1,2]`, ""},
		"nothing known":            {`{"what":1}`, ""},
		"an unknown notification":  {`{"method":"thread/future","params":{"x":1}}`, ""},
		"an unknown item":          {`{"method":"item/started","params":{"item":{"type":"hologram","id":"h"}}}`, ""},
		"an unknown request":       {`{"method":"item/future/request","id":"f","params":{}}`, `{"error":{"code":-32601,"message":"flow has no answer to item/future/request"},"id":"f"}`},
		"a request of another API": {`{"method":"execCommandApproval","id":4,"params":{}}`, `{"error":{"code":-32601,"message":"flow has no answer to execCommandApproval"},"id":4}`},
		"an answer to nothing":     {`{"id":99,"result":{}}`, ""},
		"a second answer":          {`{"id":3,"result":{"turn":{"id":"other"}}}`, ""},
		"an id that is a text":     {`{"id":"3","result":{}}`, ""},
		"an end of another turn":   {`{"method":"turn/completed","params":{"threadId":"` + parentID + `","turn":{"id":"other","status":"failed"}}}`, ""},
		"news of another thread":   {`{"method":"turn/completed","params":{"threadId":"` + childID + `","turn":{"id":"other","status":"failed"}}}`, ""},
		"a withdrawal of nothing":  {`{"method":"serverRequest/resolved","params":{"requestId":5}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := ruledTalk(t)
			before := len(k.sent)
			k.hear(tt.line)
			if got := strings.Join(k.sent[before:], "\n"); got != tt.answer {
				t.Errorf("flow wrote %q, want %q", got, tt.answer)
			}
			if out := k.hear(said, turnOver).end(agents.Exit{}); out.Reason != agents.Completed || out.Text != "hello" || !k.Ended() {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestServerDuplicate: of two requests of one id neither is answered twice.
func TestServerDuplicate(t *testing.T) {
	k := ruledTalk(t).hear(aCommand, askCommand, askCommand)
	if n := len(find[agents.PermissionRequested](k.events)); n != 1 {
		t.Errorf("asked %d times", n)
	}
	k.Decide("0", agents.Verdict{Effect: "allow"})
	k.hear(askCommand) // once answered, the id is free
	if n := len(find[agents.PermissionRequested](k.events)); n != 2 || !k.Decide("0", agents.Verdict{Effect: "deny"}) {
		t.Errorf("asked %d times", n)
	}
}

// TestServerWithdrawn: a request that codex takes back, or that the turn's end leaves
// open, is told as decided, once.
func TestServerWithdrawn(t *testing.T) {
	resolved := `{"method":"serverRequest/resolved","params":{"requestId":0}}`
	for name, lines := range map[string][]string{"taken back": {resolved, resolved}, "end of the turn": {interrupted, resolved}} {
		k := ruledTalk(t).hear(aCommand, askCommand).hear(lines...)
		decided := find[agents.PermissionDecided](k.events)
		if len(decided) != 1 || decided[0].By != "agent" || decided[0].ToolID != "c1" || decided[0].Message != "withdrawn" || k.Decide("0", agents.Verdict{}) {
			t.Errorf("%s: %+v", name, decided)
		}
	}
}

// TestServerInterrupt demands that a turn is interrupted as soon as it can be, and that it
// then counts as cancelled.
func TestServerInterrupt(t *testing.T) {
	want := `{"id":4,"method":"turn/interrupt","params":{"threadId":"` + parentID + `","turnId":"` + turnID + `"}}`
	lines := []string{connected, threadOpen, turnOpen, turnBegun}
	for after := range len(lines) + 1 {
		k := newTalk(t, agents.Request{}).hear(lines[:after]...)
		for range 2 { // a second time changes nothing
			if !k.Interrupt() {
				t.Fatal("it cannot be interrupted")
			}
		}
		k.take()
		k.hear(lines[after:]...)
		if k.last() != want || strings.Count(strings.Join(k.sent, "\n"), "turn/interrupt") != 1 {
			t.Errorf("after %d lines flow wrote %q", after, k.sent)
		}
		if k.Ended() || k.Say("more") {
			t.Error("it has ended before codex said so")
		}
		out := k.hear(`{"id":4,"result":{}}`, interrupted).end(agents.Exit{Intent: agents.IntentCancel})
		if out.Reason != agents.Cancelled || out.SessionID != parentID || !k.Ended() || k.Interrupt() {
			t.Errorf("%+v", out)
		}
	}
}

// TestServerSay demands that words go into the turn under way, or begin the next one, of
// which the answer then is.
func TestServerSay(t *testing.T) {
	k := newTalk(t, agents.Request{})
	if k.Say("too soon") || k.hear(connected, threadOpen).Say("too soon") {
		t.Error("there is no turn yet")
	}
	k.hear(turnOpen, turnBegun)
	if !k.Say("hurry") {
		t.Fatal("the turn does not listen")
	}
	k.take()
	if want := `{"id":4,"method":"turn/steer","params":{"expectedTurnId":"` + turnID + `","input":[{"type":"text","text":"hurry"}],"threadId":"` + parentID + `"}}`; k.last() != want {
		t.Errorf("flow wrote %s", k.last())
	}
	k.hear(`{"id":4,"error":{"code":-32600,"message":"not steerable"}}`, said, turnOver)
	if !k.Ended() || !k.Say("next") || k.Ended() {
		t.Error("the next turn does not begin")
	}
	k.take()
	if want := `{"id":5,"method":"turn/start","params":{"threadId":"` + parentID + `","input":[{"type":"text","text":"next"}]}}`; k.last() != want {
		t.Errorf("flow wrote %s", k.last())
	}
	second := strings.NewReplacer(turnID, childID, "hello", "again")
	k.hear(second.Replace(turnBegun))
	if !k.Interrupt() {
		t.Error("the second turn cannot be interrupted")
	}
	if out := k.hear(second.Replace(said), second.Replace(turnOver)).end(agents.Exit{}); out.Text != "again" || out.Duration != 2400*time.Millisecond {
		t.Errorf("%+v", out)
	}
}

// TestServerReplay plays the lines of a conversation again, without the decisions, and
// demands the same outcome.
func TestServerReplay(t *testing.T) {
	usage := `{"method":"thread/tokenUsage/updated","params":{"threadId":"` + parentID + `","tokenUsage":{"total":{"inputTokens":100,"outputTokens":10}}}}`
	declined := strings.NewReplacer("item/started", "item/completed", "inProgress", "declined").Replace(aCommand)
	second := strings.NewReplacer(turnID, childID, "hello", "again")
	lines := []string{connected, threadOpen, turnOpen, turnBegun, aCommand, askCommand, `{"method":"serverRequest/resolved","params":{"requestId":0}}`, declined, usage, said, turnOver}
	live := newTalk(t, agents.Request{RuleDefault: "deny"})
	for _, line := range lines {
		live.hear(line)
		live.Decide("0", agents.Verdict{Effect: "deny"})
	}
	live.Say("more")
	more := []string{second.Replace(turnBegun), second.Replace(said), second.Replace(turnOver)}
	want := live.hear(more...).end(agents.Exit{})
	got := newTalk(t, agents.Request{RuleDefault: "deny"}).hear(lines...).hear(more...).end(agents.Exit{})
	if diff := cmp.Diff(want, got); diff != "" || want.Text != "again" || !slices.Equal(want.Denied, []string{"shell: make x"}) {
		t.Errorf("%+v\n%s", want, diff)
	}
}

// TestServerDies demands what it means that codex ends at some point.
func TestServerDies(t *testing.T) {
	start := []string{connected, threadOpen, turnOpen, turnBegun}
	for name, tt := range map[string]struct {
		lines []string
		exit  agents.Exit
		want  string // reason, cause, and a part of the message
	}{
		"at once":              {nil, agents.Exit{Code: 1, Stderr: "Error loading config.toml: nope\n"}, "failed config config.toml: nope"},
		"arguments":            {nil, agents.Exit{Code: 2, Stderr: "error: unexpected argument\n"}, "failed config unexpected argument"},
		"panic":                {start, agents.Exit{Code: 101, Stderr: "thread 'main' panicked\n"}, "failed crash panicked"},
		"in the turn":          {start, agents.Exit{Code: 0}, "failed incomplete before the turn ended"},
		"while it asks":        {append(start, aCommand, askCommand), agents.Exit{Code: 1}, "failed incomplete waited for a decision on commandExecution make x"},
		"killed":               {start, agents.Exit{Code: -1, Signal: "KILL"}, "failed crash killed by SIGKILL"},
		"terminated":           {start, agents.Exit{Code: -1, Signal: "TERM"}, "cancelled cancelled killed by SIGTERM"},
		"timeout":              {append(start, interrupted), agents.Exit{Intent: agents.IntentTimeout}, "timeout timeout timed out"},
		"not started":          {nil, agents.Exit{Code: -1, Err: fmt.Errorf("no such file")}, "failed spawn no such file"},
		"by the policy":        {start, agents.Exit{Code: -1, Signal: "TERM", Intent: agents.IntentPolicy}, "failed permission policy"},
		"without an answer":    {append(start, turnOver), agents.Exit{}, "failed incomplete without an answer"},
		"amid a bad network":   {append(start, `{"method":"error","params":{"willRetry":true,"error":{"message":"Reconnecting... 2/5","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}},"additionalDetails":"error sending request"}}}`), agents.Exit{Code: 1}, "failed network error sending request"},
		"after its end, ended": {append(start, said, turnOver), agents.Exit{Code: -1, Signal: "KILL", Intent: agents.IntentDone}, "completed  "},
	} {
		t.Run(name, func(t *testing.T) {
			out := newTalk(t, agents.Request{RuleDefault: "ask"}).hear(tt.lines...).end(tt.exit)
			got, message := string(out.Reason)+" ", ""
			if out.Problem != nil {
				got, message = got+string(out.Problem.Cause), out.Problem.Message
			}
			reason, part, _ := strings.Cut(tt.want, " ")
			cause, part, _ := strings.Cut(part, " ")
			if got != reason+" "+cause || !strings.Contains(message, strings.TrimSpace(part)) {
				t.Errorf("%s: %s", got, message)
			}
		})
	}
}

// TestServerCauses demands a cause for every value that codex's schema has for what went
// wrong.
func TestServerCauses(t *testing.T) {
	want := map[string]agents.Cause{
		"contextWindowExceeded": agents.CauseContext, "sessionBudgetExceeded": agents.CauseBudget, "usageLimitExceeded": agents.CauseUsageLimit,
		"rateLimitExceeded": agents.CauseRateLimit, "flexUnavailable": agents.CauseOverloaded, "serverOverloaded": agents.CauseOverloaded,
		"modelNotFound": agents.CauseModelNotFound, "policyCapacityUnavailable": agents.CauseOverloaded, "cyberPolicy": agents.CauseRefusal,
		"misalignmentPolicyViolation": agents.CauseRefusal, "tooManyDenials": agents.CausePermission, "internalServerError": agents.CauseServer,
		"unauthorized": agents.CauseAuth, "badRequest": agents.CauseInvalidRequest, "threadRollbackFailed": agents.CauseProtocol,
		"sandboxError": agents.CauseConfig, "other": agents.CauseUnknown, "inferenceHookDenied": agents.CausePermission,
		"httpConnectionFailed": agents.CauseNetwork, "responseStreamConnectionFailed": agents.CauseNetwork,
		"responseStreamDisconnected": agents.CauseNetwork, "responseTooManyFailedAttempts": agents.CauseNetwork,
		"activeTurnNotSteerable": agents.CauseInvalidRequest,
	}
	seen := 0
	for _, one := range readSchema(t).Definitions["CodexErrorInfo"]["anyOf"].([]any) {
		kind := one.(map[string]any)
		words, _ := kind["enum"].([]any)
		properties, _ := kind["properties"].(map[string]any)
		for word := range properties {
			words = append(words, word)
		}
		for _, word := range words {
			info := fmt.Sprintf("%q", word)
			if properties != nil {
				info = fmt.Sprintf(`{%q:{"httpStatusCode":null}}`, word)
			}
			seen++
			if got := failedBy(t, info, "x"); got.Cause != want[word.(string)] || want[word.(string)] == "" {
				t.Errorf("%s is %s, want %s", word, got.Cause, want[word.(string)])
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d values are in the schema", seen, len(want))
	}
}

// failedBy is the problem of a turn that failed.
func failedBy(t *testing.T, info, message string) *agents.Problem {
	t.Helper()
	end := strings.Replace(turnOver, `"status":"completed"`, fmt.Sprintf(`"status":"failed","error":{"message":%q,"codexErrorInfo":%s}`, message, info), 1)
	return newTalk(t, agents.Request{}).begin().hear(end).end(agents.Exit{}).Problem
}

func TestServerStatuses(t *testing.T) {
	for status, want := range map[int]agents.Cause{
		401: agents.CauseAuth, 403: agents.CauseAuth, 402: agents.CauseBilling, 404: agents.CauseModelNotFound, 429: agents.CauseRateLimit,
		400: agents.CauseInvalidRequest, 500: agents.CauseServer, 503: agents.CauseOverloaded, 529: agents.CauseOverloaded, 302: agents.CauseNetwork,
	} {
		if got := failedBy(t, fmt.Sprintf(`{"httpConnectionFailed":{"httpStatusCode":%d}}`, status), "x"); got.Cause != want {
			t.Errorf("%d is %s, want %s", status, got.Cause, want)
		}
	}
	if got := failedBy(t, `"other"`, "stream disconnected before completion: x"); got.Cause != agents.CauseNetwork {
		t.Errorf("what the type leaves open the words tell: %s", got.Cause)
	}
}

// TestServerLimits demands that a limit is told when it changes, and when it ends.
func TestServerLimits(t *testing.T) {
	window := func(percent int, reached string) string {
		return fmt.Sprintf(`{"method":"account/rateLimits/updated","params":{"rateLimits":{"limitId":"codex","primary":{"usedPercent":%d,"windowDurationMins":300,"resetsAt":1795300000},"secondary":null,"rateLimitReachedType":%s}}}`, percent, reached)
	}
	k := newTalk(t, agents.Request{}).begin().hear(window(10, "null"), window(10, "null"), window(95, "null"), window(100, `"rate_limit_reached"`))
	at := time.Unix(1795300000, 0).UTC()
	diff := cmp.Diff([]agents.RateLimit{
		{Status: "allowed", Limit: "codex 5h", ResetsAt: &at, Used: 0.1},
		{Status: "warning", Limit: "codex 5h", ResetsAt: &at, Used: 0.95},
		{Status: "rejected", Limit: "codex 5h", ResetsAt: &at, Used: 1},
	}, find[agents.RateLimit](k.events))
	if diff != "" {
		t.Error(diff)
	}
	end := strings.Replace(turnOver, `"completed"`, `"failed","error":{"message":"no more","codexErrorInfo":"usageLimitExceeded"}`, 1)
	if out := k.hear(end).end(agents.Exit{}); !out.Problem.RetryAfter.Equal(at) {
		t.Errorf("to be retried after %s", out.Problem.RetryAfter)
	}
}

// TestServerText demands that joining the pieces gives each text once, however codex cuts
// it.
func TestServerText(t *testing.T) {
	piece := func(text string) string {
		return fmt.Sprintf(`{"method":"item/agentMessage/delta","params":{"threadId":%q,"itemId":"m1","delta":%q}}`, parentID, text)
	}
	for name, lines := range map[string][]string{
		"whole": {said}, "pieces": {piece("he"), piece("llo"), said}, "the beginning": {piece("he"), said},
	} {
		joined := ""
		for _, chunk := range find[agents.TextChunk](newTalk(t, agents.Request{}).begin().hear(lines...).events) {
			joined += chunk.Content
		}
		if joined != "hello" {
			t.Errorf("%s: %q", name, joined)
		}
	}
}

// TestServerUsage demands that a turn counts its own tokens and those of its subagents.
func TestServerUsage(t *testing.T) {
	count := func(thread string, in, out int) string {
		return fmt.Sprintf(`{"method":"thread/tokenUsage/updated","params":{"threadId":%q,"tokenUsage":{"total":{"inputTokens":%d,"outputTokens":%d}}}}`, thread, in, out)
	}
	r := agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: parentID, Spent: &agents.Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110}}}
	out := newTalk(t, r).begin().hear(count(parentID, 150, 15), count(childID, 7, 1), count(childID, 9, 2), count(parentID, 200, 20), said, turnOver).end(agents.Exit{})
	if out.Usage.InputTokens != 109 || out.Usage.OutputTokens != 12 || out.SessionUsage.TotalTokens != 220 {
		t.Errorf("%+v of %+v", out.Usage, out.SessionUsage)
	}
}

// TestServerTyped demands that what is typed into a running command is a call to be
// judged.
func TestServerTyped(t *testing.T) {
	k := ruledTalk(t).hear(aCommand, `{"method":"item/commandExecution/terminalInteraction","params":{"itemId":"c1","stdin":"rm x\n"}}`)
	calls := find[agents.ToolStarted](k.events)
	if len(calls) != 2 || calls[1].ToolName != agents.ToolShell || calls[1].Target != "rm x\n" {
		t.Errorf("%+v", calls)
	}
}

// TestServerElsewhere demands that a command of another directory is judged as one that
// goes there.
func TestServerElsewhere(t *testing.T) {
	k := ruledTalk(t).hear(strings.Replace(aCommand, `"cwd":"/repo"`, `"cwd":"/etc/it's"`, 1))
	if got := find[agents.ToolStarted](k.events)[0].Target; got != `cd '/etc/it'\''s' && make x` {
		t.Error(got)
	}
}

// TestServerCalls demands of the other calls that they are valid and answered by replies.
func TestServerCalls(t *testing.T) {
	schema := readSchema(t)
	k := newTalk(t, agents.Request{}).begin().hear(said, turnOver)
	before := len(k.sent)
	ids := []int64{k.ListThreads("/repo", 5), k.ListThreads("", 1), k.ReadThread(childID), k.ArchiveThread(childID), k.ListModels(), k.CleanTerminals()}
	k.take()
	for i, line := range k.sent[before:] {
		schema.sent(t, [][]byte{[]byte(line)})
		k.hear(fmt.Sprintf(`{"id":%d,"result":{"n":%d}}`, ids[i], i))
	}
	k.hear(fmt.Sprintf(`{"id":%d,"result":{}}`, ids[0]))
	replies := k.Replies()
	if len(replies) != 6 || replies[2].Method != "thread/read" || string(replies[2].Result) != `{"n":2}` || k.Replies() != nil {
		t.Errorf("%+v", replies)
	}
	id := k.ReadThread("x")
	if replies := k.hear(fmt.Sprintf(`{"id":%d,"error":{"message":"no"}}`, id)).Replies(); len(replies) != 1 || replies[0].Error != "no" {
		t.Errorf("%+v", replies)
	}
}

// TestServerReview demands that a review takes the place of the turn, and is its answer.
func TestServerReview(t *testing.T) {
	schema := readSchema(t)
	target := ReviewTarget{Type: "baseBranch", Branch: "main"}
	want := `{"id":3,"method":"review/start","params":{"threadId":"` + parentID + `","target":{"type":"baseBranch","branch":"main"}}}`
	k := newTalk(t, agents.Request{})
	if !k.Review(target) || k.hear(connected, threadOpen).last() != want {
		t.Errorf("flow wrote %q", k.sent)
	}
	schema.sent(t, [][]byte{[]byte(want)})
	within := strings.Replace(turnBegun, `{"id":"`+turnID+`"}`, `{"id":"`+childID+`","rootTurnId":"`+turnID+`"}`, 1)
	k.hear(turnOpen, within)
	if k.Review(target) {
		t.Error("a review in a turn")
	}
	k.hear(`{"method":"item/completed","params":{"threadId":"`+parentID+`","item":{"type":"exitedReviewMode","id":"e","review":"fine"}}}`, turnOver)
	if !k.Review(ReviewTarget{Type: "uncommittedChanges"}) || k.Ended() {
		t.Error("no second review")
	}
	if out := k.hear(turnOver).end(agents.Exit{}); out.Text != "fine" {
		t.Errorf("%+v", out)
	}
}
