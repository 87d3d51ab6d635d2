package simulate

import (
	"encoding/json"
	"fmt"
	"syscall"
)

// The codes of JSON-RPC errors.
const (
	rpcNoJSON         = -32700
	rpcInvalidRequest = -32600
	rpcNoMethod       = -32601
	rpcInvalidParams  = -32602
	rpcInternal       = -32603
	rpcNotFound       = -32002 // of ACP: there is no such resource
)

// An rpcError is an error of JSON-RPC.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

func rpcErrorf(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// An rpcMessage is a request, a notification or an answer.
type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// An rpcPeer is the agent's side of a conversation in JSON-RPC, one message a line.
type rpcPeer struct {
	*stream
	version string   // of the protocol, which some leave out
	sent    int      // requests, for their ids
	asked   *rpcCall // the request that waits for an answer, or nil
}

// An rpcCall is a request to the client. The methods of a nil one do nothing: an answer
// to nothing is ignored.
type rpcCall struct {
	id       any // a number, or text
	answered chan struct{}
	result   json.RawMessage
	err      *rpcError
}

func (c *rpcCall) over() bool {
	select {
	case <-c.answered:
		return true
	default:
		return false
	}
}

// take takes the answer, if it is the one to this request.
func (c *rpcCall) take(m rpcMessage) {
	if c == nil || c.over() {
		return
	}
	if id, err := json.Marshal(c.id); err == nil && string(id) == string(m.ID) {
		c.result, c.err = m.Result, m.Error
		close(c.answered)
	}
}

// fail ends the wait without an answer.
func (c *rpcCall) fail(err *rpcError) {
	if c != nil && !c.over() {
		c.err = err
		close(c.answered)
	}
}

func (r *rpcPeer) message(fields object) object {
	if r.version != "" {
		fields["jsonrpc"] = r.version
	}
	return fields
}

// answer answers a request of the client.
func (r *rpcPeer) answer(id json.RawMessage, result any, err *rpcError) {
	if err != nil {
		r.put(r.message(object{"id": id, "error": err}))
		return
	}
	r.put(r.message(object{"id": id, "result": result}))
}

// call sends a request, in the odd ways that the script wants, and waits until it is
// answered or the turn is interrupted.
func (r *rpcPeer) call(odd oddities, method string, params object, withdraw func(*rpcCall)) *rpcCall {
	c := &rpcCall{id: r.sent, answered: make(chan struct{})}
	if odd.id0 {
		c.id = fmt.Sprint(r.sent)
	}
	r.sent++
	r.asked = c
	line := r.message(object{"id": c.id, "method": method, "params": params})
	r.send(line)
	if odd.duplicate {
		r.send(line)
	}
	if odd.dies {
		crash(syscall.SIGSEGV)
	}
	if odd.withdraws {
		c.fail(rpcErrorf(rpcInternal, "the request was taken back"))
		withdraw(c)
	}
	r.attend(r.ctx, c.answered)
	r.asked = nil
	return c
}
