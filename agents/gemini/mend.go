package gemini

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A session's file has one JSON object a line: a head, messages (one with an id that was
// there before takes its place), changes ({"$set": {…}}) that replace fields of the head
// and, as "messages", all messages, and {"$rewindTo": ID}.
//
// Of a tool's result the CLI keeps two records: one with the call, in the model's
// message, and one as a message of the user. When it resumes the session it sends both,
// which the API refuses, and stores both, so that they grow with every resume.

// mend returns a session's file with every result once, under the given id. It keeps
// what the CLI would read of the file, which is less than what stands there.
func mend(data []byte, id string) []byte {
	c := readChat(data)
	c.head["sessionId"] = encodeJSON(id)
	var out bytes.Buffer
	write := func(r record) {
		out.Write(encodeJSON(r))
		out.WriteByte('\n')
	}
	write(c.head)
	seen := map[string]bool{}
	for _, m := range c.messages {
		noteResults(m, seen)
		if m = withoutResults(m, seen); m != nil {
			write(m)
		}
	}
	return out.Bytes()
}

// record is a JSON object of which only some fields matter.
type record = map[string]json.RawMessage

// A chat is a session as the CLI reads it.
type chat struct {
	head     record
	messages []record
}

// readChat leaves out lines that are no objects: a kill may have cut the last.
func readChat(data []byte) *chat {
	c := &chat{head: record{}}
	for line := range bytes.Lines(data) {
		var r record
		if json.Unmarshal(line, &r) == nil {
			c.add(r)
		}
	}
	return c
}

func (c *chat) add(r record) {
	var set record
	switch {
	case r["$rewindTo"] != nil:
		c.rewind(stringOf(r["$rewindTo"]))
	case json.Unmarshal(r["$set"], &set) == nil:
		c.change(set)
	case stringOf(r["id"]) != "":
		c.put(r)
	case r["sessionId"] != nil:
		c.change(r)
	}
}

// rewind takes back a message and all after it; all, when there is no such message.
func (c *chat) rewind(id string) {
	c.messages = c.messages[:max(0, c.index(id))]
}

func (c *chat) change(fields record) {
	var messages []record
	if given := fields["messages"]; given != nil && json.Unmarshal(given, &messages) == nil {
		c.messages = nil
		for _, m := range messages {
			if stringOf(m["id"]) != "" {
				c.put(m)
			}
		}
	}
	for name, value := range fields {
		if name != "messages" {
			c.head[name] = value
		}
	}
}

func (c *chat) put(m record) {
	if i := c.index(stringOf(m["id"])); i >= 0 {
		c.messages[i] = m
		return
	}
	c.messages = append(c.messages, m)
}

// index is where the message of an id stands, -1 if nowhere. The latest is looked at
// first: it is the one that is most often replaced.
func (c *chat) index(id string) int {
	for i, m := range slices.Backward(c.messages) {
		if stringOf(m["id"]) == id {
			return i
		}
	}
	return -1
}

// sessionID is the id in a session's head, "" if there is none.
func sessionID(data []byte) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var head record
	_ = json.Unmarshal(line, &head) // what is no head has no id
	return stringOf(head["sessionId"])
}

// noteResults adds to seen the ids of the calls whose results stand with them.
func noteResults(message record, seen map[string]bool) {
	var calls []struct {
		ID     string          `json:"id"`
		Result json.RawMessage `json:"result"`
	}
	_ = json.Unmarshal(message["toolCalls"], &calls) // most messages have none
	for _, c := range calls {
		if c.ID != "" && len(c.Result) > 0 && !bytes.Equal(c.Result, []byte("null")) {
			seen[c.ID] = true
		}
	}
}

// withoutResults is a message without the results that were seen before, nil when it is
// of nothing else. It notes those that it keeps.
func withoutResults(message record, seen map[string]bool) record {
	var parts []json.RawMessage
	if json.Unmarshal(message["content"], &parts) != nil {
		return message // a text
	}
	var kept []json.RawMessage
	for _, part := range parts {
		id := resultID(part)
		if id != "" && seen[id] {
			continue
		}
		seen[id] = true
		kept = append(kept, part)
	}
	switch {
	case len(kept) == len(parts):
		return message
	case len(kept) == 0:
		return nil
	}
	message["content"] = encodeJSON(kept)
	return message
}

// resultID is the id of the call whose result a part of a message is, "" if it is none.
func resultID(part json.RawMessage) string {
	var p struct {
		FunctionResponse struct {
			ID string `json:"id"`
		} `json:"functionResponse"`
	}
	_ = json.Unmarshal(part, &p) // texts are no objects
	return p.FunctionResponse.ID
}

// stringOf is the string that v is, or "".
func stringOf(v json.RawMessage) string {
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

// encodeJSON cannot fail: it gets strings, and what was decoded.
func encodeJSON(v any) json.RawMessage {
	data, _ := json.Marshal(v)
	return data
}
