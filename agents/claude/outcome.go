package claude

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A verdict is what the results said, the last one above all, and what was seen
// before it that explains it.
type verdict struct {
	final   bool // there was a result
	fresh   bool // … and nothing of a further turn since
	isError bool
	failure failure
	text    string // result.result: the last block of the last message
	output  json.RawMessage
	turns   int
	command string // the slash command that took the prompt

	// Seen since the result before:
	assistantError string    // of the last synthetic message
	interrupted    bool      // the conversation says so itself
	limited        bool      // a limit of the subscription was hit
	resetsAt       time.Time // when that limit resets
}

// Ended reports whether the turn is over: nothing works on in the background, after which
// the CLI would begin a further turn by itself.
func (d *dialog) Ended() bool { return d.verdict.fresh && d.tasks == 0 }

// result ends a turn; more may follow in the same process, also one for a background task
// of which nothing else is told. One that contradicts the turn's own result changes nothing.
func (d *dialog) result(v *fastjson.Value) []agents.Event {
	if d.verdict.fresh && d.verdict.isError != failed(v) {
		return native.SecondEnd("result", v)
	}
	for _, denied := range v.GetArray("permission_denials") {
		d.denied.add(native.String(denied, "tool_use_id"), newCall(native.String(denied, "tool_name"), denied.Get("tool_input")))
	}
	usage := d.tally.add(v)
	d.verdict = d.verdict.next(v)
	return []agents.Event{{Body: agents.TurnCompleted{Usage: usage, DurationMS: native.Int(v, "duration_ms")}}}
}

// next is the verdict after the result v. Of the one before, it keeps an answer by
// schema: a turn that a background task opens later has none of its own.
func (w verdict) next(v *fastjson.Value) verdict {
	n := verdict{
		final: true, fresh: true, isError: failed(v), text: native.String(v, "result"), output: w.output,
		turns: int(max(native.Int(v, "num_turns"), native.Int(v, "turn_count"))), command: native.String(v, "local_command"),
		failure: failure{
			subtype: native.String(v, "subtype"), terminal: native.String(v, "terminal_reason"),
			stop: native.String(v, "stop_reason"), startup: native.String(v, "startup_failure_reason"),
			status: int(native.Int(v, "api_error_status")), apiType: native.String(v, "api_error_type"),
			apiError: native.String(v, "api_error"), assistantError: w.assistantError,
			interrupted: w.interrupted, limited: w.limited, resetsAt: w.resetsAt,
		},
	}
	n.failure.text = strings.TrimSpace(strings.Join(append(texts(v.GetArray("errors")), native.String(v, "error")), "\n"))
	if n.failure.text == "" {
		n.failure.text = n.text
	}
	if output := native.Raw(v, "structured_output"); output != nil {
		n.output = output
	}
	return n
}

// failed reports whether a result is one of a failure. The older protocol has only the
// subtype for that.
func failed(v *fastjson.Value) bool {
	return v.GetBool("is_error") || !v.Exists("is_error") && strings.HasPrefix(native.String(v, "subtype"), "error")
}

// succeeded reports whether the last turn was one of the model and ended well.
func (w *verdict) succeeded() bool { return w.final && !w.isError && !w.swallowed() }

// swallowed reports whether a slash command took the prompt: the result says
// success, but no model was asked.
func (w *verdict) swallowed() bool { return w.command != "" || w.turns == 0 }

// End says what became of the turn.
func (d *dialog) End(exit agents.Exit) agents.Outcome {
	out := agents.Outcome{
		SessionID: d.session, Model: d.model, Version: d.version, Began: d.began,
		Text: d.text(), Output: d.verdict.output, Duration: d.tally.duration, Denied: d.denied.calls,
		Problem: d.problem(exit),
	}
	switch {
	case d.verdict.final:
		usage, cost := d.tally.total()
		out.Usage, out.CostUSD = &usage, &cost
	case d.spent != agents.Usage{}:
		out.Usage = &d.spent // what a turn without a result is known to have used
	}
	out.Reason = reason(out.Problem)
	return out
}

// text is the final answer: the last message, unless the result says something
// else (an answer by schema stands only there).
func (d *dialog) text() string {
	collected := d.answer.text.String()
	if d.verdict.succeeded() && !strings.Contains(collected, d.verdict.text) {
		return d.verdict.text
	}
	return collected
}

