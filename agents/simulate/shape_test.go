package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A shape is the set of paths that lines of one kind may have.
type shape map[string]bool

// kind is what decides the keys of a line: its type, and what tells types apart.
func kind(line map[string]any) string {
	out := fmt.Sprint(line["type"])
	second := "subtype"
	if line["type"] == "result" && line["status"] != nil {
		second = "status"
	}
	if x, ok := line[second].(string); ok {
		out += "/" + x
	}
	for _, inner := range []string{"item", "event"} {
		if x, ok := line[inner].(map[string]any); ok {
			out += fmt.Sprint("/", x["type"])
		}
	}
	if line["isReplay"] == true {
		out += "/replay"
	}
	for _, inner := range []string{"request", "response"} {
		if x, ok := line[inner].(map[string]any); ok {
			out += fmt.Sprint("/", x["subtype"])
		}
	}
	return out
}

// freeform are the keys below which anything may stand.
var freeform = []string{"input", "parameters", "tool_input", "structured_output", "rawInput", "rawOutput"}

// paths collects the paths of a value. The names of models are no keys.
func paths(out shape, prefix string, v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, inner := range x {
			at := prefix + "." + k
			if strings.HasSuffix(prefix, "odelUsage") || strings.HasSuffix(prefix, "_result") || strings.HasSuffix(prefix, ".models") {
				if _, ok := inner.(map[string]any); ok {
					at = prefix + ".*"
				}
			}
			out[at] = true
			if !slices.Contains(freeform, k) {
				paths(out, at, inner)
			}
		}
	case []any:
		for _, item := range x {
			paths(out, prefix+"[]", item)
		}
	}
}

// recorded returns the shapes of the agent's recorded streams.
func recorded(t *testing.T, agent string) map[string]shape {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "recordings", agent, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of %s (%v)", agent, err)
	}
	out := map[string]shape{}
	for _, file := range files {
		for line := range strings.Lines(content(t, file)) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if out[kind(v)] == nil {
				out[kind(v)] = shape{}
			}
			paths(out[kind(v)], "", v)
		}
	}
	return out
}

// read are the keys that a reader of the protocol relies on, by kind of line.
func read() map[string]map[string][]string {
	claudeResult := []string{
		".session_id", ".is_error", ".num_turns", ".stop_reason", ".terminal_reason", ".total_cost_usd", ".usage.input_tokens",
		".usage.output_tokens", ".modelUsage", ".model_usage_since_last_result", ".permission_denials", ".duration_ms", ".result_index",
	}
	geminiResult := []string{".status", ".timestamp", ".stats.total_tokens", ".stats.input_tokens", ".stats.output_tokens", ".stats.cached", ".stats.models.*", ".stats.duration_ms"}
	usage := []string{".usage.input_tokens", ".usage.cached_input_tokens", ".usage.output_tokens", ".usage.reasoning_output_tokens"}
	return map[string]map[string][]string{
		Claude: {
			"system/init":      {".session_id", ".cwd", ".tools", ".model", ".permissionMode", ".claude_code_version", ".mcp_servers", ".apiKeySource"},
			"system/api_retry": {".attempt", ".max_retries", ".retry_delay_ms", ".error_status", ".error"},
			"result/success":   append(claudeResult, ".result", ".api_error_status"),
			"assistant":        {".message.id", ".message.content[].type", ".message.model", ".session_id", ".parent_tool_use_id"},
			"user":             {".message.content[].type", ".session_id"},
			"user/replay":      {".message.content", ".session_id"},
			"control_request/can_use_tool": {
				".request_id", ".request.tool_name", ".request.display_name", ".request.input", ".request.tool_use_id",
			},
			"control_request/hook_callback": {".request_id", ".request.callback_id", ".request.input", ".request.tool_use_id"},
			"control_cancel_request":        {".request_id"},
			"control_response/success":      {".response.request_id", ".response.response"},
			"control_response/error":        {".response.request_id", ".response.error", ".response.error_code"},
			"command_lifecycle":             {".command_uuid", ".state", ".session_id"},
			"rate_limit_event":              {".rate_limit_info.status", ".rate_limit_info.resetsAt"},
		},
		Codex: {
			"thread.started":                   {".thread_id"},
			"turn.completed":                   usage,
			"turn.failed":                      {".error.message"},
			"item.completed/command_execution": {".item.id", ".item.command", ".item.aggregated_output", ".item.exit_code", ".item.status"},
			"item.completed/file_change":       {".item.changes[].path", ".item.changes[].kind", ".item.status"},
			"item.completed/agent_message":     {".item.text"},
		},
		Gemini: {
			"init":           {".session_id", ".model", ".timestamp"},
			"message":        {".role", ".content"},
			"tool_use":       {".tool_name", ".tool_id", ".parameters"},
			"tool_result":    {".tool_id", ".status"},
			"result/success": geminiResult,
			"result/error":   geminiResult,
		},
	}
}

