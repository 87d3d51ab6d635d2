package pipeline

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// maxNesting is how deep `if`, `range` and `with` may nest in a template.
const maxNesting = 50

// A parsed is a template's tree with the text it came from.
type parsed struct {
	text  Text
	tree  *parse.Tree
	shift int // bytes put before the text to make it a template
	wrote string
}

// at is the offset in the author's text of an offset in the tree.
func (p *parsed) at(pos parse.Pos) int { return int(pos) - p.shift }

func (p *parsed) err(pos parse.Pos, hint, msg string) Error {
	return textError("", p.text, p.at(pos), hint, msg)
}

// literal reports whether a text has no template in it.
func literal(s string) bool { return !strings.Contains(s, "{{") }

// parseText parses a template. The functions are only looked at by name.
func parseText(t Text, functions map[string]any) (*parsed, error) {
	return parseTemplate(&parsed{text: t, wrote: t.Src}, functions)
}

// A parser reads a template for one purpose. The functions are only looked at by name.
type parser func(t Text, functions map[string]any) (*parsed, error)

// parseCondition parses an `if`: one action, with or without braces.
func parseCondition(t Text, functions map[string]any) (*parsed, error) {
	return parseExpression(t, functions, "`if`", `eq .inputs.mode "full"`)
}

// parseUntil parses the condition of a `repeat`.
func parseUntil(t Text, functions map[string]any) (*parsed, error) {
	return parseExpression(t, functions, "`until`", ".steps.review.output.approved")
}

// parseList parses a `foreach`.
func parseList(t Text, functions map[string]any) (*parsed, error) {
	return parseExpression(t, functions, "`foreach`", ".steps.find.output.files")
}

// parseExpression parses one action, with or without braces.
func parseExpression(t Text, functions map[string]any, what, example string) (*parsed, error) {
	p := &parsed{text: t, wrote: t.Src}
	if !strings.HasPrefix(strings.TrimSpace(t.Src), "{{") {
		p.wrote, p.shift = "{{"+t.Src+"}}", 2
	}
	if _, err := parseTemplate(p, functions); err != nil {
		return nil, err
	}
	if onlyAction(p.tree) == nil {
		return nil, p.err(parse.Pos(p.shift), "write one expression, such as: "+example, what+" must be one expression")
	}
	return p, nil
}

// onlyAction returns the action of a tree that has white space besides and nothing
// else, or nil.
func onlyAction(t *parse.Tree) *parse.ActionNode {
	var only *parse.ActionNode
	for _, n := range t.Root.Nodes {
		switch x := n.(type) {
		case *parse.TextNode:
			if strings.TrimSpace(string(x.Text)) != "" {
				return nil
			}
		case *parse.ActionNode:
			if only != nil || len(x.Pipe.Decl) > 0 {
				return nil
			}
			only = x
		default:
			return nil
		}
	}
	return only
}

func parseTemplate(p *parsed, functions map[string]any) (*parsed, error) {
	trees := map[string]*parse.Tree{}
	p.tree = parse.New("t")
	_, err := p.tree.Parse(p.wrote, "", "", trees, functions)
	for name, tree := range trees {
		if tree != p.tree { // it may have the name that we give to ours
			at := max(0, strings.Index(p.wrote, strconv.Quote(name)))
			return nil, p.err(parse.Pos(at), "write the text where it is used", "`define` and `block` are not available")
		}
	}
	if err != nil {
		return nil, p.explain(err, functions)
	}
	if p.tree.Root == nil {
		p.tree.Root = &parse.ListNode{NodeType: parse.NodeList}
	}
	if err := p.limits(p.tree.Root, 0); err != nil {
		return nil, err
	}
	return p, nil
}

// limits refuses what could recurse, or nest without end.
func (p *parsed) limits(list *parse.ListNode, depth int) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		if t, ok := n.(*parse.TemplateNode); ok {
			return p.err(t.Pos, "write the text where it is used", "`template` is not available")
		}
		b := branchOf(n)
		if b == nil {
			continue
		}
		if depth >= maxNesting {
			return p.err(b.Pos, "flatten it", "more than "+strconv.Itoa(maxNesting)+" nested `if`, `range` and `with`")
		}
		if err := errors.Join(p.limits(b.List, depth+1), p.limits(b.ElseList, depth+1)); err != nil {
			return err
		}
	}
	return nil
}

