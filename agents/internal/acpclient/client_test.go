package acpclient

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// A line that an agent says at the beginning.
const (
	hello  = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{CAN}}}`
	opened = `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}`
	asks   = `{"jsonrpc":"2.0","id":ID,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c1","kind":"execute","title":"ls","rawInput":{"command":"ls"}},"options":[OPTIONS]}}`
	always = `{"optionId":"ever","kind":"allow_always"},{"optionId":"never","kind":"reject_always"}`
	once   = always + `,{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}`
)

func canning(caps string) string { return strings.Replace(hello, "CAN", caps, 1) }

func asking(id, options string) string {
	return strings.NewReplacer("ID", id, "OPTIONS", options).Replace(asks)
}

func said(text string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
}

func ended(id, reason string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"stopReason":"` + reason + `"}}`
}

// hear lets a client hear lines and returns what it then says.
func hear(c *Client, lines ...string) []string {
	for _, line := range lines {
		c.Line([]byte(line))
	}
	return take(c)
}

func take(c *Client) []string {
	var all []string
	for _, line := range c.Take() {
		all = append(all, string(line))
	}
	return all
}

// begun is a client whose prompt is on its way.
func begun(t *testing.T) *Client {
	t.Helper()
	c := New(wanted("new"))
	c.Open()
	said := hear(c, canning(""), opened)
	if last := said[len(said)-1]; !strings.Contains(last, `"session/prompt"`) {
		t.Fatalf("the client said %s", last)
	}
	return c
}

// An answer is never one that would hold for later calls, whatever is offered.
func TestDecide(t *testing.T) {
	allow, deny := agents.Verdict{Effect: agents.EffectAllow}, agents.Verdict{Effect: agents.EffectDeny}
	for name, tt := range map[string]struct {
		options string
		verdict agents.Verdict
		want    string
	}{
		"allow":           {once, allow, `{"outcome":{"optionId":"yes","outcome":"selected"}}`},
		"deny":            {once, deny, `{"outcome":{"optionId":"no","outcome":"selected"}}`},
		"other arguments": {once, agents.Verdict{Effect: agents.EffectAllow, Input: []byte(`{}`)}, `{"outcome":{"optionId":"no","outcome":"selected"}}`},
		"no opinion":      {once, agents.Verdict{}, `{"outcome":{"optionId":"no","outcome":"selected"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := begun(t)
			hear(c, asking("0", tt.options))
			if !c.Decide("0", tt.verdict) || c.Decide("0", tt.verdict) {
				t.Error("a request is to be answered once")
			}
			if got, want := take(c), []string{`{"jsonrpc":"2.0","id":0,"result":` + tt.want + `}`}; !cmp.Equal(got, want) {
				t.Errorf("the client wrote %s, want %s", got, want)
			}
		})
	}
}

// A call that could only be allowed for ever is denied at once, and that is told.
func TestNoOnce(t *testing.T) {
	for name, options := range map[string]string{"for ever": always, "no options": ""} {
		t.Run(name, func(t *testing.T) {
			c := begun(t)
			events := c.Line([]byte(asking("0", options)))
			if len(events) != 2 || events[0].Body.Type() != "permissionRequested" {
				t.Fatalf("%+v", events)
			}
			d, ok := events[1].Body.(agents.PermissionDecided)
			if !ok || d.RequestID != "0" || d.ToolID != "c1" || d.Decision != agents.EffectDeny || d.By != "default" || d.Message == "" {
				t.Errorf("%+v", events[1].Body)
			}
			if got, want := take(c), []string{`{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}`}; !cmp.Equal(got, want) {
				t.Errorf("the client wrote %s, want %s", got, want)
			}
			if c.Decide("0", agents.Verdict{Effect: agents.EffectAllow}) {
				t.Error("it waits for an answer")
			}
		})
	}
}

