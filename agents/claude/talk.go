package claude

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A conversation is the agents.Conversation of one process: the dialog of what the CLI
// prints, and the control protocol beside it. The CLI is asked to call back before every
// tool call (a PreToolUse hook), and the prompt is not said before it has agreed to that.
type conversation struct {
	*dialog
	prompt   string
	messages messages

	out  [][]byte // to be written now
	held [][]byte // to be written once the CLI has agreed

	requests int    // that were sent: their ids are counted
	opening  string // the id of the one that begins, "" before it
	agreed   bool   // it was answered
	refusal  string // why it was refused

	pending []*request      // of the CLI, that wait for an answer, the oldest first
	seen    map[string]bool // the ids of all its requests
}

func newConversation(d *dialog, r agents.Request) *conversation {
	d.consulted = map[string]bool{}
	return &conversation{dialog: d, prompt: neutral(r.Prompt), messages: messages{space: space(r)}, seen: map[string]bool{}}
}

// messages are what the user says. Each has an id, for the CLI tells by it which result
// answers which message.
type messages struct {
	space  uuid.UUID
	said   int
	awaits []string // the ids of those that no result has answered, the oldest first
}

// space is what the ids of a turn's messages are derived from: nothing in an adapter is
// random. The CLI drops a message whose id the session has, without a word, also when
// another process said it; so the turn's private directory is part of it.
func space(r agents.Request) uuid.UUID {
	s := r.Session
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("flow claude\x00"+s.ID+"\x00"+s.Parent+"\x00"+r.Scratch))
}

// next returns the id of one more message.
func (m *messages) next() string {
	m.said++
	id := uuid.NewSHA1(m.space, []byte(strconv.Itoa(m.said))).String()
	m.awaits = append(m.awaits, id)
	return id
}

func (m *messages) forget(id string) {
	m.awaits = slices.DeleteFunc(m.awaits, func(one string) bool { return one == id })
}

// answered takes in a result. One that names no messages is of a version that does not,
// or of a process that got none: then nothing more is to come.
func (m *messages) answered(result *fastjson.Value) {
	named := append(texts(result.GetArray("user_message_uuids")), first(result, "user_message_uuid"))
	if len(named) == 1 && named[0] == "" {
		m.awaits = nil
	}
	for _, id := range named {
		m.forget(id)
	}
}

// done reports whether something was said and all of it is answered.
func (m *messages) done() bool { return m.said > 0 && len(m.awaits) == 0 }

// A line is one that is written to the CLI.
type line struct {
	Type     string   `json:"type"`
	UUID     string   `json:"uuid,omitempty"`
	Message  *spoken  `json:"message,omitempty"`
	ID       string   `json:"request_id,omitempty"`
	Request  *control `json:"request,omitempty"`
	Response *reply   `json:"response,omitempty"`
}

// spoken is a message of the user.
type spoken struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// control is a request of ours.
type control struct {
	Subtype     string            `json:"subtype"`
	Hooks       map[string][]hook `json:"hooks,omitempty"`
	MessageUUID string            `json:"message_uuid,omitempty"`
	Model       string            `json:"model,omitempty"`
	Mode        string            `json:"mode,omitempty"`
}

// hook asks to be called back about the tools that match.
type hook struct {
	Matcher   string   `json:"matcher"`
	Callbacks []string `json:"hookCallbackIds"`
}

// encode cannot fail: lines are made of texts, and of JSON that was looked at.
func (l line) encode() []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return text
}

// Open asks for the callback before every tool call, and has the prompt ready.
func (c *conversation) Open() {
	every := []hook{{Matcher: "*", Callbacks: []string{"flow"}}}
	l := c.request(control{Subtype: "initialize", Hooks: map[string][]hook{preToolUse: every}})
	c.opening, c.out = l.ID, append(c.out, l.encode())
	c.say(c.prompt)
}

// Take returns what is to be written now.
func (c *conversation) Take() [][]byte {
	lines := c.out
	c.out = nil
	return lines
}

// Say sends a further message. While a tool runs it becomes part of the turn under way,
// otherwise it opens the next one.
func (c *conversation) Say(text string) bool {
	if c.opening == "" || c.refusal != "" || isBlank(text) {
		return false
	}
	c.say(neutral(text))
	return true
}

func (c *conversation) say(text string) {
	c.post(line{Type: "user", UUID: c.messages.next(), Message: &spoken{Role: "user", Content: text}})
}

