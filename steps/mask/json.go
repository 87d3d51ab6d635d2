package mask

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A token is a text in a JSON document.
type token struct {
	start, end int // of what stands between the quotes
	key        bool
}

// tokens calls each with the texts of a valid JSON document, in order, and gap with what
// stands before, between and after them.
func tokens(doc []byte, each func(t token), gap func(start, end int)) {
	at := 0
	for {
		quote := bytes.IndexByte(doc[at:], '"')
		if quote < 0 {
			gap(at, len(doc))
			return
		}
		gap(at, at+quote)
		t := token{start: at + quote + 1}
		t.end = endOfText(doc, t.start)
		at = min(t.end+1, len(doc))
		t.key = isKey(doc[at:])
		each(t)
	}
}

// endOfText is where the quote stands that ends the text which begins at start.
func endOfText(doc []byte, start int) int {
	for i := start; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(doc)
}

// isKey reports whether a text is a key, by what follows it.
func isKey(after []byte) bool {
	after = bytes.TrimLeft(after, " \t\r\n")
	return len(after) > 0 && after[0] == ':'
}

// findJSON is find for a JSON document. No span holds anything of its structure.
func (a *automaton) findJSON(doc []byte) (spans []Span) {
	tokens(doc, func(t token) {
		text := decode(doc[t.start:t.end])
		for _, s := range a.find(text.plain) {
			spans = append(spans, text.origin(s, int64(t.start)))
		}
	}, func(start, end int) {
		spans = append(spans, a.findGap(doc, start, end)...)
	})
	return spans
}

// findGap finds what stands between the texts of a document, but for its numbers.
func (a *automaton) findGap(doc []byte, start, end int) (spans []Span) {
	if end-start < a.shortest {
		return nil
	}
	for _, s := range a.find(doc[start:end]) {
		s.Start, s.End = s.Start+int64(start), s.End+int64(start)
		if len(bytes.Trim(doc[s.Start:s.End], "0123456789.+-eE")) > 0 {
			spans = append(spans, s)
		}
	}
	return spans
}

// A decoded text is that of a JSON token.
type decoded struct {
	plain  []byte
	starts []int32 // where its bytes begin in the token, and where the last one ends; nil: where they are
}

// decode undoes the escapes of JSON once, as a JSON parser does it.
func decode(raw []byte) decoded {
	if bytes.IndexByte(raw, '\\') < 0 {
		return decoded{plain: raw}
	}
	d := decoded{plain: make([]byte, 0, len(raw)), starts: make([]int32, 0, len(raw)+1)}
	for i := 0; i < len(raw); {
		b, n, size := [4]byte{raw[i]}, 1, 1
		if raw[i] == '\\' {
			b, n, size = unescape(raw[i:])
		}
		for _, c := range b[:n] {
			d.plain, d.starts = append(d.plain, c), append(d.starts, int32(i))
		}
		i += size
	}
	d.starts = append(d.starts, int32(len(raw)))
	return d
}

// unescape reads one escape of JSON.
func unescape(raw []byte) (b [4]byte, n, size int) {
	if len(raw) < 2 {
		return literal(raw[0], 1)
	}
	switch c := raw[1]; c {
	case 'n':
		return literal('\n', 2)
	case 'r':
		return literal('\r', 2)
	case 't':
		return literal('\t', 2)
	case 'b':
		return literal('\b', 2)
	case 'f':
		return literal('\f', 2)
	case 'u':
		return undoUnicode(raw, 2, true)
	default:
		return literal(c, 2)
	}
}

// origin is a span of the plain text in the document, in which the token begins at start.
func (d decoded) origin(s Span, start int64) Span {
	if d.starts != nil {
		s.Start, s.End = int64(d.starts[s.Start]), int64(d.starts[s.End])
	}
	s.Start, s.End = s.Start+start, s.End+start
	return s
}

// An Own says of a text of a JSON document of flow's own, and of a key (then key is true), that
// it stays, whatever value a secret has. keys are those that lead to it, its own the last; in a
// list that is empty.
type Own func(keys []string, key bool) bool

// Record is JSON for a document of flow's own, of which a part is what flow finds it by, or
// what programs know it by.
func (m *Masker) Record(value json.RawMessage, own Own) json.RawMessage {
	a := m.automaton()
	if a == nil || len(value) < partMin {
		return value
	}
	if !json.Valid(value) {
		return Replace(value, a.find(value))
	}
	return Replace(value, a.findForeign(value, &pathOf{}, own))
}

// findForeign finds what is not flow's own in a document, or in a part of one that cuts no
// text; path leads to where it begins, and then to where it ends.
func (a *automaton) findForeign(part []byte, path *pathOf, own Own) (spans []Span) {
	tokens(part, func(t token) {
		if t.key {
			path.key(string(part[t.start:t.end]))
		}
		if own(append(slices.Clip(path.around), path.last), t.key) {
			return
		}
		text := decode(part[t.start:t.end])
		for _, s := range a.find(text.plain) {
			spans = append(spans, text.origin(s, int64(t.start)))
		}
	}, func(start, end int) { path.gap(part[start:end]) })
	return spans
}
