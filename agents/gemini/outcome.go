package gemini

import (
	"fmt"
	"slices"
	"strings"

	"flow/agents"
)

// End says what became of the turn. It is a success when the exit status is 0, a
// result says so, no error event came and there is a text; an end that flow
// itself brought about does not undo a success that was there before.
func (d *dialog) End(exit agents.Exit) agents.Outcome {
	out := agents.Outcome{
		Reason: agents.Completed, SessionID: d.session, Model: d.answeredBy(), Began: d.began,
		Text: d.text(), Denied: d.denied,
	}
	if d.result != nil {
		out.Usage, out.Duration = d.result.usage, d.result.duration
	}
	out.Reason, out.Problem = d.verdict(exit)
	if out.Problem != nil {
		out.Problem.Agent = Name
	}
	return out
}

// answeredBy is the model of the turn; "auto" is a router's name, not a model's.
func (d *dialog) answeredBy() string {
	if d.result != nil && d.result.model != "" {
		return d.result.model
	}
	if d.model == "auto" {
		return ""
	}
	return d.model
}

func (d *dialog) verdict(exit agents.Exit) (agents.Reason, *agents.Problem) {
	if exit.Intent == agents.IntentDone { // it was ended because the turn had ended
		exit = agents.Exit{Stderr: exit.Stderr}
	}
	clean := exit.Err == nil && exit.Signal == "" && exit.Code == 0
	switch {
	case exit.Err != nil:
		return agents.Failed, &agents.Problem{
			Cause: agents.CauseSpawn, Message: "could not be started: " + exit.Err.Error(), Hint: Adapter{}.Info().Install,
		}
	case d.succeeded() && (clean || exit.Intent != agents.IntentNone):
		return d.checkSettings()
	case exit.Intent != agents.IntentNone:
		return ofIntent(exit.Intent)
	case exit.Signal != "":
		return ofSignal(exit.Signal)
	case d.result == nil && d.trouble == "":
		return agents.Failed, d.withoutResult(exit)
	}
	p := d.failure(exit)
	if p.Cause == agents.CauseCancelled { // the CLI cancelled the turn itself
		return agents.Cancelled, p
	}
	return agents.Failed, p
}

func (d *dialog) succeeded() bool {
	return d.result != nil && d.result.success && d.trouble == "" && strings.TrimSpace(d.text()) != ""
}

// checkSettings refuses a success that the CLI reached without the turn limit. In
// the user's own home it stands in our system settings alone, and whether the CLI
// reads those shows only at run time.
func (d *dialog) checkSettings() (agents.Reason, *agents.Problem) {
	if d.maxTurns == 0 || d.settingsSkipped == "" {
		return agents.Completed, nil
	}
	return agents.Failed, &agents.Problem{
		Cause: agents.CauseConfig, Message: "the turn limit was not in force: " + d.settingsSkipped,
		Hint: "beside the user's own settings Gemini CLI reads the limit only from a file of root; drop the limit or `inherit`, or run as root in a container",
	}
}

func ofIntent(intent agents.Intent) (agents.Reason, *agents.Problem) {
	switch intent {
	case agents.IntentTimeout:
		return agents.TimedOut, problem(agents.CauseTimeout, "timed out")
	case agents.IntentIdle:
		return agents.TimedOut, problem(agents.CauseTimeout, "no event within the idle timeout")
	case agents.IntentPolicy:
		return agents.Failed, problem(agents.CausePermission, "stopped because a tool call broke the policy")
	default:
		return agents.Cancelled, problem(agents.CauseCancelled, "cancelled")
	}
}

func ofSignal(signal string) (agents.Reason, *agents.Problem) {
	message := "killed by SIG" + strings.TrimPrefix(signal, "SIG")
	if slices.Contains([]string{"INT", "TERM", "HUP"}, strings.TrimPrefix(signal, "SIG")) {
		return agents.Cancelled, problem(agents.CauseCancelled, message)
	}
	return agents.Failed, problem(agents.CauseCrash, message)
}

// withoutResult explains an end that no result announced. Before init, standard
// error and the exit status are all there is; after it, a signal that the CLI
// swallowed and a cut output look alike.
func (d *dialog) withoutResult(exit agents.Exit) *agents.Problem {
	if exit.Code == 0 {
		return problem(agents.CauseIncomplete, "ended without a result: it was stopped, or its output was cut")
	}
	said := complaint(exit.Stderr)
	cause := causeOf(exit.Code, "", said)
	if cause == agents.CauseUnknown {
		cause = agents.CauseIncomplete
		if !d.heard && exit.Code == 1 {
			cause = agents.CauseConfig
		}
	}
	return problem(cause, either(readable(said), fmt.Sprintf("ended without a result, exit status %d", exit.Code)))
}

// failure explains a turn whose result or error events speak of a failure, or
// whose success has no text or a bad exit status.
func (d *dialog) failure(exit agents.Exit) *agents.Problem {
	switch {
	case d.trouble != "":
		message := d.trouble
		return problem(causeOf(exit.Code, "", message), message)
	case d.result.success && exit.Code != 0:
		return contradiction(exit)
	case d.result.success:
		return d.withoutText()
	}
	r := d.result
	message := either(readable(r.message), complaint(exit.Stderr), "the result says only that it failed")
	return problem(causeOf(exit.Code, r.errorType, r.message), message)
}

// contradiction explains a success that the exit status denies. A status with a
// meaning of its own is believed.
func contradiction(exit agents.Exit) *agents.Problem {
	cause := causeOf(exit.Code, "", "")
	if cause == agents.CauseUnknown {
		cause = agents.CauseProtocol
	}
	return problem(cause, fmt.Sprintf("the result says success, but the exit status is %d: %s",
		exit.Code, either(complaint(exit.Stderr), "no word on standard error")))
}

// withoutText explains a success without an answer. A prompt that does not fit the
// model's context ends so: no model is called, nothing is counted, and neither
// stream says a word of it.
func (d *dialog) withoutText() *agents.Problem {
	if !d.began && d.result.usage == nil {
		return problem(agents.CauseContext, "the model was never called, most likely because the prompt does not fit its context")
	}
	return problem(agents.CauseIncomplete, "the result says success, but the model gave no text")
}

func problem(cause agents.Cause, message string) *agents.Problem {
	return &agents.Problem{Cause: cause, Message: message, Hint: hintFor(cause)}
}
