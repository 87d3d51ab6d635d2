package gemini

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"flow/agents"
)

// An apiError is the body of a failed call to the Gemini API, which the CLI
// passes on as "[API Error: {…}]".
type apiError struct {
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
	} `json:"error"`
}

const apiPrefix = "[API Error: "

// readable unwraps an error message of the CLI: the JSON of the API becomes its
// message, code and status.
func readable(message string) string {
	message = strings.TrimSpace(message)
	rest, wrapped := strings.CutPrefix(message, apiPrefix)
	if body, after, ok := cutAPIError(rest); ok {
		text := fmt.Sprintf("API error: %s (%d %s)", strings.TrimSpace(body.Error.Message), body.Error.Code, body.Error.Status)
		return join(text, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(after), "]")))
	}
	if !wrapped {
		return message
	}
	if end := strings.LastIndexByte(rest, ']'); end >= 0 {
		rest = rest[:end] + rest[end+1:]
	}
	return "API error: " + errorName.ReplaceAllString(strings.Join(strings.Fields(rest), " "), "")
}

// cutAPIError reads the API's JSON at the start of text and returns what follows.
func cutAPIError(text string) (body apiError, after string, ok bool) {
	if !strings.HasPrefix(text, "{") {
		return body, text, false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&body); err != nil || body.Error.Message == "" {
		return body, text, false
	}
	return body, text[dec.InputOffset():], true
}

// causeOf finds out why a turn failed from what the CLI said of it: the exit
// status, the type of the result's error and a message, raw or readable. It
// returns CauseUnknown when all three tell nothing.
func causeOf(code int, errorType, message string) agents.Cause {
	for _, cause := range []agents.Cause{
		causeOfType(errorType),
		causeOfSession(message),
		causeOfStatus(statusOf(code, message), message),
		causeOfCode(code),
		causeOfMessage(message),
	} {
		if cause != "" {
			return cause
		}
	}
	return agents.CauseUnknown
}

// causeOfType knows the CLI's own fatal errors; every API error is "unknown".
func causeOfType(errorType string) agents.Cause {
	switch errorType {
	case "FatalTurnLimitedError":
		return agents.CauseMaxTurns
	case "FatalAuthenticationError":
		return agents.CauseAuth
	case "FatalCancellationError":
		return agents.CauseCancelled
	case "FatalInputError", "FatalConfigError", "FatalSandboxError", "FatalUntrustedWorkspaceError":
		return agents.CauseConfig
	}
	return ""
}

// causeOfCode knows the exit statuses that the CLI gives to errors of its own.
func causeOfCode(code int) agents.Cause {
	switch code {
	case 41:
		return agents.CauseAuth
	case 42, 44, 52, 55: // input, sandbox, settings, untrusted folder
		return agents.CauseConfig
	case 53:
		return agents.CauseMaxTurns
	case 130:
		return agents.CauseCancelled
	}
	return ""
}

// inMessage finds the HTTP status in a readable message.
var inMessage = regexp.MustCompile(`\((\d{3}) [A-Z_]+\)`)

// statusOf is the HTTP status of a failed API call, or 0. The CLI exits with the
// status itself, of which the system keeps the lowest eight bits: 401 ends as
// 145, far from the signals for which a shell uses such numbers.
func statusOf(code int, message string) int {
	if status := code + 256; status >= 400 && status <= 511 {
		return status
	}
	var status int
	if m := inMessage.FindStringSubmatch(readable(message)); m != nil {
		_, _ = fmt.Sscan(m[1], &status)
	}
	return status
}

func causeOfStatus(status int, message string) agents.Cause {
	switch status {
	case 400:
		return causeOfBadRequest(message)
	case 401, 403:
		return agents.CauseAuth
	case 402:
		return agents.CauseBilling
	case 404:
		return agents.CauseModelNotFound
	case 429:
		if contains(message, "daily quota", "perday") {
			return agents.CauseUsageLimit
		}
		return agents.CauseRateLimit
	case 503, 529:
		return agents.CauseOverloaded
	}
	switch status / 100 {
	case 4:
		return agents.CauseInvalidRequest
	case 5:
		return agents.CauseServer
	}
	return ""
}

func causeOfBadRequest(message string) agents.Cause {
	switch {
	case contains(message, "api_key_invalid", "api key not valid", "api key expired"):
		return agents.CauseAuth
	case contains(message, "input token count", "exceeds the maximum number of tokens"):
		return agents.CauseContext
	}
	return agents.CauseInvalidRequest
}

// causeOfSession knows the two troubles with sessions, which share their exit
// status with any other bad input.
func causeOfSession(message string) agents.Cause {
	switch {
	case contains(message, "error resuming session"):
		return agents.CauseSessionNotFound
	case contains(message, "error starting session: session id"):
		return agents.CauseSessionInUse
	}
	return ""
}

// causeOfMessage goes by the texts of 0.61.0, for want of anything better.
func causeOfMessage(message string) agents.Cause {
	for _, rule := range []struct {
		cause agents.Cause
		texts []string
	}{
		{agents.CauseUsageLimit, []string{"daily quota"}},
		{agents.CauseRateLimit, []string{"current quota", "rate limit", "resource has been exhausted"}},
		{agents.CauseNetwork, []string{"fetch failed", "terminated", "econn", "enotfound", "etimedout"}},
		{agents.CauseMaxTurns, []string{"maximum session turns", "loop detected"}},
		{agents.CausePermission, []string{"agent execution blocked"}},
		{agents.CauseMaxOutput, []string{"exceeded the token limit"}},
		{agents.CauseRefusal, []string{"response was blocked"}},
		{agents.CauseIncomplete, []string{"empty response", "no final response text", "malformed function call", "invalid stream"}},
		{agents.CauseAuth, []string{"manual authorization is required", "invalid auth method", "gemini_api_key environment variable"}},
	} {
		if contains(message, rule.texts...) {
			return rule.cause
		}
	}
	if strings.Contains(message, "models/") && strings.Contains(message, "is not found") {
		return agents.CauseModelNotFound
	}
	return ""
}

// contains reports whether text has any of parts, which are in lower case.
func contains(text string, parts ...string) bool {
	text = strings.ToLower(text)
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
