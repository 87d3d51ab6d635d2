package pipeline

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntaxError reports what yaml.v3 says in words for the author of the file.
// yaml.v3 gives a line at best, and for some mistakes the wrong one.
func (l *loader) syntaxError(err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	line = max(1, min(line, len(l.lines)))
	if name, ok := between(msg, "unknown anchor '"); ok {
		l.fail(l.find("*"+name, line), "define it first: &"+name+"; quote text that begins with *", "unknown anchor *%s", name)
		return
	}
	if l.tabs(line) || l.unclosed(msg) || l.badEscape(line, msg) || l.badAlias(line, msg) || l.plainScalar(line) || l.flowTemplate(line) || l.badStart(line, msg) || l.badIndent() {
		return
	}
	l.fail(Pos{line, indentOf(l.line(line)) + 1}, "check the indentation and the quotes here and in the lines before", "not valid YAML: %s", msg)
}

func between(msg, prefix string) (string, bool) {
	_, rest, ok := strings.Cut(msg, prefix)
	if !ok {
		return "", false
	}
	return rest[:max(0, strings.IndexByte(rest, '\''))], true
}

// find returns the first place of text, or the start of a line when there is none.
func (l *loader) find(text string, line int) Pos {
	if at := strings.Index(string(l.src), text); at >= 0 {
		return l.posAt(at)
	}
	return Pos{line, 1}
}

// tabs looks for indentation by tabs at or next to the line of a syntax error.
func (l *loader) tabs(line int) bool {
	for _, n := range []int{line, line + 1, line - 1} {
		text := l.line(n)
		if i := strings.IndexByte(text[:len(text)-len(strings.TrimLeft(text, " \t"))], '\t'); i >= 0 {
			l.fail(Pos{n, i + 1}, "", "tabs cannot indent YAML; use spaces")
			return true
		}
	}
	return false
}

// unclosed finds the opening of a quote or bracket that nothing closes: yaml.v3
// names the end of the file.
func (l *loader) unclosed(msg string) bool {
	switch {
	case strings.Contains(msg, "unexpected end of stream"), strings.Contains(msg, "document indicator"):
		if at := l.openQuote(); at >= 0 {
			l.fail(l.posAt(at), "close it on the same line, or use a block: key: |", "this quote is never closed")
			return true
		}
	case strings.Contains(msg, "did not find expected ',' or"):
		if at := l.openBracket(); at >= 0 {
			l.fail(l.posAt(at), "close it, or separate the elements by commas", "this %q is not closed before the next key", l.src[at])
			return true
		}
	}
	return false
}

// openQuote returns where a value starts with a quote that has no end, or -1.
func (l *loader) openQuote() int {
	starts := regexp.MustCompile(`(?m)(?:[:\-\[,{]\s+|[\[{]|^\s*)(["'])`)
	src := string(l.src)
	for at := 0; at < len(src); {
		m := starts.FindStringSubmatchIndex(src[at:])
		if m == nil {
			return -1
		}
		open := at + m[2]
		end := quoteEnd(src, open)
		if end < 0 {
			return open
		}
		at = end + 1
	}
	return -1
}

// quoteEnd returns where the quoted scalar that begins at open ends, or -1.
func quoteEnd(src string, open int) int {
	q := src[open]
	for i := open + 1; i < len(src); i++ {
		switch {
		case q == '"' && src[i] == '\\':
			i++
		case src[i] != q:
		case q == '\'' && i+1 < len(src) && src[i+1] == q:
			i++
		default:
			return i
		}
	}
	return -1
}

// openBracket returns the last opening bracket of a value that the rest of its
// line does not close, or -1.
func (l *loader) openBracket() int {
	for i, v := range slices.Backward(l.lines) {
		text := l.line(i + 1)
		m := regexp.MustCompile(`[:\-]\s+([\[{])`).FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		part := text[m[2]:]
		if strings.Count(part, "[")+strings.Count(part, "{") > strings.Count(part, "]")+strings.Count(part, "}") {
			return v + m[2]
		}
	}
	return -1
}

// plainScalar explains the two ways in which an unquoted value goes wrong.
func (l *loader) plainScalar(line int) bool {
	for _, n := range []int{line, line + 1, line - 1} {
		text := l.line(n)
		m := regexp.MustCompile(`^\s*(?:- )?[\w"'.-]+:\s+(\S.*)$`).FindStringSubmatchIndex(text)
		if m == nil {
			continue
		}
		value, pos := text[m[2]:], Pos{n, utf8.RuneCountInString(text[:m[2]]) + 1}
		switch {
		case strings.HasPrefix(value, "{{"):
			l.fail(pos, `quote templates: "{{ … }}"`, "`{{` begins a YAML mapping here")
			return true
		case strings.ContainsRune("@`%", rune(value[0])):
			l.fail(pos, "quote the value", "a value cannot begin with %q", value[0])
			return true
		case !strings.ContainsRune("\"'|>[{&*!#", rune(value[0])) && strings.Contains(value, ": "):
			l.fail(pos, "quote text that contains `: `", "`: ` inside of an unquoted value")
			return true
		}
	}
	return false
}