// Odd requests get an answer where one is due, and the session goes on.
func TestOddRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  []string // what the client writes
	}{
		"unknown method":       {[]string{`{"id":"x","method":"fs/read_text_file","params":{}}`}, []string{`{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"flow offers no fs/read_text_file"}}`}},
		"unknown notification": {[]string{`{"method":"elicitation/complete"}`}, nil},
		"an answer to nothing": {[]string{ended("99", "end_turn"), `{"id":null,"result":{}}`, `{"id":77,"error":{"code":1}}`}, nil},
		"no tool call":         {[]string{`{"id":5,"method":"session/request_permission","params":{}}`}, []string{`{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"the request names no tool call"}}`}},
		"the same id twice":    {[]string{asking("4", once), asking("4", once)}, []string{`{"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"a request with this id waits for its answer already"}}`}},
		"taken back":           {[]string{asking(`"q"`, once), `{"method":"$/cancel_request","params":{"requestId":"q"}}`}, []string{`{"jsonrpc":"2.0","id":"q","error":{"code":-32800,"message":"cancelled"}}`}},
		"no id":                {[]string{asking("null", once)}, []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a request needs an id"}}`}},
		"no message":           {[]string{`{}`, `[1]`, `nonsense`, `{"half":`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := begun(t)
			if got := hear(c, tt.lines...); !cmp.Equal(got, tt.want) {
				t.Errorf("the client wrote %s, want %s", got, tt.want)
			}
			for _, id := range []string{"4", "q"} {
				if c.Decide(id, agents.Verdict{Effect: agents.EffectAllow}) {
					t.Errorf("request %s was answered after all", id)
				}
			}
			hear(c, said("fine"), ended("3", "end_turn"))
			if out := c.End(agents.Exit{}); out.Reason != agents.Completed || out.Text != "fine" {
				t.Errorf("the turn came to %+v: %v", out, out.Problem)
			}
		})
	}
}

