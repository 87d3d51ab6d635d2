package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"flow/agents"
)

// maxMessage bounds a problem's message, in bytes.
const maxMessage = 2 << 10

func problem(c agents.Cause, message string) *agents.Problem {
	return &agents.Problem{Cause: c, Message: message, Hint: hint(c)}
}

// phrases are words, in lower case, that mean a cause.
type phrases struct {
	cause agents.Cause
	words []string
}

// dictionary says which words of a message mean which cause; the first match counts.
// Exec prints no error codes, so its English is all there is. The order matters:
// many messages are wrapped in "stream disconnected before completion: …".
func dictionary() []phrases {
	return []phrases{
		{agents.CauseContext, []string{"ran out of room in the model's context window", "context_length_exceeded"}},
		{agents.CauseMaxOutput, []string{"reason: max_output_tokens"}},
		{agents.CauseRefusal, []string{"reason: content_filter", "flagged", "usage polic", "cyber_policy"}},
		{agents.CauseUsageLimit, []string{"hit your usage limit", "usage_limit_reached", "quota exceeded", "insufficient_quota", "exceeded your current quota"}},
		{agents.CauseBilling, []string{"402 payment required", "billing_hard_limit", "billing_not_active"}},
		{agents.CauseRateLimit, []string{"429 too many requests", "rate limit", "rate_limit"}},
		{agents.CauseAuth, []string{
			"401 unauthorized", "403 forbidden", "missing environment variable", "incorrect api key", "invalid_api_key",
			"not logged in", "codex login", "refresh token", "sign in again", "log in again",
		}},
		{agents.CauseModelNotFound, []string{"model_not_found", "model is not supported"}},
		{agents.CauseOverloaded, []string{"at capacity", "server_is_overloaded", "503 service unavailable", "overloaded"}},
		{agents.CauseServer, []string{"experiencing high demand", "unexpected status 5", "last status: 5", "before completion: an error occurred", "server_error"}},
		{agents.CauseSessionNotFound, []string{"no rollout found", "thread not found"}},
		{agents.CauseSessionInUse, []string{"already has an active writer"}},
		{agents.CauseConfig, []string{
			"error loading config", "not inside a trusted directory", "required mcp servers failed", "no prompt provided",
			"input exceeds the maximum length", "input is not valid utf-8", "output schema file", "no such file or directory",
			"read-only file system", "permission denied", "refusing to start the interactive tui", "404 not found",
			"failed to open last message file", "codex_home",
		}},
		{agents.CauseNetwork, []string{
			"stream disconnected before completion", "connection failed", "error sending request", "failed to lookup address",
			"waiting for network", "idle timeout waiting", "connection refused", "connection reset", "timed out",
		}},
		{agents.CauseInvalidRequest, []string{"400 bad request", "invalid_request_error", "invalid prompt", "unsupported parameter", "unexpected status 4"}},
	}
}

// classify finds the cause of a message of codex, CauseUnknown when its words tell
// none.
func classify(message string) agents.Cause {
	text := strings.ToLower(strings.ReplaceAll(message, "’", "'"))
	for _, p := range dictionary() {
		if slices.ContainsFunc(p.words, func(words string) bool { return strings.Contains(text, words) }) {
			return p.cause
		}
	}
	if strings.Contains(text, "model") && (strings.Contains(text, "does not exist") || strings.Contains(text, "not found")) {
		return agents.CauseModelNotFound
	}
	return agents.CauseUnknown
}

// known drops the cause that says nothing.
func known(c agents.Cause) agents.Cause {
	if c == agents.CauseUnknown {
		return ""
	}
	return c
}

