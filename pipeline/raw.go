package pipeline

import (
	"errors"
	"strings"
	"text/template/parse"
)

const rawFunction = "raw"

// rawText is a value that becomes text of a shell script as it is.
type rawText string

func rawValue(v any) (rawText, error) {
	s, err := asText(v)
	return rawText(s), err
}

// scriptFunctions are the functions that only scripts have.
func scriptFunctions() []Function {
	return []Function{
		{rawFunction, "raw VALUE", "In scripts of a step with `allow-raw: true`: VALUE becomes text of the script as it is: who can choose it can run anything. It is the last function of its action.", rawValue},
	}
}

var (
	errRawPlace = errors.New("`raw` has no meaning here: it is for scripts")
	errRawName  = errors.New("the raw value holds a name that flow itself gives to values")
)

// raw writes a value into the script that is being rendered.
func (e *execution) raw(v rawText) error {
	switch s := string(v); {
	case e.mode != modeScript:
		return errRawPlace
	case strings.ContainsRune(s, 0):
		return errNUL
	case strings.Contains(s, e.script.prefix):
		return errRawName // it would be taken for a marker
	default:
		_, err := e.out.WriteString(s)
		return err
	}
}

// isRaw reports whether a command is a call of raw.
func isRaw(c *parse.CommandNode) bool {
	id, ok := c.Args[0].(*parse.IdentifierNode)
	return ok && id.Ident == rawFunction
}

// printsRaw reports whether an action prints what raw returns.
func printsRaw(a *parse.ActionNode) bool {
	return len(a.Pipe.Decl) == 0 && isRaw(a.Pipe.Cmds[len(a.Pipe.Cmds)-1])
}

// eachAction calls f for the actions of a tree.
func eachAction(list *parse.ListNode, f func(*parse.ActionNode)) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok {
			f(a)
		}
		if b := branchOf(n); b != nil {
			eachAction(b.List, f)
			eachAction(b.ElseList, f)
		}
	}
}

// raws checks the uses of raw in a script and warns of each.
func (l *loader) raws(p *parsed, s site) {
	last := map[*parse.CommandNode]bool{}
	eachAction(p.tree.Root, func(a *parse.ActionNode) {
		if printsRaw(a) {
			last[a.Pipe.Cmds[len(a.Pipe.Cmds)-1]] = true
		}
	})
	eachPipe(p.tree.Root, func(x *parse.PipeNode) {
		for _, c := range x.Cmds {
			for i, a := range c.Args {
				if id, ok := a.(*parse.IdentifierNode); ok && id.Ident == rawFunction {
					l.raw(p, p.at(id.Pos), i == 0 && last[c], s)
				}
			}
		}
	})
}

func (l *loader) raw(p *parsed, at int, printed bool, s site) {
	allowed := s.node != nil && s.node.step.AllowRaw
	switch {
	case allowed && printed:
		s.node.raws++
		l.warn(p.text.at(at), hintEnv, "`raw` in %s: who can choose the value can run any command", s.what)
	case allowed:
		l.failText(p.text, at, "write {{ raw VALUE }}, and nothing behind it", "`raw` must be the last function of an action that prints")
	case s.node == nil:
		l.failText(p.text, at, "leave `raw` out: the value is passed safely", "`raw` is not available in %s", s.what)
	default:
		l.failText(p.text, at, "leave `raw` out: the value is passed safely as one argument", "`raw` needs `allow-raw: true` on step `%s`", s.node.step.ID)
	}
}

// scriptText checks a script: its template, its uses of raw, and the places of its
// values. shell is the program that runs it; "" is sh.
func (l *loader) scriptText(t Text, s site, shell string) {
	l.lintStreams(t, shell)
	if literal(t.Src) {
		return
	}
	if r := l.checkTemplate(t, s, parseText, l.tmpl.scripts); r != nil {
		l.raws(r.p, s)
		l.script(shell, r.p)
	}
}
