package acpclient

import (
	"fmt"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/causes"
)

// Ended reports whether there is nothing more to come: the turn has ended, or the session
// could not be begun.
func (c *Client) Ended() bool { return c.turn.ended || c.problem != nil }

// Say begins a further turn in the session. Into a turn under way the protocol lets
// nothing be said.
func (c *Client) Say(text string) bool {
	if !c.turn.ended {
		return false
	}
	c.prompt(text)
	return true
}

// Close ends the session where the agent keeps account of that.
func (c *Client) Close() {
	if c.info.close && c.session.answered {
		c.ask("session/close", object{"sessionId": c.session.id})
	}
}

// End says what became of the last turn. The agent's answer to the prompt decides: what
// the process does after it, and its exit status, change nothing.
func (c *Client) End(exit agents.Exit) agents.Outcome {
	out := agents.Outcome{
		SessionID: c.session.id, Model: c.model, Version: c.info.version, Began: c.began,
		Text: c.turn.text.String(), Usage: c.spent.usage, CostUSD: c.turnCost(),
	}
	out.Denied = c.denied()
	out.Reason, out.Problem = c.verdict(exit)
	return out
}

// denied are the calls that were refused.
func (c *Client) denied() []string {
	var all []string
	for _, k := range c.judged {
		if k.declined() && (k.ended || c.turn.ended) {
			all = append(all, k.String())
		}
	}
	return all
}

func (c *Client) verdict(exit agents.Exit) (agents.Reason, *agents.Problem) {
	switch {
	case exit.Err != nil:
		return agents.Failed, c.newProblem(agents.CauseSpawn, "could not be started: "+exit.Err.Error(), c.o.Install)
	case c.problem != nil:
		return reasonOf(c.problem), c.problem
	case c.turn.ended:
		return c.ofTurn(exit.Intent)
	case exit.Intent != agents.IntentNone && exit.Intent != agents.IntentDone:
		return c.ofIntent(exit.Intent)
	case exit.Signal != "":
		return c.ofSignal(strings.TrimPrefix(exit.Signal, "SIG"))
	}
	return agents.Failed, c.withoutAnswer(exit)
}

// ofTurn reads why the agent ended the turn.
func (c *Client) ofTurn(intent agents.Intent) (agents.Reason, *agents.Problem) {
	if p := c.turn.problem; p != nil {
		return reasonOf(p), p
	}
	cause, message := agents.CauseProtocol, fmt.Sprintf("it ended the turn for a reason that flow does not know: %q", c.turn.stop)
	switch c.turn.stop {
	case "end_turn":
		if strings.TrimSpace(c.turn.text.String()) != "" {
			return agents.Completed, nil
		}
		cause, message = agents.CauseIncomplete, "it ended the turn without an answer"
		if denied := c.denied(); len(denied) > 0 {
			cause, message = agents.CausePermission, message+", for it was refused "+strings.Join(denied, ", ")
		}
	case "cancelled":
		if intent == agents.IntentDone {
			intent = agents.IntentNone
		}
		return c.ofIntent(intent)
	case "max_tokens":
		cause, message = agents.CauseMaxOutput, "it came to its limit of tokens"
	case "max_turn_requests":
		cause, message = agents.CauseMaxTurns, "it came to its limit of model calls, or went round in circles"
	case "refusal":
		cause, message = agents.CauseRefusal, "the model refused"
	}
	return agents.Failed, c.newProblem(cause, message, "")
}

func reasonOf(p *agents.Problem) agents.Reason {
	if p.Cause == agents.CauseCancelled {
		return agents.Cancelled
	}
	return agents.Failed
}

func (c *Client) ofIntent(intent agents.Intent) (agents.Reason, *agents.Problem) {
	switch intent {
	case agents.IntentTimeout:
		return agents.TimedOut, c.newProblem(agents.CauseTimeout, "timed out", "")
	case agents.IntentIdle:
		return agents.TimedOut, c.newProblem(agents.CauseTimeout, "no event within the idle timeout", "")
	case agents.IntentPolicy:
		return agents.Failed, c.newProblem(agents.CausePermission, "stopped because a tool call broke the policy", "")
	default:
		return agents.Cancelled, c.newProblem(agents.CauseCancelled, "cancelled", "")
	}
}

