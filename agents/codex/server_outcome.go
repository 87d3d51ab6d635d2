package codex

import (
	"cmp"
	"fmt"

	"flow/agents"
)

// End says what became of the turn. Codex says how it ended; how the process ended after
// that, which is flow's doing, says no more.
func (c *Conversation) End(exit agents.Exit) agents.Outcome {
	out := agents.Outcome{
		SessionID: c.thread, Model: c.model, Version: c.version, Began: c.began, Usage: c.turnUsage(),
		SessionUsage: c.total, Denied: c.denied, Duration: c.duration,
	}
	out.Reason, out.Problem = c.verdict(exit)
	if out.Problem != nil {
		out.Problem.Agent = name
		return out
	}
	out.Text = *c.answer
	if len(c.request.Schema) > 0 {
		out.Output = compact(out.Text)
	}
	return out
}

func (c *Conversation) verdict(exit agents.Exit) (agents.Reason, *agents.Problem) {
	status := ""
	if c.end != nil {
		status = c.end.status
	}
	switch {
	case status == "completed" && c.answer != nil && c.broken == nil:
		return agents.Completed, nil
	case exit.Err != nil:
		p := problem(agents.CauseSpawn, fmt.Sprintf("codex could not be started: %v", exit.Err))
		p.Hint = Adapter{}.Info().Install
		return agents.Failed, p
	case c.broken != nil && status == "":
		return agents.Failed, c.broken
	case status == "failed":
		return agents.Failed, c.end.err
	case exit.Intent != agents.IntentNone && exit.Intent != agents.IntentDone:
		return stopped(exit.Intent, amid(c.trouble))
	case status == "interrupted":
		return agents.Cancelled, problem(agents.CauseCancelled, "the turn was interrupted")
	case status != "":
		return agents.Failed, problem(agents.CauseIncomplete, "codex completed the turn without an answer")
	case exit.Signal != "":
		return killed(exit.Signal, amid(c.trouble))
	default:
		return agents.Failed, c.unfinished(exit)
	}
}

// unfinished is an exit without an end of the turn.
func (c *Conversation) unfinished(exit agents.Exit) *agents.Problem {
	said := stderrTail(plain(exit.Stderr), c.turn == "")
	status := fmt.Sprintf("codex exited with status %d before the turn ended", exit.Code)
	if len(c.pending) > 0 {
		status += ", while it waited for a decision on " + c.pending[0].what()
	}
	switch {
	case exit.Code == 101: // a panic of the Rust program
		return problem(agents.CauseCrash, join(status, said))
	case exit.Code == 2: // the arguments
		return problem(agents.CauseConfig, join(status, said))
	case c.thread == "" && said != "":
		return problem(cmp.Or(known(classify(said)), agents.CauseConfig), join(status, said))
	case c.trouble != "":
		return problem(cmp.Or(known(classify(c.trouble)), agents.CauseIncomplete), clip(c.trouble, maxMessage))
	}
	p := problem(agents.CauseIncomplete, join(status, said))
	if c.thread != "" {
		p.Hint = "its session can be resumed"
	}
	return p
}

// turnUsage is what this turn alone has used, subagents included.
func (c *Conversation) turnUsage() *agents.Usage {
	used := spent(c.total, c.request.Session, c.thread)
	for _, other := range c.others {
		sum := other
		if used != nil {
			sum = sum.Add(*used)
		}
		used = &sum
	}
	return used
}
