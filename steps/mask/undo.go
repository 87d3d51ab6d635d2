package mask

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes are the bytes that a text may mean something else by. Line breaks are among them:
// in the plain view there are none, for base64 is cut into lines at any place. So are the
// control sequences of a terminal, with which programs set a part of a text in colour.
const escapes = "\\%&\n\r\x1b"

func hasEscapes(text []byte) bool {
	for _, b := range []byte(escapes) { // six fast searches, and not a slow one
		if bytes.IndexByte(text, b) >= 0 {
			return true
		}
	}
	return false
}

// The bounds of an escape, in bytes: of all of it (what seems to be a longer one is text), and
// of the backslashes before it. Two halves of a character with as many are still within reach.
const (
	reachMax = 80
	runMax   = 32
)

// undo reads what text begins with, plain: an escape of JSON, a shell or a language, of a URL
// or of XML, escaped again as often as may be. The plain bytes are the first n of b, and text
// has them in its first size bytes. A size of 0 means that more of the text must be known;
// with final there is no more.
func undo(text []byte, final bool) (b [utf8.UTFMax]byte, n, size int) {
	if len(text) >= reachMax { // what is read must not depend on how much more is known
		text, final = text[:reachMax], true
	}
	switch text[0] {
	case '\n', '\r':
		return b, 0, 1
	case '\\':
		return undoBackslash(text, final)
	case '%':
		return undoPercent(text, final)
	case '&':
		return undoEntity(text, final)
	case '\x1b':
		return undoControl(text, final)
	}
	return literal(text[0], 1)
}

// undoControl reads a control sequence (ESC [ … letter), which shows as nothing.
func undoControl(text []byte, final bool) (b [utf8.UTFMax]byte, n, size int) {
	for i, c := range text[1:min(len(text), reachMax)] {
		switch {
		case i == 0 && c != '[':
			return literal(text[0], 1)
		case i > 0 && c >= '@' && c <= '~':
			return b, 0, i + 2
		case i > 0 && (c < ' ' || c > '?'):
			return literal(text[0], 1)
		}
	}
	if !final {
		return b, 0, 0
	}
	return literal(text[0], 1)
}

func literal(c byte, size int) (b [utf8.UTFMax]byte, n, _ int) {
	b[0] = c
	return b, 1, size
}

func char(r rune, size int) (b [utf8.UTFMax]byte, n, _ int) {
	n = utf8.EncodeRune(b[:], r)
	return b, n, size
}

// controlNames are the letters that stand for control characters behind a backslash, in the
// order of those from \a on; \n and \r are line breaks.
const controlNames = "abt\nvf"

