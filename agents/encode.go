package agents

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the event as one JSON object, without a newline. It is
// json.Marshal without the reflection: events are written by the hundred
// thousand. Invalid UTF-8 in strings becomes U+FFFD, as in encoding/json.
func (e Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = AppendString(b, e.ID)
	b = field(b, "type", e.Type)
	b = field(b, "sessionId", e.SessionID)
	b = append(b, `,"timestamp":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = field(b, "agentType", e.AgentType)
	b = optional(b, "run", e.Run)
	b = optional(b, "step", e.Step)
	b = optionalInt(b, "attempt", int64(e.Attempt))
	b = integer(b, "seq", e.Seq)
	if e.Native != nil {
		b = e.Native.append(b)
	}
	if e.Body != nil {
		b = e.Body.appendFields(b)
	}
	return append(b, '}')
}

// MarshalJSON is AppendJSON for encoding/json.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

func (n *Native) append(b []byte) []byte {
	b = append(b, `,"native":{`...)
	if n.File != "" {
		b = append(b, `"file":`...)
		b = AppendString(b, n.File)
		b = append(b, ',')
	}
	b = append(b, `"offset":`...)
	b = strconv.AppendInt(b, n.Offset, 10)
	b = integer(b, "length", n.Length)
	return append(b, '}')
}

func (x SessionStarted) appendFields(b []byte) []byte {
	b = optional(b, "model", x.Model)
	b = optional(b, "version", x.Version)
	b = optional(b, "cwd", x.Cwd)
	if len(x.Tools) == 0 {
		return b
	}
	b = key(b, "tools")
	for i, t := range x.Tools {
		b = append(b, "[,"[min(i, 1)])
		b = AppendString(b, t)
	}
	return append(b, ']')
}

func (TurnStarted) appendFields(b []byte) []byte { return b }

func (x TextChunk) appendFields(b []byte) []byte {
	b = field(b, "content", x.Content)
	b = boolean(b, "isPartial", x.IsPartial)
	b = field(b, "role", x.Role)
	return optional(b, "messageId", x.MessageID)
}

func (x Reasoning) appendFields(b []byte) []byte {
	b = field(b, "content", x.Content)
	return boolean(b, "isPartial", x.IsPartial)
}

func (x ToolStarted) appendFields(b []byte) []byte {
	b = field(b, "toolId", x.ToolID)
	b = field(b, "toolName", string(x.ToolName))
	b = field(b, "nativeName", x.NativeName)
	b = optional(b, "target", x.Target)
	b = field(b, "risk", string(x.Risk))
	b = raw(b, "arguments", x.Arguments)
	return optional(b, "parentId", x.ParentID)
}

func (x ToolProgress) appendFields(b []byte) []byte {
	b = field(b, "toolId", x.ToolID)
	b = optional(b, "output", x.Output)
	b = optionalInt(b, "elapsedMs", x.ElapsedMS)
	if x.Progress != 0 {
		b = number(b, "progress", x.Progress)
	}
	return b
}

func (x ToolCompleted) appendFields(b []byte) []byte {
	b = field(b, "toolId", x.ToolID)
	b = boolean(b, "success", x.Success)
	b = raw(b, "result", x.Result)
	b = optional(b, "error", x.Error)
	if x.ExitCode != nil {
		b = integer(b, "exitCode", int64(*x.ExitCode))
	}
	if x.Declined {
		b = boolean(b, "declined", true)
	}
	return b
}

func (x FileChanged) appendFields(b []byte) []byte {
	b = field(b, "filePath", x.FilePath)
	b = field(b, "changeType", string(x.ChangeType))
	b = optional(b, "diff", x.Diff)
	return optional(b, "toolId", x.ToolID)
}

func (x TodoList) appendFields(b []byte) []byte {
	b = append(key(b, "items"), '[')
	for i, item := range x.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"text":`...)
		b = AppendString(b, item.Text)
		b = field(b, "status", item.Status)
		b = append(b, '}')
	}
	return append(b, ']')
}

func (x TurnCompleted) appendFields(b []byte) []byte {
	b = usage(b, "usage", x.Usage)
	return optionalInt(b, "durationMs", x.DurationMS)
}

func (x UsageReport) appendFields(b []byte) []byte {
	b = usage(b, "usage", &x.Usage)
	return money(b, x.CostUSD)
}

func (x Retry) appendFields(b []byte) []byte {
	b = integer(b, "retryAttempt", int64(x.Attempt))
	b = optionalInt(b, "maxRetries", int64(x.MaxRetries))
	b = optionalInt(b, "delayMs", x.DelayMS)
	b = optionalInt(b, "httpStatus", int64(x.Status))
	b = optional(b, "cause", string(x.Cause))
	return optional(b, "message", x.Message)
}

func (x RateLimit) appendFields(b []byte) []byte {
	b = field(b, "status", x.Status)
	b = optional(b, "limit", x.Limit)
	b = moment(b, "resetsAt", x.ResetsAt)
	if x.Used != 0 {
		b = number(b, "used", x.Used)
	}
	return b
}

func (x PermissionRequested) appendFields(b []byte) []byte {
	b = field(b, "requestId", x.RequestID)
	b = optional(b, "toolId", x.ToolID)
	b = field(b, "toolName", string(x.ToolName))
	b = field(b, "nativeName", x.NativeName)
	b = optional(b, "target", x.Target)
	b = field(b, "risk", string(x.Risk))
	b = raw(b, "arguments", x.Arguments)
	if x.Preliminary {
		b = boolean(b, "preliminary", true)
	}
	return optional(b, "reason", x.Reason)
}

