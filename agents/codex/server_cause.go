package codex

import (
	"cmp"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// failure reads a TurnError.
func (c *Conversation) failure(v *fastjson.Value) *agents.Problem {
	message, details := unwrap(native.String(v, "message")), unwrap(native.String(v, "additionalDetails"))
	if _, retry := readRetry(message); retry || message == "" { // the details say why
		message = cmp.Or(details, message, "codex said that the turn failed, and not why")
		details = ""
	}
	p := problem(causeOf(v.Get("codexErrorInfo"), message+" "+details), clip(message, maxMessage))
	if details != "" && !strings.Contains(message, details) {
		p.Message = clip(message+": "+details, maxMessage)
	}
	if p.Cause == agents.CauseUsageLimit || p.Cause == agents.CauseRateLimit {
		p.RetryAfter = c.resets
		if c.resets.IsZero() {
			p.RetryAfter = resetTime(message)
		}
	}
	return p
}

// refusal is the problem of a call without which there is no turn.
func refusal(method, message string, info *fastjson.Value) *agents.Problem {
	cause := causeOf(info, message)
	switch {
	case cause != agents.CauseUnknown:
	case method == "initialize":
		cause = agents.CauseProtocol
	default:
		cause = agents.CauseConfig
	}
	return problem(cause, clip(method+": "+message, maxMessage))
}

// causeOf is what a codexErrorInfo means: a word, or an object of one word with the
// status that the provider answered. Where it says nothing, message may.
func causeOf(info *fastjson.Value, message string) agents.Cause {
	switch {
	case info == nil:
		return classify(message)
	case info.Type() == fastjson.TypeString:
		return causeOfWord(native.String(info), message)
	case info.Get("activeTurnNotSteerable") != nil:
		return agents.CauseInvalidRequest
	}
	if status := statusOf(info); status != 0 {
		return causeOfStatus(status)
	}
	if cause := classify(message); cause != agents.CauseUnknown {
		return cause
	}
	for _, word := range []string{"httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected", "responseTooManyFailedAttempts"} {
		if info.Get(word) != nil {
			return agents.CauseNetwork
		}
	}
	return agents.CauseUnknown
}

func causeOfWord(word, message string) agents.Cause {
	switch word {
	case "contextWindowExceeded":
		return agents.CauseContext
	case "sessionBudgetExceeded":
		return agents.CauseBudget
	case "usageLimitExceeded":
		return agents.CauseUsageLimit
	case "rateLimitExceeded":
		return agents.CauseRateLimit
	case "flexUnavailable", "serverOverloaded", "policyCapacityUnavailable":
		return agents.CauseOverloaded
	case "modelNotFound":
		return agents.CauseModelNotFound
	case "cyberPolicy", "misalignmentPolicyViolation":
		return agents.CauseRefusal
	case "tooManyDenials", "inferenceHookDenied":
		return agents.CausePermission
	case "internalServerError":
		return agents.CauseServer
	case "unauthorized":
		return agents.CauseAuth
	case "badRequest":
		return agents.CauseInvalidRequest
	case "threadRollbackFailed":
		return agents.CauseProtocol
	case "sandboxError":
		return agents.CauseConfig
	default: // "other", and words of other versions
		return classify(message)
	}
}

// causeOfStatus is what an HTTP status of the provider means.
func causeOfStatus(status int) agents.Cause {
	switch {
	case status == 401 || status == 403:
		return agents.CauseAuth
	case status == 402:
		return agents.CauseBilling
	case status == 404:
		return agents.CauseModelNotFound
	case status == 429:
		return agents.CauseRateLimit
	case status == 503 || status == 529:
		return agents.CauseOverloaded
	case status >= 500:
		return agents.CauseServer
	case status >= 400:
		return agents.CauseInvalidRequest
	default:
		return agents.CauseNetwork
	}
}

// statusOf is the HTTP status in a codexErrorInfo, or 0.
func statusOf(info *fastjson.Value) int {
	object := info.GetObject()
	if object == nil {
		return 0
	}
	status := 0
	object.Visit(func(_ []byte, v *fastjson.Value) { status = max(status, int(native.Int(v, "httpStatusCode"))) })
	return status
}
