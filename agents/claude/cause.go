package claude

import (
	"strings"
	"time"

	"flow/agents"
)

// A failure is what the CLI says of one: the fields of a result, or as many of
// them as a retry or a synthetic message has.
type failure struct {
	subtype, terminal, stop, startup string
	status                           int    // HTTP status, 0 when there was none
	apiType, apiError                string // since 2.1.329
	assistantError                   string // `error` of the synthetic message
	text                             string
	interrupted                      bool
	limited                          bool
	resetsAt                         time.Time
}

func (f failure) problem() *agents.Problem {
	p := problem(f.cause(), f.text)
	switch {
	case p.Cause == agents.CauseCancelled:
		p.Message = "interrupted" // the text is a diagnostic of the CLI's own making
	case p.Message == "":
		p.Message = "the turn failed: " + f.subtype
	}
	if p.Cause == agents.CauseUsageLimit {
		p.RetryAfter = f.resetsAt
	}
	return p
}

// cause tells failures apart, the most exact word first. A status says more than
// the text, and the text more than the CLI's own coarse classes, which put an
// overloaded provider and a missing network under one name.
func (f failure) cause() agents.Cause {
	for _, cause := range []agents.Cause{f.turnCause(), f.apiCause(), f.statusCause(), textCause(f.text), f.classCause()} {
		if cause != "" {
			return cause
		}
	}
	return agents.CauseUnknown
}

func (f failure) turnCause() agents.Cause {
	switch f.subtype {
	case "error_max_turns":
		return agents.CauseMaxTurns
	case "error_max_budget_usd":
		return agents.CauseBudget
	case "error_max_structured_output_retries":
		return agents.CauseSchema
	}
	switch {
	case f.startup != "":
		return agents.CauseConfig
	case strings.HasPrefix(f.terminal, "aborted_"), f.subtype == "error_during_execution" && f.interrupted:
		return agents.CauseCancelled
	default:
		return ""
	}
}

func (f failure) apiCause() agents.Cause {
	switch {
	case f.apiError == "usage_limit_reached", f.limited && f.status == 429:
		return agents.CauseUsageLimit
	case f.apiError == "connection_failed":
		return agents.CauseNetwork
	case f.terminal == "prompt_too_long", f.terminal == "image_error", f.apiType == "request_too_large":
		return agents.CauseContext
	case f.apiType == "billing_error", f.assistantError == "billing_error" && f.status == 400:
		return agents.CauseBilling
	case f.stop == "refusal":
		return agents.CauseRefusal
	default:
		return ""
	}
}

func (f failure) statusCause() agents.Cause {
	switch {
	case f.status == 401, f.status == 403:
		return agents.CauseAuth
	case f.status == 402:
		return agents.CauseBilling
	case f.status == 404:
		return agents.CauseModelNotFound
	case f.status == 413:
		return agents.CauseContext
	case f.status == 429:
		return agents.CauseRateLimit
	case f.status == 529:
		return agents.CauseOverloaded
	case f.status >= 500:
		return agents.CauseServer
	default:
		return ""
	}
}

// classCause maps the values of assistant.error, those included that only the
// types of the SDK list. An API error of the class "unknown" without a status is
// an answer that no API gives: a proxy's page, say.
func (f failure) classCause() agents.Cause {
	if f.status >= 400 { // the statuses with a meaning of their own are done
		return agents.CauseInvalidRequest
	}
	switch f.assistantError {
	case "billing_error":
		return agents.CauseBilling
	case "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required", "cloud_credential_error":
		return agents.CauseAuth
	case "rate_limit":
		return agents.CauseRateLimit
	case "overloaded":
		return agents.CauseOverloaded
	case "server_error", "unknown":
		return agents.CauseServer
	case "model_not_found":
		return agents.CauseModelNotFound
	case "invalid_request":
		return agents.CauseInvalidRequest
	case "max_output_tokens":
		return agents.CauseMaxOutput
	default:
		return ""
	}
}

