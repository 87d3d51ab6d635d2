package native_test

import (
	"fmt"
	"strings"
	"testing"

	"flow/agents"
	"flow/agents/internal/native"
)

// A line that can be read in two ways is not read.
func TestTwice(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"k%d":%d,`, i, i)
	}
	for line, want := range map[string]string{
		`{"type":"result","type":"error"}`:                        "type",
		`{"type":"result","ty\u0070e":"error"}`:                   "type",
		`{"id":1,"id":2}`:                                         "id",
		`{"input":{"command":"ls","x":1,"command":"rm -r /"}}`:    "command",
		`{"list":[{"a":1},{"a":1,"a":2}]}`:                        "a",
		`{` + many.String() + `"k99":0}`:                          "k99",
		`{"item":{"id":"item_0","type":"web_search","id":"ws"}}`:  "",
		`{"item":{"id":"a","id":"b","cmd":"ls","cmd":"rm -r /"}}`: "cmd",
		`{"list":[{"id":"a","id":"b"},{"cmd":"a","cmd":"b"}]}`:    "cmd",
		`{"a":{"b":1},"b":{"a":1},"c":[{"a":1},{"a":2}]}`:         "",
		`{"type":"result","TYPE":"error"}`:                        "",
		`{` + many.String() + `"k100":0}`:                         "",
	} {
		var r native.Reader
		v, events := r.Object([]byte(line))
		if want == "" {
			if v == nil {
				t.Errorf("%s is not read: %v", line, events)
			}
			continue
		}
		m, ok := events[0].Body.(agents.Malformed)
		if v != nil || !ok || m.Error != fmt.Sprintf("the key %q stands twice in one object", want) || string(m.Raw) != line {
			t.Errorf("%s is read as %v %v", line, v, events)
		}
	}
}
