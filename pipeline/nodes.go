package pipeline

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// An entry is one key of a mapping with its value, aliases followed.
type entry struct {
	key      string
	at       *yaml.Node // the key
	val      *yaml.Node
	inherits bool // it came by `<<`
}

// entries returns the keys of the mapping n, those merged by `<<` behind its own.
// A key given twice is a mistake; the first one counts. limit bounds their number.
func (l *loader) entries(n *yaml.Node, what string, limit int) []entry {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		hint := ""
		if n.Kind == yaml.SequenceNode {
			hint = "write KEY: VALUE, not a list"
		}
		l.failNode(n, hint, "%s must be a mapping, got %s", what, describe(n))
		return nil
	}
	if len(n.Content)/2 > limit {
		l.failNode(n, "", "%s has %d keys; the limit is %d", what, len(n.Content)/2, limit)
		return nil
	}
	m := merger{l: l, seen: make(map[string]entry, len(n.Content)/2)}
	m.own(n)
	return m.all
}

type merger struct {
	l    *loader
	seen map[string]entry
	all  []entry
}

func (m *merger) own(n *yaml.Node) {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := deref(n.Content[i])
		if key.Tag == "!!merge" {
			merged = append(merged, n.Content[i+1])
			continue
		}
		if key.Kind != yaml.ScalarNode {
			continue // reported by treeCheck
		}
		m.add(entry{key: key.Value, at: n.Content[i], val: deref(n.Content[i+1])})
	}
	for _, v := range merged {
		m.merge(v)
	}
}

func (m *merger) merge(v *yaml.Node) {
	switch v = deref(v); v.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(v.Content); i += 2 {
			m.add(entry{key: deref(v.Content[i]).Value, at: v.Content[i], val: deref(v.Content[i+1]), inherits: true})
		}
	case yaml.SequenceNode:
		for _, one := range v.Content {
			m.merge(one)
		}
	default:
		m.l.failNode(v, "", "`<<` wants a mapping, got %s", describe(v))
	}
}

func (m *merger) add(e entry) {
	first, twice := m.seen[e.key]
	switch {
	case !twice:
		m.seen[e.key] = e
		m.all = append(m.all, e)
	case e.inherits && !first.inherits:
		m.l.failNode(first.at, "keep one of the two", "`%s` would silently replace the one merged from line %d", e.key, e.at.Line)
	default:
		m.l.failNode(e.at, "keep one of the two", "`%s` is given twice; first on line %d", e.key, first.at.Line)
	}
}

// text returns the text of a scalar as it was written: `no` and `1.10` stay so.
func (l *loader) text(n *yaml.Node, what string) (string, bool) {
	n = deref(n)
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		hint := ""
		if n.Kind == yaml.SequenceNode && what == "`run`" {
			hint = "write `run: |` with one command a line"
		}
		l.failNode(n, hint, "%s must be text, got %s", what, describe(n))
		return "", false
	}
	return n.Value, true
}

// plain is text that no template is looked for in.
func (l *loader) plain(n *yaml.Node, what string) string {
	s, ok := l.text(n, what)
	if ok && strings.Contains(s, "{{") {
		l.failNode(n, "write the value itself", "%s is not a template", what)
		return ""
	}
	if ok && strings.TrimSpace(s) == "" {
		l.failNode(n, "leave the key out", "%s is empty", what)
	}
	return s
}

