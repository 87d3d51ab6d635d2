package pipeline

import (
	"strings"
	"text/template/parse"
)

// Preview renders a template before its run, as far as d says what it names. An action
// that needs more is shown as ‹.steps.x.text›, and an `if`, `range` or `with` over such a value as
// ‹if …› … ‹end› with all its branches. known says that nothing was missing: the text
// is what the run will render. .run, .env, .secrets and the like are never known as a
// whole. An error is one that the run would meet too.
func (r *Renderer) Preview(t Text, d Data) (text string, known bool, err error) {
	if literal(t.Src) {
		return t.Src, true, nil
	}
	e := execution{mode: modeText}
	known, err = r.preview(t, d, parseText, &e)
	return e.out.String(), known, err
}

// PreviewValue evaluates a template that is one action, with or without its braces, if
// d says all that it names. A literal text is not one.
func (r *Renderer) PreviewValue(t Text, d Data) (value any, known bool, err error) {
	e := execution{mode: modeValue}
	known, err = r.preview(t, d, parseCondition, &e)
	if !known {
		return nil, false, err
	}
	return e.value, true, err
}

// KnownValues returns what the values that a template names are, by their source such
// as .inputs.path, as far as d has them.
func (r *Renderer) KnownValues(t Text, d Data) map[string]any {
	p, err := parseText(t, r.parser)
	if err != nil || literal(t.Src) {
		return nil // Preview says why
	}
	v := previewer{data: d}
	found := map[string]any{}
	for _, u := range readUses(p).uses {
		if value, ok := v.lookup(u.path); ok {
			found["."+strings.Join(u.path, ".")] = value
		}
	}
	return found
}

func (r *Renderer) preview(t Text, d Data, parse func(Text, map[string]any) (*parsed, error), e *execution) (known bool, err error) {
	unknown := map[string]bool{}
	for {
		p, err := parse(t, r.parser)
		if err != nil {
			return false, r.named(err)
		}
		v := previewer{data: d, unknown: unknown, complete: true}
		before := len(unknown)
		v.list(p.tree.Root, dotRoot, false)
		if len(unknown) > before {
			continue // a variable may have been used before it turned out to be unknown
		}
		instrument(p)
		x := &executable{p: p}
		if x.t, err = r.base.New("").AddParseTree("t", p.tree); err != nil {
			return false, err
		}
		return v.complete, r.execute(x, t, d, e)
	}
}

// dot is what is known of the value of `.` at some place.
type dot byte

const (
	dotRoot    dot = iota // the whole data
	dotKnown              // an element of something known
	dotUnknown            // an element of something that is not
)

// A previewer rewrites a template into one that names only what is known.
type previewer struct {
	data     Data
	unknown  map[string]bool // variables, by name: one of two with the same name makes both unknown
	complete bool
}

// list rewrites the nodes of a list. unsure says that whether it is rendered is not known.
func (v *previewer) list(list *parse.ListNode, at dot, unsure bool) {
	if list == nil {
		return
	}
	var nodes []parse.Node
	for _, n := range list.Nodes {
		nodes = append(nodes, v.node(n, at, unsure)...)
	}
	list.Nodes = nodes
}

func (v *previewer) node(n parse.Node, at dot, unsure bool) []parse.Node {
	if a, ok := n.(*parse.ActionNode); ok {
		return v.action(a, at, unsure)
	}
	if b := branchOf(n); b != nil {
		return v.branch(n, b, at, unsure)
	}
	switch n.(type) {
	case *parse.BreakNode, *parse.ContinueNode:
		if unsure {
			return []parse.Node{v.shown(n.Position(), strings.Trim(n.String(), "{}"))}
		}
	}
	return []parse.Node{n}
}

func (v *previewer) action(a *parse.ActionNode, at dot, unsure bool) []parse.Node {
	missing := v.needs(a.Pipe, at)
	v.complete = v.complete && !missing
	for _, d := range a.Pipe.Decl {
		if missing || unsure && a.Pipe.IsAssign {
			v.unknown[d.Ident[0]] = true
		}
	}
	switch {
	case len(a.Pipe.Decl) > 0 && v.unknown[a.Pipe.Decl[0].Ident[0]]:
		return nil
	case missing:
		return []parse.Node{v.shown(a.Pos, a.Pipe.String())}
	}
	return []parse.Node{a}
}

