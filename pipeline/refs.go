package pipeline

import (
	"slices"
	"strings"
	"text/template/parse"
)

// A ref is a value that a template names from its root: .steps.x.text is
// {"steps", "x", "text"}, an element of a list is the list's path with "[]". The
// root itself is the empty path, and nil is a value that is not known beforehand.
type ref []string

// A use is a place where a template takes a value.
type use struct {
	path   ref
	offset int // in the author's text
}

// A reader finds what a template names, without running it.
type reader struct {
	p     *parsed
	uses  []use
	vars  []variable
	reset map[string]bool // variables that are set again: they may be anything
	// transcripts are the steps that `transcript "x"` names.
	transcripts []use
	files       []use // likewise `file "x"`
	// result is what the last action gives: of a template that is one action, its value.
	result ref
}

type variable struct {
	name string
	path ref
}

func readUses(p *parsed) *reader {
	r := &reader{p: p, reset: map[string]bool{}}
	if strings.Contains(p.wrote, "$") {
		for _, m := range assigned.FindAllStringSubmatch(p.wrote, -1) {
			r.reset[m[1]] = true
		}
	}
	r.vars = []variable{{"$", ref{}}}
	r.list(p.tree.Root, ref{})
	return r
}

func (r *reader) list(list *parse.ListNode, dot ref) {
	if list == nil {
		return
	}
	depth := len(r.vars)
	for _, n := range list.Nodes {
		r.node(n, dot)
	}
	r.vars = r.vars[:depth]
}

func (r *reader) node(n parse.Node, dot ref) {
	depth := len(r.vars)
	switch x := n.(type) {
	case *parse.ActionNode:
		r.result = r.pipe(x.Pipe, dot, len(x.Pipe.Decl) == 0)
		return // its variables live on
	case *parse.IfNode:
		r.pipe(x.Pipe, dot, len(x.Pipe.Decl) == 0)
		r.list(x.List, dot)
		r.list(x.ElseList, dot)
	case *parse.WithNode:
		r.list(x.List, r.pipe(x.Pipe, dot, false))
		r.list(x.ElseList, dot)
	case *parse.RangeNode:
		r.list(x.List, r.element(x, dot))
		r.list(x.ElseList, dot)
	}
	r.vars = r.vars[:depth]
}

// element binds the variables of a loop and returns what the dot is in its body.
func (r *reader) element(x *parse.RangeNode, dot ref) ref {
	over := r.value(x.Pipe, dot, true)
	var item ref
	if len(over) > 1 { // of all steps together nothing is known
		item = append(slices.Clone(over), anElement)
	}
	for i, v := range x.Pipe.Decl {
		bound := ref(nil)
		if i == len(x.Pipe.Decl)-1 {
			bound = item
		}
		r.declare(v.Ident[0], bound)
	}
	return item
}

func (r *reader) declare(name string, v ref) {
	if r.reset[name] {
		v = nil
	}
	r.vars = append(r.vars, variable{name, v})
}

// pipe reads a pipeline, binds its variables and returns its value. taken says that
// the value is used, not only given a name.
func (r *reader) pipe(x *parse.PipeNode, dot ref, taken bool) ref {
	v := r.value(x, dot, taken)
	for _, d := range x.Decl {
		if !x.IsAssign {
			r.declare(d.Ident[0], v)
		}
	}
	return v
}

func (r *reader) value(x *parse.PipeNode, dot ref, taken bool) ref {
	if x == nil {
		return nil
	}
	var v ref
	for i, c := range x.Cmds {
		v = r.command(c, dot, taken || i < len(x.Cmds)-1)
	}
	return v
}