func TestStreamsAreShapedLikeTheRecordedOnes(t *testing.T) {
	scripts := []string{
		"", "edit=new.txt:hello;edit=old.txt", "run=echo hi;run=echo err >&2 && exit 3", "stall=1ms;ids", "json={\"a\":1}",
		"fail=auth", "fail=billing", "fail=rate_limit", "fail=usage_limit", "fail=overloaded", "fail=network", "fail=server",
		"fail=context", "fail=budget", "fail=max_turns", "fail=max_output", "fail=refusal", "fail=model_not_found", "fail=invalid_request",
	}
	for _, agent := range vendors() {
		shapes := recorded(t, agent)
		// No stream that ends at the limit of turns was recorded.
		shapes["result/error_max_turns"] = shapes["result/error_max_budget_usd"]
		for _, script := range scripts {
			for _, options := range shapeOptions(agent) {
				t.Run(fmt.Sprintf("%s/%s/%s", agent, script, strings.Join(options, " ")), func(t *testing.T) {
					l := newLab(t).script(script)
					write(t, filepath.Join(l.dir, "old.txt"), "old\n")
					o := l.run(agent, "do it", argv(agent, options...)...)
					if strings.Contains(o.stderr, "has no failure") {
						t.Skip(o.stderr)
					}
					for _, line := range o.lines(t) {
						compare(t, shapes, read()[agent], line)
					}
				})
			}
		}
	}
}

// shapeOptions are the command lines that make a difference to the stream.
func shapeOptions(agent string) [][]string {
	const schema = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	switch agent {
	case Claude:
		return [][]string{
			writing(agent),
			{},
			{"--include-partial-messages", "--permission-mode", "acceptEdits"},
			{"--tools", "Read"},
			{"--json-schema", schema, "--max-budget-usd", "0.5"},
		}
	case Codex:
		return [][]string{append(writing(agent), "--disable", "unbounded_connection_retries"), {"-c", "features.unbounded_connection_retries=false"}}
	default:
		return [][]string{writing(agent), {}, {"--approval-mode", "plan"}}
	}
}

func compare(t *testing.T, shapes map[string]shape, needed map[string][]string, line map[string]any) {
	t.Helper()
	compareAs(t, kind(line), shapes, needed, line)
}

func compareAs(t *testing.T, name string, shapes map[string]shape, needed map[string][]string, line map[string]any) {
	t.Helper()
	want, ok := shapes[name]
	if !ok {
		t.Errorf("no recording has a line like %q: %v", name, line)
		return
	}
	have := shape{}
	paths(have, "", line)
	for _, path := range slices.Sorted(maps.Keys(have)) {
		if !want[path] {
			t.Errorf("%s: %s is in no recording", name, path)
		}
	}
	for _, path := range needed[name] {
		if !have[path] {
			t.Errorf("%s: %s is missing", name, path)
		}
	}
}
