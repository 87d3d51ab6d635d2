package policy

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"flow/agents"
)

// star stands for * while a pattern is read as a command: a letter to every shell.
const star = "\uE000"

// Never says why a rule can match no call whatever, and what would match; "" when some
// call may, as far as can be told.
func Never(r agents.Rule) (why, hint string) {
	switch agents.Tool(r.Tool) {
	case agents.ToolShell:
		return neverCommand(r)
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile, agents.ToolSearchContent, agents.ToolFindFiles:
		plain := strings.TrimSuffix(strings.TrimPrefix(r.Pattern, "./"), "/")
		if clean := path.Clean(plain); r.Pattern != "" && plain != "" && clean != plain {
			return "paths are compared without `.` and double slashes", "write " + r.Tool + "(" + clean + ")"
		}
	default: // a host, a server, or no pattern
	}
	return "", ""
}

func neverCommand(r agents.Rule) (why, hint string) {
	if r.Pattern == "" {
		return "", ""
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(strings.ReplaceAll(r.Pattern, "*", star)), "")
	if err != nil {
		return "", "" // it may be the beginning of a text in quotes
	}
	call := onlyCall(file)
	if call == nil {
		return "every command of a script is compared by itself, without redirections", "write a rule for each command"
	}
	c := command{words: wordsOf(call.Args, nil)}
	if len(call.Assigns) > 0 || !c.known() {
		return "", ""
	}
	if g, ok := grammarOf(c.name()); ok && g.kind == transparent && Effect(r.Effect) == Allow && len(c.words) > 1 {
		return "what `" + c.name() + "` runs is compared in its place", "allow the command behind it"
	}
	if text := strings.ReplaceAll(c.text(), star, "*"); text != r.Pattern {
		return "commands are compared with one space between their words and without needless quotes", "write shell(" + text + ")"
	}
	return "", ""
}

// onlyCall is the one simple command that a script is, nil if it is another thing.
func onlyCall(file *syntax.File) *syntax.CallExpr {
	if len(file.Stmts) != 1 {
		return nil
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		if _, declares := s.Cmd.(*syntax.DeclClause); declares && len(s.Redirs) == 0 {
			return &syntax.CallExpr{Assigns: []*syntax.Assign{{}}} // export X=1: as it stands
		}
		return nil
	}
	if len(s.Redirs) > 0 || s.Negated || s.Background || s.Coprocess {
		return nil
	}
	return call
}
