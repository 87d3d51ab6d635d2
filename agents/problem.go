package agents

import (
	"errors"
	"fmt"
	"time"
)

// Cause says why a turn did not succeed, in words that all agents share. They
// are what `retry: {on: …}` names.
type Cause string

// The causes.
const (
	CauseAuth            Cause = "auth"              // no login, or a refused key
	CauseBilling         Cause = "billing"           // credit or payment
	CauseRateLimit       Cause = "rate_limit"        // too many requests for now
	CauseUsageLimit      Cause = "usage_limit"       // the plan's quota is used up until a reset
	CauseOverloaded      Cause = "overloaded"        // the provider has no capacity
	CauseNetwork         Cause = "network"           // no connection, or one that broke
	CauseServer          Cause = "server"            // the provider failed (5xx)
	CauseContext         Cause = "context"           // the conversation no longer fits the model
	CauseBudget          Cause = "budget"            // the turn's money limit
	CauseMaxTurns        Cause = "max_turns"         // the turn limit
	CauseMaxOutput       Cause = "max_output"        // the answer was cut at the output limit
	CauseRefusal         Cause = "refusal"           // the model declined
	CauseSchema          Cause = "schema"            // the answer does not match the output schema
	CauseSessionNotFound Cause = "session_not_found" // the CLI no longer knows the session
	CauseSessionInUse    Cause = "session_in_use"    // another process holds the session
	CauseModelNotFound   Cause = "model_not_found"
	CauseInvalidRequest  Cause = "invalid_request" // the provider refused the request as malformed
	CausePermission      Cause = "permission"      // a policy stopped it
	CauseSpawn           Cause = "spawn"           // the process could not be started
	CauseConfig          Cause = "config"          // bad flags, settings, or a mode the agent lacks
	CauseCrash           Cause = "crash"           // the process died
	CauseProtocol        Cause = "protocol"        // what it printed contradicts itself
	CauseTimeout         Cause = "timeout"
	CauseCancelled       Cause = "cancelled"
	CauseIncomplete      Cause = "incomplete"   // it ended without a result
	CauseExit            Cause = "exit"         // a shell step's exit status
	CauseOutputLimit     Cause = "output_limit" // it printed more than flow keeps
	CauseCheck           Cause = "check"        // the step's check did not pass
	CauseDenied          Cause = "denied"       // a person said no
	CauseConflict        Cause = "conflict"     // a merge conflicts
	CauseUnknown         Cause = "unknown"
)

// Causes lists every cause, for validation and documentation.
func Causes() []Cause {
	return []Cause{
		CauseAuth, CauseBilling, CauseRateLimit, CauseUsageLimit, CauseOverloaded, CauseNetwork, CauseServer,
		CauseContext, CauseBudget, CauseMaxTurns, CauseMaxOutput, CauseRefusal, CauseSchema, CauseSessionNotFound,
		CauseSessionInUse, CauseModelNotFound, CauseInvalidRequest, CausePermission, CauseSpawn, CauseConfig,
		CauseCrash, CauseProtocol, CauseTimeout, CauseCancelled, CauseIncomplete, CauseExit, CauseOutputLimit, CauseCheck, CauseDenied,
		CauseConflict, CauseUnknown,
	}
}

// Transient reports whether the same request may well succeed a little later.
func (c Cause) Transient() bool {
	switch c {
	case CauseRateLimit, CauseOverloaded, CauseNetwork, CauseServer, CauseCrash, CauseIncomplete, CauseSessionInUse:
		return true
	default:
		return false
	}
}

// A Problem is why a turn did not succeed. It is an error.
type Problem struct {
	Agent      string
	Cause      Cause
	Message    string    // what happened, in the agent's own words where it has some
	Hint       string    // what to do next, or ""
	RetryAfter time.Time // when a limit resets, or zero
}

func (p *Problem) Error() string {
	if p.Agent == "" {
		return p.Message
	}
	return fmt.Sprintf("%s: %s", p.Agent, p.Message)
}

// MaxOutput is how much a process may print on its standard output, in bytes. It is kept
// byte for byte, so there must be an end to it; real sessions stay far below.
const MaxOutput = 1 << 30

// Overflowed is the problem of a process that was killed for printing more than MaxOutput.
func Overflowed(agent string) *Problem {
	return &Problem{
		Agent: agent, Cause: CauseOutputLimit, Message: fmt.Sprintf("ended at the output limit: it printed more than %d GiB", MaxOutput>>30),
		Hint: "look at the end of what it printed; what is that long belongs in a file",
	}
}

// HintOf is what err itself says is to be done next, or "".
func HintOf(err error) string {
	if h, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return h.Hint()
	}
	return ""
}

// Unsupported is the problem of a request that agent cannot honour.
func Unsupported(agent, what, hint string) *Problem {
	return &Problem{Agent: agent, Cause: CauseConfig, Message: what, Hint: hint}
}
