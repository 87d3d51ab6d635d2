package claude

import (
	"math"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
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
	t.duration += time.Duration(native.Int(v, "duration_ms")) * time.Millisecond
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
			OutputTokens: native.Int(m, "outputTokens"), CachedTokens: native.Int(m, "cacheReadInputTokens"),
			CacheWriteTokens: native.Int(m, "cacheCreationInputTokens"), ReasoningTokens: native.Int(m, "thinkingTokens"),
		}
		u.InputTokens = native.Int(m, "inputTokens") + u.CachedTokens + u.CacheWriteTokens
		u.TotalTokens = u.InputTokens + u.OutputTokens
		usage, cost = usage.Add(u), cost+finite(m.GetFloat64("costUSD"))
	})
	return usage, cost
}

// apiUsage reads a usage object of the API, whose input_tokens leave the cache out.
func apiUsage(v *fastjson.Value) agents.Usage {
	u := agents.Usage{
		OutputTokens: native.Int(v, "output_tokens"), CachedTokens: native.Int(v, "cache_read_input_tokens"),
		CacheWriteTokens: native.Int(v, "cache_creation_input_tokens"),
		ReasoningTokens:  native.Int(v, "output_tokens_details", "thinking_tokens"),
	}
	u.InputTokens = native.Int(v, "input_tokens") + u.CachedTokens + u.CacheWriteTokens
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
