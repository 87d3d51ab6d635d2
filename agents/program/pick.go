package program

import (
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents/internal/native"
)

// find returns what stands where the profile says that something does, nil when that is
// nothing, or not in this object.
func (d *dialog) find(v *fastjson.Value, what string) *fastjson.Value {
	pick, ok := d.exec.Events[what]
	if !ok {
		return nil
	}
	for path, want := range pick.Match {
		if textOf(at(v, path)) != want {
			return nil
		}
	}
	found := at(v, pick.Path)
	if found == nil || found.Type() == fastjson.TypeNull {
		return nil
	}
	return found
}

// text is what find finds, as text; "" for nothing.
func (d *dialog) text(v *fastjson.Value, what string) string { return textOf(d.find(v, what)) }

// at follows a path such as .message.content.0.text.
func at(v *fastjson.Value, path string) *fastjson.Value {
	return v.Get(strings.Split(strings.TrimPrefix(path, "."), ".")...)
}

// textOf is a string as it is, and anything else as JSON.
func textOf(v *fastjson.Value) string {
	switch {
	case v == nil || v.Type() == fastjson.TypeNull:
		return ""
	case v.Type() == fastjson.TypeString:
		return native.String(v)
	}
	return string(native.Raw(v))
}

func toolID(n int) string { return "tool-" + strconv.Itoa(n) }
