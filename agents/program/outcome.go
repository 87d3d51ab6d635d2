package program

import (
	"fmt"
	"strings"

	"flow/agents"
	"flow/agents/internal/causes"
)

// End says what became of the turn: it is a success when the command exits with 0, has told
// of no error, has said that it is done where its profile knows how it says so, and has
// given an answer.
func (d *dialog) End(exit agents.Exit) agents.Outcome {
	malformed := d.readAll()
	out := agents.Outcome{
		Reason: agents.Completed, SessionID: d.SessionID(), Model: d.model, Began: d.began, Text: d.answer(), CostUSD: d.cost,
	}
	if d.usage != (agents.Usage{}) {
		usage := d.usage
		usage.TotalTokens = usage.InputTokens + usage.OutputTokens
		out.Usage = &usage
	}
	out.Reason, out.Problem = d.verdict(exit, out.Text, malformed)
	return out
}

// readAll reads an output that is one JSON object.
func (d *dialog) readAll() error {
	if d.exec.Format != agents.FormatJSON {
		return nil
	}
	v, events := d.reader.Object(d.output.Bytes())
	if v != nil {
		d.object(v)
		return nil
	}
	if len(events) == 0 {
		return fmt.Errorf("it printed nothing")
	}
	return fmt.Errorf("what it printed is no JSON object")
}

func (d *dialog) answer() string {
	switch {
	case d.exec.Format == "" || d.exec.Format == agents.FormatText:
		return strings.TrimRight(d.output.String(), "\n")
	case strings.TrimSpace(d.pieces.String()) != "": // after the last whole message
		return d.pieces.String()
	}
	return d.message
}

func (d *dialog) verdict(exit agents.Exit, text string, malformed error) (agents.Reason, *agents.Problem) {
	_, tellsEnd := d.exec.Events["done"]
	if exit.Intent == agents.IntentDone { // it was ended because it had said that it was done
		exit = agents.Exit{Stderr: exit.Stderr}
	}
	switch {
	case exit.Err != nil:
		return fail(agents.CauseSpawn, "could not be started: "+exit.Err.Error(), Adapter{}.Info().Install)
	case exit.Intent != agents.IntentNone:
		return ofIntent(exit.Intent)
	case d.failure != "":
		return fail(causeOf(d.failure), d.failure, "")
	case exit.Signal != "":
		return ofSignal(exit.Signal)
	case exit.Code != 0:
		said := causes.LastLines(exit.Stderr)
		return fail(causeOf(said), strings.TrimSuffix(fmt.Sprintf("exit status %d: %s", exit.Code, said), ": "), "")
	case d.cut:
		return fail(agents.CauseMaxOutput, fmt.Sprintf("it printed more than %d bytes", maxOutput), "let it print less")
	case malformed != nil:
		return fail(agents.CauseProtocol, malformed.Error(), "correct `exec.format` of the profile")
	case tellsEnd && !d.done:
		return fail(agents.CauseIncomplete, "it ended without saying that it is done", "try again; or correct `exec.events.done` of the profile")
	case strings.TrimSpace(text) == "":
		return fail(agents.CauseIncomplete, "it ended without an answer", "try again; or correct `exec` of the profile")
	}
	return agents.Completed, nil
}

func causeOf(text string) agents.Cause {
	if cause := causes.OfText(text); cause != "" {
		return cause
	}
	return agents.CauseUnknown
}

func ofIntent(intent agents.Intent) (agents.Reason, *agents.Problem) {
	switch intent {
	case agents.IntentTimeout:
		return fail(agents.CauseTimeout, "timed out", "")
	case agents.IntentIdle:
		return fail(agents.CauseTimeout, "no event within the idle timeout", "")
	case agents.IntentPolicy:
		return fail(agents.CausePermission, "stopped because a tool call broke the policy", "")
	default:
		return fail(agents.CauseCancelled, "cancelled", "")
	}
}

func ofSignal(signal string) (agents.Reason, *agents.Problem) {
	signal = strings.TrimPrefix(signal, "SIG")
	if signal == "INT" || signal == "TERM" || signal == "HUP" {
		return fail(agents.CauseCancelled, "killed by SIG"+signal, "")
	}
	return fail(agents.CauseCrash, "killed by SIG"+signal, "try again; its standard error may say more")
}

// fail is the end of a turn by a problem, whose cause decides the reason.
func fail(cause agents.Cause, message, hint string) (agents.Reason, *agents.Problem) {
	reason := agents.Failed
	switch cause {
	case agents.CauseTimeout:
		reason = agents.TimedOut
	case agents.CauseCancelled:
		reason = agents.Cancelled
	default:
	}
	return reason, &agents.Problem{Agent: Name, Cause: cause, Message: message, Hint: hint}
}
