package simulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"flow/agents"
)

// A claudeFailure is how the API's refusal shows in the stream.
type claudeFailure struct {
	status   int    // of HTTP; 0 is null
	apiType  string // api_error_type
	apiError string // api_error
	kind     string // error of the assistant line
	text     string
	terminal string // terminal_reason; "" is api_error
	retries  int    // how often the CLI tries again before
	retry    string // error of the api_retry lines
}

func claudeFailures(model string) map[agents.Cause]claudeFailure {
	const serverSide = " This is a server-side issue, usually temporary — try again in a moment."
	return map[agents.Cause]claudeFailure{
		agents.CauseAuth: {
			status: 401, apiType: "authentication_error", kind: "authentication_failed",
			text: "Invalid API key · Fix external API key", retries: 10, retry: "authentication_failed",
		},
		agents.CauseBilling: {
			status: 400, apiType: "invalid_request_error", kind: "billing_error", text: "Credit balance is too low",
		},
		agents.CauseRateLimit: {
			status: 429, apiType: "rate_limit_error", kind: "rate_limit", retries: 10, retry: "rate_limit",
			text: "API Error: Request rejected (429) · This request would exceed your rate limit",
		},
		agents.CauseUsageLimit: {
			status: 429, apiType: "rate_limit_error", apiError: "usage_limit_reached", kind: "rate_limit",
			text: "You've hit your 5-hour limit · resets 10:26pm (UTC)",
		},
		agents.CauseOverloaded: {
			status: 529, apiType: "overloaded_error", kind: "server_error", retries: 2, retry: "overloaded",
			text: "API Error: 529 Overloaded." + serverSide,
		},
		agents.CauseServer: {
			status: 500, apiType: "api_error", kind: "server_error", retries: 10, retry: "server_error",
			text: "API Error: 500 Internal server error." + serverSide,
		},
		agents.CauseNetwork: {
			apiError: "connection_failed", kind: "server_error", retries: 10, retry: "unknown",
			text: "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
		},
		agents.CauseContext: {
			status: 400, apiType: "invalid_request_error", kind: "invalid_request", terminal: "prompt_too_long",
			text: "Prompt is too long · the request is ~210000 tokens (limit 200000). Reduce attached files/tools or start with less context.",
		},
		agents.CauseInvalidRequest: {
			status: 400, apiType: "invalid_request_error", kind: "unknown", text: "API Error: 400 messages.1: bad",
		},
		agents.CauseModelNotFound: {
			status: 404, apiType: "not_found_error", kind: "model_not_found",
			text: "There's an issue with the selected model (" + model + "). It may not exist or you may not have access to it. Run --model to pick a different model.",
		},
		agents.CauseMaxOutput: {
			kind: "max_output_tokens",
			text: "API Error: Claude's response exceeded the 32000 output token maximum.",
		},
		agents.CauseRefusal: {
			kind: "invalid_request",
			text: "API Error: Opus 5.5's safeguards flagged this message (https://www.anthropic.com/legal/aup). This sometimes happens with safe, normal conversations.",
		},
	}
}

func (c *claude) fails(cause agents.Cause) error {
	_, ok := claudeFailures("")[cause]
	if ok || cause == agents.CauseBudget || cause == agents.CauseMaxTurns {
		return nil
	}
	return fmt.Errorf("flow simulate: claude has no failure %q; see the causes in\n%s", cause, Help)
}

// fail prints how the turn fails.
func (c *claude) fail(cause agents.Cause) int {
	if cause == agents.CauseBudget || cause == agents.CauseMaxTurns {
		return c.limited(cause)
	}
	f := claudeFailures(c.session.Model)[cause]
	c.retry(f)
	switch cause {
	case agents.CauseUsageLimit:
		c.rateLimit()
	case agents.CauseRefusal:
		c.declined()
	default: // nothing stands before the message
	}
	c.synthetic(f)
	r := c.resultOf("success")
	r["terminal_reason"], r["stop_reason"], r["result"] = f.reason(), f.stop(cause), f.text
	r["api_error_status"] = f.code()
	f.describe(r)
	c.send(r)
	return 1
}

// code is the HTTP status, or null.
func (f claudeFailure) code() any {
	if f.status == 0 {
		return nil
	}
	return f.status
}

func (f claudeFailure) reason() string {
	if f.terminal != "" {
		return f.terminal
	}
	return "api_error"
}

func (f claudeFailure) stop(cause agents.Cause) string {
	if cause == agents.CauseRefusal {
		return "refusal"
	}
	return "stop_sequence"
}

