package pipeline

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A misplaced value, or a script that does not parse (marker -1).
type misplaced struct {
	marker    int
	line      int // of the script, for one that does not parse
	msg, hint string
}

// form is how a parameter is written at the place of a marker.
type form byte

const (
	formNone    form = iota
	formBare         // a word or a part of one: "${__f1}"
	formQuoted       // inside double quotes or a here-document: ${__f1}
	formComment      // nothing
)

type quoted struct {
	body   string
	option []bool // by marker: the value begins an argument
}

// quoteScript replaces the markers in a script by parameters. It is read as bash
// and, where it is one, as a POSIX script: `sh` is either, and both must agree.
func quoteScript(source string, s *scriptValues) (quoted, *misplaced) {
	bash, err := judge(source, s, syntax.LangBash)
	if err != nil {
		return quoted{}, err
	}
	posix, err := judge(source, s, syntax.LangPOSIX)
	if err == nil || err.marker >= 0 {
		if err != nil || !slices.Equal(bash.forms, posix.forms) {
			return quoted{}, orDisagree(err)
		}
	}
	body := s.replace(source, func(i int) string {
		ref := "${" + s.name(i) + "}"
		return map[form]string{formBare: `"` + ref + `"`, formQuoted: ref}[bash.forms[i]]
	})
	return quoted{body, bash.option}, nil
}

func orDisagree(err *misplaced) *misplaced {
	if err != nil {
		return err
	}
	return &misplaced{0, 0, "sh and bash read this script differently", hintEnv}
}

// A judgment says for every marker whether its place is safe, and its form there.
type judgment struct {
	s      *scriptValues
	forms  []form
	option []bool
	stack  []syntax.Node
	failed *misplaced
	// evaluates says that some variable takes what it is given as arithmetic or as a
	// name, so that no value may be assigned to any.
	evaluates bool
}

func judge(source string, s *scriptValues, lang syntax.LangVariant) (*judgment, *misplaced) {
	j := &judgment{s: s, forms: make([]form, len(s.values)), option: make([]bool, len(s.values))}
	file, err := syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(source), "")
	if err != nil {
		return nil, j.unparsed(err)
	}
	j.backslashes(source)
	j.evaluates = evaluates(file)
	syntax.Walk(file, j.visit)
	for i, f := range j.forms {
		if f == formNone {
			j.refuse(i, refusal{"a value cannot stand here", hintEnv})
		}
	}
	return j, j.failed
}

func (j *judgment) unparsed(err error) *misplaced {
	line, msg := 1, err.Error()
	if p, ok := errors.AsType[syntax.ParseError](err); ok {
		line, msg = int(p.Pos.Line()), p.Text
	}
	return &misplaced{-1, line, "the script does not parse: " + j.s.replace(msg, func(int) string { return "{{ … }}" }), "check its quotes and keywords"}
}

func (j *judgment) refuse(marker int, r refusal) {
	if j.failed == nil {
		j.failed = &misplaced{marker, 0, r.why, r.hint}
	}
}