// textCause recognises messages that no field explains: those of a start that
// failed, and those of versions with fewer fields.
func textCause(text string) agents.Cause {
	table := []struct {
		part  string
		cause agents.Cause
	}{
		{"No conversation found with session ID", agents.CauseSessionNotFound},
		{"SESSION_NOT_FOUND", agents.CauseSessionNotFound},
		{"--resume requires a valid session", agents.CauseSessionNotFound},
		{"is already in use", agents.CauseSessionInUse},
		{"Not logged in", agents.CauseAuth},
		{"Invalid API key", agents.CauseAuth},
		{"Credit balance is too low", agents.CauseBilling},
		{"Prompt is too long", agents.CauseContext},
		{"ECONNREFUSED", agents.CauseNetwork},
		{"ECONNRESET", agents.CauseNetwork},
		{"ENOTFOUND", agents.CauseNetwork},
		{"cannot be used with root/sudo", agents.CauseConfig},
		{"Configuration error in", agents.CauseConfig},
		{"Invalid MCP configuration", agents.CauseConfig},
		{"(passed via --permission-prompt-tool) not found", agents.CauseConfig},
		{"Input must be provided", agents.CauseInvalidRequest},
		{"Input contained only whitespace", agents.CauseInvalidRequest},
		{"piped stdin input exceeds", agents.CauseInvalidRequest},
		{"Error parsing streaming input", agents.CauseInvalidRequest},
		{"Expected message role", agents.CauseInvalidRequest},
	}
	for _, row := range table {
		if strings.Contains(text, row.part) {
			return row.cause
		}
	}
	return ""
}

// startCause is the cause of a start that failed with text on standard error. What
// is not recognised but begins like a message of the CLI is a flag, a file or a
// schema that it does not like; anything else is no message but a crash.
func startCause(text string) agents.Cause {
	if cause := textCause(text); cause != "" {
		return cause
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "error:") || strings.HasPrefix(line, "Error:") {
			return agents.CauseConfig
		}
	}
	return agents.CauseCrash
}

func problem(cause agents.Cause, message string) *agents.Problem {
	return &agents.Problem{Agent: name, Cause: cause, Message: message, Hint: hint(cause, message)}
}

// hint says what to do next.
func hint(cause agents.Cause, message string) string {
	switch {
	case strings.Contains(message, "cannot be used with root/sudo"):
		return "run as non-root, or set IS_SANDBOX=1 in the profile's env when the machine is disposable"
	case strings.Contains(message, "unknown option"):
		return "check the profile's arguments; Claude Code before 2.1.329 knows fewer, see `claude --version`"
	}
	switch cause {
	case agents.CauseAuth:
		return Adapter{}.Info().Login
	case agents.CauseSpawn:
		return Adapter{}.Info().Install
	case agents.CauseBilling:
		return "add credit to the account, or use another key"
	case agents.CauseRateLimit:
		return "lower the number of parallel steps, or retry later"
	case agents.CauseUsageLimit:
		return "resume the run after the limit resets, or use another account"
	case agents.CauseOverloaded, agents.CauseServer:
		return "retry later, or use another model"
	case agents.CauseNetwork:
		return "check the connection, the proxy and ANTHROPIC_BASE_URL, then retry"
	case agents.CauseContext:
		return "shorten the prompt, or begin a new session"
	case agents.CauseBudget:
		return "raise the step's money limit, or give it less to do"
	case agents.CauseMaxTurns:
		return "raise the step's turn limit, or give it less to do"
	case agents.CauseRefusal:
		return "rephrase the prompt, or use another model"
	case agents.CauseSchema:
		return "simplify the output schema, or say in the prompt what it wants"
	case agents.CauseSessionNotFound:
		return "begin a new session"
	case agents.CauseSessionInUse:
		return "resume that session, or begin one with another id"
	case agents.CauseModelNotFound:
		return "check the model's name and that the account has access to it"
	case agents.CauseInvalidRequest:
		return "change the prompt"
	case agents.CauseConfig:
		return "correct the profile or the settings that the message names"
	case agents.CauseIncomplete, agents.CauseCrash:
		return "retry; the session can be resumed if it had begun"
	default:
		return ""
	}
}
