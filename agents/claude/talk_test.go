package claude_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/claude"
)

const agreedLine = `{"type":"control_response","response":{"subtype":"success","request_id":"flow-1","response":{}}}`

// talking returns a conversation whose prompt has been said.
func talking(t *testing.T) agents.Conversation {
	t.Helper()
	c := claude.Adapter{}.Dialog(talkRequest).(agents.Conversation)
	c.Open()
	c.Line([]byte(agreedLine))
	if got := written(c); len(got) != 2 {
		t.Fatalf("the conversation opens with %q", got)
	}
	return c
}

// written takes what is to be written.
func written(c agents.Conversation) (lines []string) {
	for _, l := range c.Take() {
		lines = append(lines, string(l))
	}
	return lines
}

// messageID is the id of the n-th message of a talkRequest's conversation.
func messageID(n int) string {
	return []string{"781fb790-ecb8-57cc-af1b-fbd54f8eac95", "33c94f44-2fb6-50f1-a6cc-a8c242235178"}[n-1]
}

func canUse(id, tool, input string) string {
	return `{"type":"control_request","request_id":` + id + `,"request":{"subtype":"can_use_tool","tool_name":"` + tool + `","input":` + input + `,"tool_use_id":"t1","decision_reason":"because"}}`
}

func hookOf(id, tool, input string) string {
	return `{"type":"control_request","request_id":` + id + `,"request":{"subtype":"hook_callback","callback_id":"flow","input":{"hook_event_name":"PreToolUse","tool_name":"` +
		tool + `","tool_input":` + input + `},"tool_use_id":"t1"}}`
}

// answered is the line that answers request id.
func answered(id, response string) string {
	return `{"type":"control_response","response":{"subtype":"success","request_id":` + id + `,"response":` + response + `}}`
}

// What is said first waits for the CLI's word that it will call back; where it refuses,
// nothing is said at all.
func TestTalkOpening(t *testing.T) {
	c := claude.Adapter{}.Dialog(talkRequest).(agents.Conversation)
	if c.Ended() || c.Interrupt() || c.Say("x") || c.Take() != nil {
		t.Error("it talks before it was opened")
	}
	c.Open()
	if got := written(c); len(got) != 1 || !strings.Contains(got[0], `"initialize"`) {
		t.Errorf("it opens with %q", got)
	}
	if !c.Say("more") || c.Take() != nil {
		t.Error("further words do not wait")
	}
	c.Line([]byte(agreedLine))
	want := []string{
		`{"type":"user","uuid":"` + messageID(1) + `","message":{"role":"user","content":"\n/go"}}`,
		`{"type":"user","uuid":"` + messageID(2) + `","message":{"role":"user","content":"more"}}`,
	}
	if diff := cmp.Diff(want, written(c)); diff != "" {
		t.Error(diff)
	}

	refused := claude.Adapter{}.Dialog(talkRequest).(agents.Conversation)
	refused.Open()
	refused.Take()
	bodies := play(refused, `{"type":"control_response","response":{"subtype":"error","request_id":"flow-1","error":"no hooks"}}`, agreedLine)
	if len(bodies) == 0 || bodies[0] != agents.Body(agents.Error{Message: "no hooks", Cause: agents.CauseProtocol}) {
		t.Errorf("the refusal becomes %v", bodies)
	}
	if got := written(refused); !refused.Ended() || refused.Say("x") || got != nil {
		t.Errorf("after a refusal it says %q", got)
	}
	out := refused.End(agents.Exit{Code: -1, Signal: "TERM", Intent: agents.IntentDone})
	if out.Problem == nil || out.Problem.Cause != agents.CauseProtocol || out.Problem.Hint == "" || !strings.Contains(out.Problem.Message, "no hooks") {
		t.Errorf("a refusal ends as %+v", out.Problem)
	}
}

