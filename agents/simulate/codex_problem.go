package simulate

import (
	"fmt"
	"time"

	"flow/agents"
)

// codexErrorInfo is how the app-server names the cause of a failure.
func codexErrorInfo(cause agents.Cause) any {
	http := func(kind string, status any) any { return object{kind: object{"httpStatusCode": status}} }
	switch cause {
	case agents.CauseAuth:
		return http("httpConnectionFailed", 401)
	case agents.CauseRateLimit:
		return http("responseTooManyFailedAttempts", 429)
	case agents.CauseNetwork:
		return http("httpConnectionFailed", nil)
	case agents.CauseBilling, agents.CauseUsageLimit:
		return "usageLimitExceeded"
	case agents.CauseOverloaded:
		return "serverOverloaded"
	case agents.CauseServer:
		return "internalServerError"
	case agents.CauseContext:
		return "contextWindowExceeded"
	case agents.CauseModelNotFound:
		return "modelNotFound"
	case agents.CauseRefusal:
		return "cyberPolicy"
	default:
		return "other"
	}
}

func (c *codexTurn) fails(cause agents.Cause) error {
	return (&codex{}).fails(cause)
}

// fail tells how the turn fails.
func (c *codexTurn) fail(cause agents.Cause) int {
	f := codexFailures(c.session.Model)[cause]
	if cause == agents.CauseNetwork && !c.server.args.bounded() {
		c.retry("Reconnecting... waiting for network", f.retry, nil)
		for c.interrupted() == nil { // for ever, as Codex does unless it is told not to
			c.attend(c.ctx, nil)
		}
		return 1
	}
	if f.retry != "" {
		var status any
		if cause == agents.CauseAuth {
			status = 401
		}
		for i := range 5 {
			c.retry(fmt.Sprintf("Reconnecting... %d/5", i+1), f.retry, status)
		}
	}
	if cause == agents.CauseUsageLimit {
		c.limit()
	}
	problem := object{"message": f.message, "codexErrorInfo": codexErrorInfo(cause), "additionalDetails": nil, "misalignment": nil}
	c.notify("error", object{"error": problem, "willRetry": false})
	c.finish("systemError", "failed", problem)
	return 1
}

// retry tells of an attempt that Codex makes again.
func (c *codexTurn) retry(message, details string, status any) {
	c.notify("error", object{"willRetry": true, "error": object{
		"message": message, "codexErrorInfo": object{"responseStreamDisconnected": object{"httpStatusCode": status}},
		"additionalDetails": details, "misalignment": nil,
	}})
}

// limit tells of a window of use that is used up and opens again in an hour.
func (c *codexTurn) limit() {
	c.server.notify("account/rateLimits/updated", object{"rateLimits": object{
		"limitId": "codex", "limitName": nil, "normalModelSlug": nil, "secondary": nil, "credits": nil,
		"primary":         object{"usedPercent": 100, "windowDurationMins": 300, "resetsAt": time.Now().Add(time.Hour).Unix()},
		"individualLimit": nil, "spendControlReached": nil, "planType": nil, "rateLimitReachedType": nil,
	}})
}
