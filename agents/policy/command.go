package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A word is one word of a command. Its text is what the command gets when it is static;
// otherwise that is only known when the script runs, and the text is its source.
type word struct {
	text   string
	static bool
}

// A command is a simple command.
type command struct {
	assigns []string // as they stand before it
	words   []word
}

func wordsOf(args []*syntax.Word) []word {
	words := make([]word, len(args))
	for i, a := range args {
		words[i] = wordOf(a)
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
		return word{source(w), false}
	}
	return word{b.String(), true}
}

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
		if w.static && (w.text == "" || strings.ContainsAny(w.text, " \t\n")) {
			out[i] = "'" + w.text + "'"
		}
	}
	return out
}

// static reports whether all words are known.
func (c command) static() bool {
	return !slices.ContainsFunc(c.words, func(w word) bool { return !w.static })
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

// escapes reports whether c has an argument with which its program runs another one, or
// writes a file, although that is not what people allow it for. A pattern that spells
// the argument allows it.
func (c command) escapes(pattern string) bool {
	flags := escapeFlags(c.name())
	return slices.ContainsFunc(c.words[min(1, len(c.words)):], func(w word) bool {
		flag := flagOf(w.text)
		spelt := func(word string) bool { return flagOf(word) == flag }
		return flag != "" && slices.Contains(flags, flag) && !slices.ContainsFunc(strings.Fields(pattern), spelt)
	})
}

// flagOf is the name of an option, "" for what is none. To some programs -exec and
// --exec are the same.
func flagOf(text string) string {
	if !strings.HasPrefix(text, "-") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
	return name
}

// escapeFlags are such arguments, without their dashes.
func escapeFlags(program string) []string {
	switch program {
	case "git":
		return []string{"c", "output", "exec-path", "upload-pack", "receive-pack", "exec", "ext-diff", "textconv", "config-env"}
	case "go":
		return []string{"exec", "toolexec", "vettool", "overlay", "o", "modfile"}
	case "find":
		return []string{"exec", "execdir", "ok", "okdir", "delete", "fprint", "fprint0", "fprintf", "fls"}
	case "tar":
		return []string{"to-command", "checkpoint-action", "use-compress-program", "I", "F", "info-script", "new-volume-script", "rsh-command"}
	case "rg":
		return []string{"pre", "hostname-bin"}
	case "sort":
		return []string{"o", "output", "compress-program"}
	case "sed":
		return []string{"i", "in-place"}
	case "curl":
		return []string{"o", "O", "output", "remote-name", "K", "config", "T", "upload-file", "d", "data", "F", "form"}
	case "wget":
		return []string{"O", "output-document", "post-file", "use-askpass"}
	case "ssh", "scp", "rsync":
		return []string{"o", "e", "rsh", "F", "S"}
	}
	return nil
}