// Every verdict in the CLI's words. What is no clear verdict denies.
func TestTalkVerdicts(t *testing.T) {
	input := json.RawMessage(`{"command": "ls"}`)
	for _, tt := range []struct {
		verdict agents.Verdict
		can     string
		hook    string // of its hookSpecificOutput, "" for no opinion
	}{
		{agents.Verdict{Effect: "allow", Message: "fine"}, `{"behavior":"allow"}`, `"permissionDecision":"allow"`},
		{agents.Verdict{Effect: "allow", Input: input}, `{"behavior":"allow","updatedInput":{"command":"ls"}}`, `"permissionDecision":"allow","updatedInput":{"command":"ls"}`},
		{
			agents.Verdict{Effect: "allow", Input: json.RawMessage(`["ls"]`)},
			`{"behavior":"deny","message":"The call was to be changed into one whose input is no JSON object."}`,
			`"permissionDecision":"deny","permissionDecisionReason":"The call was to be changed into one whose input is no JSON object."`,
		},
		{agents.Verdict{Effect: "deny", Message: " not this\n"}, `{"behavior":"deny","message":"not this"}`, `"permissionDecision":"deny","permissionDecisionReason":"not this"`},
		{agents.Verdict{Effect: "deny"}, `{"behavior":"deny","message":"The policy of this run forbids it."}`, `"permissionDecision":"deny","permissionDecisionReason":"The policy of this run forbids it."`},
		{agents.Verdict{Effect: "ask", Message: "a rule"}, `{"behavior":"deny","message":"Nobody decided on it."}`, `"permissionDecision":"ask","permissionDecisionReason":"a rule"`},
		{agents.Verdict{}, `{"behavior":"deny","message":"Nobody decided on it."}`, ""},
		{agents.Verdict{Effect: "perhaps", Input: input}, `{"behavior":"deny","message":"Nobody decided on it."}`, `"permissionDecision":"deny","permissionDecisionReason":"Nobody decided on it."`},
	} {
		hook := `{"hookSpecificOutput":{"hookEventName":"PreToolUse",` + tt.hook + `}}`
		if tt.hook == "" {
			hook = `{}`
		}
		c := talking(t)
		play(c, canUse(`"r1"`, "Bash", `{"command":"rm"}`), hookOf(`"r2"`, "Bash", `{"command":"rm"}`))
		if !c.Decide("r1", tt.verdict) || !c.Decide("r2", tt.verdict) || c.Decide("r1", tt.verdict) || c.Decide("r3", tt.verdict) {
			t.Errorf("%+v: each request takes one verdict", tt.verdict)
		}
		if diff := cmp.Diff([]string{answered(`"r1"`, tt.can), answered(`"r2"`, hook)}, written(c)); diff != "" {
			t.Errorf("%+v:\n%s", tt.verdict, diff)
		}
	}
}