// texts reads a list of plain texts; one text stands for a list of it.
func (l *loader) texts(n *yaml.Node, what string) []string {
	var out []string
	for _, item := range l.items(n, what) {
		if s := l.plain(item, what); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (l *loader) items(n *yaml.Node, what string) []*yaml.Node {
	switch n = deref(n); {
	case n.Kind == yaml.SequenceNode:
		return n.Content
	case n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null":
		return []*yaml.Node{n}
	}
	l.failNode(n, "", "%s must be a list of texts, got %s", what, describe(n))
	return nil
}

// template returns a scalar as a template. Empty is a mistake: it is a value that
// was forgotten.
func (l *loader) template(n *yaml.Node, what string) *Text {
	n = deref(n)
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && strings.HasPrefix(l.rest(place(n)), "{{") {
		l.failNode(n, `quote templates: "{{ … }}"`, "`{{` begins a YAML mapping here")
		return nil
	}
	s, ok := l.text(n, what)
	if !ok {
		return nil
	}
	t := l.locate(n, s)
	if len(s) > MaxTemplateBytes {
		l.fail(t.Pos, "read large texts by `file`", "%s is %d KiB; the limit of a template is %d KiB", what, len(s)>>10, MaxTemplateBytes>>10)
		return nil
	}
	if i := strings.Index(s, "${{"); i >= 0 {
		l.failText(t, i, "write {{ … }}, without the dollar sign", "`${{ }}` is not how templates are written here")
		return nil
	}
	return &t
}

// rest returns the line of the file from pos on.
func (l *loader) rest(pos Pos) string {
	line := l.line(pos.Line)
	for i := range line {
		if pos.Col--; pos.Col == 0 {
			return line[i:]
		}
	}
	return ""
}

// locate finds where the characters of a scalar stand: behind its quote, or on the
// lines of its block.
func (l *loader) locate(n *yaml.Node, s string) Text {
	t := Text{Src: s, Pos: place(n)}
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		t.Pos.Line++
		t.Pos.Col = l.blockIndent(t.Pos.Line, s) + 1
	case n.Style&yaml.FoldedStyle != 0:
		t.Folded = true
	default:
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			t.Pos.Col++
		}
		t.Folded = !strings.HasPrefix(l.rest(t.Pos), s)
	}
	return t
}

// blockIndent returns how far a literal block is indented: its first line with
// text has that much more than the text itself.
func (l *loader) blockIndent(line int, s string) int {
	for text := range strings.SplitSeq(s, "\n") {
		if strings.TrimLeft(text, " ") != "" {
			return max(0, indentOf(l.line(line))-indentOf(text))
		}
		line++
	}
	return 0
}

// textError is a mistake at a byte of a template.
func textError(file string, t Text, offset int, hint, msg string) Error {
	e := Error{File: file, Pos: t.at(offset), Msg: msg, Hint: hint}
	if t.File != "" {
		e.File = t.File
		e.Source = lineOf(t.Src, offset)
	}
	return e
}

// at returns the place of a byte of the text.
func (t Text) at(offset int) Pos {
	if t.Folded {
		return t.Pos
	}
	before := t.Src[:max(0, min(offset, len(t.Src)))]
	start := strings.LastIndexByte(before, '\n') + 1
	return Pos{t.Pos.Line + strings.Count(before, "\n"), t.Pos.Col + utf8.RuneCountInString(before[start:])}
}

func lineOf(s string, offset int) string {
	offset = max(0, min(offset, len(s)))
	start := strings.LastIndexByte(s[:offset], '\n') + 1
	line, _, _ := strings.Cut(s[start:], "\n")
	return line
}

// envName is what the language takes as the name of an environment variable.
func envName(s string) bool { return regexpName.MatchString(s) }

// id checks the name of a step, input or output.
func (l *loader) id(n *yaml.Node, what string) (string, bool) {
	n = deref(n)
	s := n.Value
	switch {
	case n.ShortTag() != "!!str" || n.Style == 0 && yamlWord(s):
		l.failNode(n, "use a word such as `build`", "%s must be text, got `%s`", what, shorten(s))
	case len(s) > maxIDBytes:
		l.failNode(n, "", "%s is longer than %d characters", what, maxIDBytes)
	case reserved(s):
		l.failNode(n, "choose another name", "%s `%s` is reserved", what, s)
	case regexpName.MatchString(s):
		return s, true
	case regexpName.MatchString(strings.ReplaceAll(s, "-", "_")):
		l.failNode(n, "write "+strings.ReplaceAll(s, "-", "_")+": templates name it as .steps.ID", "%s `%s` has a hyphen", what, s)
	default:
		l.failNode(n, "use letters, digits and _, a digit not first", "%s %q is not a valid name", what, shorten(s))
	}
	return "", false
}

// yamlWord reports whether other YAML readers take an unquoted word as a boolean.
func yamlWord(s string) bool {
	switch strings.ToLower(s) {
	case "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}

// regexpName is the syntax of ids and variables. It is never written to.
var regexpName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved reports whether a name has a meaning of its own, in templates or as a
// file name somewhere.
func reserved(s string) bool {
	switch strings.ToLower(s) {
	case "steps", "env", "inputs", "secrets", "outputs", "vars", "run", "matrix", "self", "item", "index", "iteration", "previous",
		"con", "nul", "prn", "aux", "com1", "com2", "com3", "com4", "lpt1", "lpt2", "lpt3":
		return true
	}
	return false
}