func (v *previewer) branch(n parse.Node, b *parse.BranchNode, at dot, unsure bool) []parse.Node {
	inside := at
	missing := v.needs(b.Pipe, at)
	_, loop := n.(*parse.RangeNode)
	if _, with := n.(*parse.WithNode); with || loop {
		inside = dotKnown
		if missing {
			inside = dotUnknown
		}
	}
	for _, d := range b.Pipe.Decl {
		if missing {
			v.unknown[d.Ident[0]] = true
		}
	}
	v.list(b.List, inside, unsure || missing)
	v.list(b.ElseList, at, unsure || missing)
	if !missing {
		return []parse.Node{n}
	}
	return v.both(n, b)
}

// both is what is shown of a branch that may go either way.
func (v *previewer) both(n parse.Node, b *parse.BranchNode) []parse.Node {
	word := map[parse.NodeType]string{parse.NodeIf: "if ", parse.NodeRange: "range ", parse.NodeWith: "with "}[n.Type()]
	nodes := []parse.Node{v.shown(b.Pos, word+b.Pipe.String()), always(b, b.List)}
	if b.ElseList != nil {
		nodes = append(nodes, v.shown(b.Pos, "else"), always(b, b.ElseList))
	}
	return append(nodes, v.shown(b.Pos, "end"))
}

// always renders a list in a scope of its own, as its branch would.
func always(b *parse.BranchNode, list *parse.ListNode) parse.Node {
	yes := &parse.BoolNode{NodeType: parse.NodeBool, Pos: b.Pos, True: true}
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: b.Pos, Args: []parse.Node{yes}}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: b.Pos, Line: b.Line, Cmds: []*parse.CommandNode{command}}
	return &parse.IfNode{BranchNode: parse.BranchNode{NodeType: parse.NodeIf, Pos: b.Pos, Line: b.Line, Pipe: pipe, List: list}}
}

// shown is the text that stands for what is not known.
func (v *previewer) shown(pos parse.Pos, source string) parse.Node {
	v.complete = false
	return &parse.TextNode{NodeType: parse.NodeText, Pos: pos, Text: []byte("‹" + source + "›")}
}

// needs reports whether an expression names anything that is not known.
func (v *previewer) needs(n parse.Node, at dot) bool {
	switch x := n.(type) {
	case *parse.PipeNode:
		for _, c := range x.Cmds {
			if v.command(c, at) {
				return true
			}
		}
		return false
	case *parse.ChainNode:
		return v.needs(x.Node, at)
	case *parse.DotNode:
		return at != dotKnown
	case *parse.FieldNode:
		return at == dotUnknown || at == dotRoot && !v.known(x.Ident)
	case *parse.VariableNode:
		if x.Ident[0] == "$" {
			return !v.known(x.Ident[1:])
		}
		return v.unknown[x.Ident[0]]
	case *parse.IdentifierNode:
		return isState(x.Ident) || x.Ident == "transcript"
	}
	return false
}

func (v *previewer) command(c *parse.CommandNode, at dot) bool {
	if id, ok := c.Args[0].(*parse.IdentifierNode); ok && id.Ident == "file" && !literalFile(c) {
		return true // it is read when it is rendered
	}
	for _, a := range c.Args {
		if v.needs(a, at) {
			return true
		}
	}
	return false
}

// literalFile reports whether the plan has frozen the file that a call names.
func literalFile(c *parse.CommandNode) bool {
	if len(c.Args) != 2 {
		return false
	}
	_, ok := c.Args[1].(*parse.StringNode)
	return ok
}

// known reports whether the data has a value at a path. A root is not one value of
// which all could be known.
func (v *previewer) known(path []string) bool {
	_, found := v.lookup(path)
	return found
}

// lookup follows a path through the data, up to where it would be an error to go on.
func (v *previewer) lookup(path []string) (value any, found bool) {
	value = map[string]any(v.data)
	for i, key := range path {
		inside, ok := value.(map[string]any)
		if !ok {
			return nil, i > 0 // the error is not a matter of what is known
		}
		if value, found = inside[key]; !found {
			return nil, false
		}
	}
	_, root := value.(map[string]any)
	return value, len(path) > 1 || len(path) == 1 && !root
}