// hint says what to do about a cause, in one line.
func hint(c agents.Cause) string {
	switch c {
	case agents.CauseAuth:
		return login
	case agents.CauseBilling:
		return "see the plan and the billing details of the account"
	case agents.CauseUsageLimit:
		return "wait for the reset, or use another account or agent"
	case agents.CauseRateLimit:
		return "run fewer codex steps at once, or retry later"
	case agents.CauseOverloaded:
		return "retry later, or name another model"
	case agents.CauseNetwork:
		return "check the connection and the proxy settings"
	case agents.CauseContext:
		return "begin a new session, or split the step"
	case agents.CauseMaxOutput:
		return "ask for a shorter answer, or split the step"
	case agents.CauseRefusal:
		return "put the prompt in other words"
	case agents.CauseModelNotFound:
		return "name a model that the account has, or none for the default"
	case agents.CauseSessionNotFound:
		return "begin a new session; sessions live in CODEX_HOME, which may have changed"
	case agents.CauseSessionInUse:
		return "wait for the process that holds the session, or fork the session"
	case agents.CauseInvalidRequest:
		return "the provider refused the request: check model, effort and output schema"
	case agents.CauseCrash, agents.CauseIncomplete:
		return "try again; its session can be resumed if it had begun"
	case agents.CauseConfig:
		return "check the profile's settings and `args`, and codex's own configuration"
	default:
		return ""
	}
}

// unwrap returns the message in an error body: codex prints the body of a 400 as it
// came. Any other text is returned as it is.
func unwrap(message string) string {
	if !strings.HasPrefix(message, "{") {
		return message
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    string `json:"code"`
		} `json:"error"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal([]byte(message), &body) != nil {
		return message
	}
	switch e := body.Error; {
	case e.Message != "" && e.Code != "":
		return fmt.Sprintf("%s (%s)", e.Message, e.Code)
	case e.Message != "" && e.Type != "":
		return fmt.Sprintf("%s (%s)", e.Message, e.Type)
	case e.Message != "":
		return e.Message + " (400 Bad Request)"
	case body.Detail != "":
		return body.Detail + " (400 Bad Request)"
	default:
		return message
	}
}

// readRetry reads "Reconnecting... 2/5 (why)" and "Reconnecting... waiting for
// network (why)", whose attempt is left 0.
func readRetry(message string) (agents.Retry, bool) {
	rest, ok := strings.CutPrefix(message, "Reconnecting... ")
	if !ok {
		return agents.Retry{}, false
	}
	count, why, _ := strings.Cut(rest, " (")
	why = strings.TrimSuffix(why, ")")
	r := agents.Retry{Cause: known(classify(cmp.Or(why, rest))), Status: httpStatus(why), Message: why}
	if n, limit, ok := strings.Cut(count, "/"); ok {
		r.Attempt, _ = strconv.Atoi(n)
		r.MaxRetries, _ = strconv.Atoi(limit)
	}
	return r, true
}

// httpStatus is the number after "status ", or 0.
func httpStatus(s string) int {
	_, rest, _ := strings.Cut(s, "status ")
	digits, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 100 || n > 599 {
		return 0
	}
	return n
}

// resetTime is when a usage limit ends, which codex tells in local time: "try again
// at Nov 21st, 2026 10:26 PM". When that is today codex leaves out the date; the
// result is then zero, as it is when nothing is said: without a clock it cannot be
// known.
func resetTime(message string) time.Time {
	at := regexp.MustCompile(`try again at ([A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th)(, \d{4} \d{1,2}:\d{2} [AP]M)`)
	m := at.FindStringSubmatch(message)
	if m == nil {
		return time.Time{}
	}
	t, err := time.ParseInLocation("Jan 2, 2006 3:04 PM", m[1]+m[2], time.Local)
	if err != nil {
		return time.Time{}
	}
	return t
}

// stderrTail is what standard error says to people, at most its last 2 KiB: without
// warnings and the notices of every start, and without log lines unless logs.
func stderrTail(stderr string, logs bool) string {
	var told []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "Reading ") && strings.HasSuffix(line, " from stdin..."):
		case strings.HasPrefix(strings.ToLower(line), "warning:"), isLog(line) && !logs:
		default:
			told = append(told, line)
		}
	}
	text := strings.Join(told, "\n")
	if cut := len(text) - maxMessage; cut > 0 {
		text = strings.ToValidUTF8(text[cut:], "")
	}
	return text
}

// isLog reports whether line is one of tracing's: "2026-11-21T00:03:15.6Z ERROR …".
func isLog(line string) bool {
	stamp, _, _ := strings.Cut(line, " ")
	_, err := time.Parse(time.RFC3339Nano, stamp)
	return err == nil
}

// clip returns the first n bytes of s, whole characters only.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
