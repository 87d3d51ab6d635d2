// Package acpclient is the client's side of the Agent Client Protocol (ACP, version 1):
// JSON-RPC 2.0, one message a line, over an agent's standard input and output. One
// tolerant client serves every agent that speaks it; what single agents do otherwise
// stands in quirks.go.
//
// The client offers an agent neither files nor terminals, so that whatever the agent does
// it does itself, where a sandbox holds it, and asks for it first if it asks at all.
package acpclient

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// Options are what a Client needs to know of its turn and its agent.
type Options struct {
	Agent   string         // the agent's name, for problems
	Title   string         // the same for people
	Request agents.Request // the turn
	Prompt  string         // what the agent is to be told
	Mode    string         // the mode that the session is to be in, by the end of its id; "" leaves it
	Install string         // what to do when the agent cannot be started
	Login   string         // what to do when it is not logged in
	// Cause explains an error of the agent where the general rules would not do, or
	// returns "". nil: there is nothing to add.
	Cause func(code int64, message string) agents.Cause
}

// A Client is an agents.Conversation with an agent that speaks ACP.
type Client struct {
	o      Options
	reader native.Reader
	out    [][]byte
	lastID int64             // of our requests
	asked  map[string]string // the methods of those that wait for an answer, by id
	// recorded says that another client speaks, in a conversation of the past.
	recorded bool

	info     agentInfo
	session  sessionState
	dir      string // that the agent works in, absolute
	model    string // as far as the agent has said it
	calls    map[string]*call
	ended    native.Ring         // the ids of those that have ended
	requests map[string]*request // permission requests that wait for a decision, by id
	judged   []*call             // that a permission was asked for
	turn     turn
	began    bool // the model was seen at work
	heard    bool // a message of the protocol came
	spent    spending
	problem  *agents.Problem // why the session could not be begun
}

var (
	_ agents.Conversation = (*Client)(nil)
	_ agents.SessionNamer = (*Client)(nil)
	_ agents.Closer       = (*Client)(nil)
)

// New returns a client that has said nothing yet.
func New(o Options) *Client {
	return &Client{
		o: o, dir: o.Request.Dir, model: o.Request.Model, asked: map[string]string{},
		calls: map[string]*call{}, requests: map[string]*request{},
	}
}

// SessionID is the session's id once the agent has told it.
func (c *Client) SessionID() string { return c.session.id }

// Open says hello.
func (c *Client) Open() {
	c.ask("initialize", object{
		"protocolVersion":    version,
		"clientCapabilities": object{"fs": object{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         object{"name": "flow", "title": "flow", "version": "1"},
	})
}

// Take returns what is to be written now.
func (c *Client) Take() [][]byte {
	out := c.out
	c.out = nil
	return out
}

// Line takes a line of the agent's.
func (c *Client) Line(line []byte) []agents.Event {
	v, events := c.reader.Object(line)
	if v == nil {
		return events
	}
	method, id := native.String(v, "method"), string(native.Raw(v, "id"))
	c.heard = c.heard || method != "" || id != ""
	switch {
	case method != "" && id != "":
		return c.onRequest(method, id, v)
	case method == permissionMethod: // it would wait for an answer that cannot be addressed
		c.refuse("null", invalidRequest, "a request needs an id")
		return native.Unknown(method, v)
	case method != "":
		return c.onNotification(method, v)
	case id != "":
		return c.onResponse(id, v)
	}
	return native.Unknown("message", v)
}

// Stderr has nothing to tell: agents write what they like there.
func (c *Client) Stderr([]byte) []agents.Event { return nil }

// Sent takes in a line that another client wrote.
func (c *Client) Sent(line []byte) []agents.Event {
	c.recorded = true
	v, events := c.reader.Object(line)
	if v == nil {
		return events
	}
	method, id := native.String(v, "method"), string(native.Raw(v, "id"))
	switch {
	case method != "" && id != "":
		c.asked[id] = method
		c.dir = cmp.Or(native.String(v, "params", "cwd"), c.dir)
		return c.begun(method, native.String(v, "params", "sessionId"))
	case method == "session/cancel":
		c.turn.cancelled = true
	case method == "" && id != "":
		return c.answered(id, v)
	}
	return nil
}

// permissionMethod asks whether a call may be made.
const permissionMethod = "session/request_permission"

// onRequest answers a request of the agent's. All but one are for what was not offered.
func (c *Client) onRequest(method, id string, v *fastjson.Value) []agents.Event {
	if method == permissionMethod {
		return c.onPermission(id, v)
	}
	c.refuse(id, methodNotFound, "flow offers no "+method)
	return native.Unknown(method, v)
}

func (c *Client) onNotification(method string, v *fastjson.Value) []agents.Event {
	switch method {
	case "session/update":
		return c.onUpdate(v)
	case "$/cancel_request":
		return c.onWithdrawal(string(native.Raw(v, "params", "requestId")))
	}
	return native.Unknown(method, v)
}

// onResponse takes an answer to a request of ours. An answer to nothing changes nothing,
// unless it ends a turn: that is what becomes of a later turn when the lines of a process
// are read again and nobody says what began it.
func (c *Client) onResponse(id string, v *fastjson.Value) []agents.Event {
	method, ok := c.asked[id]
	delete(c.asked, id)
	later := c.turn.ended && native.String(v, "result", "stopReason") != "" && id == strconv.FormatInt(c.lastID+1, 10)
	if later {
		c.lastID++
		c.turn = turn{sent: true, text: c.turn.text.after()}
		method, ok = "session/prompt", true
	}
	if !ok {
		return native.Unknown("response", v)
	}
	if failure := v.Get("error"); failure != nil && failure.Type() != fastjson.TypeNull {
		return c.onError(method, failure)
	}
	return c.onResult(method, v.Get("result"))
}

func (c *Client) onResult(method string, result *fastjson.Value) []agents.Event {
	switch method {
	case "initialize":
		return c.onInitialized(result)
	case "session/new", "session/fork", "session/load", "session/resume":
		return c.onSession(result)
	case "session/set_mode", "session/set_model", "session/set_config_option":
		c.session.readOptions(result)
		return c.proceed()
	case "session/prompt":
		return c.onTurnEnd(result)
	}
	return nil
}

type object = map[string]any

// A message is one of JSON-RPC 2.0.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  object          `json:"params,omitempty"`
	Result  object          `json:"result,omitempty"`
	Error   object          `json:"error,omitempty"`
}

// ask sends a request.
func (c *Client) ask(method string, params object) {
	if c.recorded {
		return
	}
	c.lastID++
	id := strconv.FormatInt(c.lastID, 10)
	c.asked[id] = method
	c.send(message{ID: json.RawMessage(id), Method: method, Params: params})
}

// tell sends a notification.
func (c *Client) tell(method string, params object) { c.send(message{Method: method, Params: params}) }

// reply answers a request of the agent's, whose id goes back as it came.
func (c *Client) reply(id string, result object) {
	c.send(message{ID: json.RawMessage(id), Result: result})
}

// The errors of JSON-RPC that the client answers with.
const (
	invalidRequest = -32600
	methodNotFound = -32601
	cancelled      = -32800
)

func (c *Client) refuse(id string, code int, text string) {
	c.send(message{ID: json.RawMessage(id), Error: object{"code": code, "message": text}})
}

func (c *Client) send(m message) {
	if c.recorded {
		return
	}
	m.Version = "2.0"
	line, _ := json.Marshal(m) // texts, numbers, and ids that native.Raw has made
	c.out = append(c.out, line)
}

func one(b agents.Body) []agents.Event { return []agents.Event{{Body: b}} }