// To deny and to end the turn: of a callback that takes a request of its own.
func TestTalkDenyAndInterrupt(t *testing.T) {
	c := talking(t)
	play(c, canUse(`"r1"`, "Bash", `{}`), hookOf(`"r2"`, "Bash", `{}`))
	stop := agents.Verdict{Effect: "deny", Message: "stop", Interrupt: true}
	c.Decide("r1", stop)
	c.Decide("r2", stop)
	want := []string{
		answered(`"r1"`, `{"behavior":"deny","message":"stop","interrupt":true}`),
		answered(`"r2"`, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"stop"}}`),
		`{"type":"control_request","request_id":"flow-2","request":{"subtype":"interrupt"}}`,
	}
	if diff := cmp.Diff(want, written(c)); diff != "" {
		t.Error(diff)
	}
}

func TestTalkRequest(t *testing.T) {
	c := talking(t)
	want := []agents.Body{agents.PermissionRequested{
		RequestID: "r1", ToolID: "t1", ToolName: agents.ToolWriteFile, NativeName: "Write", Target: "/home/dev/project/a",
		Risk: agents.RiskMedium, Arguments: json.RawMessage(`{"file_path":"/home/dev/project/a"}`), Reason: "because",
	}, agents.PermissionRequested{
		RequestID: "r2", ToolID: "t1", ToolName: agents.ToolShell, NativeName: "Bash", Target: "ls",
		Risk: agents.RiskHigh, Arguments: json.RawMessage(`{"command":"ls"}`), Preliminary: true,
	}}
	got := play(c, canUse(`"r1"`, "Write", `{"file_path":"/home/dev/project/a"}`), hookOf(`"r2"`, "Bash", `{"command":"ls"}`))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What an agent may ask that it should not: the session goes on, whatever waits for an
// answer gets one, and nothing gets two.
func TestTalkOddRequests(t *testing.T) {
	refused := func(id, subtype string) string {
		return `{"type":"control_response","response":{"subtype":"error","request_id":` + id + `,"error":"flow does not answer requests of the subtype ` + subtype + `"}}`
	}
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"unknown", []string{`{"type":"control_request","request_id":"x","request":{"subtype":"brand_new"}}`}, []string{refused(`"x"`, "brand_new")}},
		{"elicitation", []string{`{"type":"control_request","request_id":"x","request":{"subtype":"elicitation","message":"?"}}`}, []string{refused(`"x"`, "elicitation")}},
		{"no subtype", []string{`{"type":"control_request","request_id":"x"}`}, []string{refused(`"x"`, "")}},
		{"no id", []string{`{"type":"control_request","request":{"subtype":"can_use_tool"}}`, `{"type":"control_request","request_id":null,"request":{"subtype":"hook_callback"}}`}, nil},
		{"empty id", []string{`{"type":"control_request","request_id":"","request":{"subtype":"x"}}`}, []string{refused(`""`, "x")}},
		{"number 0", []string{`{"type":"control_request","request_id":0,"request":{"subtype":"x"}}`}, []string{refused(`0`, "x")}},
		{"the same id again", []string{`{"type":"control_request","request_id":"x","request":{"subtype":"x"}}`, canUse(`"x"`, "Bash", `{}`)}, []string{refused(`"x"`, "x")}},
		{
			"another hook",
			[]string{`{"type":"control_request","request_id":"x","request":{"subtype":"hook_callback","input":{"hook_event_name":"Stop"}}}`},
			[]string{answered(`"x"`, `{}`)},
		},
		{
			"a question to a person",
			[]string{hookOf(`"x"`, "AskUserQuestion", `{}`)},
			[]string{answered(`"x"`, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Nobody is here to answer. Decide yourself, go on, and say in the end what you decided."}}`)},
		},
		{"an answer to nothing", []string{`{"type":"control_response","response":{"subtype":"success","request_id":"flow-9"}}`, `{"type":"control_response"}`}, nil},
		{"a withdrawal of nothing", []string{`{"type":"control_cancel_request","request_id":"x"}`, `{"type":"control_cancel_request"}`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := talking(t)
			for _, l := range tt.lines {
				if len(c.Line([]byte(l))) == 0 {
					t.Errorf("nothing is told of %s", l)
				}
			}
			if diff := cmp.Diff(tt.want, written(c)); diff != "" {
				t.Error(diff)
			}
			play(c, initLine, assistant("m", text("done")), successLine)
			if out := c.End(agents.Exit{}); out.Reason != agents.Completed || !c.Ended() {
				t.Errorf("the session does not go on: %+v", out)
			}
		})
	}
}

// A request ends when the CLI takes it back, or its turn is over: an answer would find
// nobody.
func TestTalkWithdrawn(t *testing.T) {
	for name, tt := range map[string]struct{ line, message string }{
		"taken back": {`{"type":"control_cancel_request","request_id":"r1"}`, "withdrawn"},
		"turn over":  {successLine, "the turn ended before it was decided"},
	} {
		t.Run(name, func(t *testing.T) {
			c := talking(t)
			bodies := play(c, canUse(`"r1"`, "Bash", `{}`), tt.line)
			want := agents.PermissionDecided{RequestID: "r1", ToolID: "t1", Decision: "deny", By: "agent", Message: tt.message}
			if bodies[1] != agents.Body(want) {
				t.Errorf("got %+v", bodies[1])
			}
			if c.Decide("r1", agents.Verdict{Effect: "allow"}) || c.Take() != nil {
				t.Error("it can still be answered")
			}
		})
	}
}