// badEscape finds the backslash that double quotes give no meaning.
func (l *loader) badEscape(line int, msg string) bool {
	if !strings.Contains(msg, "unknown escape character") {
		return false
	}
	escape := regexp.MustCompile(`^(?:[^\\]|\\[0abt\tnvfre "/\\N_LPxuU])*(\\.)`)
	for _, n := range []int{line, line + 1, line - 1} {
		text := l.line(n)
		if m := escape.FindStringSubmatchIndex(text); m != nil {
			l.fail(Pos{n, utf8.RuneCountInString(text[:m[2]]) + 1}, `write \\ for a backslash, or use single quotes or a block: key: |`,
				"double quotes give %s no meaning", text[m[2]:m[3]])
			return true
		}
	}
	return false
}

// badAlias finds a `*` that begins a value and names no anchor: a glob, as a rule.
func (l *loader) badAlias(line int, msg string) bool {
	if !strings.Contains(msg, "did not find expected alphabetic or numeric character") {
		return false
	}
	star := regexp.MustCompile(`(?:[:,\[{-]\s+|[\[{])(\*[^\s,}\]]*)`)
	for _, n := range []int{line, line + 1, line - 1} {
		text := l.line(n)
		if m := star.FindStringSubmatchIndex(text); m != nil {
			value := text[m[2]:m[3]]
			l.fail(Pos{n, utf8.RuneCountInString(text[:m[2]]) + 1}, "quote it: \""+value+"\"", "an unquoted `*` at the start of a value is an alias of YAML")
			return true
		}
	}
	return false
}

// flowTemplate finds an unquoted template that ends the value of a flow mapping.
func (l *loader) flowTemplate(line int) bool {
	value := regexp.MustCompile(`[{,]\s*[\w-]+:\s+[^\s"'{}\[\],][^"'{}\[\],]*(\{\{)`)
	for _, n := range []int{line, line + 1, line - 1} {
		text := l.line(n)
		if m := value.FindStringSubmatchIndex(text); m != nil {
			l.fail(Pos{n, utf8.RuneCountInString(text[:m[2]]) + 1}, "quote the whole value: \"… {{ … }} …\"", "`{{` ends an unquoted value within { }")
			return true
		}
	}
	return false
}

// badStart finds the character that no unquoted value can begin with.
func (l *loader) badStart(line int, msg string) bool {
	if !strings.Contains(msg, "cannot start any token") {
		return false
	}
	for _, n := range []int{line, line + 1, line - 1} {
		text := l.line(n)
		if m := regexp.MustCompile("[:,\\[{-]\\s*([@`%])").FindStringSubmatchIndex(text); m != nil {
			l.fail(Pos{n, utf8.RuneCountInString(text[:m[2]]) + 1}, "quote the value", "a value cannot begin with %q", text[m[2]])
			return true
		}
	}
	return false
}

// badIndent finds the first line that goes back to a column where nothing began.
func (l *loader) badIndent() bool {
	levels := []int{0}
	block := -1 // the indentation of the key whose block is being passed
	first := 0  // that of the block's first line
	for n := 1; n <= len(l.lines); n++ {
		text := l.line(n)
		trimmed, indent := strings.TrimSpace(text), indentOf(text)
		switch inside := block >= 0 && indent > block; {
		case inside && trimmed != "" && indent < first:
			l.fail(Pos{n, indent + 1}, "align it with the first line of the block", "this line is indented by %d spaces, the block that it stands in by %d", indent, first)
			return true
		case inside && trimmed != "" && first == 0:
			first = indent
			continue
		case inside, trimmed == "", trimmed[0] == '#':
			continue
		}
		for len(levels) > 1 && indent < levels[len(levels)-1] {
			levels = levels[:len(levels)-1]
		}
		if indent != levels[len(levels)-1] && l.dedented(n, indent) {
			l.fail(Pos{n, indent + 1}, "align it with a line above", "this line is indented by %d spaces, like no line that it could continue", indent)
			return true
		}
		if indent > levels[len(levels)-1] {
			levels = append(levels, indent)
		}
		if block = -1; regexp.MustCompile(`[:-]\s+[|>][+-]?\d?$`).MatchString(trimmed) {
			block, first = indent, 0
		}
	}
	return false
}

// dedented reports whether line n is indented less than the last one with text.
func (l *loader) dedented(n, indent int) bool {
	for n--; n > 0; n-- {
		if text := l.line(n); strings.TrimSpace(text) != "" {
			return indentOf(text) > indent
		}
	}
	return false
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
