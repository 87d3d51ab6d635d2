package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"text/template/parse"
)

// The names of what is put into templates behind the author's back. The author
// cannot write them: the parser knows no such function, and no name has a NUL.
const (
	hiddenState = "\x00state"
	hiddenOut   = "__out"
	hiddenTick  = "__tick"
)

func (d Data) execution() *execution { return d[hiddenState].(*execution) }

// emit ends every action: it prints the value, or keeps it. at is the action's place.
func emit(d Data, at int, v any) (string, error) {
	e := d.execution()
	if raw, ok := v.(rawText); ok {
		return "", e.raw(raw)
	}
	if e.mode == modeCondition || e.mode == modeValue || e.mode == modeList {
		e.value = v
		return "", nil
	}
	s, err := asText(v)
	if err == nil && e.mode == modeScript {
		s, err = e.script.add(s, at)
	}
	if err != nil {
		return "", err
	}
	// Written here, and not by the template after us, a large value is copied once.
	_, err = e.out.WriteString(s)
	return "", err
}

// tick counts the turns of all loops.
func tick(d Data) (string, error) {
	e := d.execution()
	if e.ticks++; e.ticks > MaxTicks {
		return "", fmt.Errorf("the loops take more than %d turns", MaxTicks)
	}
	return "", nil
}

func stateFunctions() []string { return []string{"always", "failed", "succeeded"} }

func stateFunction(name string) func(Data) bool {
	return func(d Data) bool {
		switch n := d.execution().needs; name {
		case "failed":
			return n.Failed
		case "succeeded":
			return !n.Failed && !n.Cancelled
		}
		return true
	}
}

// instrument rewrites a tree: every action that prints goes through emit, every
// loop through tick, and the functions of a condition get the data.
func instrument(p *parsed) {
	instrumentList(p, p.tree.Root)
	var commands []*parse.CommandNode // first all, since passState makes more
	eachPipe(p.tree.Root, func(x *parse.PipeNode) { commands = append(commands, x.Cmds...) })
	for _, c := range commands {
		passState(p.tree, c)
	}
}

func instrumentList(p *parsed, list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Decl) == 0 {
			at := &parse.NumberNode{NodeType: parse.NodeNumber, Pos: a.Pos, IsInt: true, Int64: int64(a.Pos), Text: strconv.Itoa(int(a.Pos))}
			a.Pipe.Cmds = append(a.Pipe.Cmds, call(p.tree, a.Pos, hiddenOut, root(a.Pos), at))
		}
		if b := branchOf(n); b != nil {
			instrumentList(p, b.List)
			instrumentList(p, b.ElseList)
		}
		if x, ok := n.(*parse.RangeNode); ok {
			pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: x.Pos, Line: x.Line, Cmds: []*parse.CommandNode{call(p.tree, x.Pos, hiddenTick, root(x.Pos))}}
			first := &parse.ActionNode{NodeType: parse.NodeAction, Pos: x.Pos, Line: x.Line, Pipe: pipe}
			x.List.Nodes = append([]parse.Node{first}, x.List.Nodes...)
		}
	}
}

func root(pos parse.Pos) *parse.VariableNode {
	return &parse.VariableNode{NodeType: parse.NodeVariable, Pos: pos, Ident: []string{"$"}}
}

func call(t *parse.Tree, pos parse.Pos, name string, args ...parse.Node) *parse.CommandNode {
	id := parse.NewIdentifier(name).SetTree(t).SetPos(pos)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: append([]parse.Node{id}, args...)}
}

// passState gives `failed`, `transcript` and their like the data: as a command, or in parentheses as
// an argument.
func passState(t *parse.Tree, c *parse.CommandNode) {
	for i, a := range c.Args {
		id, ok := a.(*parse.IdentifierNode)
		if !ok || !isState(id.Ident) && id.Ident != "transcript" {
			continue
		}
		if i == 0 {
			c.Args = append([]parse.Node{id, root(id.Pos)}, c.Args[1:]...)
			return
		}
		c.Args[i] = &parse.PipeNode{NodeType: parse.NodePipe, Pos: id.Pos, Cmds: []*parse.CommandNode{call(t, id.Pos, id.Ident, root(id.Pos))}}
	}
}

func isState(name string) bool { return slices.Contains(stateFunctions(), name) }

// handles reports whether a condition asks how the steps before have ended.
func handles(p *parsed) bool {
	found := false
	eachPipe(p.tree.Root, func(x *parse.PipeNode) {
		for _, c := range x.Cmds {
			for _, a := range c.Args {
				id, ok := a.(*parse.IdentifierNode)
				found = found || ok && isState(id.Ident)
			}
		}
	})
	return found
}
