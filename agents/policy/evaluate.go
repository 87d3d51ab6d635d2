package policy

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// legible reports whether the parser here reads a script as shells do. It does not where
// a comment ends in a backslash, nor always with carriage returns and NUL; and a person
// who is asked about a script must see all of it.
func legible(src string) bool {
	for line := range strings.Lines(src) {
		if strings.HasSuffix(line, "\\\n") && strings.Contains(line, "#") {
			return false
		}
	}
	return utf8.ValidString(src) && !strings.ContainsFunc(src, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r)
	})
}

// evaluates reports whether a part of a script may run a text that is quoted there:
// arithmetic runs what an index says, as in (( 'a[$(id)]' )), and so do some builtins.
func evaluates(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.TestClause:
		return quotesCode(n)
	case *syntax.Assign:
		return n.Value != nil && quotesCode(n.Value) || n.Array != nil && quotesCode(n.Array)
	case *syntax.WordIter:
		return slices.ContainsFunc(n.Items, func(w *syntax.Word) bool { return quotesCode(w) })
	case *syntax.Redirect:
		return n.Op == syntax.WordHdoc && quotesCode(n.Word)
	case *syntax.ParamExp:
		return n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word != nil && n.Exp.Word.Lit() == "P"
	case *syntax.CallExpr:
		return len(n.Args) > 0 && slices.Contains(evaluators(), n.Args[0].Lit()) && slices.ContainsFunc(n.Args, func(w *syntax.Word) bool { return quotesCode(w) })
	case *syntax.ExtGlob:
		return true // which zsh runs: *(e:'id':)
	}
	return false
}

// evaluators are builtins that take the name of a variable, and with it an index.
func evaluators() []string {
	return []string{"test", "[", "printf", "read", "unset", "let", "declare", "typeset", "local", "export", "readonly", "mapfile", "readarray", "getopts", "wait"}
}

// quotesCode reports whether a literal text within n has a command substitution in it.
// Those that the shell carries out where they stand are no literals.
func quotesCode(n syntax.Node) (found bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		text := ""
		switch n := n.(type) {
		case *syntax.SglQuoted:
			text = n.Value
		case *syntax.Lit:
			text = strings.ReplaceAll(n.Value, `\`, "")
		}
		found = found || strings.Contains(text, "$(") || strings.Contains(text, "`")
		return true
	})
	return found
}

// assigned are the names of the variables that a script sets, in whatever way it shows.
func assigned(file *syntax.File) []string {
	var names []string
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				names = append(names, n.Name.Value)
			}
		case *syntax.WordIter:
			names = append(names, n.Name.Value)
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil {
				names = append(names, n.Param.Value)
			}
		case *syntax.CallExpr: // read x, printf -v x, getopts …
			if len(n.Args) > 0 && slices.Contains(evaluators(), n.Args[0].Lit()) {
				for _, w := range n.Args[1:] {
					names = append(names, w.Lit())
				}
			}
		}
		return true
	})
	return names
}