func (c *Client) ofSignal(signal string) (agents.Reason, *agents.Problem) {
	switch signal {
	case "INT", "TERM", "HUP":
		return agents.Cancelled, c.newProblem(agents.CauseCancelled, "killed by SIG"+signal, "")
	}
	return agents.Failed, c.newProblem(agents.CauseCrash, "killed by SIG"+signal, "")
}

// withoutAnswer explains a process that ended before its turn. One that never said a word
// of the protocol was most likely started wrongly, or is no agent.
func (c *Client) withoutAnswer(exit agents.Exit) *agents.Problem {
	said := causes.LastLines(exit.Stderr)
	cause := c.causeOf(0, said)
	what := "ended before it answered"
	switch {
	case cause != agents.CauseUnknown:
	case !c.heard:
		cause, what = agents.CauseConfig, "ended without a word of ACP"
	case exit.Code == 0:
		cause = agents.CauseIncomplete
	default:
		cause = agents.CauseCrash
	}
	message := fmt.Sprintf("%s, exit status %d", what, exit.Code)
	if said != "" {
		message += ": " + said
	}
	return c.newProblem(cause, message, "")
}

// onError takes in that a request of ours failed.
func (c *Client) onError(method string, failure *fastjson.Value) []agents.Event {
	p := c.problemOf(method, failure)
	switch {
	case method == "session/prompt":
	case method == "session/close" || c.recorded && !begins(method): // the turn can do without it
		return one(agents.Error{Message: p.Message, Cause: p.Cause})
	default:
		return c.failed(p)
	}
	c.turn.ended, c.turn.problem = true, p
	c.turn.text.closed = len(c.turn.text.segment)
	events := append(c.withdrawAll(), agents.Event{Body: agents.Error{Message: p.Message, Cause: p.Cause}})
	return append(events, agents.Event{Body: agents.TurnCompleted{}})
}

// begins reports whether a request is one that no session begins without.
func begins(method string) bool {
	switch method {
	case "initialize", "session/new", "session/load", "session/resume", "session/fork":
		return true
	}
	return false
}

// fail ends a session that could not be begun.
func (c *Client) fail(cause agents.Cause, message, hint string) []agents.Event {
	return c.failed(c.newProblem(cause, message, hint))
}

func (c *Client) failed(p *agents.Problem) []agents.Event {
	c.problem = p
	return one(agents.Error{Message: p.Message, Cause: p.Cause})
}

func (c *Client) newProblem(cause agents.Cause, message, hint string) *agents.Problem {
	if hint == "" {
		hint = c.hint(cause)
	}
	return &agents.Problem{Agent: c.o.Agent, Cause: cause, Message: message, Hint: hint}
}

// hint says what to do about a cause, or "".
func (c *Client) hint(cause agents.Cause) string {
	switch cause {
	case agents.CauseAuth:
		return c.o.Login
	case agents.CauseBilling:
		return "check the account that pays for the model"
	case agents.CauseRateLimit:
		return "lower the concurrency of the agent's steps, or try again later"
	case agents.CauseUsageLimit:
		return "wait for the quota to reset, or choose another model"
	case agents.CauseOverloaded, agents.CauseServer:
		return "try again later, or choose another model"
	case agents.CauseNetwork:
		return "check the connection and the proxy settings"
	case agents.CauseContext:
		return "shorten the prompt, or begin a new session"
	case agents.CauseMaxTurns:
		return "split the task"
	case agents.CauseMaxOutput:
		return "ask for a shorter answer, or split the task"
	case agents.CauseRefusal:
		return "rephrase the prompt"
	case agents.CauseModelNotFound:
		return "check the model's name"
	case agents.CauseSessionNotFound:
		return "begin a new session"
	case agents.CauseIncomplete, agents.CauseCrash:
		return "try again; its standard error may say more"
	case agents.CausePermission:
		return "allow it under `permissions`, or tell the agent in its prompt to do without"
	case agents.CauseConfig:
		return "check the profile's command and arguments: it must speak ACP on its standard input and output"
	default:
		return ""
	}
}