func (x PermissionDecided) appendFields(b []byte) []byte {
	b = optional(b, "requestId", x.RequestID)
	b = optional(b, "toolId", x.ToolID)
	b = field(b, "decision", x.Decision)
	b = field(b, "by", x.By)
	b = optional(b, "message", x.Message)
	b = optional(b, "rule", x.Rule)
	return optional(b, "where", x.Where)
}

func (x Subagent) appendFields(b []byte) []byte {
	b = field(b, "subagentId", x.SubagentID)
	b = field(b, "status", x.Status)
	b = optional(b, "parentId", x.ParentID)
	return optional(b, "message", x.Message)
}

func (x System) appendFields(b []byte) []byte {
	b = field(b, "subtype", x.Subtype)
	return optional(b, "message", x.Message)
}

func (x Error) appendFields(b []byte) []byte {
	b = field(b, "message", x.Message)
	return optional(b, "cause", string(x.Cause))
}

func (x Log) appendFields(b []byte) []byte {
	b = field(b, "stream", x.Stream)
	return field(b, "text", x.Text)
}

func (x Malformed) appendFields(b []byte) []byte {
	b = field(b, "error", x.Error)
	if len(x.Raw) > 0 {
		b = append(key(b, "raw"), '"')
		b = base64.StdEncoding.AppendEncode(b, x.Raw)
		b = append(b, '"')
	}
	if x.Truncated {
		b = boolean(b, "truncated", true)
	}
	return b
}

func (x Unknown) appendFields(b []byte) []byte {
	b = field(b, "nativeType", x.NativeType)
	if len(x.Raw) == 0 {
		return append(key(b, "raw"), "null"...)
	}
	return raw(b, "raw", x.Raw)
}

func (x SessionEnded) appendFields(b []byte) []byte {
	b = field(b, "reason", string(x.Reason))
	b = optional(b, "cause", string(x.Cause))
	b = optional(b, "error", x.Error)
	b = optional(b, "hint", x.Hint)
	b = optional(b, "model", x.Model)
	b = field(b, "text", x.Text)
	b = raw(b, "output", x.Output)
	b = usage(b, "finalUsage", x.FinalUsage)
	b = money(b, x.CostUSD)
	b = optionalInt(b, "durationMs", x.DurationMS)
	b = moment(b, "retryAfter", x.RetryAfter)
	if x.ExitCode != nil {
		b = integer(b, "exitCode", int64(*x.ExitCode))
	}
	return optional(b, "signal", x.Signal)
}

func key(b []byte, k string) []byte {
	b = append(b, `,"`...)
	b = append(b, k...)
	return append(b, `":`...)
}

func field(b []byte, k, v string) []byte { return AppendString(key(b, k), v) }

func optional(b []byte, k, v string) []byte {
	if v == "" {
		return b
	}
	return field(b, k, v)
}

func integer(b []byte, k string, v int64) []byte { return strconv.AppendInt(key(b, k), v, 10) }

func optionalInt(b []byte, k string, v int64) []byte {
	if v == 0 {
		return b
	}
	return integer(b, k, v)
}

func boolean(b []byte, k string, v bool) []byte { return strconv.AppendBool(key(b, k), v) }

// number leaves the odd corners of floats (exponents) to encoding/json.
func number(b []byte, k string, v float64) []byte {
	text, err := json.Marshal(v)
	if err != nil { // NaN and infinities have no JSON
		return b
	}
	return append(key(b, k), text...)
}

func money(b []byte, v *float64) []byte {
	if v == nil {
		return b
	}
	return number(b, "costUsd", *v)
}

func raw(b []byte, k string, v json.RawMessage) []byte {
	if len(v) == 0 {
		return b
	}
	return append(key(b, k), v...)
}

func moment(b []byte, k string, t *time.Time) []byte {
	if t == nil {
		return b
	}
	b = append(key(b, k), '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func usage(b []byte, k string, u *Usage) []byte {
	if u == nil {
		return b
	}
	b = append(key(b, k), `{"inputTokens":`...)
	b = strconv.AppendInt(b, u.InputTokens, 10)
	b = integer(b, "outputTokens", u.OutputTokens)
	b = optionalInt(b, "cachedTokens", u.CachedTokens)
	b = optionalInt(b, "cacheWriteTokens", u.CacheWriteTokens)
	b = optionalInt(b, "reasoningTokens", u.ReasoningTokens)
	b = integer(b, "totalTokens", u.TotalTokens)
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string; invalid UTF-8 becomes U+FFFD. Long clean
// stretches are copied whole.
func AppendString(b []byte, s string) []byte {
	b = append(slices.Grow(b, len(s)+2), '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); fits(r, size) {
				i += size
				continue
			}
			b = appendRune(append(b, s[start:i]...), r)
		} else {
			b = appendEscape(append(b, s[start:i]...), c)
		}
		i += size
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) { //nolint:gochecknoglobals // a table
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// fits reports whether a decoded rune of size bytes may stand as it is: it is valid,
// and does not break lines in JavaScript.
func fits(r rune, size int) bool {
	return (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029'
}

// appendRune writes a rune below U+10000 as an escape.
func appendRune(b []byte, r rune) []byte {
	b = append(b, `\u`...)
	for shift := 12; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[(r>>shift)&0xf])
	}
	return b
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	default:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}