func reason(p *agents.Problem) agents.Reason {
	switch {
	case p == nil:
		return agents.Completed
	case p.Cause == agents.CauseCancelled:
		return agents.Cancelled
	case p.Cause == agents.CauseTimeout:
		return agents.TimedOut
	default:
		return agents.Failed
	}
}

// problem is why the turn did not succeed, or nil. What we did to the process
// comes before what it said, and that before its exit status.
func (d *dialog) problem(exit agents.Exit) *agents.Problem {
	w := &d.verdict
	over := exit.Intent == agents.IntentDone && w.final // it was ended because the turn had ended
	switch {
	case exit.Err != nil:
		return problem(agents.CauseSpawn, "cannot start Claude Code: "+exit.Err.Error())
	case exit.Intent != agents.IntentNone && exit.Intent != agents.IntentDone:
		if w.succeeded() {
			return nil
		}
		return intended(exit.Intent)
	case w.isError: // also when it was killed on its way out
		return w.failure.problem()
	case killer(exit) != "" && !over:
		return killed(killer(exit), exit)
	case !w.final:
		return d.noResult(exit)
	case w.swallowed():
		return swallowed(w)
	case exit.Code != 0 && !over:
		return problem(agents.CauseProtocol, fmt.Sprintf("the result says success, but the exit status is %d", exit.Code))
	}
	return nil
}

func intended(intent agents.Intent) *agents.Problem {
	switch intent {
	case agents.IntentTimeout:
		return problem(agents.CauseTimeout, "timed out")
	case agents.IntentIdle:
		return problem(agents.CauseTimeout, "no event within the idle timeout")
	case agents.IntentPolicy:
		return problem(agents.CausePermission, "ended because a tool call broke the policy")
	default:
		return problem(agents.CauseCancelled, "cancelled")
	}
}

// killer is the signal that ended the process, or "". The CLI catches SIGHUP and
// SIGTERM and exits with 128 plus their number, as a shell would report it; with
// SIGINT it ends the turn and exits 0.
func killer(exit agents.Exit) string {
	switch exit.Code {
	case 128 + 1, 128 + 2, 128 + 15:
		return agents.SignalName(exit.Code - 128)
	}
	return exit.Signal
}

func killed(signal string, exit agents.Exit) *agents.Problem {
	message := "killed by SIG" + signal
	switch signal {
	case "HUP", "INT", "TERM":
		return problem(agents.CauseCancelled, message)
	}
	if tail := stderrTail(exit.Stderr); tail != "" {
		message += ": " + tail
	}
	return problem(agents.CauseCrash, message)
}

// noResult is the problem of a process that ended by itself without a result.
// When it printed nothing at all it did not get past its start. Either way, what
// there is to know stands on standard error.
func (d *dialog) noResult(exit agents.Exit) *agents.Problem {
	tail := stderrTail(exit.Stderr)
	if tail == "" {
		tail = d.complaint
	}
	if !d.spoke && exit.Code != 0 && tail != "" {
		return problem(startCause(tail), tail)
	}
	message, cause := fmt.Sprintf("ended without a result (exit status %d)", exit.Code), agents.CauseIncomplete
	if tail != "" {
		message += ": " + tail
	}
	if known := textCause(tail); known != "" && exit.Code != 0 {
		cause = known
	}
	return problem(cause, message)
}

func swallowed(w *verdict) *agents.Problem {
	message := "the prompt was taken for a slash command; no model was asked"
	if w.command != "" {
		message = "the prompt was taken for the slash command /" + w.command + "; no model was asked"
	}
	p := problem(agents.CauseInvalidRequest, message)
	p.Hint = "begin the prompt with a word, not with a slash"
	return p
}

// stderrTail is the end of standard error, at most 20 whole lines and 2 KiB, without
// blank lines and warnings (unless there is nothing else).
func stderrTail(stderr string) string {
	const limit, most = 2 << 10, 20
	var lines, warnings []string
	for line := range strings.Lines(stderr) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case strings.HasPrefix(line, "Warning:"):
			warnings = append(warnings, line)
		default:
			lines = append(lines, line)
		}
	}
	if lines == nil {
		lines = warnings
	}
	lines = lines[max(0, len(lines)-most):]
	for len(lines) > 1 && len(strings.Join(lines, "\n")) > limit {
		lines = lines[1:]
	}
	tail := strings.Join(lines, "\n")
	return strings.ToValidUTF8(tail[max(0, len(tail)-limit):], "\ufffd")
}
