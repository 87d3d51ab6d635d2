// Package rpc is the protocol by which programs drive flow: JSON-RPC 2.0, the methods and
// notifications with their types, and the ways they travel: lines on two streams, HTTP and
// WebSocket. What the methods do is not its business.
package rpc

import (
	"bytes"
	"encoding/json"
)

// MaxMessage bounds one message, or batch, that a client sends, in bytes. A pipeline has at
// most 1 MiB.
const MaxMessage = 8 << 20

// A message is a request, a notification or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// null is the id of an answer to what cannot be read.
const null = "null"

// isBatch reports whether a text is a list of messages.
func isBatch(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '['
}

// readMessage reads one message. If it is none, the error says so, and the message has the
// id that the answer must have.
func readMessage(text []byte) (message, *Error) {
	var m message
	if !json.Valid(text) {
		return message{ID: json.RawMessage(null)}, ParseError("the message is not JSON", "send one JSON object, or a list of them, for each message")
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return message{ID: json.RawMessage(null)}, InvalidRequest("the message is not an object of JSON-RPC 2.0")
	}
	if !isID(m.ID) {
		return message{ID: json.RawMessage(null)}, InvalidRequest("the id is neither text nor a number")
	}
	if m.Version != "2.0" {
		return m.answerable(), InvalidRequest(`"jsonrpc" is not "2.0"`)
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m.answerable(), InvalidRequest("there is no method")
	}
	return m, nil
}

// answerable is the message with an id: that of an answer to a bad one.
func (m message) answerable() message {
	if len(m.ID) == 0 {
		m.ID = json.RawMessage(null)
	}
	return m
}

// isID reports whether an id is one, or is absent. 0 and "" are ids.
func isID(id json.RawMessage) bool {
	return len(id) == 0 || id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9' || string(id) == null
}

// appendMessage appends a message as one line without its newline.
func appendMessage(b []byte, m message) []byte {
	m.Version = "2.0"
	text, err := marshal(m)
	if err != nil { // its parts were marshalled before
		panic(err)
	}
	return append(b, text...)
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
