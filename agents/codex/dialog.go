package codex

import (
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// dialog follows one `codex exec --json` process, which is one turn.
type dialog struct {
	request agents.Request
	reader  native.Reader

	thread  string               // the thread's id, once codex has said it
	turn    bool                 // the turn has started
	tools   map[string]toolState // by item id, which counts from item_0 in each process
	closed  native.Ring          // the ids among them that are closed
	began   bool                 // the model was seen at work
	answer  *string              // the last message of the agent
	denied  []string
	retries int
	trouble string // the last error line, as long as nothing better followed

	end     string        // how the turn ended, "turn.completed" or "turn.failed", or ""
	failure string        // the message of turn.failed
	total   *agents.Usage // what the whole thread has used
}

// Ended reports whether the turn has ended.
func (d *dialog) Ended() bool { return d.end != "" }

// SessionID is the id of codex's thread, or "" before codex has said it.
func (d *dialog) SessionID() string { return d.thread }

// Line translates one line of standard output.
func (d *dialog) Line(line []byte) []agents.Event {
	v, events := d.reader.Object(line)
	if v == nil {
		return events
	}
	switch typ := native.String(v, "type"); typ {
	case "thread.started":
		return d.threadStarted(v)
	case "turn.started":
		d.turn, d.end, d.failure = true, "", ""
		return bodies(agents.TurnStarted{})
	case "turn.completed", "turn.failed":
		return d.turnEnded(typ, v)
	case "error":
		return d.troubled(native.String(v, "message"))
	case "item.started", "item.updated", "item.completed":
		return d.item(typ, v)
	default:
		return native.Unknown(typ, v)
	}
}

func (d *dialog) threadStarted(v *fastjson.Value) []agents.Event {
	id := native.String(v, "thread_id")
	if d.thread != "" || id == "" {
		return native.Unknown("thread.started", v)
	}
	d.thread = id
	events := bodies(agents.SessionStarted{Cwd: d.request.Dir})
	if p := strayed(d.request.Session, d.thread); p != nil { // said at once, not after a turn on the wrong thread
		events = append(events, bodies(agents.Error{Message: p.Message, Cause: p.Cause})...)
	}
	return events
}

// turnEnded keeps the end of the turn. A second one that no turn.started announced
// contradicts the first, and is kept as an unknown event.
func (d *dialog) turnEnded(typ string, v *fastjson.Value) []agents.Event {
	if d.end != "" {
		return native.SecondEnd(typ, v)
	}
	d.end = typ
	if typ == "turn.failed" {
		d.failure = unwrap(native.String(v, "error", "message"))
		return bodies(agents.TurnCompleted{})
	}
	if v.GetObject("usage") != nil {
		d.total = readUsage(v.Get("usage"))
	}
	return bodies(agents.TurnCompleted{Usage: d.turnUsage()})
}

// readUsage reads codex's counts. Input includes what was cached and output what was
// reasoned.
func readUsage(v *fastjson.Value) *agents.Usage {
	count := func(key string) int64 { return max(0, native.Int(v, key)) }
	u := agents.Usage{
		InputTokens:      count("input_tokens"),
		OutputTokens:     count("output_tokens"),
		CachedTokens:     count("cached_input_tokens"),
		CacheWriteTokens: count("cache_write_input_tokens"),
		ReasoningTokens:  count("reasoning_output_tokens"),
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return &u
}

func (d *dialog) turnUsage() *agents.Usage { return spent(d.total, d.request.Session, d.thread) }

// spent is what a turn alone used when the thread has used total: codex prints the total
// of the thread, and a fork's begins at its parent's. A total below what was already
// spent is of a count that began anew, and counts whole: too little would break a budget.
func spent(total *agents.Usage, s agents.Session, thread string) *agents.Usage {
	if total == nil || s.Spent == nil || s.Mode == agents.SessionNew || strayed(s, thread) != nil ||
		total.TotalTokens < s.Spent.TotalTokens {
		return total
	}
	used := total.Sub(*s.Spent)
	return &used
}

// troubled translates an `error` line. It ends nothing: most tell of a retry, after
// which the turn may well succeed.
func (d *dialog) troubled(message string) []agents.Event {
	message = unwrap(message)
	d.trouble = message
	if retry, ok := readRetry(message); ok {
		d.retries++
		if retry.Attempt == 0 {
			retry.Attempt = d.retries
		}
		return bodies(retry)
	}
	return bodies(agents.Error{Message: message, Cause: known(classify(message))})
}

// Stderr finds the tool calls that codex refused or could not run: a log line is all
// it prints of them.
func (d *dialog) Stderr(line []byte) []agents.Event {
	_, reason, ok := strings.Cut(string(line), " ERROR codex_core::tools::router: error=")
	if !ok {
		return nil
	}
	reason = clip(reason, maxMessage)
	e := agents.Error{Message: "a tool call failed: " + reason}
	if tool := refusedTool(reason); tool != "" {
		e.Cause = agents.CausePermission
		d.denied = append(d.denied, string(tool)+": "+reason)
	}
	return bodies(e)
}

// refusedTool is the kind of tool whose call codex refused for reason, or "" when
// the call failed otherwise.
func refusedTool(reason string) agents.Tool {
	switch {
	case strings.HasPrefix(reason, "patch rejected"):
		return agents.ToolEditFile
	case strings.Contains(reason, "Rejected(") || strings.Contains(reason, "reject command"):
		return agents.ToolShell
	default:
		return ""
	}
}

func bodies(list ...agents.Body) []agents.Event {
	events := make([]agents.Event, len(list))
	for i, b := range list {
		events[i].Body = b
	}
	return events
}
