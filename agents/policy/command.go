package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A word is one word of a command. Its text is what the command gets when it is static;
// otherwise that is only known when the script runs, and the text is its source.
type word struct {
	text   string
	static bool
	free   bool // it may come to an option
}

// A command is a simple command.
type command struct {
	assigns []string // as they stand before it
	words   []word
}

// wordsOf are words of a script that sets the variables named.
func wordsOf(args []*syntax.Word, set []string) []word {
	words := make([]word, len(args))
	for i, a := range args {
		words[i] = wordOf(a)
		words[i].free = !words[i].static && mayBeOption(a, set)
	}
	return words
}

// wordOf undoes the quoting of a word.
func wordOf(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	var b strings.Builder
	if !unquote(&b, w.Parts, false) {
		return word{text: source(w)}
	}
	return word{text: b.String(), static: true}
}

// mayBeOption reports whether a word that is not static may come to one that begins with
// a dash, or to several words. A variable that the script does not set is taken to be
// what people meant by it.
func mayBeOption(w *syntax.Word, set []string) bool {
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.Contains(part.Value, "{") {
				return true
			}
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if slices.ContainsFunc(part.Parts, splits) {
				return true
			}
		default:
			if !plainParameter(part, set) {
				return true
			}
		}
	}
	return beginsFreely(w.Parts, set)
}

// beginsFreely reports whether the parts of a word may begin with a dash.
func beginsFreely(parts []syntax.WordPart, set []string) bool {
	if len(parts) == 0 {
		return true
	}
	switch part := parts[0].(type) {
	case *syntax.Lit:
		return strings.ContainsAny(part.Value[:1], `-*?[\`)
	case *syntax.SglQuoted:
		return part.Dollar || part.Value == "" || part.Value[0] == '-'
	case *syntax.DblQuoted:
		return beginsFreely(part.Parts, set)
	default:
		return !plainParameter(part, set) || len(parts) > 1 && beginsFreely(parts[1:], set)
	}
}

// splits reports whether a quoted part may come to several words all the same: "$@".
func splits(part syntax.WordPart) bool {
	p, ok := part.(*syntax.ParamExp)
	return ok && (p.Index != nil || p.Param != nil && strings.ContainsAny(p.Param.Value, "@*"))
}

// plainParameter reports whether a part is $x of a variable that the script does not
// set, nor the shell by what the script does.
func plainParameter(part syntax.WordPart, set []string) bool {
	p, ok := part.(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Excl || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Exp != nil {
		return false
	}
	name := p.Param.Value
	return envPattern.MatchString(name) && !strings.HasPrefix(name, "BASH_") && !slices.Contains(set, name) &&
		!slices.Contains([]string{"_", "REPLY", "OPTARG", "MAPFILE"}, name)
}

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// unquote writes what parts stand for, and reports whether that is known.
func unquote(b *strings.Builder, parts []syntax.WordPart, quoted bool) bool {
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if !unescape(b, part.Value, quoted) {
				return false
			}
		case *syntax.SglQuoted:
			if part.Dollar && strings.Contains(part.Value, `\`) {
				return false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			if part.Dollar || !unquote(b, part.Parts, true) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// unescape undoes the backslashes of a literal. Globs, braces and a tilde make it one
// that only the running script knows.
func unescape(b *strings.Builder, s string, quoted bool) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (!quoted || strings.ContainsRune("$`\"\\\n", rune(s[i+1]))):
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case !quoted && strings.HasPrefix(s[i:], "{}"): // which expands to nothing else
			b.WriteString("{}")
			i++
		case !quoted && (strings.ContainsRune("*?{", rune(c)) || c == '[' && s != "[" || c == '~' && b.Len() == 0):
			return false
		default:
			b.WriteByte(c)
		}
	}
	return true
}

// text is the command as patterns see it: its words, one space between them, those with
// a space in them quoted.
func (c command) text() string {
	return strings.Join(append(slices.Clone(c.assigns), texts(c.words)...), " ")
}

func texts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
		spaces := strings.ContainsAny(w.text, " \t\n")
		switch {
		case w.static && (w.text == "" || spaces):
			out[i] = "'" + w.text + "'"
		case spaces: // one word to the pattern as well
			out[i] = `"` + w.text + `"`
		}
	}
	return out
}

// argument is the text of the i-th word, "" if there is none.
func (c command) argument(i int) string {
	if i >= len(c.words) {
		return ""
	}
	return c.words[i].text
}

// name is the program's name without its directory, "" when it is not known.
func (c command) name() string {
	if len(c.words) == 0 || !c.words[0].static {
		return ""
	}
	return path.Base(c.words[0].text)
}

// maxOptions is how many words before a command's first argument are looked at.
const maxOptions = 32

// disguises are the texts by which a rule that forbids may know the command: with and
// without what stands before it, with and without the directory of the program, and
// without options before its first argument (`git -C x push`).
func (c command) disguises() []string {
	all := []string{c.text()}
	if len(c.words) == 0 {
		return all
	}
	words := texts(c.words)
	for _, name := range []string{words[0], path.Base(words[0])} {
		all = append(all, strings.Join(append([]string{name}, words[1:]...), " "))
		for i := 1; i < min(len(words), maxOptions) && (strings.HasPrefix(words[i], "-") || strings.HasPrefix(words[i-1], "-") && i > 1); i++ {
			all = append(all, strings.Join(append([]string{name}, words[i+1:]...), " "))
		}
	}
	return all
}