// Interrupting answers what waits, as the protocol wants it, and nothing can be permitted
// after it.
func TestInterrupt(t *testing.T) {
	c := begun(t)
	hear(c, asking(`"a"`, once))
	if !c.Interrupt() || c.Interrupt() {
		t.Error("a turn is to be interrupted once")
	}
	want := []string{
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`,
		`{"jsonrpc":"2.0","id":"a","result":{"outcome":{"outcome":"cancelled"}}}`,
	}
	if got := take(c); !cmp.Equal(got, want) {
		t.Errorf("the client wrote %s", got)
	}
	if c.Decide("a", agents.Verdict{Effect: agents.EffectAllow}) {
		t.Error("a call was permitted after the interrupt")
	}
	if got := hear(c, strings.Replace(asking("1", once), "c1", "c2", 1)); !cmp.Equal(got, []string{`{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}`}) {
		t.Errorf("a late request got %s", got)
	}
	hear(c, ended("3", "cancelled"))
	out := c.End(agents.Exit{Intent: agents.IntentDone})
	if out.Reason != agents.Cancelled || out.Problem.Cause != agents.CauseCancelled || len(out.Denied) != 1 {
		t.Errorf("the turn came to %+v", out)
	}
}

// How a session begins is a matter of what the agent says it can do.
func TestOpening(t *testing.T) {
	resume, fork := agents.Session{Mode: agents.SessionResume, ID: "old"}, agents.Session{Mode: agents.SessionFork, Parent: "old"}
	for name, tt := range map[string]struct {
		session agents.Session
		can     string
		want    string // the method
	}{
		"new":          {agents.Session{ID: "wished"}, "", "session/new"},
		"resume":       {resume, `"loadSession":true,"sessionCapabilities":{"resume":{}}`, "session/resume"},
		"load":         {resume, `"loadSession":true,"sessionCapabilities":{"resume":null}`, "session/load"},
		"no resume":    {resume, ``, ""},
		"fork":         {fork, `"sessionCapabilities":{"fork":{}}`, "session/fork"},
		"no fork":      {fork, `"loadSession":true`, ""},
		"wrong answer": {resume, `"sessionCapabilities":7`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := wanted("new")
			o.Request.Session = tt.session
			c := New(o)
			c.Open()
			take(c)
			got := strings.Join(hear(c, canning(tt.can)), "")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the client said %q, want %s", got, tt.want)
			}
			if tt.want == "" {
				if p := c.End(agents.Exit{}).Problem; p == nil || p.Cause != agents.CauseConfig || !c.Ended() {
					t.Errorf("the problem is %v", p)
				}
			}
		})
	}
}

// Settings are asked for one after the other, and only those that are not so already.
func TestSettings(t *testing.T) {
	const config = `{"id":2,"result":{"sessionId":"s1","configOptions":[
{"id":"m","category":"model","currentValue":"a","options":[{"value":"a"},{"group":"g","options":[{"value":"b"}]}]},
{"id":"e","category":"thought_level","currentValue":"high","options":[{"value":"low"},{"value":"high"}]}],
"modes":{"currentModeId":"x#agent","availableModes":[{"id":"x#agent"},{"id":"x#plan"}]}}}`
	for name, tt := range map[string]struct {
		mode, model, effort string
		want                []string // methods and values, in order
		problem             agents.Cause
	}{
		"nothing":        {"", "", "", []string{"session/prompt"}, ""},
		"as it is":       {"agent", "a", "high", []string{"session/prompt"}, ""},
		"all":            {"plan", "b", "low", []string{`"modeId":"x#plan"`, `"configId":"m","sessionId":"s1","value":"b"`, `"configId":"e","sessionId":"s1","value":"low"`, "session/prompt"}, ""},
		"unknown model":  {"", "c", "", nil, agents.CauseModelNotFound},
		"unknown effort": {"", "", "middling", nil, agents.CauseConfig},
		"unknown mode":   {"yolo", "", "", nil, agents.CauseConfig},
	} {
		t.Run(name, func(t *testing.T) {
			o := wanted("new")
			o.Mode, o.Request.Model, o.Request.Effort = tt.mode, tt.model, tt.effort
			c := New(o)
			c.Open()
			hear(c, canning(""))
			got := hear(c, strings.ReplaceAll(config, "\n", ""))
			for i, want := range tt.want {
				if len(got) != 1 || !strings.Contains(got[0], want) {
					t.Fatalf("request %d is %s, want %s", i, got, want)
				}
				got = hear(c, `{"id":`+string(rune('3'+i))+`,"result":{}}`)
			}
			if tt.problem == "" {
				return
			}
			if p := c.End(agents.Exit{}).Problem; p == nil || p.Cause != tt.problem || !c.Ended() {
				t.Errorf("the problem is %v, want %s", p, tt.problem)
			}
		})
	}
}

// The answer to the prompt decides what came of the turn.
func TestOutcome(t *testing.T) {
	failing := func(code, message string) string {
		return `{"id":3,"error":{"code":` + code + `,"message":"` + message + `"}}`
	}
	for name, tt := range map[string]struct {
		lines  []string
		exit   agents.Exit
		reason agents.Reason
		cause  agents.Cause
	}{
		"done":              {[]string{said("x"), ended("3", "end_turn")}, agents.Exit{Code: 7}, agents.Completed, ""},
		"silent":            {[]string{ended("3", "end_turn")}, agents.Exit{}, agents.Failed, agents.CauseIncomplete},
		"blank":             {[]string{said(" "), ended("3", "end_turn")}, agents.Exit{}, agents.Failed, agents.CauseIncomplete},
		"tokens":            {[]string{said("x"), ended("3", "max_tokens")}, agents.Exit{}, agents.Failed, agents.CauseMaxOutput},
		"requests":          {[]string{ended("3", "max_turn_requests")}, agents.Exit{}, agents.Failed, agents.CauseMaxTurns},
		"refusal":           {[]string{ended("3", "refusal")}, agents.Exit{}, agents.Failed, agents.CauseRefusal},
		"unheard of":        {[]string{said("x"), ended("3", "tired")}, agents.Exit{}, agents.Failed, agents.CauseProtocol},
		"timeout":           {[]string{ended("3", "cancelled")}, agents.Exit{Intent: agents.IntentTimeout}, agents.TimedOut, agents.CauseTimeout},
		"login":             {[]string{failing("-32000", "Authentication required")}, agents.Exit{}, agents.Failed, agents.CauseAuth},
		"quota":             {[]string{failing("429", "You have exhausted your daily quota")}, agents.Exit{}, agents.Failed, agents.CauseUsageLimit},
		"limit":             {[]string{failing("429", "slow down")}, agents.Exit{}, agents.Failed, agents.CauseRateLimit},
		"server":            {[]string{failing("500", "oops")}, agents.Exit{}, agents.Failed, agents.CauseServer},
		"network":           {[]string{failing("-32603", "fetch failed")}, agents.Exit{}, agents.Failed, agents.CauseNetwork},
		"unknown":           {[]string{failing("-32603", "no idea")}, agents.Exit{}, agents.Failed, agents.CauseUnknown},
		"death":             {[]string{said("x"), asking("1", once)}, agents.Exit{Code: 1}, agents.Failed, agents.CauseCrash},
		"quiet end":         {[]string{said("x")}, agents.Exit{}, agents.Failed, agents.CauseIncomplete},
		"killed":            {nil, agents.Exit{Code: -1, Signal: "KILL"}, agents.Failed, agents.CauseCrash},
		"cancelled process": {nil, agents.Exit{Code: -1, Signal: "TERM", Intent: agents.IntentCancel}, agents.Cancelled, agents.CauseCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			c := begun(t)
			hear(c, tt.lines...)
			out := c.End(tt.exit)
			if cause := causeIn(out); out.Reason != tt.reason || cause != tt.cause {
				t.Errorf("the turn is %s (%s): %v", out.Reason, cause, out.Problem)
			}
		})
	}
}

func causeIn(out agents.Outcome) agents.Cause {
	if out.Problem == nil {
		return ""
	}
	return out.Problem.Cause
}

// A session that the agent no longer knows is told as such, so that the step begins anew.
func TestLostSession(t *testing.T) {
	for _, failure := range []string{
		`{"code":-32002,"message":"Resource not found"}`,
		`{"code":-32603,"message":"Internal error","data":{"details":"Invalid session identifier"}}`,
		`{"code":-32602,"message":"session not found: old"}`,
	} {
		o := wanted("new")
		o.Request.Session = agents.Session{Mode: agents.SessionResume, ID: "old"}
		c := New(o)
		c.Open()
		hear(c, canning(`"loadSession":true`), `{"id":2,"error":`+failure+`}`)
		if cause := causeIn(c.End(agents.Exit{})); cause != agents.CauseSessionNotFound {
			t.Errorf("%s is %s", failure, cause)
		}
	}
}

// What a session has cost is told from its beginning: of an older one a turn's own part is
// known only when the sum was told before.
func TestCost(t *testing.T) {
	used := func(amount string) string {
		return `{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":` + amount + `,"currency":"USD"}}}}`
	}
	resumed := wanted("new")
	resumed.Request.Session = agents.Session{Mode: agents.SessionResume, ID: "s1"}
	for name, tt := range map[string]struct {
		o      Options
		before []string
		want   float64 // -1: not known
	}{
		"new":            {wanted("new"), nil, 0.5},
		"resumed":        {resumed, []string{used("0.2")}, 0.3},
		"resumed, blind": {resumed, nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(tt.o)
			c.Open()
			hear(c, canning(`"sessionCapabilities":{"resume":{}}`))
			hear(c, tt.before...)
			hear(c, opened, used("0.5"), said("x"), ended("3", "end_turn"))
			cost := -1.0
			if out := c.End(agents.Exit{}); out.CostUSD != nil {
				cost = *out.CostUSD
			}
			if diff := cost - tt.want; diff > 1e-9 || diff < -1e-9 {
				t.Errorf("the turn cost %v, want %v", cost, tt.want)
			}
		})
	}
}

