package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"flow/agents"
)

// claudeTools are the tools of a session without --tools.
func claudeTools() []string {
	return []string{
		"Task", "Bash", "CronCreate", "CronDelete", "CronList", "Edit", "EnterWorktree", "ExitWorktree", "ListAgents",
		"Monitor", "NotebookEdit", "Read", "ReportFindings", "ScheduleWakeup", "SendMessage", "Skill", "TaskStop",
		"ToolSearch", "WebFetch", "WebSearch", "Workflow", "Write",
	}
}

// envelope completes a line with what every message has.
func (c *claude) envelope(line object) object {
	line["session_id"], line["uuid"] = c.session.ID, uuid.NewString()
	return line
}

func (c *claude) system(subtype string, fields object) {
	fields["type"], fields["subtype"] = "system", subtype
	c.send(c.envelope(fields))
}

func (c *claude) toolID() string { return fmt.Sprintf("toolu_simulated%03d", c.messages+1) }

// message prints one message of the model that holds one block, and its deltas
// before it if they are asked for.
func (c *claude) message(block object) {
	c.messages++
	if !c.args.has("--include-partial-messages") {
		c.assistant(block)
		return
	}
	c.system("status", object{"status": "requesting"})
	c.event(object{"type": "message_start", "message": c.wire([]any{}, nil)})
	c.event(object{"type": "content_block_start", "index": 0, "content_block": emptied(block)})
	for _, d := range deltas(block) {
		c.event(object{"type": "content_block_delta", "index": 0, "delta": d})
	}
	c.assistant(block)
	c.event(object{"type": "content_block_stop", "index": 0})
	stop := "end_turn"
	if block["type"] == "tool_use" {
		stop = "tool_use"
	}
	c.event(object{
		"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": wireUsage(20),
	})
	c.event(object{"type": "message_stop"})
}

func (c *claude) event(e object) {
	c.send(c.envelope(object{
		"type": "stream_event", "event": e, "parent_tool_use_id": nil, "api_message_id": c.messageID(),
	}))
}

func (c *claude) messageID() string { return fmt.Sprintf("msg_simulated%03d", c.messages) }

// wire is the API's message.
func (c *claude) wire(content any, stop any) object {
	return object{
		"id": c.messageID(), "type": "message", "role": "assistant", "model": c.session.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": wireUsage(1),
	}
}

func wireUsage(output int) object {
	return object{
		"input_tokens": 100, "output_tokens": output, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
	}
}

func (c *claude) assistant(block object) {
	m := c.wire([]any{block}, nil)
	m["context_management"] = nil
	line := c.envelope(object{
		"type": "assistant", "message": m, "parent_tool_use_id": nil, "timestamp": timestamp(),
		"request_id": fmt.Sprintf("req_simulated%03d", c.messages),
	})
	if !c.credited { // only the first message of a turn says what it answers
		c.credit(line)
	}
	c.credited = true
	c.send(line)
}

// emptied is a block as a stream begins it.
func emptied(block object) object {
	if block["type"] == "tool_use" {
		return object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
	}
	return object{"type": "text", "text": ""}
}

// deltas are the pieces of a block.
func deltas(block object) []object {
	var out []object
	if block["type"] == "tool_use" {
		input, err := json.Marshal(block["input"])
		if err != nil {
			return nil
		}
		for _, piece := range chunks(string(input)) {
			out = append(out, object{"type": "input_json_delta", "partial_json": piece})
		}
		return out
	}
	text, _ := block["text"].(string)
	for _, piece := range chunks(text) {
		out = append(out, object{"type": "text_delta", "text": piece})
	}
	return out
}

// user prints a message that the CLI makes in the user's name.
func (c *claude) user(content []any, more object) {
	line := c.envelope(object{
		"type": "user", "message": object{"role": "user", "content": content}, "parent_tool_use_id": nil,
		"timestamp": timestamp(),
	})
	maps.Copy(line, more)
	c.send(line)
}

// A toolResult is the outcome of a tool call in Claude's words.
type toolResult struct {
	id      string
	content string // for the model
	detail  any    // for programs: tool_use_result; nil is "Error: " and the content
	failed  bool
	meta    object // tool_result_meta; nil is an accepted call, empty none
}

func (c *claude) toolResult(r toolResult) {
	block := object{"type": "tool_result", "tool_use_id": r.id, "content": r.content}
	if r.failed {
		block["is_error"] = true
	}
	if r.detail == nil {
		r.detail = "Error: " + r.content
	}
	if r.meta == nil {
		decision := object{"decision": "accept", "source": "config", "reason_type": "mode"}
		if c.consent != nil {
			decision = c.consent
		}
		r.meta = object{"permission_decision": decision}
	}
	more := object{"tool_use_result": r.detail}
	if len(r.meta) > 0 {
		r.meta["id"] = r.id
		more["tool_result_meta"] = []any{r.meta}
	}
	c.user([]any{block}, more)
}

// resultOf is the last line, as far as all ends share it.
func (c *claude) resultOf(subtype string) object {
	elapsed := time.Since(c.began).Milliseconds()
	c.results++
	line := c.envelope(object{
		"type": "result", "subtype": subtype, "is_error": true, "duration_ms": elapsed, "duration_api_ms": elapsed,
		"num_turns": c.turns, "stop_reason": "end_turn", "terminal_reason": "completed",
		"total_cost_usd": claudeCost(c.session.Usage), "usage": claudeUsage(c.spent),
		"modelUsage": c.modelUsage(c.session.Usage), "model_usage_since_last_result": c.modelUsage(c.spent),
		"permission_denials": c.deniedCalls(), "fast_mode_state": "off", "safety_stops": 0, "queued_turn_count": 0,
		"result_index": c.results - 1,
	})
	c.credit(line)
	return line
}

// credit names the user's messages that a line is about, as far as they have names.
func (c *claude) credit(line object) {
	if uuids := c.talk.uuids(); len(uuids) > 0 {
		line["user_message_uuid"], line["user_message_uuids"] = uuids[0], uuids
	}
}

func (c *claude) deniedCalls() []object {
	if c.denials == nil {
		return []object{}
	}
	return c.denials
}

func claudeUsage(u agents.Usage) object {
	return object{
		"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
		"cache_creation_input_tokens": u.CacheWriteTokens, "cache_read_input_tokens": u.CachedTokens,
		"output_tokens_details": object{"thinking_tokens": 0},
		"server_tool_use":       object{"web_search_requests": 0, "web_fetch_requests": 0},
		"service_tier":          "standard", "iterations": []any{}, "speed": "standard",
	}
}

// modelUsage is usage by model; a session that has used nothing names none.
func (c *claude) modelUsage(u agents.Usage) object {
	if u == (agents.Usage{}) {
		return object{}
	}
	return object{c.session.Model: object{
		"inputTokens": u.InputTokens, "outputTokens": u.OutputTokens, "cacheReadInputTokens": u.CachedTokens,
		"cacheCreationInputTokens": u.CacheWriteTokens, "webSearchRequests": 0, "costUSD": claudeCost(u),
		"contextWindow": 1000000, "maxOutputTokens": 128000, "thinkingTokens": 0, "canonicalModel": c.session.Model,
		"provider": "firstParty", "costBasis": "list",
	}}
}

// claudeCost is in USD: 4 per million tokens in, 20 per million out, the list price
// of the default model.
func claudeCost(u agents.Usage) float64 {
	return (float64(u.InputTokens)*4 + float64(u.OutputTokens)*20) / 1e6
}

func timestamp() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }
