package codex

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A Conversation follows one `codex app-server` process, which is there for one thread:
// initialize, then the thread, then the turn, in requests 1 to 3. It is an
// agents.Conversation; Review and the calls of server_calls.go are what codex has beyond
// that. For one goroutine.
type Conversation struct {
	request agents.Request
	reader  native.Reader
	rpc     rpc
	replies []Reply

	thread  string // the id of the thread, once it is open
	model   string
	version string
	review  *ReviewTarget // the turn is a review of this, not the request's prompt

	turn      string // the id of the turn under way
	interrupt bool   // the turn is to be interrupted as soon as it has an id
	end       *ending
	broken    *agents.Problem // why codex cannot go on

	items    map[string]*threadItem // by id
	closed   native.Ring            // the ids of tool calls among them that are closed
	pending  []*approval            // requests of codex that wait for an answer, oldest first
	began    bool                   // the model was seen at work
	answer   *string                // the last message of the agent
	denied   []string
	retries  int
	started  int    // tool calls
	typed    int    // how often something was typed into a running command
	trouble  string // the last error, as long as nothing better followed
	resets   time.Time
	windows  map[string]agents.RateLimit // what was last said of each limit
	total    *agents.Usage               // what the whole thread has used
	others   map[string]agents.Usage     // what the threads of subagents have used
	duration time.Duration
}

// ending is how a turn ended: completed, failed or interrupted.
type ending struct {
	status string
	err    *agents.Problem // of one that failed
}

func newConversation(r agents.Request) *Conversation {
	return &Conversation{
		request: r, items: map[string]*threadItem{}, windows: map[string]agents.RateLimit{}, others: map[string]agents.Usage{},
	}
}

// SessionID is the id of codex's thread, or "" before codex has said it.
func (c *Conversation) SessionID() string { return c.thread }

// Open asks for the connection; everything else follows from the answers.
func (c *Conversation) Open() {
	c.rpc.request("initialize", map[string]any{
		"clientInfo": map[string]string{"name": "flow", "title": "flow", "version": "1"},
		// Permission profiles are named in calls only with this.
		"capabilities": map[string]any{"experimentalApi": true},
	})
}

// Take returns the lines that are to be written now.
func (c *Conversation) Take() [][]byte {
	lines := c.rpc.out
	c.rpc.out = nil
	return lines
}

// Ended reports whether the turn has ended, or will never begin.
func (c *Conversation) Ended() bool { return c.end != nil || c.broken != nil }

// Interrupt asks codex to end the turn. Before it has begun, it is ended as soon as that
// is possible.
func (c *Conversation) Interrupt() bool {
	if c.Ended() {
		return false
	}
	if !c.interrupt {
		c.interrupt = true
		c.interruptNow()
	}
	return true
}

func (c *Conversation) interruptNow() {
	if c.interrupt && c.turn != "" {
		c.rpc.request("turn/interrupt", map[string]string{"threadId": c.thread, "turnId": c.turn})
	}
}

// Say sends text into the turn under way, or as the next turn when one has ended.
func (c *Conversation) Say(text string) bool {
	switch {
	case c.broken != nil || c.thread == "" || c.interrupt && c.end == nil:
		return false
	case c.end != nil:
		c.end, c.turn, c.interrupt = nil, "", false
		c.rpc.request("turn/start", turnParams{ThreadID: c.thread, Input: input(text)})
	case c.turn != "":
		c.rpc.request("turn/steer", map[string]any{"threadId": c.thread, "expectedTurnId": c.turn, "input": input(text)})
	default:
		return false
	}
	return true
}

// Stderr finds the tool calls that codex could not run: a log line is all it prints of
// them. What was refused by its client's answer it also says in the protocol.
func (c *Conversation) Stderr(line []byte) []agents.Event {
	_, reason, ok := strings.Cut(plain(string(line)), " ERROR codex_core::tools::router: error=")
	if !ok || strings.HasSuffix(reason, "rejected by user") {
		return nil
	}
	reason = clip(reason, maxMessage)
	e := agents.Error{Message: "a tool call failed: " + reason}
	if tool := refusedTool(reason); tool != "" {
		e.Cause = agents.CausePermission
		c.denied = append(c.denied, string(tool)+": "+reason)
	}
	return bodies(e)
}

// Line translates one line of standard output: an answer, a notification or a request.
func (c *Conversation) Line(line []byte) []agents.Event {
	v, events := c.reader.Object(line)
	if v == nil {
		return events
	}
	method, id := native.String(v, "method"), native.Raw(v, "id")
	switch {
	case method != "" && id != nil:
		events = c.asked(method, id, v)
	case method != "":
		events = c.told(method, v)
	case id != nil:
		events = c.answered(v)
	default:
		events = native.Unknown("message", v)
	}
	return timed(events, v)
}

// timed puts the time of a notification on its events.
func timed(events []agents.Event, v *fastjson.Value) []agents.Event {
	ms := native.Int(v, "emittedAtMs")
	if ms <= 0 {
		return events
	}
	for i := range events {
		events[i].Time = time.UnixMilli(ms).UTC()
	}
	return events
}