// Where an agent asks for every call, one that fails and was not asked for was not made.
func TestFailedUnasked(t *testing.T) {
	failed := `{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","toolCallId":"run_shell_command__1","status":"failed","kind":"execute"}}}`
	for _, tt := range []struct {
		agent, fallback string
		declined        bool
	}{
		{"gemini-cli", "deny", true},
		{"gemini-cli", "", false},
		{"OpenCode", "deny", true},
		{"another", "deny", false},
	} {
		o := wanted("new")
		o.Request.RuleDefault = tt.fallback
		c := New(o)
		c.Open()
		hear(c, strings.Replace(canning(""), `"protocolVersion"`, `"agentInfo":{"name":"`+tt.agent+`"},"protocolVersion"`, 1), opened)
		var declined []bool
		for _, e := range c.Line([]byte(failed)) {
			if done, ok := e.Body.(agents.ToolCompleted); ok {
				declined = append(declined, done.Declined)
			}
		}
		if !cmp.Equal(declined, []bool{tt.declined}) {
			t.Errorf("%s with the default %q: declined %v", tt.agent, tt.fallback, declined)
		}
	}
}

// OpenCode runs a tool of its own in the place of one that there is not. That one harms
// nobody; another one of that title may.
func TestExcuse(t *testing.T) {
	for _, tt := range []struct {
		agent, kind, input string
		want               agents.Risk
	}{
		{"OpenCode", "other", `{"tool":"teleport","error":"unavailable"}`, agents.RiskLow},
		{"OpenCode", "other", `{"tool":"teleport","error":"unavailable","to":"mars"}`, agents.RiskHigh},
		{"OpenCode", "execute", `{"tool":"teleport","error":"unavailable"}`, agents.RiskHigh},
		{"another", "other", `{"tool":"teleport","error":"unavailable"}`, agents.RiskHigh},
	} {
		c := New(wanted("new"))
		c.Open()
		hear(c, strings.Replace(canning(""), `"protocolVersion"`, `"agentInfo":{"name":"`+tt.agent+`"},"protocolVersion"`, 1), opened)
		line := `{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","title":"invalid","kind":"` + tt.kind + `","rawInput":` + tt.input + `}}}`
		events := c.Line([]byte(line))
		if started, ok := events[0].Body.(agents.ToolStarted); !ok || started.Risk != tt.want {
			t.Errorf("%+v: %+v", tt, events[0].Body)
		}
	}
}
