package native

import (
	"bytes"

	"github.com/valyala/fastjson"
)

// twice returns a key that stands twice in an object of v, "" if there is none. Readers of
// JSON do not agree on which of the two counts, so that what flow judges might not be what
// the agent does.
//
// Ids within a message are let pass: Codex gives its web searches two, and the first is
// that of the item.
func twice(v *fastjson.Value) string { return search{}.value(v) }

// A search looks for a key that stands twice.
type search struct{ within bool } // a message, and not in its own object

func (s search) value(v *fastjson.Value) string {
	for _, item := range v.GetArray() {
		if key := (search{within: true}).value(item); key != "" {
			return key
		}
	}
	if o := v.GetObject(); o != nil {
		return s.object(o)
	}
	return ""
}

func (s search) object(o *fastjson.Object) (found string) {
	var seen keys
	o.Visit(func(key []byte, item *fastjson.Value) {
		switch {
		case found != "":
		case !seen.add(key) && (!s.within || string(key) != "id"):
			found = string(key)
		default:
			found = search{within: true}.value(item)
		}
	})
	return found
}

// keys are those of an object. The first ones are searched one by one: most objects have
// few, and every line is looked at.
type keys struct {
	few  [16][]byte
	n    int // of few
	rest map[string]bool
}

// add reports whether key is new.
func (k *keys) add(key []byte) bool {
	for _, known := range k.few[:k.n] {
		if bytes.Equal(known, key) {
			return false
		}
	}
	switch {
	case k.n < len(k.few):
		k.few[k.n] = key
		k.n++
		return true
	case k.rest == nil:
		k.rest = map[string]bool{}
	}
	known := k.rest[string(key)]
	k.rest[string(key)] = true
	return !known
}
