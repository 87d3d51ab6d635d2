// Package console stands between flow and its standard output and error. Much of what flow
// prints was written by strangers: agents, pipelines, file names, other programs. None of it
// steers the terminal that shows it or the build system that keeps a log of it, and no reader
// who stops reading stops flow.
package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Clean returns text as a person may read it: without control sequences (colours, cursor
// movements, titles, links) and control characters but newline and tab, and with the code of
// characters that are not seen or change the order of others, such as \u202e. What is no
// UTF-8 becomes U+FFFD. Commands of build systems (see [Text]) lose their force.
func Clean(s string) string {
	c := cleaner{}
	out, _ := c.clean(nil, []byte(s), true)
	return string(out)
}

// A cleaner cleans a stream.
type cleaner struct {
	json   bool // the text is JSON: what it does not show stays as an escape, so that no value changes
	inLine bool // something else than space was seen since the line began
	colon  bool // and all of it is a colon
	hashes int  // how many # came last
}

// clean appends to out what becomes of in. What it cannot judge before it sees more comes
// back; with last there is no more.
func (c *cleaner) clean(out, in []byte, last bool) (cleaned, rest []byte) {
	for len(in) > 0 {
		if n := plain(in); n > 0 && c.inLine && !c.colon && c.hashes < 2 {
			out, in, c.hashes = append(out, in[:n]...), in[n:], 0
			continue
		}
		r, size := utf8.DecodeRune(in)
		switch {
		case r == utf8.RuneError && !last && !utf8.FullRune(in):
			return out, in
		case introduces(r) && !c.json:
			if size = sequence(in, last); size == 0 {
				return out, in
			}
		case r == '\n':
			c.inLine, c.colon, c.hashes = false, false, 0
			out = append(out, '\n')
		case r == '\t' || visible(r):
			out = c.show(out, r)
		default:
			out = c.hide(out, r)
		}
		in = in[size:]
	}
	return out, nil
}

// plain is how many bytes at the beginning of in are what they are wherever they stand in a
// line.
func plain(in []byte) int {
	for i, b := range in {
		if b < ' ' || b > '~' || b == '#' {
			return i
		}
	}
	return len(in)
}

// visible reports whether a terminal shows the character and does nothing else. The joiners
// belong to the spelling of words, and of emoji.
func visible(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) || r == nonJoiner || r == joiner
}

// show appends a character that is seen, apart from those before it with which it would be
// a command of a build system.
func (c *cleaner) show(out []byte, r rune) []byte {
	command := c.colon && r == ':' || c.hashes >= 2 && strings.ContainsRune("[vVtT", r) // ##[ ##vso[ ##teamcity[
	c.colon = !c.inLine && r == ':'
	c.inLine = c.inLine || !unicode.IsSpace(r)
	if c.hashes++; r != '#' {
		c.hashes = 0
	}
	switch {
	case command && c.json:
		return escape(out, r, true)
	case command:
		out = append(out, ' ')
	}
	return utf8.AppendRune(out, r)
}

// hide appends what stands for a character that is not seen: nothing for a control character,
// else its code.
func (c *cleaner) hide(out []byte, r rune) []byte {
	if unicode.IsControl(r) && !c.json {
		return out
	}
	c.inLine, c.colon, c.hashes = true, false, 0
	return escape(out, r, c.json)
}

// escape appends the code of a character, as Go, YAML and JSON write it.
func escape(out []byte, r rune, json bool) []byte {
	switch {
	case r <= 0xffff:
		return fmt.Appendf(out, `\u%04x`, r)
	case json:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	default:
		return fmt.Appendf(out, `\U%08x`, r)
	}
}
