// Package native reads the JSON lines that agents print. It stands between the
// adapters and the JSON library: what a line is, and what is to be said of a line
// that is none.
package native

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"flow/agents"
)

// A Reader parses lines, reusing its memory: a value is valid until the next call.
type Reader struct{ parser fastjson.Parser }

// Object returns the JSON object on the line. When there is none it returns the
// event that says so, if any is due (none for a blank line): a Log for a line
// that was never meant as JSON, Malformed for one that was.
func (r *Reader) Object(line []byte) (*fastjson.Value, []agents.Event) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	if len(line) == 0 {
		return nil, nil
	}
	if line[0] != '{' {
		return nil, []agents.Event{{Body: agents.Log{Stream: "stdout", Text: string(line)}}}
	}
	v, err := r.parser.ParseBytes(line)
	if err != nil {
		return nil, malformed(shorten(err.Error(), 200), line)
	}
	if key := twice(v); key != "" {
		return nil, malformed(fmt.Sprintf("the key %q stands twice in one object", shorten(key, 100)), line)
	}
	return v, nil
}

func malformed(why string, line []byte) []agents.Event {
	return []agents.Event{{Body: agents.NewMalformed(why, line)}}
}

// Unknown is the event for a message of a type that the adapter does not know.
func Unknown(typ string, v *fastjson.Value) []agents.Event {
	return []agents.Event{{Body: agents.Unknown{NativeType: typ, Raw: Raw(v)}}}
}

// SecondEnd are the events for one more end of a turn that has ended: the first one counts.
func SecondEnd(typ string, v *fastjson.Value) []agents.Event {
	return append(Unknown(typ, v), agents.Event{Body: agents.System{
		Subtype: "warning", Message: "the agent ended its turn a second time; the first end counts",
	}})
}

// String returns the string at the path keys, or "".
func String(v *fastjson.Value, keys ...string) string { return string(v.GetStringBytes(keys...)) }

// Int returns the integer at the path keys, or 0. JSON has one kind of number: 3.0 is
// 3, and of 3.7 the fraction is cut off.
func Int(v *fastjson.Value, keys ...string) int64 {
	number := v.Get(keys...)
	if number == nil || number.Type() != fastjson.TypeNumber {
		return 0
	}
	if n, err := number.Int64(); err == nil {
		return n
	}
	f, err := number.Float64()
	if err != nil || !(math.Abs(f) < 1<<63) { // NaN included
		return 0
	}
	return int64(f)
}

// Raw returns v as JSON text of its own, or nil when v is absent or null. It
// does not use the library's own writer, which quotes strings as Go does, and it
// repairs what the lenient parser lets through (bad escapes, NaN), so that the
// result is always valid.
func Raw(v *fastjson.Value, keys ...string) json.RawMessage {
	if v = v.Get(keys...); v == nil || v.Type() == fastjson.TypeNull {
		return nil
	}
	return appendValue(nil, v)
}

func appendValue(b []byte, v *fastjson.Value) []byte {
	switch v.Type() {
	case fastjson.TypeObject:
		return appendObject(b, v.GetObject())
	case fastjson.TypeArray:
		b = append(b, '[')
		for i, item := range v.GetArray() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, item)
		}
		return append(b, ']')
	case fastjson.TypeString:
		return agents.AppendString(b, string(v.GetStringBytes()))
	case fastjson.TypeNumber:
		number := v.MarshalTo(nil)
		if !json.Valid(number) {
			return append(b, "null"...)
		}
		return append(b, number...)
	case fastjson.TypeTrue, fastjson.TypeFalse:
		return strconv.AppendBool(b, v.GetBool())
	default:
		return append(b, "null"...)
	}
}

func appendObject(b []byte, o *fastjson.Object) []byte {
	b = append(b, '{')
	first := true
	o.Visit(func(key []byte, v *fastjson.Value) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = agents.AppendString(b, string(key))
		b = appendValue(append(b, ':'), v)
	})
	return append(b, '}')
}

// shorten cuts the excerpt of the line that the library puts into its errors.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