// backslashes refuses a marker behind a backslash: that would take the quote from
// the parameter.
func (j *judgment) backslashes(source string) {
	for _, m := range j.s.find(source) {
		before := source[:m.start]
		if n := len(before) - len(strings.TrimRight(before, `\`)); n%2 == 1 {
			j.refuse(m.index, refusal{"a value cannot stand behind a backslash", hintEnv})
		}
	}
}

func (j *judgment) visit(n syntax.Node) bool {
	if n == nil {
		j.stack = j.stack[:len(j.stack)-1]
		return true
	}
	switch x := n.(type) {
	case *syntax.Comment:
		j.set(x.Text, formComment)
	case *syntax.SglQuoted:
		for _, m := range j.s.find(x.Value) {
			j.refuse(m.index, refusal{"a value cannot stand in single quotes: nothing is replaced there", hintDouble})
		}
	case *syntax.Lit:
		j.literal(x)
	}
	j.stack = append(j.stack, n)
	return true
}

func (j *judgment) set(text string, f form) {
	for _, m := range j.s.find(text) {
		j.forms[m.index] = f
	}
}

// literal judges the markers of one piece of text by everything around it.
func (j *judgment) literal(lit *syntax.Lit) {
	found := j.s.find(lit.Value)
	if len(found) == 0 {
		return
	}
	var r refusal
	f := formNone
	switch parent := j.stack[len(j.stack)-1].(type) {
	case *syntax.Word:
		f = formBare
		if redirect, ok := j.around(2).(*syntax.Redirect); ok && redirect.Hdoc == parent {
			f = formQuoted
		}
	case *syntax.DblQuoted:
		f = formQuoted
		if parent.Dollar {
			r = refusal{`a value cannot stand in $"…"`, hintDouble}
		}
	case *syntax.ParamExp:
		if parent.Param == lit && found[0].start > 0 {
			r = refusal{"a value cannot stand right behind the name of a variable", hintBraces}
		}
	default:
		r = refusal{"a value cannot stand here", hintEnv}
	}
	var child syntax.Node = lit
	for i := len(j.stack) - 1; i >= 0 && r == (refusal{}); i-- {
		r = j.unsafe(j.stack[i], child, i)
		child = j.stack[i]
	}
	if r == (refusal{}) && f == formBare && slices.ContainsFunc(found, func(m marked) bool { return strings.HasPrefix(lit.Value[m.end:], "#") }) {
		// Shells read on in the word; to some parsers a comment begins behind the quote.
		r = refusal{"a value cannot stand right before #", hintDouble}
	}
	if r != (refusal{}) {
		j.refuse(found[0].index, r)
		return
	}
	j.set(lit.Value, f)
	j.options(lit)
}

// around is the i-th node outwards, 1 being the nearest.
func (j *judgment) around(i int) syntax.Node {
	if i > len(j.stack) {
		return nil
	}
	return j.stack[len(j.stack)-i]
}

// unsafe says why a value may not stand in child within n.
func (j *judgment) unsafe(n, child syntax.Node, at int) refusal {
	switch x := n.(type) {
	case *syntax.File, *syntax.Stmt, *syntax.Word, *syntax.DblQuoted, *syntax.Subshell, *syntax.Block, *syntax.IfClause,
		*syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.CaseItem, *syntax.TimeClause, *syntax.ProcSubst,
		*syntax.TestClause, *syntax.ParenTest, *syntax.ArrayExpr:
		return refusal{}
	case *syntax.CmdSubst:
		if x.Backquotes {
			return refusal{"a value cannot stand in backquotes", hintSubst}
		}
		return refusal{}
	case *syntax.CallExpr:
		return callProblem(x, child)
	case *syntax.DeclClause:
		return declProblem(x)
	case *syntax.Assign:
		if j.evaluates {
			return refusal{"a value cannot be assigned in a script with `declare -i` or `declare -n`", hintPlain}
		}
		return assignProblem(x, child)
	case *syntax.ArrayElem:
		if child == syntax.Node(x.Value) {
			return refusal{}
		}
	case *syntax.Redirect:
		return redirectProblem(x, child, j.stack[at-1])
	case *syntax.BinaryCmd:
		if (x.Op == syntax.Pipe || x.Op == syntax.PipeAll) && child == syntax.Node(x.X) && readsProgram(x.Y) {
			return refusal{"a value cannot be piped into a command that runs what it reads", hintInput}
		}
		return refusal{}
	case *syntax.FuncDecl:
		if child == syntax.Node(x.Body) {
			return refusal{}
		}
	case *syntax.WordIter:
		if child != syntax.Node(x.Name) && !j.evaluates {
			return refusal{}
		}
	case *syntax.BinaryTest:
		return testProblem(x)
	case *syntax.UnaryTest:
		return unaryProblem(x)
	case *syntax.ParamExp:
		return refusal{"a value cannot stand in ${ … } or behind a dollar sign", hintEnv}
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm:
		return refusal{"a value cannot stand in arithmetic: a shell would run what it finds in it", hintNumber}
	}
	return refusal{"a value cannot stand here", hintCase}
}

// options marks the values that begin an argument of a command, and could be taken
// for an option.
func (j *judgment) options(lit *syntax.Lit) {
	at := len(j.stack) - 1
	if q, ok := j.stack[at].(*syntax.DblQuoted); ok {
		if q.Parts[0] != syntax.WordPart(lit) {
			return
		}
		at--
	} else if w, ok := j.stack[at].(*syntax.Word); !ok || w.Parts[0] != syntax.WordPart(lit) {
		return
	}
	w, ok := j.stack[at].(*syntax.Word)
	if !ok || at == 0 {
		return
	}
	call, ok := j.stack[at-1].(*syntax.CallExpr)
	if !ok || !takesOptions(call, w) {
		return
	}
	at = 0
	for _, m := range j.s.find(lit.Value) {
		if m.start != at {
			return
		}
		j.option[m.index] = true // and the next one, for when this one is empty
		at = m.end
	}
}