// answered takes the answer to a request. One to nothing, or a second one, is dropped.
func (c *Conversation) answered(v *fastjson.Value) []agents.Event {
	if v.Get("id").Type() != fastjson.TypeNumber {
		return nil
	}
	id := native.Int(v, "id")
	method, ok := c.rpc.answered(id)
	if !ok {
		return nil
	}
	if v.Get("error") != nil {
		return c.failed(id, method, v.Get("error"))
	}
	result := v.Get("result")
	switch method {
	case "initialize":
		return c.initialized(result)
	case "thread/start", "thread/resume", "thread/fork":
		return c.opened(method, result)
	case "turn/start", "review/start":
		return c.turnKnown(native.String(result, "turn", "id"))
	case "turn/steer", "turn/interrupt":
		return nil
	default:
		c.replies = append(c.replies, Reply{ID: id, Method: method, Result: native.Raw(result)})
		return nil
	}
}

// initialized goes on with the thread.
func (c *Conversation) initialized(result *fastjson.Value) []agents.Event {
	_, rest, _ := strings.Cut(native.String(result, "userAgent"), "/")
	c.version, _, _ = strings.Cut(rest, " ")
	c.rpc.notify("initialized")
	method, params := openThread(c.request)
	c.rpc.request(method, params)
	return nil
}

// opened goes on with the turn, unless the thread is not as it should be.
func (c *Conversation) opened(method string, result *fastjson.Value) []agents.Event {
	id := native.String(result, "thread", "id")
	if id == "" {
		c.broken = problem(agents.CauseProtocol, "codex answered "+method+" without a thread")
		return bodies(agents.Error{Message: c.broken.Message, Cause: c.broken.Cause})
	}
	c.thread, c.model, c.broken = id, native.String(result, "model"), nil
	events := bodies(agents.SessionStarted{Model: c.model, Version: c.version, Cwd: native.String(result, "cwd")})
	if c.broken = c.unfit(result); c.broken != nil {
		return append(events, bodies(agents.Error{Message: c.broken.Message, Cause: c.broken.Cause})...)
	}
	c.begin()
	return events
}

// unfit says what is wrong with the thread, so that no turn may begin in it: it is not
// the one that was asked for, or its bounds are not.
func (c *Conversation) unfit(result *fastjson.Value) *agents.Problem {
	if p := strayed(c.request.Session, c.thread); p != nil {
		return p
	}
	if !profiled(c.request) || native.String(result, "activePermissionProfile", "id") == profileName {
		return nil
	}
	p := problem(agents.CauseConfig, "codex does not apply the permission profile that bounds the turn")
	p.Hint = "update codex, or use `transport: exec`"
	return p
}

// begin starts the turn.
func (c *Conversation) begin() {
	if c.review != nil {
		c.rpc.request("review/start", reviewParams{ThreadID: c.thread, Target: *c.review})
		return
	}
	c.rpc.request("turn/start", startTurn(c.request, c.thread))
}

// turnKnown takes the id of the turn, from whichever message has it first.
func (c *Conversation) turnKnown(id string) []agents.Event {
	if c.turn == "" && id != "" && c.end == nil {
		c.turn = id
		c.interruptNow()
	}
	return nil
}

// failed takes an error answer. Without a connection, a thread or a turn codex cannot go
// on; other errors are the business of whoever asked.
func (c *Conversation) failed(id int64, method string, v *fastjson.Value) []agents.Event {
	message := native.String(v, "message")
	switch method {
	case "initialize", "thread/start", "thread/resume", "thread/fork", "turn/start", "review/start":
		c.broken = refusal(method, message, v.Get("data", "codexErrorInfo"))
		return bodies(agents.Error{Message: c.broken.Message, Cause: c.broken.Cause})
	case "turn/steer", "turn/interrupt":
		return bodies(agents.Error{Message: method + ": " + message})
	default:
		c.replies = append(c.replies, Reply{ID: id, Method: method, Error: message})
		return nil
	}
}

// Sent takes in what another client wrote: its requests are awaited as if this
// conversation had made them, and its answers decide what is pending.
func (c *Conversation) Sent(line []byte) []agents.Event {
	c.rpc.mute = true
	v, events := c.reader.Object(line)
	if v == nil {
		return events
	}
	method, id := native.String(v, "method"), native.Raw(v, "id")
	switch {
	case method != "" && id != nil:
		c.rpc.asked(native.Int(v, "id"), method)
	case method == "" && id != nil:
		return c.decided(string(id), v)
	}
	return nil
}

// decided takes in the answer of another client to a request of codex.
func (c *Conversation) decided(id string, v *fastjson.Value) []agents.Event {
	a := c.take(id)
	if a == nil {
		return nil
	}
	decision := agents.EffectDeny
	if a.allowedBy(v.Get("result")) {
		decision = agents.EffectAllow
	}
	return bodies(agents.PermissionDecided{RequestID: id, ToolID: a.tool, Decision: decision, By: "person"})
}

// plain is s without the escape sequences of colours.
func plain(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexByte(rest, 'm')
		s = rest[end+1:]
	}
}

var _ agents.Conversation = (*Conversation)(nil)

// A Reply is the answer to one of the calls of server_calls.go.
type Reply struct {
	ID     int64           // what the call returned
	Method string          // "thread/list", …
	Result json.RawMessage // nil when there is an error
	Error  string          // what codex said, or ""
}
