package codex

import "encoding/json"

// errMethodNotFound is JSON-RPC's code for a request that is not known.
const errMethodNotFound = -32601

// rpc is flow's end of app-server's JSON-RPC, which leaves out the field "jsonrpc".
type rpc struct {
	out   [][]byte         // what is to be written
	last  int64            // the id of the last request
	calls map[int64]string // methods of the requests that have no answer yet
	// mute is for a conversation that another client had: its requests are counted, and
	// nothing is written.
	mute bool
}

// request asks for something. It returns the id that the answer will have.
func (r *rpc) request(method string, params any) int64 {
	if r.mute {
		return 0
	}
	r.last++
	r.asked(r.last, method)
	r.write(map[string]any{"id": r.last, "method": method, "params": params})
	return r.last
}

// asked takes in that a request waits for its answer.
func (r *rpc) asked(id int64, method string) {
	if r.calls == nil {
		r.calls = map[int64]string{}
	}
	r.calls[id] = method
}

// answered returns the method of the request that an answer is for, once.
func (r *rpc) answered(id int64) (method string, ok bool) {
	method, ok = r.calls[id]
	delete(r.calls, id)
	return method, ok
}

func (r *rpc) notify(method string) { r.write(map[string]any{"method": method}) }

// reply answers a request of codex. id is its id as it came.
func (r *rpc) reply(id json.RawMessage, result any) {
	r.write(map[string]any{"id": id, "result": result})
}

// refuse answers a request of codex with an error.
func (r *rpc) refuse(id json.RawMessage, code int, message string) {
	r.write(map[string]any{"id": id, "error": map[string]any{"code": code, "message": message}})
}

func (r *rpc) write(message map[string]any) {
	if r.mute {
		return
	}
	line, _ := json.Marshal(message) // cannot fail: its raw parts have been read as JSON
	r.out = append(r.out, line)
}
