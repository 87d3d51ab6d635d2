package acpclient

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/causes"
	"flow/agents/internal/native"
)

// The codes of errors that the protocol gives a meaning of their own.
const (
	authRequired     = -32000
	resourceNotFound = -32002
)

// problemOf explains an error that the agent answered a request with.
func (c *Client) problemOf(method string, failure *fastjson.Value) *agents.Problem {
	code, message := native.Int(failure, "code"), errorText(failure)
	cause := c.causeOf(code, message)
	switch {
	case method == "session/load" || method == "session/resume" || method == "session/fork":
		vague := cause == agents.CauseUnknown || cause == agents.CauseInvalidRequest
		if code == resourceNotFound || vague && causes.Contains(message, "session", "not found", "no such", "invalid") {
			cause = agents.CauseSessionNotFound
		}
	case method == "session/set_model" || method == "session/set_config_option":
		if cause == agents.CauseUnknown {
			cause = agents.CauseConfig
		}
	case c.turn.cancelled && code == cancelled:
		cause = agents.CauseCancelled
	}
	return c.newProblem(cause, fmt.Sprintf("%s failed: %s", method, message), "")
}

// errorText is what an error says: its message and the details, where these say more.
// Providers' own errors come as JSON within the message.
func errorText(failure *fastjson.Value) string {
	text := readable(native.String(failure, "message"))
	data := failure.Get("data")
	details := cmp.Or(native.String(data), native.String(data, "details"), native.String(data, "message"), native.String(data, "error"))
	if details = readable(details); details != "" && !strings.Contains(text, details) {
		text = strings.TrimPrefix(text+": "+details, ": ")
	}
	return cmp.Or(text, fmt.Sprintf("error %d", native.Int(failure, "code")))
}

// readable unwraps {"error": {"message": …}}.
func readable(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		return text
	}
	v, err := fastjson.Parse(text)
	if err != nil {
		return text
	}
	inner := cmp.Or(native.String(v, "error", "message"), native.String(v, "message"))
	if inner == "" || inner == text {
		return text
	}
	if status := native.String(v, "error", "status"); status != "" {
		return fmt.Sprintf("%s (%d %s)", readable(inner), native.Int(v, "error", "code"), status)
	}
	return readable(inner)
}

// causeOf finds out why from a code, which may be an HTTP status, and a message. It is
// CauseUnknown when neither tells.
func (c *Client) causeOf(code int64, message string) agents.Cause {
	if c.o.Cause != nil {
		if cause := c.o.Cause(code, message); cause != "" && cause != agents.CauseUnknown {
			return cause
		}
	}
	if cause := causes.OfText(message); cause != "" {
		return cause
	}
	if cause := causeOfCode(code); cause != "" {
		return cause
	}
	return agents.CauseUnknown
}

func causeOfCode(code int64) agents.Cause {
	switch code {
	case authRequired:
		return agents.CauseAuth
	case cancelled:
		return agents.CauseCancelled
	case -32602:
		return agents.CauseInvalidRequest
	}
	return causes.OfStatus(code)
}
