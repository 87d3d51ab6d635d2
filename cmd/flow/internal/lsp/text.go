package lsp

import (
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"flow/pipeline"
)

// A doc is one document as the editor holds it. It is not changed.
type doc struct {
	uri, path string
	text      string
	lines     []string
	index     *index // of this text, or of the last one that was YAML
	whole     bool   // the index is of this text
}

// newDoc reads a document. before is what it was, or nil: while a line is being typed the
// text is often no YAML, and then the index of before goes on.
func newDoc(uri, text string, before *doc) *doc {
	d := &doc{uri: uri, path: pathOf(uri), text: text, index: &index{}}
	for line := range strings.SplitSeq(text, "\n") {
		d.lines = append(d.lines, strings.TrimSuffix(line, "\r"))
	}
	if before != nil {
		d.index = before.index
	}
	if x := readIndex(text); x != nil {
		d.index, d.whole = x, true
	}
	return d
}

// readIndex is the index of a text, nil if that is no YAML.
func readIndex(text string) *index {
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) != nil || len(root.Content) == 0 {
		return nil
	}
	return newIndex(root.Content[0])
}

// edited is the document with the index of its text as it is but for one line: the one
// that is being written, of which only the key counts, or nothing.
func (d *doc) edited(line int) *doc {
	if d.whole {
		return d
	}
	r := readRow(d.lines[line])
	key := ""
	if r.key != "" {
		key = strings.TrimRight(d.lines[line][:r.value], " ")
	}
	for _, rest := range []string{key, ""} {
		lines := slices.Clone(d.lines)
		lines[line] = rest
		if x := readIndex(strings.Join(lines, "\n")); x != nil {
			fixed := *d
			fixed.index = x
			return &fixed
		}
	}
	return d
}

func (d *doc) line(n int) string {
	if n < 0 || n >= len(d.lines) {
		return ""
	}
	return d.lines[n]
}

// offset is the byte of a line that a position names, in the line at all events.
func (d *doc) offset(p position) int {
	line, units := d.line(p.Line), 0
	for i, r := range line {
		if units >= p.Character {
			return i
		}
		units += unitsOf(r)
	}
	return len(line)
}

// unitsOf is how many UTF-16 code units a character takes.
func unitsOf(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// at is the position of a byte of a line.
func (d *doc) at(line, offset int) position {
	units := 0
	for _, r := range d.line(line)[:min(offset, len(d.line(line)))] {
		units += unitsOf(r)
	}
	return position{line, units}
}

func (d *doc) span(line, from, to int) span { return span{d.at(line, from), d.at(line, to)} }

// byteAt is the byte of a line that a place of package pipeline, in characters from 1,
// means.
func (d *doc) byteAt(p pipeline.Pos) int {
	line := d.line(p.Line - 1)
	offset := 0
	for col := 1; col < p.Col && offset < len(line); col++ {
		_, size := utf8.DecodeRuneInString(line[offset:])
		offset += size
	}
	return offset
}

// diagnostic is a mistake as the editor underlines it: from its place to the end of the
// word. One in another file, such as that of a prompt, stands at the beginning.
func (d *doc) diagnostic(e pipeline.Error, s severity) diagnostic {
	out := diagnostic{Severity: s, Source: "flow", Message: e.Msg}
	if e.Hint != "" {
		out.Message += "\nhint: " + e.Hint
	}
	if e.File != d.path {
		out.Message = e.Error()
		return out
	}
	if e.Pos.Line < 1 {
		return out
	}
	line, from := e.Pos.Line-1, d.byteAt(e.Pos)
	to := from + strings.IndexFunc(d.line(line)[from:]+" ", func(r rune) bool { return strings.ContainsRune(" \t,:{}[]\"'|", r) })
	if to == from {
		_, size := utf8.DecodeRuneInString(d.line(line)[from:])
		to += size
	}
	out.Range = d.span(line, from, to)
	return out
}

// word is the part of a line around a byte that consists of names, dots and hyphens.
func (d *doc) word(line, offset int) (from, to int) {
	text := d.line(line)
	from, to = offset, offset
	for from > 0 && wordByte(text[from-1]) {
		from--
	}
	for to < len(text) && wordByte(text[to]) {
		to++
	}
	return from, to
}

func wordByte(c byte) bool { return nameByte(c) || c == '.' || c == '-' || c == '$' || c == '/' }

func nameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
