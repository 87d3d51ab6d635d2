package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"
)

// forms are the texts that a value is looked for by, each at least MinLength bytes. Those
// that differ from the value by escapes alone need no form: see undo.
func forms(value string) []string {
	seen := map[string]bool{}
	var all []string
	add := func(text string) {
		if len(text) >= MinLength && !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	for _, part := range parts(value) {
		if len(part) < MinLength { // its base64 may be longer
			continue
		}
		for _, form := range encodings(part) {
			add(form)
			add(shown(form))
		}
	}
	return all
}

// shown is what of a value the plain view has wherever the value is escaped: a backslash at
// its end goes with what follows.
func shown(value string) string { return strings.TrimRight(plain(value), `\`) }

// parts are what of a value is a secret by itself: all of it, its lines, and where it is a
// JSON document the texts in that, which programs take out of it.
func parts(value string) []string {
	trimmed := strings.TrimSpace(value)
	all := []string{cut(value), cut(trimmed)}
	for _, text := range append(texts(trimmed), trimmed) {
		if text != trimmed {
			all = append(all, cut(text))
		}
		if !strings.Contains(text, "\n") {
			continue
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); !trivial(line) {
				all = append(all, cut(line))
			}
		}
	}
	return all
}

func cut(value string) string { return value[:min(len(value), MaxLength)] }

// leafMin is the length of the shortest text that counts as a secret because it stands in a
// JSON document that is one.
const leafMin = 16

// texts are the long texts of a JSON document, none of what is no such document.
func texts(value string) (all []string) {
	var doc any
	if !strings.HasPrefix(value, "{") && !strings.HasPrefix(value, "[") || json.Unmarshal([]byte(value), &doc) != nil {
		return nil
	}
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			for _, v := range x {
				walk(v)
			}
		case []any:
			for _, v := range x {
				walk(v)
			}
		case string:
			if len(x) >= leafMin {
				all = append(all, x)
			}
		}
	}
	walk(doc)
	return all
}

// trivial reports whether a line of a secret says nothing: it is short, frames others, or
// repeats a few characters.
func trivial(line string) bool {
	if len(line) < MinLength || strings.HasPrefix(line, "-----") {
		return true
	}
	different := map[rune]bool{}
	for _, r := range line {
		different[r] = true
	}
	return len(different) < 4
}

// encodings are the value and what programs make of it.
func encodings(value string) []string {
	hexed := hex.EncodeToString([]byte(value))
	all := []string{
		value, hexed, strings.ToUpper(hexed),
		strings.ReplaceAll(value, " ", "+"), // of a URL's query
		strings.ReplaceAll(value, "'", `'"'"'`), strings.ReplaceAll(value, "'", `'\''`),
	}
	texts := []string{value}
	if len(value) <= rareMax {
		texts = append(texts, escaped(value)...)
		all = append(all, utf16Of(value))
		for _, separator := range []string{" ", ":"} {
			apart := separated(hexed, separator)
			all = append(all, apart, strings.ToUpper(apart))
		}
	}
	for _, text := range texts {
		for offset := range 3 {
			for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				all = append(all, inner(enc, text, offset))
			}
		}
	}
	return all
}

// rareMax is the length of the longest value that is looked for in rarer forms too: each takes
// memory for every byte, and what is longer mostly has lines that are shorter.
const rareMax = 256

// separated is a text with a separator behind every two bytes but the last.
func separated(text, separator string) string {
	var b strings.Builder
	for i := 0; i < len(text); i += 2 {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(text[i : i+2])
	}
	return b.String()
}

// escaped are a value as it stands in a JSON text, where that is another one: Go's way, and
// that of most others. It is for what encodes the JSON, where its escapes cannot be seen.
func escaped(value string) (all []string) {
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		if err := enc.Encode(value); err != nil { // a text can always be
			panic(err)
		}
		text := strings.TrimSpace(b.String())
		if text = text[1 : len(text)-1]; text != value && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// utf16Of is a value in UTF-16, without the byte in which the two orders differ: the last of
// one, and the first of the other.
func utf16Of(value string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(value)) {
		if unit > 0xff { // the orders have nothing in common
			return ""
		}
		b = append(b, byte(unit), 0)
	}
	return string(b[:max(0, len(b)-1)])
}

// inner is the part of the base64 of value that does not depend on its neighbours, when it
// begins offset bytes behind a multiple of three.
func inner(enc *base64.Encoding, value string, offset int) string {
	text := enc.EncodeToString(append(make([]byte, offset), value...))
	first := (offset*8 + 5) / 6
	last := (offset + len(value)) * 8 / 6
	return text[min(first, last):last]
}
