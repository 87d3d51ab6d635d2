package lsp

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// hover says what stands at a position, or nil.
func (s *server) hover(d *doc, p position) any {
	offset := d.offset(p)
	from, to := d.word(p.Line, offset)
	word := d.line(p.Line)[from:to]
	at := d.locate(p.Line, to)
	var text string
	switch {
	case word == "":
	case at.inExpr:
		text = s.hoverName(d, at, strings.Trim(d.line(p.Line)[from:nameEnd(d.line(p.Line), offset)], "-/"))
	case onKey(d.line(p.Line), to):
		text = s.hoverKey(d, d.locate(p.Line, from), word)
	default:
		for _, m := range d.index.choices(at.path, s.Agents) {
			if m.name == word {
				text = "**" + m.name + "** " + m.detail + "\n\n" + m.doc
			}
		}
	}
	if text == "" {
		return nil
	}
	return hover{Contents: *markdown(text), Range: d.span(p.Line, from, to)}
}

// onKey reports whether what ends at a byte of a line is a key.
func onKey(line string, end int) bool {
	return strings.HasPrefix(strings.TrimLeft(line[end:], `"' `), ":")
}

// nameEnd is where the name that a byte is in ends: of .a.b.c it is the one that is
// pointed at, with those before it.
func nameEnd(line string, offset int) int {
	for offset < len(line) && nameByte(line[offset]) {
		offset++
	}
	return offset
}

func (s *server) hoverKey(d *doc, at place, key string) string {
	for _, v := range s.languageOf(d).find(at.path) {
		if p := v.Properties[key]; p != nil && p.Description != "" {
			text := "**" + key + "**"
			if what := p.describe(); what != "" {
				text += " (" + what + ")"
			}
			return text + "\n\n" + p.Description
		}
	}
	return ""
}

// hoverName explains a value or function of a template.
func (s *server) hoverName(d *doc, at place, name string) string {
	if path, ok := strings.CutPrefix(strings.TrimPrefix(name, "$"), "."); ok {
		m := d.index.resolve(d.index.within(at.path), strings.Split(path, "."))
		if m == nil {
			return ""
		}
		return "**." + path + "** " + m.detail + "\n\n" + m.doc
	}
	for _, f := range s.functions {
		if f.Name == name {
			return "`" + f.Signature + "`\n\n" + f.Doc
		}
	}
	return ""
}

// define is where the name at a position is declared, or nil.
func (s *server) define(d *doc, p position) any {
	offset := d.offset(p)
	from, to := d.word(p.Line, offset)
	word := d.line(p.Line)[from:to]
	at := d.locate(p.Line, to)
	if at.inExpr {
		return d.declared(d.index.prefix(at.path, strings.TrimPrefix(d.line(p.Line)[from:nameEnd(d.line(p.Line), offset)], "$")))
	}
	if n := len(at.path); n > 0 && !onKey(d.line(p.Line), to) && (at.path[n-1] == "prompt-file" || at.path[n-1] == "pipeline") {
		return location{URI: siblingURI(d.uri, strings.Trim(scalarText(d.line(p.Line)), `"'`))}
	}
	for _, m := range d.index.choices(at.path, nil) {
		if m.name == word {
			return d.declared(m.node)
		}
	}
	return nil
}

// prefix is the declaration of the longest beginning of a path that has one: of
// .steps.x.text it is that of x.
func (x *index) prefix(around []string, name string) *yaml.Node {
	path, ok := strings.CutPrefix(name, ".")
	if !ok {
		return nil
	}
	parts := strings.Split(path, ".")
	for n := len(parts); n > 0; n-- {
		if m := x.resolve(x.within(around), parts[:n]); m != nil && m.node != nil {
			return m.node
		}
	}
	return nil
}

func (d *doc) declared(n *yaml.Node) any {
	if n == nil {
		return nil
	}
	return location{URI: d.uri, Range: d.nodeSpan(n)}
}

// scalarText is the value on a line.
func scalarText(line string) string {
	r := readRow(line)
	return strings.TrimSpace(line[r.value:])
}

// siblingURI is a file that a document names relative to its own directory.
func siblingURI(uri, path string) string {
	return uri[:strings.LastIndexByte(uri, '/')+1] + strings.TrimPrefix(uriOf(path), "file://")
}