func (r *reader) command(c *parse.CommandNode, dot ref, taken bool) ref {
	id, ok := c.Args[0].(*parse.IdentifierNode)
	if !ok {
		return r.operand(c.Args[0], dot, taken)
	}
	switch id.Ident {
	case "index", "get":
		return r.index(c, dot, taken)
	case "first", "last":
		if len(c.Args) == 2 {
			if v := r.operand(c.Args[1], dot, true); len(v) > 1 {
				return extend(v, []string{anElement})
			}
			return nil
		}
	case "transcript":
		r.transcripts = append(r.transcripts, r.named(c))
	case "file":
		if u := r.named(c); u.path != nil {
			r.files = append(r.files, u)
		}
	}
	for _, a := range c.Args[1:] {
		r.operand(a, dot, true)
	}
	return nil
}

// named is the literal that follows a function, or nil.
func (r *reader) named(c *parse.CommandNode) use {
	u := use{offset: r.p.at(c.Pos)}
	if len(c.Args) == 2 {
		if s, ok := c.Args[1].(*parse.StringNode); ok {
			u.path = ref{s.Text}
		}
	}
	return u
}

// index follows `index .steps "x"`, and `index .steps.x.items 0`: an element of a list
// is the same whatever its number.
func (r *reader) index(c *parse.CommandNode, dot ref, taken bool) ref {
	if len(c.Args) < 2 {
		return nil
	}
	v, at := r.resolve(c.Args[1], dot)
	for _, a := range c.Args[2:] {
		if s, ok := a.(*parse.StringNode); ok {
			v = extend(v, []string{s.Text})
			continue
		}
		r.operand(a, dot, true)
		if followed(v) {
			v = extend(v, []string{aValue})
			continue
		}
		if v != nil {
			r.uses = append(r.uses, use{v, at})
		}
		v, taken = nil, false
	}
	return r.take(v, at, taken)
}

// followed says that a computed key of a value leads to what is one value of many.
// Which step or input a computed key means is not known.
func followed(v ref) bool {
	return len(v) > 2 || len(v) > 0 && (v[0] == "item" || v[0] == "previous")
}

// operand reads an argument and records what it names.
func (r *reader) operand(n parse.Node, dot ref, taken bool) ref {
	if x, ok := n.(*parse.PipeNode); ok {
		return r.value(x, dot, taken)
	}
	v, at := r.resolve(n, dot)
	return r.take(v, at, taken)
}

// take records a use. A mere name for the root or for all steps is none: what
// follows the name is.
func (r *reader) take(v ref, at int, taken bool) ref {
	if v == nil {
		return nil
	}
	if taken || len(v) > 1 || len(v) == 1 && v[0] != "steps" {
		r.uses = append(r.uses, use{v, at})
	}
	return v
}

// resolve returns the path that an operand stands for, and where it begins.
func (r *reader) resolve(n parse.Node, dot ref) (ref, int) {
	switch x := n.(type) {
	case *parse.DotNode:
		return dot, r.p.at(x.Pos)
	case *parse.FieldNode:
		return extend(dot, x.Ident), r.start(x.Pos, "."+x.Ident[0])
	case *parse.VariableNode:
		return extend(r.lookup(x.Ident[0]), x.Ident[1:]), r.start(x.Pos, x.Ident[0])
	case *parse.ChainNode:
		v := r.operand(x.Node, dot, false)
		return extend(v, x.Field), r.p.at(x.Pos)
	case *parse.PipeNode:
		return r.value(x, dot, false), r.p.at(x.Pos)
	case *parse.IdentifierNode:
		return nil, 0 // a function without arguments
	}
	return nil, 0
}

// start corrects the position of a chain of fields: the parser's is that of the
// second one.
func (r *reader) start(pos parse.Pos, first string) int {
	if at := int(pos) - len(first); at >= 0 && !strings.HasPrefix(r.p.wrote[pos:], first) && strings.HasPrefix(r.p.wrote[at:], first) {
		return r.p.at(parse.Pos(at))
	}
	return r.p.at(pos)
}

func extend(v ref, fields []string) ref {
	if v == nil {
		return nil
	}
	return append(slices.Clone(v), fields...)
}

func (r *reader) lookup(name string) ref {
	for _, v := range slices.Backward(r.vars) {
		if v.name == name {
			return v.path
		}
	}
	return nil
}
