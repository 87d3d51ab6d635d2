package pipeline

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// boolean reads true or false; YAML's other spellings of them stay text.
func (l *loader) boolean(n *yaml.Node, what string) bool {
	n = deref(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		hint := "write true or false"
		if strings.Contains(n.Value, "{{") {
			hint = "it is decided before the run: write true or false"
		}
		l.failNode(n, hint, "%s must be true or false, got %s", what, describe(n))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

// integer reads a decimal number from low to high. YAML's octal, hexadecimal and
// fractions are refused: `010` would be 8 and `1.5` be 1.
func (l *loader) integer(n *yaml.Node, what string, low, high int) int {
	n = deref(n)
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || strconv.Itoa(v) != n.Value || v < low || v > high {
		l.failNode(n, "", "%s must be a whole number from %d to %d, got %s", what, low, high, describe(n))
		return low
	}
	return v
}

// money reads a positive amount in US dollars.
func (l *loader) money(n *yaml.Node, what string) float64 {
	n = deref(n)
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || !jsonNumber(n.Value) || err != nil || v <= 0 {
		l.failNode(n, "", "%s must be a positive number, got %s", what, describe(n))
	}
	return v
}

// duration reads a time with its unit, positive and at most seven days.
func (l *loader) duration(n *yaml.Node, what string) Duration {
	s, ok := l.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || jsonNumber(s):
		l.failNode(n, "write "+withUnit(s), "%s needs a unit: 30s or 30m, got %s", what, describe(n))
	case d <= 0 || d > maxTimeout:
		l.failNode(n, "", "%s must be more than 0 and at most 7 days (168h), got %q", what, s)
	default:
		return Duration(d)
	}
	return 0
}

// withUnit guesses what a duration was meant to be.
func withUnit(s string) string {
	m := regexp.MustCompile(`^(\d+) *(s|m|h|d)?[a-z]*$`).FindStringSubmatch(strings.ToLower(s))
	switch {
	case m == nil:
		return "30s, 10m or 1h30m"
	case m[2] == "d":
		days, _ := strconv.Atoi(m[1])
		return strconv.Itoa(24*min(days, 7)) + "h"
	case m[2] == "":
		return m[1] + "s or " + m[1] + "m"
	}
	return m[1] + m[2]
}

// oneOf reads one of a few words.
func (l *loader) oneOf(n *yaml.Node, what string, words []string) string {
	s, ok := l.text(n, what)
	if !ok {
		return ""
	}
	if slices.Contains(words, s) {
		return s
	}
	l.failNode(n, suggest(s, words), "%s must be one of %s, got %s", what, strings.Join(words, ", "), describe(n))
	return ""
}

// jsonNumber reports whether s is a number in JSON: no octal, no hexadecimal.
func jsonNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// jsonValue turns a YAML value into JSON: compact, keys in the order of the file,
// in the form in which encoding/json writes it again.
func (l *loader) jsonValue(n *yaml.Node, what string) json.RawMessage {
	var b bytes.Buffer
	if !l.writeJSON(&b, n, what) {
		return nil
	}
	return b.Bytes()
}

func (l *loader) writeJSON(b *bytes.Buffer, n *yaml.Node, what string) bool {
	switch n = deref(n); n.Kind {
	case yaml.MappingNode:
		return l.writeObject(b, n, what)
	case yaml.SequenceNode:
		ok := true
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			ok = l.writeJSON(b, item, what) && ok
		}
		b.WriteByte(']')
		return ok
	}
	return l.writeScalar(b, n, what)
}

func (l *loader) writeObject(b *bytes.Buffer, n *yaml.Node, what string) bool {
	ok := true
	b.WriteByte('{')
	for i, e := range l.entries(n, what, MaxKeys) {
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(b, e.key)
		b.WriteByte(':')
		ok = l.writeJSON(b, e.val, what) && ok
	}
	b.WriteByte('}')
	return ok
}

func (l *loader) writeScalar(b *bytes.Buffer, n *yaml.Node, what string) bool {
	switch n.ShortTag() {
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		b.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if !jsonNumber(n.Value) {
			l.failNode(n, "write it in decimal, or quote it", "`%s` in %s is not a number in JSON", shorten(n.Value), what)
			return false
		}
		b.WriteString(n.Value)
	default:
		writeString(b, n.Value)
	}
	return true
}

// writeString escapes as json.Marshal does, `<` too, so that a plan that is read
// and written again does not change.
func writeString(b *bytes.Buffer, s string) {
	quoted, _ := json.Marshal(s) // text has no error
	b.Write(quoted)
}
