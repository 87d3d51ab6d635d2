package claude

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// system returns the one event of a notice.
func system(subtype, message string) []agents.Event {
	return []agents.Event{{Body: agents.System{Subtype: subtype, Message: message}}}
}

func (d *dialog) system(v *fastjson.Value) []agents.Event {
	switch subtype := native.String(v, "subtype"); subtype {
	case "init":
		d.verdict.fresh = false
		return d.init(v)
	case "api_retry":
		return retry(v)
	case "permission_denied":
		return d.permissionDenied(v)
	case "task_started", "task_progress", "task_notification":
		return d.task(subtype, v)
	default:
		if subtype == "background_tasks_changed" {
			d.tasks = len(v.GetArray("tasks"))
		}
		if message, ok := notice(subtype, v); ok {
			return system(subtype, message)
		}
		return native.Unknown("system/"+subtype, v)
	}
}

// notice is the gist of the notices that only inform, and whether subtype is one.
func notice(subtype string, v *fastjson.Value) (message string, ok bool) {
	switch subtype {
	case "status":
		return first(v, "status", "compact_result", "permissionMode"), true
	case "compact_boundary":
		m := v.Get("compact_metadata")
		return fmt.Sprintf("%s: %d tokens became %d", native.String(m, "trigger"), native.Int(m, "pre_tokens"), native.Int(m, "post_tokens")), true
	case "hook_started", "hook_response":
		return strings.TrimSpace(native.String(v, "hook_name") + " " + native.String(v, "outcome")), true
	case "informational", "model_fallback", "model_refusal_no_fallback":
		return first(v, "content", "api_refusal_explanation", "api_refusal_category"), true
	case "thinking_tokens":
		return fmt.Sprintf("%d", native.Int(v, "estimated_tokens")), true
	case "background_tasks_changed":
		return fmt.Sprintf("%d running", len(v.GetArray("tasks"))), true
	case "task_updated":
		return native.String(v, "patch", "status"), true
	case "session_title_changed", "session_state_changed", "ui_invalidate":
		return first(v, "title", "state", "event"), true
	default:
		return "", false
	}
}

// first returns the first string that is not empty.
func first(v *fastjson.Value, keys ...string) string {
	for _, k := range keys {
		if s := native.String(v, k); s != "" {
			return s
		}
	}
	return ""
}

// init opens every turn of the process; the session begins with the first one.
func (d *dialog) init(v *fastjson.Value) []agents.Event {
	d.version, d.model = native.String(v, "claude_code_version"), native.String(v, "model")
	if d.dir == "" {
		d.dir = native.String(v, "cwd")
	}
	var events []agents.Event
	if d.started == "" || d.started != d.session {
		d.started = d.session
		tools := toolNames(v.GetArray("tools"))
		events = append(events, agents.Event{Body: agents.SessionStarted{
			Model: d.model, Version: d.version, Cwd: native.String(v, "cwd"), Tools: tools,
		}})
		events = append(events, d.missing(tools)...)
	}
	return append(events, agents.Event{Body: agents.TurnStarted{}})
}

// missing reports the tools that were asked for and not granted: the CLI drops a
// tool that it does not have without a word.
func (d *dialog) missing(granted []string) []agents.Event {
	missing := slices.DeleteFunc(slices.Clone(d.wanted), func(t string) bool { return slices.Contains(granted, t) })
	if len(missing) == 0 {
		return nil
	}
	return system("tools_missing", "not granted: "+strings.Join(missing, ", "))
}

func texts(values []*fastjson.Value) []string {
	var list []string
	for _, v := range values {
		list = append(list, native.String(v))
	}
	return list
}

// retry is an attempt at the API that the CLI makes again by itself.
func retry(v *fastjson.Value) []agents.Event {
	f := failure{status: int(native.Int(v, "error_status")), assistantError: native.String(v, "error")}
	if f.status == 0 && f.assistantError == "unknown" {
		f.apiError = "connection_failed" // no status, no answer
	}
	return []agents.Event{{Body: agents.Retry{
		Attempt: int(native.Int(v, "attempt")), MaxRetries: int(native.Int(v, "max_retries")), DelayMS: native.Int(v, "retry_delay_ms"),
		Status: f.status, Cause: f.cause(), Message: f.assistantError,
	}}}
}