// A call whose input is wrong fails before flow is asked about it, so it was not made. One
// that fails after that was.
func TestTalkUnmade(t *testing.T) {
	call := assistant("m1", `{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"/x"}}`)
	result := func(text string) string {
		return `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"` + text + `"}]}}`
	}
	for _, tt := range []struct {
		name     string
		lines    []string
		declined bool
	}{
		{"not asked about", []string{call, result("<tool_use_error>File has not been read yet.</tool_use_error>")}, true},
		{"asked about", []string{call, hookOf(`"r1"`, "Write", `{}`), result("<tool_use_error>The disk is full.</tool_use_error>")}, false},
		{"another error", []string{call, result("Exit code 1")}, false},
	} {
		bodies := play(talking(t), tt.lines...)
		if done := bodies[len(bodies)-1].(agents.ToolCompleted); done.Declined != tt.declined {
			t.Errorf("%s: %+v", tt.name, done)
		}
	}
	oneWay := play(claude.Adapter{}.Dialog(agents.Request{}), call, result("<tool_use_error>File has not been read yet.</tool_use_error>"))
	if oneWay[len(oneWay)-1].(agents.ToolCompleted).Declined {
		t.Error("nobody is asked in the one-way transport")
	}
}

// Ids of other kinds than texts are echoed as they came.
func TestTalkNumberedRequest(t *testing.T) {
	c := talking(t)
	play(c, canUse(`0`, "Bash", `{}`))
	if !c.Decide("0", agents.Verdict{Effect: "allow"}) {
		t.Error("request 0 does not wait")
	}
	if diff := cmp.Diff([]string{answered(`0`, `{"behavior":"allow"}`)}, written(c)); diff != "" {
		t.Error(diff)
	}
}

// Results say which messages they answer; the turn has ended when all are.
func TestTalkEnded(t *testing.T) {
	result := func(ids ...string) string {
		list, _ := json.Marshal(ids)
		return strings.TrimSuffix(successLine, "}") + `,"user_message_uuids":` + string(list) + `}`
	}
	lifecycle := func(id, state string) string {
		return `{"type":"command_lifecycle","command_uuid":"` + id + `","state":"` + state + `"}`
	}
	for _, tt := range []struct {
		name  string
		lines []string
		want  []bool // after each line
	}{
		{"one for both", []string{result(messageID(1), messageID(2))}, []bool{true}},
		{"one for each", []string{result(messageID(1)), initLine, result(messageID(2))}, []bool{false, false, true}},
		{"one for another", []string{result("x")}, []bool{false}},
		{"an older version", []string{successLine}, []bool{true}},
		{"the second taken back", []string{lifecycle(messageID(2), "queued"), lifecycle(messageID(2), "cancelled"), result(messageID(1))}, []bool{false, false, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := talking(t)
			c.Say("more")
			var got []bool
			for _, l := range tt.lines {
				c.Line([]byte(l))
				got = append(got, c.Ended())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("ended %v, want %v", got, tt.want)
			}
		})
	}
	c := talking(t)
	play(c, result(messageID(1)))
	if !c.Ended() || c.Interrupt() || !c.Say("again") || c.Ended() || c.Say(" \n") {
		t.Error("a turn that has ended cannot be followed by another one")
	}
}

