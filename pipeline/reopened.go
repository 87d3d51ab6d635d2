package pipeline

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// streamNames are the names by which a script can open a stream of its own once more. What
// the scripts of a run print goes to files, and Linux then opens the file: > empties it.
func streamNames() []string {
	return []string{"/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/1", "/proc/self/fd/2"}
}

// lintStreams warns of what empties the stream that a script prints to.
func (l *loader) lintStreams(t Text, shell string) {
	if shell != "" && shell != "sh" && shell != "bash" || !slices.ContainsFunc(streamNames(), func(name string) bool { return strings.Contains(t.Src, name) }) {
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(withoutActions(t.Src)), "")
	if err != nil {
		return // where it must parse, that is said elsewhere
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.Redirect:
			if empties(x) {
				l.warnStream(t, x.Word, "write "+again(plainWord(x.Word)))
			}
		case *syntax.CallExpr:
			if w := teed(x); w != nil {
				l.warnStream(t, w, "write tee -a "+plainWord(w))
			}
		}
		return true
	})
}

func (l *loader) warnStream(t Text, w *syntax.Word, hint string) {
	l.warn(t.at(int(w.Pos().Offset())), hint, "opening %s empties it: what was printed before is lost", plainWord(w))
}

// empties reports whether a redirection opens a stream anew and empties it.
func empties(r *syntax.Redirect) bool {
	opens := r.Op == syntax.RdrOut || r.Op == syntax.RdrClob || r.Op == syntax.RdrAll
	return opens && slices.Contains(streamNames(), plainWord(r.Word))
}

// again is the redirection to the stream of a name that does not open it.
func again(name string) string {
	if strings.HasSuffix(name, "err") || strings.HasSuffix(name, "2") {
		return ">&2"
	}
	return ">&1"
}

// teed is the stream that a call of tee opens and empties, or nil.
func teed(c *syntax.CallExpr) *syntax.Word {
	if len(c.Args) == 0 || commandName(c.Args[0]) != "tee" {
		return nil
	}
	for _, w := range c.Args[1:] {
		switch word := plainWord(w); {
		case word == "-a" || word == "--append":
			return nil
		case slices.Contains(streamNames(), word):
			return w
		}
	}
	return nil
}

// withoutActions is a script with words of the same length in the place of its actions.
func withoutActions(src string) string {
	return regexp.MustCompile(`(?s)\{\{.*?\}\}`).ReplaceAllStringFunc(src, func(action string) string {
		word := []byte(action)
		for i, b := range word {
			if b != '\n' {
				word[i] = 'x'
			}
		}
		return string(word)
	})
}
