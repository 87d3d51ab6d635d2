package claude

import (
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// olderRequest is the type of a control_request in the protocol that a wrapper of an
// older CLI may speak. Such a wrapper is understood, and is spoken to as a CLI is: it is
// answered with a control_response, whose inner part is the same as that of its
// callback.response.
const olderRequest = "callback.request"

// olderMessage is a message of that protocol, and whether it is one.
func (d *dialog) olderMessage(typ string, v *fastjson.Value) ([]agents.Event, bool) {
	switch typ {
	case "session.created":
		return system(typ, native.String(v, "session_id")), true
	case "error":
		d.complaint = strings.TrimSpace(native.String(v, "error", "code") + " " + native.String(v, "error", "message"))
		return []agents.Event{{Body: agents.Error{Message: d.complaint, Cause: textCause(d.complaint)}}}, true
	}
	return nil, false
}

// messageID is the id of an assistant's message, which the older protocol has only on
// the line.
func messageID(line *fastjson.Value) string {
	if id := native.String(line, "message", "id"); id != "" {
		return id
	}
	return native.String(line, "uuid")
}

// toolNames are the tools of init: names, in the older protocol objects with one.
func toolNames(tools []*fastjson.Value) []string {
	var names []string
	for _, tool := range tools {
		if tool.Type() == fastjson.TypeObject {
			tool = tool.Get("name")
		}
		names = append(names, native.String(tool))
	}
	return names
}