// branchOf returns what `if`, `range` and `with` have in common, or nil.
func branchOf(n parse.Node) *parse.BranchNode {
	switch x := n.(type) {
	case *parse.IfNode:
		return &x.BranchNode
	case *parse.RangeNode:
		return &x.BranchNode
	case *parse.WithNode:
		return &x.BranchNode
	}
	return nil
}

// unknownFunction is a mistake that does not keep the rest from being checked.
type unknownFunction struct {
	mistake Error
	name    string
}

func (u *unknownFunction) Error() string { return u.mistake.Error() }

func (u *unknownFunction) Unwrap() error { return u.mistake }

// explain turns a parse error, which names a line at best, into a place.
func (p *parsed) explain(err error, functions map[string]any) error {
	m := regexp.MustCompile(`(?s)^template: t:(\d+): (.*)$`).FindStringSubmatch(err.Error())
	if m == nil {
		return p.err(parse.Pos(p.shift), "", "template: "+err.Error())
	}
	n, _ := strconv.Atoi(m[1])
	from := lineOffset(p.wrote, n)
	line := lineOf(p.wrote, from)
	if name, ok := quotedFunction(m[2]); ok {
		at := from + max(0, wordIndex(line, name))
		return &unknownFunction{p.err(parse.Pos(at), functionHint(name, functions), "unknown function `"+name+"`"), name}
	}
	at := max(from+max(0, strings.Index(line, "{{")), p.shift)
	return p.err(parse.Pos(at), parseHint(line, m[2]), "template: "+m[2])
}

func quotedFunction(msg string) (string, bool) {
	m := regexp.MustCompile(`^function "(.*)" not defined$`).FindStringSubmatch(msg)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// lineOffset returns where line n of s begins, counted from 1.
func lineOffset(s string, n int) int {
	at := 0
	for ; n > 1; n-- {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return at
		}
		at += i + 1
	}
	return at
}

func wordIndex(line, word string) int {
	m := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).FindStringIndex(line)
	if m == nil {
		return -1
	}
	return m[0]
}

// functionHint says what to do about a function that there is not.
func functionHint(name string, functions map[string]any) string {
	switch name {
	case "env", "expandenv":
		return "templates do not read the environment; declare an input, or `env:`"
	case "raw":
		return "`raw` is for the scripts `run`, `check`, `setup` and `notify`; elsewhere a value is text anyway"
	case "always", "failed", "succeeded":
		return "`" + name + "` is a function of `if` only"
	case "success", "failure", "cancelled":
		return "write succeeded, failed or always"
	case "yes", "no", "on", "off":
		return "write true or false"
	case "inputs", "steps", "secrets", "run":
		return "a value is named with its dot: ." + name
	case "toYaml", "include", "tpl":
		return "write the text out, or use json"
	}
	if leftOut(name) {
		return "it is left out: it reads the clock, the network or randomness, or hides mistakes"
	}
	words := make([]string, 0, len(functions))
	for w := range functions {
		words = append(words, w)
	}
	slices.Sort(words)
	if hint := suggest(name, words); hint != "" {
		return hint
	}
	return "a value is named with its dot: .inputs." + name
}

func parseHint(line, msg string) string {
	switch {
	case strings.Contains(msg, `unexpected "("`) || strings.Contains(msg, "unexpected <)>"):
		return "functions are called without parentheses: failed, contains \"x\" .inputs.y"
	case strings.Contains(msg, "unexpected EOF"):
		return "close it with {{ end }}"
	case strings.Contains(msg, "unclosed action"):
		return "close it with }}"
	case strings.Contains(line, "==") || strings.Contains(line, "!=") || strings.Contains(line, "&&") || strings.Contains(line, "||"):
		return "compare by eq, ne, lt, gt and join by and, or, not: and (eq .a 1) (ne .b 2)"
	case strings.Contains(msg, `unexpected "!"`):
		return "negate by not: not .inputs.x"
	case strings.Contains(msg, "character U+002D '-'") || strings.Contains(msg, `bad character U+002D`):
		return "names with a hyphen are read by index: index .steps.x.output \"a-b\""
	}
	return ""
}