// What waits for the next turn is taken back, for the CLI would go on with it.
func TestTalkInterrupt(t *testing.T) {
	c := talking(t)
	c.Say("more")
	c.Take()
	if !c.Interrupt() {
		t.Error("the turn cannot be interrupted")
	}
	want := []string{
		`{"type":"control_request","request_id":"flow-2","request":{"subtype":"cancel_async_message","message_uuid":"` + messageID(2) + `"}}`,
		`{"type":"control_request","request_id":"flow-3","request":{"subtype":"interrupt"}}`,
	}
	if diff := cmp.Diff(want, written(c)); diff != "" {
		t.Error(diff)
	}

	early := claude.Adapter{}.Dialog(talkRequest).(agents.Conversation)
	early.Open()
	early.Take()
	if !early.Interrupt() || !early.Ended() {
		t.Error("before anything was said, nothing is to come")
	}
	early.Line([]byte(agreedLine))
	if got := early.Take(); got != nil {
		t.Errorf("it says %q all the same", got)
	}
}

func TestTalkSettings(t *testing.T) {
	type settings interface {
		agents.Conversation
		SetModel(model string) bool
		SetPermissionMode(mode string) bool
	}
	c := talking(t).(settings)
	if !c.SetModel("haiku") || !c.SetPermissionMode("plan") {
		t.Error("settings cannot be changed")
	}
	want := []string{
		`{"type":"control_request","request_id":"flow-2","request":{"subtype":"set_model","model":"haiku"}}`,
		`{"type":"control_request","request_id":"flow-3","request":{"subtype":"set_permission_mode","mode":"plan"}}`,
	}
	if diff := cmp.Diff(want, written(c)); diff != "" {
		t.Error(diff)
	}
	if (claude.Adapter{}).Dialog(talkRequest).(settings).SetModel("haiku") {
		t.Error("before it is opened nothing can be asked")
	}
}