// undoBackslash reads \n, \", \u0073, \U00000073, \x73, \163 and the like behind any number of backslashes.
func undoBackslash(text []byte, final bool) (b [utf8.UTFMax]byte, n, size int) {
	i := 0
	for i < len(text) && i < runMax && text[i] == '\\' {
		i++
	}
	if i == runMax {
		return b, 0, i - 1
	}
	if i == len(text) {
		if !final {
			return b, 0, 0
		}
		return literal('\\', 1)
	}
	rest := text[i+1:]
	switch c := text[i]; {
	case c == 'n', c == 'r', c == '\n', c == '\r':
		return b, 0, i + 1
	case strings.IndexByte(controlNames, c) >= 0:
		return literal('\a'+byte(strings.IndexByte(controlNames, c)), i+1)
	case c == '%', c == '&', c == '\x1b':
		return b, 0, i // it may begin an escape of another kind
	case c == 'u':
		return undoUnicode(text, i+1, final)
	case c == 'U':
		return undoLongUnicode(text, i+1, final)
	case c == 'x':
		return number(text, i, i+1, 2, 16, final)
	case c >= '0' && c <= '3' && (len(rest) < 2 || isOctal(rest[0]) && isOctal(rest[1])):
		return number(text, i, i, 3, 8, final)
	default:
		return literal(c, i+1)
	}
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// number reads digits of a base at from; where there are too few, text[at] stands for itself.
func number(text []byte, at, from, digits, base int, final bool) (b [utf8.UTFMax]byte, n, size int) {
	if len(text) < from+digits && !final {
		return b, 0, 0
	}
	if v, ok := value(text[from:min(len(text), from+digits)], digits, base); ok && v < 256 {
		return literal(byte(v), from+digits)
	}
	return literal(text[at], at+1)
}

// undoUnicode reads the digits at i of a \u, and of the second half of a pair.
func undoUnicode(text []byte, i int, final bool) (b [utf8.UTFMax]byte, n, size int) {
	if len(text) < i+4 && !final {
		return b, 0, 0
	}
	v, ok := value(text[i:min(len(text), i+4)], 4, 16)
	if !ok {
		return literal('u', i)
	}
	if !utf16.IsSurrogate(rune(v)) {
		return char(rune(v), i+4)
	}
	second := 2*i + 4 // as many backslashes, and an u
	if len(text) < second+4 && !final {
		return b, 0, 0
	}
	if len(text) >= second+4 && text[second-1] == 'u' {
		if w, ok := value(text[second:second+4], 4, 16); ok {
			return char(utf16.DecodeRune(rune(v), rune(w)), second+4)
		}
	}
	return char(utf8.RuneError, i+4)
}

// undoLongUnicode reads the digits at i of a \U, as Go, Python and shells write them.
func undoLongUnicode(text []byte, i int, final bool) (b [utf8.UTFMax]byte, n, size int) {
	if len(text) < i+8 && !final {
		return b, 0, 0
	}
	if v, ok := value(text[i:min(len(text), i+8)], 8, 16); ok && v <= utf8.MaxRune {
		return char(rune(v), i+8)
	}
	return literal('U', i)
}

// undoPercent reads %73, %2573 and so on.
func undoPercent(text []byte, final bool) (b [utf8.UTFMax]byte, n, size int) {
	i := 1
	for i+2 < len(text) && i < reachMax && text[i] == '2' && text[i+1] == '5' && isHex(text[i+2]) {
		i += 2
	}
	if len(text) < i+2 || len(text) == i+2 && text[i] == '2' && text[i+1] == '5' {
		if !final {
			return b, 0, 0
		}
	}
	if v, ok := value(text[i:min(len(text), i+2)], 2, 16); ok {
		return literal(byte(v), i+2)
	}
	return literal('%', i) // %25 and what is no number
}

func isHex(c byte) bool { _, ok := value([]byte{c}, 1, 16); return ok }

// value reads so many digits of a base.
func value(digits []byte, count, base int) (v int, ok bool) {
	if len(digits) != count {
		return 0, false
	}
	for _, c := range digits {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if c < 'A' {
			d = int(c) - '0'
		}
		if d < 0 || d >= base {
			return 0, false
		}
		v = v*base + d
	}
	return v, true
}

// undoEntity reads &lt;, &#115;, &amp;lt; and so on.
func undoEntity(text []byte, final bool) (b [utf8.UTFMax]byte, n, size int) {
	i := 1
	for i < reachMax && bytes.HasPrefix(text[i:], []byte("amp;")) {
		i += len("amp;")
	}
	name, _, ended := bytes.Cut(text[i:min(len(text), i+10)], []byte(";"))
	if !ended && !final && len(text) < i+10 && isEntity(text[i:]) {
		return b, 0, 0
	}
	if r, ok := entity(string(name)); ok && ended {
		return char(r, i+len(name)+1)
	}
	return literal('&', i)
}

// isEntity reports whether text may be the beginning of an entity's name.
func isEntity(text []byte) bool {
	for _, c := range text {
		if c != '#' && !isHex(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// entity is the character of an entity's name.
func entity(name string) (rune, bool) {
	switch name {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	digits, numeric := strings.CutPrefix(name, "#")
	if !numeric || digits == "" {
		return 0, false
	}
	base := 10
	if digits[0]|0x20 == 'x' {
		digits, base = digits[1:], 16
	}
	v, ok := value([]byte(digits), len(digits), base)
	return rune(v), ok && digits != ""
}

// plain is text with all escapes undone.
func plain(text string) string {
	if !hasEscapes([]byte(text)) {
		return text
	}
	var out []byte
	for rest := []byte(text); len(rest) > 0; {
		b, n, size := undo(rest, true)
		out, rest = append(out, b[:n]...), rest[size:]
	}
	return string(out)
}