// permissionDenied announces that a call will not run. Its failed result follows.
func (d *dialog) permissionDenied(v *fastjson.Value) []agents.Event {
	id := native.String(v, "tool_use_id")
	c, ok := d.calls[id]
	if ok {
		c.declined = true
		d.calls[id] = c
	} else {
		c = newCall(native.String(v, "tool_name"), nil)
	}
	d.denied.add(id, c)
	return []agents.Event{{Body: agents.PermissionDecided{
		ToolID: id, Decision: "deny", By: "agent", Message: native.String(v, "message"),
	}}}
}

// denials are the calls that were refused, each once: most are told twice, when
// they happen and in the result.
type denials struct {
	ids   map[string]bool
	calls []string
}

func (d *denials) add(id string, c call) {
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	if id != "" && d.ids[id] {
		return
	}
	d.ids[id] = true
	d.calls = append(d.calls, c.String())
}

// task is news of work beside the conversation: a subagent, or a shell command
// that takes long, which is only noted.
func (d *dialog) task(subtype string, v *fastjson.Value) []agents.Event {
	id := native.String(v, "task_id")
	if subtype == "task_started" && native.String(v, "task_type") == "local_agent" {
		d.subagents[id] = true
	}
	message := first(v, "summary", "description")
	if !d.subagents[id] {
		return system(subtype, message)
	}
	status := map[string]string{"task_started": "started", "task_progress": "progress"}[subtype]
	if status == "" {
		if status = native.String(v, "status"); status != "completed" {
			status = "failed" // or stopped
		}
	}
	return []agents.Event{{Body: agents.Subagent{
		SubagentID: id, Status: status, ParentID: native.String(v, "tool_use_id"), Message: message,
	}}}
}

// rateLimit is what the provider says of the limits of a subscription.
func (d *dialog) rateLimit(info *fastjson.Value) []agents.Event {
	limit := agents.RateLimit{
		Status: native.String(info, "status"), Limit: native.String(info, "rateLimitType"), Used: info.GetFloat64("utilization"),
	}
	if limit.Status == "allowed_warning" {
		limit.Status = "warning"
	}
	if at := native.Int(info, "resetsAt"); at > 0 { // Unix seconds
		reset := time.Unix(at, 0).UTC()
		limit.ResetsAt = &reset
	}
	if limit.Status == "rejected" {
		d.verdict.limited = true
		if limit.ResetsAt != nil {
			d.verdict.resetsAt = *limit.ResetsAt
		}
	}
	return []agents.Event{{Body: limit}}
}

// toolProgress is a heartbeat: it has an id of its own and names the call as its
// parent. That of a hook is about a call that has not been made.
func toolProgress(v *fastjson.Value) []agents.Event {
	if hook := native.String(v, "tool_name"); strings.HasPrefix(native.String(v, "tool_use_id"), "hook-") {
		return system("hook_progress", hook)
	}
	id := native.String(v, "tool_use_id")
	if parent := native.String(v, "parent_tool_use_id"); parent != "" && v.GetBool("heartbeat") {
		id = parent
	}
	return []agents.Event{{Body: agents.ToolProgress{ToolID: id, ElapsedMS: int64(v.GetFloat64("elapsed_time_seconds") * 1000)}}}
}

// control is a line of the two-way protocol where somebody else speaks it.
func (d *dialog) control(typ string, v *fastjson.Value) []agents.Event {
	request := v.Get("request")
	if native.String(request, "subtype") != "can_use_tool" {
		return system(typ, first(request, "subtype"))
	}
	asked := d.permissionOf(newCall(native.String(request, "tool_name"), request.Get("input")), request.Get("input"))
	asked.RequestID, asked.ToolID = native.String(v, "request_id"), native.String(request, "tool_use_id")
	return []agents.Event{{Body: asked}}
}

// permissionOf is what is asked about a call.
func (d *dialog) permissionOf(c call, input *fastjson.Value) agents.PermissionRequested {
	return agents.PermissionRequested{
		ToolName: c.tool, NativeName: c.name, Target: c.target, Risk: d.risk(c), Arguments: native.Raw(input),
	}
}