// describe adds the API's names of the error, which are absent where there are none.
func (f claudeFailure) describe(line object) {
	if f.apiType != "" {
		line["api_error_type"] = f.apiType
	}
	if f.apiError != "" {
		line["api_error"] = f.apiError
	}
}

// retry prints the attempts that the CLI makes by itself. Their delays are told but
// not waited for.
func (c *claude) retry(f claudeFailure) {
	most := 10
	if n, err := strconv.Atoi(c.env("CLAUDE_CODE_MAX_RETRIES")); err == nil {
		most = n
	}
	for i := range min(f.retries, most) {
		c.system("api_retry", object{
			"attempt": i + 1, "max_retries": most, "retry_delay_ms": 500 << i, "error_status": f.code(), "error": f.retry,
		})
	}
}

// synthetic prints the message that stands for the model's.
func (c *claude) synthetic(f claudeFailure) {
	c.messages++
	m := object{
		"id": uuid.NewString(), "type": "message", "role": "assistant", "model": "<synthetic>",
		"content":     []any{object{"type": "text", "text": f.text}},
		"stop_reason": "stop_sequence", "stop_sequence": "", "usage": wireUsage(0), "context_management": nil,
	}
	line := c.envelope(object{
		"type": "assistant", "message": m, "parent_tool_use_id": nil, "timestamp": timestamp(), "error": f.kind,
		"is_api_error_message": true,
	})
	if f.status != 0 {
		line["api_error_status"] = f.status
	}
	f.describe(line)
	c.send(line)
}

// rateLimit prints the state of the subscription's limit, which resets in an hour.
func (c *claude) rateLimit() {
	c.send(c.envelope(object{"type": "rate_limit_event", "rate_limit_info": object{
		"status": "rejected", "resetsAt": time.Now().Add(time.Hour).Unix(), "rateLimitType": "five_hour",
		"overageStatus": "rejected", "isUsingOverage": false,
	}}))
}

// declined prints the two messages of a model that refuses twice.
func (c *claude) declined() {
	c.say("I can't help with that.")
	c.user([]any{object{"type": "text", "text": "The response was stopped by a safeguard. Go on without it."}},
		object{"isSynthetic": true})
	c.say("I can't help with that.")
	c.system("model_refusal_no_fallback", object{
		"original_model": c.session.Model, "api_refusal_category": nil, "api_refusal_explanation": nil, "content": "",
	})
}

// limited ends a turn at its limit of turns or money.
func (c *claude) limited(cause agents.Cause) int {
	subtype, reason := "error_max_turns", "max_turns"
	message := fmt.Sprintf("Reached maximum number of turns (%d)", max(1, c.args.maxTurns))
	if cause == agents.CauseBudget {
		subtype, reason = "error_max_budget_usd", "budget_exhausted"
		message = fmt.Sprintf("Reached maximum budget ($%s)", strconv.FormatFloat(c.args.maxBudget, 'f', -1, 64))
	}
	r := c.resultOf(subtype)
	r["usage"] = claudeUsage(agents.Usage{}) // modelUsage has it
	r["terminal_reason"], r["stop_reason"], r["errors"] = reason, "tool_use", []string{message}
	c.send(r)
	return 1
}

// interrupt ends a turn that a signal or the client stopped.
func (c *claude) interrupt(cause error) int {
	s, _ := errors.AsType[signalled](cause)
	switch {
	case errors.Is(cause, errClosed):
		return 0 // the CLI takes no notice
	case s.signal != 0 && s.signal != syscall.SIGINT:
		return 128 + int(s.signal)
	}
	c.reopen()
	c.aborted = true
	reason, text := "aborted_streaming", "[Request interrupted by user]"
	stop := any(nil)
	if c.pending != "" {
		reason, text, stop = "aborted_tools", "[Request interrupted by user for tool use]", "tool_use"
		c.settle(toolResult{
			failed: true, detail: "User rejected tool use",
			content: "The user doesn't want to proceed with this tool use. The tool use was rejected.",
			meta:    object{"non_execution_kind": "user-rejected"},
		})
	}
	c.user([]any{object{"type": "text", "text": text}}, nil)
	r := c.resultOf("error_during_execution")
	r["num_turns"], r["terminal_reason"], r["stop_reason"] = c.turns+1, reason, stop
	r["errors"] = []string{"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=" + strings.ReplaceAll(fmt.Sprint(stop), "<nil>", "null")}
	c.send(r)
	if s.signal == syscall.SIGINT {
		return 0
	}
	return 1
}
