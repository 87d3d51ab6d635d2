// Package causes finds out why an agent has failed, for agents of which no more is known
// than what most of them say.
package causes

import (
	"strings"

	"flow/agents"
)

// OfStatus explains an HTTP status; "" for any other number.
func OfStatus(code int64) agents.Cause {
	switch code {
	case 401, 403:
		return agents.CauseAuth
	case 402:
		return agents.CauseBilling
	case 404:
		return agents.CauseModelNotFound
	case 429:
		return agents.CauseRateLimit
	case 503, 529:
		return agents.CauseOverloaded
	}
	switch code / 100 {
	case 4:
		return agents.CauseInvalidRequest
	case 5:
		return agents.CauseServer
	}
	return ""
}

// OfText goes by what agents and providers usually say. It returns "" for a text that tells
// nothing.
func OfText(message string) agents.Cause {
	for _, rule := range []struct {
		cause agents.Cause
		texts []string
	}{
		{agents.CauseUsageLimit, []string{"daily quota", "usage limit", "quota exceeded", "exceeded your quota", "insufficient_quota"}},
		{agents.CauseRateLimit, []string{"rate limit", "rate_limit", "too many requests", "resource has been exhausted", "current quota"}},
		{agents.CauseBilling, []string{"credit balance", "payment required", "billing"}},
		{agents.CauseAuth, []string{"authentication required", "unauthorized", "unauthenticated", "api key", "api_key", "not logged in", "please log in", "auth login"}},
		{agents.CauseOverloaded, []string{"overloaded", "at capacity"}},
		{agents.CauseContext, []string{"context length", "context window", "prompt is too long", "maximum number of tokens"}},
		{agents.CauseModelNotFound, []string{"model not found", "unknown model", "modelnotfound"}},
		{agents.CauseNetwork, []string{"fetch failed", "econnrefused", "econnreset", "enotfound", "etimedout", "connection refused", "unable to connect"}},
	} {
		if Contains(message, rule.texts...) {
			return rule.cause
		}
	}
	return ""
}

// Contains reports whether text has any of parts, which are in lower case.
func Contains(text string, parts ...string) bool {
	text = strings.ToLower(text)
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// LastLines is the end of what a process said on standard error, on one line.
func LastLines(stderr string) string {
	const most = 600
	text := strings.Join(strings.Fields(stderr), " ")
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
