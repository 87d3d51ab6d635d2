package pipeline

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
)

const (
	windowBefore = 100 // runes of a long line shown before the place
	windowAfter  = 100
)

// Format writes each error as "file:line:col: msg", the source line, a caret
// under the column and the hint. src is the pipeline's own file; with nil, or for
// places outside of it, the line is left out.
func Format(w io.Writer, errs Errors, src []byte) {
	lines := bytes.Split(src, []byte("\n"))
	var b strings.Builder
	for _, e := range errs {
		b.WriteString(visible(e.Error()) + "\n")
		line := e.Source
		if line == "" && e.Pos.Line > 0 && e.Pos.Line <= len(lines) {
			line = string(lines[e.Pos.Line-1])
		}
		if line != "" {
			excerpt(&b, line, e.Pos.Col)
		}
		if e.Hint != "" {
			b.WriteString("  hint: " + visible(e.Hint) + "\n")
		}
	}
	_, _ = io.WriteString(w, b.String()) // there is nobody else to tell
}

// excerpt writes the part of a line around a column, counted from 1, and a caret.
func excerpt(b *strings.Builder, line string, col int) {
	runes := []rune(strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\uFFFD"))
	at := max(0, min(col-1, len(runes)))
	from, to := max(0, at-windowBefore), min(len(runes), at+windowAfter)
	var text, pad strings.Builder
	for i, r := range runes[from:to] {
		if r != '\t' && unicode.IsControl(r) {
			r = '\uFFFD' // a terminal must not obey what it shows
		}
		text.WriteRune(r)
		if i < at-from {
			pad.WriteString(blank(r))
		}
	}
	before, after := "    ", ""
	if from > 0 {
		before = "   …"
	}
	if to < len(runes) {
		after = "…"
	}
	fmt.Fprintf(b, "%s%s%s\n    %s^\n", before, text.String(), after, pad.String())
}

// blank returns white space as wide as r on a terminal.
func blank(r rune) string {
	switch {
	case r == '\t':
		return "\t"
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return ""
	case wide(r):
		return "  "
	default:
		return " "
	}
}

// wide reports whether terminals give r two columns: East Asian wide and
// full-width characters and emoji (Unicode TR 11, coarse).
func wide(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1f9ff, r >= 0x20000 && r <= 0x3fffd:
		return true
	}
	return false
}

// visible keeps a message on its line and harmless for a terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
