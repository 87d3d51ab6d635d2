package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"flow/agents"
)

// End says what became of the turn. It has succeeded when codex said that it was
// completed, gave an answer, and then ended well or was ended by flow.
func (d *dialog) End(exit agents.Exit) agents.Outcome {
	out := agents.Outcome{
		SessionID: d.thread, Began: d.began, Usage: d.turnUsage(), SessionUsage: d.total, Denied: d.denied,
	}
	out.Reason, out.Problem = d.verdict(exit)
	if out.Problem != nil {
		out.Problem.Agent = name
		return out
	}
	out.Text = *d.answer
	if len(d.request.Schema) > 0 {
		out.Output = compact(out.Text)
	}
	return out
}

func (d *dialog) verdict(exit agents.Exit) (agents.Reason, *agents.Problem) {
	stray := strayed(d.request.Session, d.thread)
	done := d.end == "turn.completed"
	over := exit.Intent == agents.IntentDone // it was ended because the turn had ended
	clean := exit.Err == nil && exit.Signal == "" && exit.Code == 0 || over
	switch {
	case done && d.answer != nil && stray == nil && (clean || exit.Intent != agents.IntentNone):
		return agents.Completed, nil
	case exit.Err != nil:
		p := problem(agents.CauseSpawn, fmt.Sprintf("codex could not be started: %v", exit.Err))
		p.Hint = Adapter{}.Info().Install
		return agents.Failed, p
	case exit.Intent != agents.IntentNone && !over:
		return stopped(exit.Intent, d.amid())
	case stray != nil:
		return agents.Failed, stray
	case d.end == "turn.failed":
		return agents.Failed, failed(d.failure)
	case exit.Signal != "" && !over:
		after := d.amid()
		if d.end != "" {
			after += ", after the turn was completed"
		}
		return killed(exit.Signal, after)
	case done && !clean:
		return agents.Failed, problem(agents.CauseProtocol,
			fmt.Sprintf("codex said the turn was completed, but exited with status %d", exit.Code))
	case done:
		return agents.Failed, problem(agents.CauseIncomplete, "codex completed the turn without an answer")
	default:
		return agents.Failed, d.unfinished(exit)
	}
}

// strayed says that codex works on another thread than it was asked to. It begins a
// new one, and exits with 0, when it cannot find the one to resume.
func strayed(s agents.Session, thread string) *agents.Problem {
	switch {
	case thread == "":
		return nil
	case s.Mode == agents.SessionResume && !strings.EqualFold(thread, s.ID):
		return problem(agents.CauseSessionNotFound,
			fmt.Sprintf("codex started a new thread, %s, instead of resuming %s", thread, s.ID))
	case s.Mode == agents.SessionFork && strings.EqualFold(thread, s.Parent):
		return problem(agents.CauseProtocol, fmt.Sprintf("codex went on in thread %s instead of forking it", thread))
	default:
		return nil
	}
}

// stopped is the end of a turn that flow ended. amid says what codex was in the midst of.
func stopped(why agents.Intent, amid string) (agents.Reason, *agents.Problem) {
	switch why {
	case agents.IntentTimeout:
		return agents.TimedOut, problem(agents.CauseTimeout, "timed out"+amid)
	case agents.IntentIdle:
		return agents.TimedOut, problem(agents.CauseTimeout, "no event within the idle timeout"+amid)
	case agents.IntentPolicy:
		return agents.Failed, problem(agents.CausePermission, "stopped: a tool call broke the policy")
	default:
		return agents.Cancelled, problem(agents.CauseCancelled, "cancelled")
	}
}

// killed is the end of a turn that someone else ended.
func killed(signal, amid string) (agents.Reason, *agents.Problem) {
	message := "killed by SIG" + signal + amid
	switch signal {
	case "INT", "TERM", "HUP":
		return agents.Cancelled, problem(agents.CauseCancelled, message)
	default:
		return agents.Failed, problem(agents.CauseCrash, message)
	}
}

func (d *dialog) amid() string { return amid(d.trouble) }

// amid names the trouble that codex was in at the end, if any.
func amid(trouble string) string {
	if trouble == "" {
		return ""
	}
	return " amid: " + clip(trouble, maxMessage)
}

// failed is a turn that codex itself declared failed.
func failed(message string) *agents.Problem {
	if message == "" {
		message = "codex said that the turn failed, and not why"
	}
	p := problem(classify(message), clip(message, maxMessage))
	p.RetryAfter = resetTime(message)
	return p
}

// unfinished is an exit without an end of the turn. Before the turn began, what
// codex printed on standard error is why; later its log lines say little.
func (d *dialog) unfinished(exit agents.Exit) *agents.Problem {
	said := stderrTail(exit.Stderr, false)
	trouble := d.trouble != "" && (d.turn || said == "")
	if said == "" && !d.turn {
		said = stderrTail(exit.Stderr, true)
	}
	status := fmt.Sprintf("codex exited with status %d", exit.Code)
	switch {
	case exit.Code == 101: // a panic of the Rust program
		return problem(agents.CauseCrash, join(status, said))
	case trouble:
		p := failed(d.trouble)
		if p.Cause == agents.CauseUnknown {
			p.Cause = agents.CauseIncomplete
		}
		return p
	case d.turn:
		p := problem(agents.CauseIncomplete, join(status+" before the turn ended", said))
		p.Hint = "codex ends like this when it is interrupted; its session can be resumed"
		return p
	case exit.Code == 0:
		return problem(agents.CauseIncomplete, join(status+" without a turn", said))
	case exit.Code == 2: // the arguments
		return problem(agents.CauseConfig, join(status, said))
	case said == "":
		return problem(agents.CauseUnknown, status+" and said nothing")
	default:
		return problem(classify(said), said)
	}
}

func join(status, said string) string {
	if said == "" {
		return status
	}
	return status + ": " + said
}

// compact returns text as JSON without line breaks, or nil when it is none.
func compact(text string) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return nil
	}
	return b.Bytes()
}