// The CLI drops a message whose id its session has. So the ids of every turn differ, and
// those of one turn are the same whenever it is played.
func TestTalkMessageIDs(t *testing.T) {
	said := func(change func(*agents.Request)) string {
		r := talkRequest
		change(&r)
		c := claude.Adapter{}.Dialog(r).(agents.Conversation)
		c.Open()
		c.Line([]byte(agreedLine))
		var line wire
		if err := json.Unmarshal(c.Take()[1], &line); err != nil || !agents.IsUUID(line.UUID) {
			t.Fatalf("%q, %v", line.UUID, err)
		}
		return line.UUID
	}
	all := []string{
		said(func(*agents.Request) {}),
		said(func(r *agents.Request) { r.Scratch = "/other" }),
		said(func(r *agents.Request) { r.Session.ID = idB }),
		said(func(r *agents.Request) { r.Session.Parent = idB }),
	}
	if again := said(func(r *agents.Request) { r.Prompt = "other" }); again != all[0] {
		t.Error("the prompt, which is not kept with a request, changes the ids")
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 4 {
		t.Errorf("ids repeat: %q", all)
	}
}

// What another client wrote is understood as if flow had.
func TestTalkSent(t *testing.T) {
	c := claude.Adapter{}.Dialog(agents.Request{Transport: "stream-json"}).(agents.Conversation)
	var got []agents.Body
	sent := func(lines ...string) {
		for _, l := range lines {
			for _, e := range c.Sent([]byte(l)) {
				got = append(got, e.Body)
			}
		}
	}
	sent(`{"type":"control_request","request_id":"i1","request":{"subtype":"initialize"}}`, `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`)
	play(c, canUse(`"r1"`, "Bash", `{}`), hookOf(`"r2"`, "Bash", `{}`), hookOf(`"r3"`, "Bash", `{}`))
	sent(answered(`"r1"`, `{"behavior":"allow"}`), answered(`"r1"`, `{"behavior":"deny"}`),
		answered(`"r2"`, `{"hookSpecificOutput":{"permissionDecision":"deny"}}`), answered(`"r3"`, `{}`), `no JSON`)
	want := []agents.Body{
		agents.TextChunk{Content: "hi", Role: "user"},
		agents.PermissionDecided{RequestID: "r1", ToolID: "t1", Decision: "allow", By: "person"},
		agents.PermissionDecided{RequestID: "r2", ToolID: "t1", Decision: "deny", By: "person"},
		agents.Log{Stream: "stdout", Text: "no JSON"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c.Ended() || len(c.Take()) > 0 {
		t.Error("it has ended, or speaks itself")
	}
	play(c, successLine)
	if !c.Ended() {
		t.Error("it goes on after the result")
	}
}

// A process that was ended because there was nothing more to come is judged by what it said.
func TestTalkParted(t *testing.T) {
	failed := `{"type":"result","subtype":"success","is_error":true,"num_turns":1,"api_error_status":529,"result":"overloaded"}`
	for _, tt := range []struct {
		line  string
		exit  agents.Exit
		cause agents.Cause
	}{
		{successLine, agents.Exit{Code: 143}, ""},
		{successLine, agents.Exit{Code: -1, Signal: "KILL"}, ""},
		{failed, agents.Exit{Code: 143}, agents.CauseOverloaded},
	} {
		tt.exit.Intent = agents.IntentDone
		c := talking(t)
		play(c, initLine, tt.line)
		out := c.End(tt.exit)
		if got := out.Problem; (got == nil) != (tt.cause == "") || got != nil && got.Cause != tt.cause {
			t.Errorf("%s %+v: %+v", tt.line, tt.exit, got)
		}
	}
}

// FuzzTalk lets an agent write what it likes, and decides as the fuzzer says. Every
// request is answered at most once, nothing else is, and what is written is JSON Lines.
func FuzzTalk(f *testing.F) {
	f.Add([]byte(hookOf(`"r1"`, "Bash", `{"command":"ls"}`)+"\n"+canUse(`"r2"`, "Write", `{}`)+"\n"+successLine), []byte{0, 1, 2, 3})
	f.Add([]byte(canUse(`0`, "Bash", `{}`)+"\n"+canUse(`"0"`, "Bash", `{}`)+"\n"+`{"type":"control_cancel_request","request_id":"0"}`), []byte{7, 5})
	f.Add([]byte(`{"type":"control_request","request_id":["x"],"request":{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse"}}}`), []byte{9})
	effects := []string{"allow", "deny", "ask", "", "?"}
	f.Fuzz(func(t *testing.T, stdout, choices []byte) {
		c, alone := claude.Adapter{}.Dialog(talkRequest).(agents.Conversation), claude.Adapter{}.Dialog(talkRequest).(agents.Conversation)
		c.Open()
		alone.Open()
		turn, requests, answers := 0, 0, map[string]bool{}
		for line := range bytes.Lines(append([]byte(agreedLine+"\n"), stdout...)) {
			requests++ // at most one a line
			alone.Line(line)
			for _, e := range c.Line(line) {
				r, ok := e.Body.(agents.PermissionRequested)
				if !ok || turn >= len(choices) {
					continue
				}
				choice := choices[turn]
				turn++
				c.Decide(r.RequestID, agents.Verdict{Effect: effects[int(choice)%5], Interrupt: choice&8 > 0, Input: json.RawMessage(choices)})
				if c.Decide(r.RequestID, agents.Verdict{Effect: "allow"}) {
					t.Fatalf("request %q was decided twice", r.RequestID)
				}
			}
			for _, l := range c.Take() {
				checkWritten(t, l, requests, answers)
			}
		}
		if diff := cmp.Diff(alone.End(agents.Exit{}), c.End(agents.Exit{})); diff != "" {
			t.Errorf("decisions change the outcome (-alone +live):\n%s", diff)
		}
	})
}

// checkWritten holds what is true of every line that flow writes, given how many requests
// there can have been.
func checkWritten(t *testing.T, line []byte, requests int, answered map[string]bool) {
	t.Helper()
	var l wire
	if err := json.Unmarshal(line, &l); err != nil || bytes.ContainsAny(line, "\n\r") {
		t.Fatalf("no line of JSON (%v): %s", err, line)
	}
	if l.Type != "control_response" {
		return
	}
	id := string(l.Response.ID)
	if id == "" || answered[id] {
		t.Fatalf("an answer to nothing, or a second one: %s", line)
	}
	answered[id] = true
	if len(answered) > requests {
		t.Fatalf("%d answers to %d requests", len(answered), requests)
	}
}
