package lsp

import (
	"regexp"
	"slices"
	"strings"
)

// A place is what the cursor stands in, found by the lines alone: indentation tells
// more about a half-written line than a YAML parser, which refuses it.
type place struct {
	path  []string // keys from the root to here; "[]" is an element of a list
	key   bool     // a key may be written here, of the mapping at path
	value bool     // a value may be written here, that of path
	// expr is the part of a template's action before the cursor, where there is one.
	expr   string
	inExpr bool
}

// A row is a line as indentation sees it.
type row struct {
	indent int   // of what follows the dashes
	dashes []int // columns of "- " before it
	key    string
	value  int  // where the value begins; that of the key, else the text
	block  bool // the value is a block that follows
	blank  bool
}

var (
	keyPattern   = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s#{}\[\],"'|>&*!][^:]*?)\s*:(?:\s+|$)`)
	blockPattern = regexp.MustCompile(`^[|>][+-]?\d?[+-]?\s*(#.*)?$`)
)

func readRow(line string) row {
	r := row{indent: len(line) - len(strings.TrimLeft(line, " "))}
	for line[r.indent:] == "-" || strings.HasPrefix(line[r.indent:], "- ") {
		r.dashes = append(r.dashes, r.indent)
		r.indent++
		r.indent += len(line[r.indent:]) - len(strings.TrimLeft(line[r.indent:], " "))
	}
	rest := line[r.indent:]
	r.value = r.indent
	r.blank = len(r.dashes) == 0 && (strings.TrimSpace(rest) == "" || rest[0] == '#')
	if m := keyPattern.FindStringSubmatchIndex(rest); m != nil {
		r.key = strings.Trim(rest[m[2]:m[3]], `"'`)
		r.value = r.indent + m[1]
		r.block = blockPattern.MatchString(strings.TrimSpace(rest[m[1]:]))
	}
	return r
}

// locate finds out what a byte of a line stands in.
func (d *doc) locate(line, offset int) place {
	text := d.line(line)
	r := readRow(text)
	column := r.indent
	if strings.TrimSpace(text) == "" {
		column = offset
	}
	path, scalar := d.ancestors(line, r, column)
	p := place{path: path}
	switch {
	case scalar:
		p.value = true
	case r.key != "" && offset >= r.value:
		p.path, p.value = append(p.path, r.key), true
		p.flow(text[r.value:offset])
	case r.key == "" && len(r.dashes) > 0 && offset >= r.indent:
		p.key, p.value = true, true // "- needed" or "- allow: …"
		p.flow(text[r.indent:offset])
	default:
		p.key = true
	}
	p.expr, p.inExpr = d.expression(line, offset, p)
	return p
}

// ancestors returns the keys around the content at column of a line, and whether that
// is text of a block.
func (d *doc) ancestors(line int, own row, column int) (path []string, scalar bool) {
	climb := climber{column: column}
	climb.dashes(own)
	for i := line - 1; i >= 0 && !climb.done(); i-- {
		if r := readRow(d.line(i)); !r.blank {
			climb.row(r)
		}
	}
	slices.Reverse(climb.path)
	return climb.path, climb.scalar
}

// A climber goes up the lines from a place to what holds it.
type climber struct {
	column int  // what holds the place begins left of it
	dash   bool // the last one was a dash: the list's key may stand at the same column
	path   []string
	scalar bool
}

func (c *climber) done() bool { return c.column == 0 && !c.dash }

func (c *climber) row(r row) {
	holds := r.indent < c.column || c.dash && r.indent == c.column && len(r.dashes) == 0
	if r.key != "" && holds {
		if r.block {
			c.path, c.scalar = nil, true // what looked like keys was text
		}
		c.path, c.column, c.dash = append(c.path, r.key), r.indent, false
	}
	c.dashes(r)
}

func (c *climber) dashes(r row) {
	for _, column := range slices.Backward(r.dashes) {
		if column < c.column {
			c.path, c.column, c.dash = append(c.path, "[]"), column, true
		}
	}
}

// flow goes into the brackets that a value opens before the cursor.
func (p *place) flow(text string) {
	if text == "" || text[0] != '{' && text[0] != '[' || strings.HasPrefix(text, "{{") {
		return
	}
	var stack []flowFrame
	var quote byte
	start := 0
	for i := 0; i < len(text); i++ {
		top := len(stack) - 1
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{' || c == '[':
			stack = append(stack, flowFrame{list: c == '['})
			start = i + 1
		case (c == '}' || c == ']') && top >= 0:
			stack = stack[:top]
		case c == ':' && top >= 0 && !stack[top].list && !stack[top].value:
			stack[top].key, stack[top].value = strings.Trim(text[start:i], ` "'`), true
		case c == ',' && top >= 0:
			stack[top].value = false
			start = i + 1
		}
	}
	for _, f := range stack {
		switch p.key, p.value = false, true; {
		case f.list:
			p.path = append(p.path, "[]")
		case f.value:
			p.path = append(p.path, f.key)
		default:
			p.key, p.value = true, false
		}
	}
}

type flowFrame struct {
	list  bool
	key   string
	value bool // behind the colon
}

const maxActionLines = 50

// expression returns what of a template's action stands before the cursor.
func (d *doc) expression(line, offset int, p place) (string, bool) {
	before := strings.Join(append(slices.Clone(d.lines[max(0, line-maxActionLines):min(line, len(d.lines))]), d.line(line)[:offset]), "\n")
	if open := strings.LastIndex(before, "{{"); open >= 0 && strings.LastIndex(before, "}}") < open {
		return before[open+2:], true
	}
	if !p.value || len(p.path) == 0 || !slices.Contains([]string{"if", "until", "foreach"}, p.path[len(p.path)-1]) {
		return "", false
	}
	r := readRow(d.line(line))
	text := d.line(line)[min(r.value, offset):offset]
	if i := strings.LastIndex(text, "until:"); i >= 0 {
		text = text[i+len("until:"):] // repeat: {until: …
	}
	return strings.TrimLeft(text, ` "'`), !strings.HasPrefix(strings.TrimSpace(text), "[")
}
