package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
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
			add(plain(form))
		}
	}
	return all
}

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
	for offset := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, inner(enc, value, offset))
		}
	}
	return all
}

// inner is the part of the base64 of value that does not depend on its neighbours, when it
// begins offset bytes behind a multiple of three.
func inner(enc *base64.Encoding, value string, offset int) string {
	text := enc.EncodeToString(append(make([]byte, offset), value...))
	first := (offset*8 + 5) / 6
	last := (offset + len(value)) * 8 / 6
	return text[min(first, last):last]
}
