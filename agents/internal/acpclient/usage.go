package acpclient

import (
	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// spending is what the turns of a process have used.
type spending struct {
	usage *agents.Usage
	// cost is the money of the whole session, and before what it was when the first turn
	// began: nil where the agent has not said.
	cost, before *float64
}

// takeUsage adds what the answer to session/prompt says, and returns it. Agents differ in
// what they count: Gemini CLI all calls of the model, OpenCode the last one.
func (s *spending) takeUsage(result *fastjson.Value) *agents.Usage {
	u := usageOf(result.Get("usage"))
	if u == nil {
		u = quotaOf(result.Get("_meta", "quota", "token_count"))
	}
	if u == nil {
		return nil
	}
	sum := *u
	if s.usage != nil {
		sum = s.usage.Add(*u)
	}
	s.usage = &sum
	return u
}

// usageOf reads the protocol's counts. Whether inputTokens has those from the cache is
// not settled among agents; the total tells.
func usageOf(v *fastjson.Value) *agents.Usage {
	u := agents.Usage{
		InputTokens: native.Int(v, "inputTokens"), OutputTokens: native.Int(v, "outputTokens"),
		CachedTokens: native.Int(v, "cachedReadTokens"), CacheWriteTokens: native.Int(v, "cachedWriteTokens"),
		ReasoningTokens: native.Int(v, "thoughtTokens"), TotalTokens: native.Int(v, "totalTokens"),
	}
	cached := u.CachedTokens + u.CacheWriteTokens
	if u.TotalTokens >= u.InputTokens+u.OutputTokens+cached {
		u.InputTokens += cached
	}
	return known(u)
}

// quotaOf reads the counts of Gemini CLI.
func quotaOf(v *fastjson.Value) *agents.Usage {
	u := agents.Usage{InputTokens: native.Int(v, "input_tokens"), OutputTokens: native.Int(v, "output_tokens")}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return known(u)
}

func known(u agents.Usage) *agents.Usage {
	if u == (agents.Usage{}) {
		return nil
	}
	return &u
}

// busiest is the model with the most tokens, "" if none is told.
func busiest(models []*fastjson.Value) string {
	var name string
	var most int64
	for _, m := range models {
		if u := quotaOf(m.Get("token_count")); u != nil && u.TotalTokens > most {
			name, most = native.String(m, "model"), u.TotalTokens
		}
	}
	return name
}

// onUsage takes how full the model's context is, and what the session has cost so far.
func (c *Client) onUsage(u *fastjson.Value) []agents.Event {
	e := agents.UsageReport{Usage: agents.Usage{TotalTokens: native.Int(u, "used")}}
	if u.Exists("cost", "amount") && native.String(u, "cost", "currency") == "USD" {
		cost := u.GetFloat64("cost", "amount")
		c.spent.cost, e.CostUSD = &cost, &cost
		if !c.turn.sent {
			c.spent.before = &cost
		}
	}
	return one(e)
}

// turnCost is what this process's turns cost, nil when that is not known: of a session that
// is older, what it had cost before must have been told too.
func (c *Client) turnCost() *float64 {
	switch {
	case c.spent.cost == nil:
		return nil
	case c.o.Request.Session.Mode == agents.SessionNew && c.spent.before == nil:
		return c.spent.cost
	case c.spent.before == nil:
		return nil
	}
	cost := max(0, *c.spent.cost-*c.spent.before)
	return &cost
}
