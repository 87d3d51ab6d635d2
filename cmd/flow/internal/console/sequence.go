package console

import "unicode/utf8"

const (
	esc = 0x1b
	bel = 0x07
	// A control sequence of a terminal is much shorter; one with text (a title, a link)
	// may be long.
	longestCSI    = 64   // bytes
	longestString = 4096 // bytes
)

// introduces reports whether a control sequence may begin with r.
func introduces(r rune) bool { return r == esc || r >= 0x80 && r <= 0x9f }

// sequence is the length in bytes of the control sequence (ECMA-48) that in begins with, or 0
// if only more of it can tell. Of a sequence that does not end in its line, or not soon, only
// the introducer goes: what nobody ends must not hide all that follows.
func sequence(in []byte, last bool) int {
	r, size := utf8.DecodeRune(in)
	kind, from := byte(r-0x40), size // 0x9b is short for ESC [
	if r == esc {
		if len(in) == 1 {
			return orMore(size, last)
		}
		kind, from = in[1], 2
	}
	end := 0
	switch kind {
	case '[':
		end = parameters(in[from:], ' ', '?', longestCSI)
	case ']', 'P', 'X', '^', '_':
		end = text(in[from:])
	default:
		if r != esc {
			return size
		}
		from = 1
		end = parameters(in[from:], ' ', '/', longestCSI)
	}
	switch {
	case end > 0:
		return from + end
	case end == 0:
		return orMore(size, last)
	default:
		return size
	}
}

// orMore is size if there is no more, else 0.
func orMore(size int, last bool) int {
	if last {
		return size
	}
	return 0
}

// parameters is the length of what ends with a byte from hi+1 to ~ after bytes from lo to hi:
// 0 if it does not end yet, -1 if it is nothing of the kind.
func parameters(in []byte, lo, hi byte, most int) int {
	for i, b := range in {
		switch {
		case b > hi && b <= '~':
			return i + 1
		case b < lo || b > '~' || i == most:
			return -1
		}
	}
	return 0
}

// text is the length of what ends with BEL or ST (ESC \, or 0x9c), by the rules of parameters.
func text(in []byte) int {
	for i, b := range in {
		switch {
		case b == bel, b == '\\' && i > 0 && in[i-1] == esc, b == 0x9c && i > 0 && in[i-1] == 0xc2:
			return i + 1
		case b == '\n', i == longestString, i > 0 && in[i-1] == esc: // another sequence begins
			return -1
		}
	}
	return 0
}
