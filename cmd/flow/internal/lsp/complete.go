package lsp

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// complete lists what may be written at a position. The editor filters it by what is
// there already.
func (s *server) complete(d *doc, p position) []completionItem {
	offset := d.offset(p)
	at := d.locate(p.Line, offset)
	c := completer{server: s, doc: d, place: at, line: p.Line, offset: offset, items: []completionItem{}}
	if at.inExpr {
		c.expression()
		return c.items
	}
	if at.key {
		c.keys()
	}
	if at.value {
		c.values()
	}
	return c.items
}

type completer struct {
	*server
	doc   *doc
	place place
	line  int
	// offset is the cursor, and what is completed stands before it.
	offset int
	items  []completionItem
}

// add offers one item in the place of what was begun from byte from on.
func (c *completer) add(from int, kind itemKind, label, insert, detail, doc string) {
	c.items = append(c.items, completionItem{
		Label: label, Kind: kind, Detail: detail, Documentation: markdown(doc),
		TextEdit: textEdit{Range: c.doc.span(c.line, from, c.offset), NewText: insert},
	})
}

// begun is where the word before the cursor begins.
func (c *completer) begun() int {
	from, line := c.offset, c.doc.line(c.line)
	for from > 0 && (nameByte(line[from-1]) || line[from-1] == '-' && from > 1 && nameByte(line[from-2])) {
		from--
	}
	return from
}

// keys offers the keys of the mapping that the cursor is in, without those it has.
func (c *completer) keys() {
	has := c.siblings()
	for _, s := range c.languageOf(c.doc).find(c.place.path) {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if p := s.Properties[name]; p != nil && !slices.Contains(has, name) {
				c.add(c.begun(), itemProperty, name, name+": ", p.describe(), p.Description)
			}
		}
	}
}

// siblings are the keys of the mapping around the cursor, by the lines next to it.
func (c *completer) siblings() []string {
	own := readRow(c.doc.line(c.line))
	column := own.indent
	if strings.TrimSpace(c.doc.line(c.line)) == "" {
		column = c.offset
	}
	var keys []string
	for _, step := range []int{-1, 1} {
		for i := c.line + step; i >= 0 && i < len(c.doc.lines); i += step {
			r := readRow(c.doc.line(i))
			if !r.blank && r.indent < column {
				break
			}
			if !r.blank && r.indent == column && r.key != "" {
				keys = append(keys, r.key)
			}
		}
	}
	return keys
}

// values offers what the value at the cursor may be: names that the document declares,
// and the choices of the language.
func (c *completer) values() {
	from := c.begun()
	for _, m := range c.doc.index.choices(c.place.path, c.Agents) {
		c.add(from, itemValue, m.name, m.name, m.detail, m.doc)
	}
	for _, s := range c.languageOf(c.doc).find(c.place.path) {
		for _, v := range s.values() {
			if !slices.ContainsFunc(c.items, func(i completionItem) bool { return i.Label == v }) {
				c.add(from, itemEnum, v, v, "", "")
			}
		}
	}
}

// choices are the names that the value at a path may be.
func (x *index) choices(path, agents []string) []member {
	keys := slices.DeleteFunc(slices.Clone(path), func(k string) bool { return k == "[]" })
	if len(keys) == 0 {
		return nil
	}
	at := x.within(path)
	last, before := keys[len(keys)-1], ""
	if len(keys) > 1 {
		before = keys[len(keys)-2]
	}
	switch {
	case last == "needs":
		return stepMembers(slices.DeleteFunc(slices.Clone(x.scope(at)), func(s *step) bool { return s == at }), nil)
	case before == "session", last == "merge", before == "merge" && last == "from":
		return stepMembers(x.visible(at), nil)
	case last == "agent", last == "race", last == "judge", before == "vote" && last == "agents", last == "fallback":
		return x.agentMembers(agents)
	case last == "use":
		return builtin(agents)
	}
	return nil
}

func (x *index) agentMembers(names []string) []member {
	var out []member
	for _, e := range x.agents {
		out = append(out, member{name: e.name, detail: profileText(e.value), node: e.key})
	}
	for _, m := range builtin(names) {
		if !slices.ContainsFunc(out, func(o member) bool { return o.name == m.name }) {
			out = append(out, m)
		}
	}
	return out
}

func builtin(names []string) []member {
	var out []member
	for _, name := range names {
		out = append(out, member{name: name, detail: "built-in agent"})
	}
	return out
}

// profileText is a profile on one line.
func profileText(n *yaml.Node) string {
	var parts []string
	for _, e := range entries(n) {
		if e.value.Kind == yaml.ScalarNode {
			parts = append(parts, e.name+": "+e.value.Value)
		}
	}
	return strings.Join(parts, ", ")
}

// expression offers what a template may name at the cursor: values behind a dot, else
// functions.
func (c *completer) expression() {
	token := c.place.expr[tokenStart(c.place.expr):]
	at := c.doc.index.within(c.place.path)
	if path, ok := strings.CutPrefix(strings.TrimPrefix(token, "$"), "."); ok {
		parts := strings.Split(path, ".")
		begun := parts[len(parts)-1]
		for _, m := range c.doc.index.members(at, parts[:len(parts)-1]) {
			c.add(c.offset-len(begun), itemField, m.name, m.name, m.detail, m.doc)
		}
		return
	}
	for _, f := range c.functions {
		c.add(c.offset-len(token), itemFunction, f.Name, f.Name, f.Signature, f.Doc)
	}
	for _, word := range []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "slice"} {
		c.add(c.offset-len(token), itemFunction, word, word, "built into Go's text/template", "")
	}
	for _, word := range []string{"if", "else", "end", "range", "with"} {
		c.add(c.offset-len(token), itemKeyword, word, word, "", "")
	}
	if len(c.place.path) > 0 && c.place.path[len(c.place.path)-1] == "if" {
		for _, word := range []string{"always", "failed", "succeeded"} {
			c.add(c.offset-len(token), itemFunction, word, word, "how the steps before have ended", "")
		}
	}
}

// tokenStart is where the name at the end of an expression begins.
func tokenStart(expr string) int {
	i := len(expr)
	for i > 0 && (nameByte(expr[i-1]) || expr[i-1] == '.' || expr[i-1] == '$') {
		i--
	}
	return i
}
