package claude

import (
	"math"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
)

// A tally is what the results of a process add up to.
//
// Since 2.1.329 total_cost_usd and modelUsage run on over a resumed or forked
// session, and each result has what is new in model_usage_since_last_result: their
// sum is the turn's. Older versions have no such key, and count per process: then
// the last totals are the turn's. (The plain usage leaves out subagents and small
// helper models; it is the last resort.)
type tally struct {
	fresh     bool // model_usage_since_last_result was seen
	usage     agents.Usage
	cost      float64
	lastUsage agents.Usage
	lastCost  float64
	duration  time.Duration
}

// add counts one result, and returns the usage of that result alone.
func (t *tally) add(v *fastjson.Value) *agents.Usage {
	t.duration += time.Duration(v.GetInt64("duration_ms")) * time.Millisecond
	t.lastCost = finite(v.GetFloat64("total_cost_usd"))
	usage := apiUsage(v.Get("usage"))
	if all, _ := modelUsage(v.Get("modelUsage")); all.TotalTokens > 0 {
		t.lastUsage = all
	} else {
		t.lastUsage = t.lastUsage.Add(usage)
	}
	if since := v.Get("model_usage_since_last_result"); since != nil {
		var cost float64
		usage, cost = modelUsage(since)
		t.fresh, t.usage, t.cost = true, t.usage.Add(usage), t.cost+cost
	}
	return &usage
}

// total returns the turn's tokens and its price in US dollars.
func (t *tally) total() (agents.Usage, float64) {
	if t.fresh {
		return t.usage, t.cost
	}
	return t.lastUsage, t.lastCost
}

// modelUsage adds up an object of model names and their usage.
func modelUsage(models *fastjson.Value) (usage agents.Usage, cost float64) {
	models.GetObject().Visit(func(_ []byte, m *fastjson.Value) {
		u := agents.Usage{
			OutputTokens: m.GetInt64("outputTokens"), CachedTokens: m.GetInt64("cacheReadInputTokens"),
			CacheWriteTokens: m.GetInt64("cacheCreationInputTokens"), ReasoningTokens: m.GetInt64("thinkingTokens"),
		}
		u.InputTokens = m.GetInt64("inputTokens") + u.CachedTokens + u.CacheWriteTokens
		u.TotalTokens = u.InputTokens + u.OutputTokens
		usage, cost = usage.Add(u), cost+finite(m.GetFloat64("costUSD"))
	})
	return usage, cost
}

// apiUsage reads a usage object of the API, whose input_tokens leave the cache out.
func apiUsage(v *fastjson.Value) agents.Usage {
	u := agents.Usage{
		OutputTokens: v.GetInt64("output_tokens"), CachedTokens: v.GetInt64("cache_read_input_tokens"),
		CacheWriteTokens: v.GetInt64("cache_creation_input_tokens"),
		ReasoningTokens:  v.GetInt64("output_tokens_details", "thinking_tokens"),
	}
	u.InputTokens = v.GetInt64("input_tokens") + u.CachedTokens + u.CacheWriteTokens
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}

// finite replaces what is no number, which JSON could not hold, by 0.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
