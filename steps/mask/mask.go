// Package mask takes the values of secrets out of what flow stores and shows. It knows the
// values themselves and the forms that programs give them: escaped for JSON, a URL, XML or a
// shell, in base64 at each of its three offsets, in hexadecimal, upper and lower case.
//
// A text is searched twice in one go, by an Aho-Corasick automaton whose time does not depend
// on how many secrets there are: as it is, and with all escapes undone, however often they
// were applied. So "\u0073ecret", "%73ecret" and "\\\"…" are found without a form of their own,
// and so is base64 that was cut into lines.
//
// What a program encodes otherwise (encrypts, reverses, spells out) is not found.
package mask

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// The bounds on the length of a secret's value, in bytes.
const (
	// MinLength is the length of the shortest value that is masked: a shorter one stands in
	// too many places where it is no secret.
	MinLength = 6
	// MaxLength is how much of a value is masked; of a longer one it is the beginning, and
	// each line.
	MaxLength = 8 << 10
)

// Mask stands in place of a secret.
const Mask = "***"

// A Masker masks secrets. A nil one masks nothing. It may be used concurrently.
type Masker struct {
	mu      sync.Mutex          // held by those who add
	secrets map[string][]string // values by name
	finds   atomic.Pointer[automaton]
}

// A Warning says that a secret is not masked, not all of it, or more than it. It never has the value.
type Warning struct {
	Name string // of the secret
	Msg  string
	Hint string // what to do about it
}

func (w Warning) String() string { return "secret " + w.Name + " " + w.Msg }

// New returns a masker of secrets, values by name, and says which it cannot mask, or had better not.
func New(secrets map[string]string) (*Masker, []Warning) {
	m := &Masker{secrets: map[string][]string{}}
	for name, value := range secrets {
		m.secrets[name] = []string{value}
	}
	m.build()
	var warnings []Warning
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if msg, hint := doubt(secrets[name]); msg != "" {
			warnings = append(warnings, Warning{name, msg, hint})
		}
	}
	return m, warnings
}

// doubt says what is wrong with a value, and what would be right; nothing if it is a good one.
func doubt(value string) (msg, hint string) {
	switch n := len(value); {
	case n < MinLength:
		return fmt.Sprintf("has %d characters: values under %d are not masked", n, MinLength), "a longer value is masked wherever it appears"
	case n > MaxLength:
		return fmt.Sprintf("is longer than %d KiB: its beginning and its lines are masked", MaxLength>>10), "pass the rest on by a file that no step prints"
	case ordinary(value):
		return "is a word or a number that texts may have for other reasons: " + Mask + " stands in place of those too", "what is no secret need not be declared as one: pass it on as an input"
	}
	return "", ""
}

// ordinaryMax is the length of the longest value that may be an ordinary word.
const ordinaryMax = 14

// ordinary reports whether a value looks like a word, or is a number.
func ordinary(value string) bool {
	word := strings.ToLower(value)
	if value != word && value != strings.ToUpper(value) && value[1:] != word[1:] { // mixed as in no word
		return false
	}
	return len(value) <= ordinaryMax && (strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" || strings.Trim(word, "0123456789") == "")
}

// Add has another secret masked from now on. A name may have several values.
func (m *Masker) Add(name, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(value) < MinLength || slices.Contains(m.secrets[name], value) {
		return
	}
	m.secrets[name] = append(m.secrets[name], value)
	m.build()
}

// build makes the automaton of all values.
func (m *Masker) build() {
	var all []pattern
	for _, name := range slices.Sorted(maps.Keys(m.secrets)) { // of two that are equal the first gives its name
		for _, value := range m.secrets[name] {
			for _, form := range forms(value) {
				all = append(all, pattern{text: form, name: name})
			}
		}
	}
	m.finds.Store(newAutomaton(all))
}

// automaton returns nil when there is nothing to find.
func (m *Masker) automaton() *automaton {
	if m == nil {
		return nil
	}
	return m.finds.Load()
}

// Empty reports whether there is nothing to mask.
func (m *Masker) Empty() bool { return m.automaton() == nil }

// Text returns text with a Mask in place of each secret.
func (m *Masker) Text(text string) string {
	a := m.automaton()
	if a == nil || len(text) < partMin {
		return text
	}
	spans := a.find([]byte(text))
	if len(spans) == 0 {
		return text
	}
	return string(Replace([]byte(text), spans))
}

// Names returns the names of the secrets in text, each once, sorted.
func (m *Masker) Names(text []byte) []string {
	a := m.automaton()
	if a == nil {
		return nil
	}
	return Names(a.find(text))
}

// JSON is Text for a JSON value: what it returns is one too. Keys are masked as well.
// Numbers are left. What is no JSON is masked as text is.
func (m *Masker) JSON(value json.RawMessage) json.RawMessage {
	a := m.automaton()
	if a == nil || len(value) < partMin {
		return value
	}
	if !json.Valid(value) {
		return Replace(value, a.find(value))
	}
	spans := a.findJSON(value)
	if len(spans) == 0 {
		return value
	}
	return Replace(value, spans)
}

// Content is JSON where the text is a JSON object or list, and Text elsewhere.
func (m *Masker) Content(text string) string {
	if m.Empty() {
		return text
	}
	if isJSON([]byte(strings.TrimLeft(text, "\r\n"))) {
		return string(m.JSON(json.RawMessage(text)))
	}
	return m.Text(text)
}

// Replace returns text with a Mask in place of each span.
func Replace(text []byte, spans []Span) []byte {
	out := make([]byte, 0, len(text))
	at := int64(0)
	for _, s := range spans {
		out = append(append(out, text[at:s.Start]...), Mask...)
		at = s.End
	}
	return append(out, text[at:]...)
}
