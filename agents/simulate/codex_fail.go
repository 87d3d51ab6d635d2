package simulate

import (
	"fmt"

	"flow/agents"
)

func (c *codex) fails(cause agents.Cause) error {
	if _, ok := codexFailures("")[cause]; !ok {
		return fmt.Errorf("flow simulate: codex has no failure %q; see the causes in\n%s", cause, Help)
	}
	return nil
}

// A codexFailure is what the CLI prints of a failure: Reconnecting lines first, with
// the reason that retry gives, then the message.
type codexFailure struct{ retry, message string }

func codexFailures(model string) map[agents.Cause]codexFailure {
	const unauthorized = "unexpected status 401 Unauthorized: Incorrect API key, url: https://api.openai.com/v1/responses"
	const demand = "We’re currently experiencing high demand, which may cause temporary errors."
	const refused = "Connection failed: error sending request"
	return map[agents.Cause]codexFailure{
		agents.CauseAuth:           {unauthorized, unauthorized},
		agents.CauseBilling:        {"", "Quota exceeded. Check your plan and billing details."},
		agents.CauseRateLimit:      {"", "exceeded retry limit, last status: 429 Too Many Requests"},
		agents.CauseUsageLimit:     {"", "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 10:26 PM."},
		agents.CauseOverloaded:     {"", "Selected model is at capacity. Please try a different model."},
		agents.CauseServer:         {demand, demand},
		agents.CauseNetwork:        {refused, refused},
		agents.CauseContext:        {"", "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."},
		agents.CauseMaxOutput:      {"", "Incomplete response returned, reason: max_output_tokens"},
		agents.CauseRefusal:        {"", "Invalid prompt: flagged"},
		agents.CauseModelNotFound:  {"", "The model `" + model + "` does not exist"},
		agents.CauseInvalidRequest: {"", `{"error": {"message": "bad"}}`},
	}
}

func (c *codex) fail(cause agents.Cause) int {
	f := codexFailures(c.session.Model)[cause]
	if cause == agents.CauseNetwork && !c.args.bounded() {
		return c.reconnect(f)
	}
	if f.retry != "" {
		for i := range 5 {
			c.send(object{"type": "error", "message": fmt.Sprintf("Reconnecting... %d/5 (%s)", i+1, f.retry)})
		}
	}
	c.send(object{"type": "error", "message": f.message})
	c.send(object{"type": "turn.failed", "error": object{"message": f.message}})
	return 1
}

// reconnect tries for ever, as Codex does unless it is told not to.
func (c *codex) reconnect(f codexFailure) int {
	c.send(object{"type": "error", "message": fmt.Sprintf("Reconnecting... waiting for network (%s)", f.retry)})
	for c.interrupted() == nil {
		<-c.ctx.Done()
	}
	return 1
}