// Interrupt ends the turn under way. What waits to open another one is taken back first:
// the CLI would go on with it.
func (c *conversation) Interrupt() bool {
	switch {
	case c.opening == "" || c.Ended():
		return false
	case !c.agreed: // nothing was said yet
		c.held, c.messages.awaits = nil, nil
		return true
	}
	for i, id := range c.messages.awaits {
		if i > 0 {
			c.control(control{Subtype: "cancel_async_message", MessageUUID: id})
		}
	}
	c.control(control{Subtype: "interrupt"})
	return true
}

// SetModel makes the CLI go on with another model. It reports whether that could be asked.
func (c *conversation) SetModel(model string) bool {
	return c.control(control{Subtype: "set_model", Model: model})
}

// SetPermissionMode changes the mode in which the CLI decides what the policy leaves to
// it, in the CLI's own words. It reports whether that could be asked.
func (c *conversation) SetPermissionMode(mode string) bool {
	return c.control(control{Subtype: "set_permission_mode", Mode: mode})
}

// Ended reports whether all that was said is answered, or will never be.
func (c *conversation) Ended() bool { return c.refusal != "" || c.messages.done() }

// control sends a request of ours, and reports whether it could.
func (c *conversation) control(body control) bool {
	if c.opening == "" || c.refusal != "" {
		return false
	}
	c.post(c.request(body))
	return true
}

// request returns a request of ours. Its id is counted.
func (c *conversation) request(body control) line {
	c.requests++
	return line{Type: "control_request", ID: "flow-" + strconv.Itoa(c.requests), Request: &body}
}

// post writes a line as soon as the CLI has agreed to call back.
func (c *conversation) post(l line) {
	if c.agreed {
		c.out = append(c.out, l.encode())
	} else {
		c.held = append(c.held, l.encode())
	}
}

// Line translates one line of standard output, and answers it where that needs nobody.
func (c *conversation) Line(line []byte) []agents.Event { return c.read(line, c.message) }

func (c *conversation) message(v *fastjson.Value) []agents.Event {
	switch typ := native.String(v, "type"); typ {
	case "control_request", olderRequest:
		return c.asked(v)
	case "control_cancel_request":
		return c.withdrawn(v)
	case "control_response":
		return c.response(v)
	case "command_lifecycle":
		if state := native.String(v, "state"); state == "cancelled" || state == "completed" {
			c.messages.forget(native.String(v, "command_uuid"))
		}
	case "result":
		c.messages.answered(v)
		return append(c.abandon(), c.dialog.message(v)...)
	}
	return c.dialog.message(v)
}

// response is the answer to a request of ours. Only the first one changes anything.
func (c *conversation) response(v *fastjson.Value) []agents.Event {
	body := v.Get("response")
	id := first(body, "request_id")
	if id == "" { // the older shape
		id = native.String(v, "request_id")
	}
	failed := native.String(body, "subtype") == "error"
	if id == c.opening && id != "" && !c.agreed && c.refusal == "" {
		if failed {
			c.refusal = "it refused to call back before it calls tools: " + native.String(body, "error")
		} else {
			c.agreed, c.out, c.held = true, append(c.out, c.held...), nil
		}
	}
	if failed {
		return []agents.Event{{Body: agents.Error{Message: native.String(body, "error"), Cause: agents.CauseProtocol}}}
	}
	return system("control_response", id)
}

// End says what became of the turn. Without the callback nothing was said.
func (c *conversation) End(exit agents.Exit) agents.Outcome {
	out := c.dialog.End(exit)
	if c.refusal != "" && !c.verdict.final && (exit.Intent == agents.IntentNone || exit.Intent == agents.IntentDone) {
		out.Reason, out.Problem = agents.Failed, problem(agents.CauseProtocol, c.refusal)
		out.Problem.Hint = "use transport: print, or another version of Claude Code; see `claude --version`"
	}
	return out
}

// Sent takes in a line that another client wrote to the CLI.
func (c *conversation) Sent(line []byte) []agents.Event {
	v, events := c.reader.Object(line)
	if v == nil {
		return events
	}
	switch native.String(v, "type") {
	case "control_request":
		if native.String(v, "request", "subtype") == "initialize" {
			c.opening = native.String(v, "request_id")
		}
	case "control_response":
		return c.decidedElsewhere(v.Get("response"))
	case "user":
		c.messages.said++
		c.messages.awaits = append(c.messages.awaits, native.String(v, "uuid"))
		if text := contentText(v.Get("message", "content")); text != "" {
			return []agents.Event{{Body: agents.TextChunk{Content: text, Role: "user"}}}
		}
	}
	return nil
}
