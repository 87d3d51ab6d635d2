package policy

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"flow/agents"
)

// protectedNames are files and directories, wherever they lie, by which whoever writes
// them makes others run or obey something: hooks, workflows, settings and instructions.
func protectedNames() []string {
	return []string{
		".git", ".gitmodules", ".gitconfig", ".husky", ".pre-commit-config.yaml",
		".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci",
		".claude", "CLAUDE.md", "CLAUDE.local.md", ".mcp.json", ".codex", "AGENTS.md", "AGENTS.override.md", ".gemini", "GEMINI.md",
		".opencode", "opencode.json", "opencode.jsonc", ".qwen", "QWEN.md", ".goosehints", ".cursor", ".cursorrules", ".github/copilot-instructions.md",
		".flow.yaml", ".envrc", ".vscode", ".devcontainer", ".npmrc",
		".ssh", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv",
	}
}

// Protected are the paths that are protected in every policy, for people.
func Protected() []string { return protectedNames() }

// A protection is one protected path made ready to be compared: by its elements,
// wherever they stand in a path, or by a glob. All of it is folded.
type protection struct {
	text     string // as rules have to spell it
	elements []string
	glob     func(name string) bool
}

// protections are the built-in ones and those of globs, as rules have them: what one
// matches is protected with everything below it.
func protections(globs []string) []protection {
	var all []protection
	for _, name := range protectedNames() {
		name = fold(name)
		all = append(all, protection{text: name, elements: strings.Split(name, "/")})
	}
	for _, glob := range globs {
		glob = fold(strings.TrimSuffix(strings.TrimSuffix(glob, "/"), "/**"))
		itself, below := pathPattern(glob), pathPattern(glob+"/**")
		text := strings.TrimPrefix(strings.TrimPrefix(glob, "./"), "**/")
		above, _, _ := strings.Cut(text, "*")
		all = append(all, protection{text: text, glob: func(file string) bool {
			return itself(file) || below(file) || strings.HasPrefix(above, file+"/")
		}})
	}
	return all
}

// passes reports whether a path leads through elements, one after the other, or ends on
// the way to them: who replaces .github replaces .github/workflows. An element of the
// path may be a glob of the shell's.
func passes(file string, elements []string) bool {
	parts := strings.Split(file, "/")
	for i := range parts {
		n := min(len(parts)-i, len(elements))
		if slices.EqualFunc(parts[i:i+n], elements[:n], means) {
			return true
		}
	}
	return false
}

// means reports whether an element of a path, perhaps a glob, can be name. A star at the
// start of an element is never a dot.
func means(element, name string) bool {
	if element == name {
		return true
	}
	if !strings.ContainsAny(element, "*?[") || strings.HasPrefix(name, ".") && !strings.HasPrefix(element, ".") && !strings.HasPrefix(element, "[.") {
		return false
	}
	ok, err := path.Match(element, name)
	return ok && err == nil
}

// fold makes the spellings of one name the same that some file system takes for the
// same: letters of either case, and those that nobody sees.
func fold(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name))
}

// protected returns what protects a file, nil when nothing does. Where the workspace
// itself lies is no matter.
func (p *Policy) protected(file string) *protection {
	name, inside := p.resolve(file)
	full := name
	if inside {
		full = p.absolute(name)
	}
	name, full = fold(name), fold(full)
	for i, one := range p.protects {
		if one.glob == nil && passes(name, one.elements) || one.glob != nil && (one.glob(name) || one.glob(full)) {
			return &p.protects[i]
		}
	}
	return nil
}

// guarded turns a decision that lets a protected file be written into one that asks,
// unless a rule that allows it names it: a star does not.
func (p *Policy) guarded(d Decision, tool, file string) Decision {
	if !writes(tool) || d.Effect.weight() >= Ask.weight() {
		return d
	}
	found := p.protected(file)
	if found == nil || p.allowedByName(tool, file, found) {
		return d
	}
	return Decision{Effect: Ask, Why: tool + " " + file + ", which is protected"}
}

// allowedByName reports whether a rule allows to write a protected file and spells it.
func (p *Policy) allowedByName(tool, file string, found *protection) bool {
	return slices.ContainsFunc(p.rules, func(r rule) bool {
		return r.effect == Allow && r.match != nil && about(r, tool) && p.reaches(r, file) && names(r.Pattern, found)
	})
}

// names reports whether a pattern spells what is protected. One without a wildcard
// spells whatever it matches.
func names(pattern string, found *protection) bool {
	return !strings.ContainsAny(pattern, "*?[") || strings.Contains(fold(pattern), found.text)
}

// touches returns a word of a command that names something protected which the command
// may write, "" when there is none.
func (p *Policy) touches(c command, allowed func(*protection) bool) string {
	if setsGit(c) && !allowed(&protection{text: "config"}) {
		return ".git/config"
	}
	if onlyReads(c) {
		return ""
	}
	for _, w := range c.arguments() {
		files := filesIn(w.text)
		if c.program("") || c.inline() {
			files = append(files, strings.FieldsFunc(w.text, func(r rune) bool { return strings.ContainsRune(" \t\n;,()|&<>\"'`", r) })...)
		}
		for _, file := range files {
			found := p.protected(file)
			if found != nil && !allowed(found) && !p.allowedByName(string(agents.ToolWriteFile), file, found) {
				return file
			}
		}
	}
	return ""
}

// filesIn are the paths that a word of a command may name: all of it, and what follows
// an option's name or an equals sign.
func filesIn(text string) []string {
	text = strings.Trim(text, `"'`)
	files := []string{text}
	if _, value, ok := strings.Cut(text, "="); ok {
		files = append(files, strings.Trim(value, `"'`))
	}
	if strings.HasPrefix(text, "-") && len(text) > 2 {
		files = append(files, text[2:])
	}
	return files
}

// onlyReads reports whether a command's program writes to no file that is named in its
// arguments, as it stands there. (uniq and xxd do: to their second one.)
func onlyReads(c command) bool {
	switch c.name() {
	case "cat", "head", "tail", "nl", "tac", "od", "hexdump", "strings", "wc", "cut", "tr", "column", "comm", "join", "paste",
		"ls", "dir", "file", "stat", "du", "df", "readlink", "realpath", "basename", "dirname", "pwd", "which", "type",
		"grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp", "man", "whatis", "md5sum", "sha1sum", "sha256sum", "jq", "echo", "printf", "test", "[":
		return !c.escapes("")
	case "find", "sort", "sed":
		return !c.escapes("")
	case "git":
		return slices.Contains([]string{
			"", "status", "diff", "log", "show", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "rev-list", "cat-file", "describe", "shortlog", "add", "commit", "config", "check-ignore", "hash-object",
		}, c.subcommand()) && !c.escapes("")
	}
	return false
}

// setsGit reports whether a command changes the settings of git.
func setsGit(c command) bool {
	if c.name() != "git" || c.subcommand() != "config" {
		return false
	}
	asks := func(w word) bool {
		return slices.Contains([]string{"get", "list", "-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch"}, w.text)
	}
	return !slices.ContainsFunc(c.words, asks)
}

// subcommand is the first word after a program's options: "" when there is none, "?" when
// it is not known.
func (c command) subcommand() string {
	for i := 1; i < len(c.words); i++ {
		switch w := c.words[i]; {
		case w.text == "-C" || w.text == "-c":
			i++
		case strings.HasPrefix(w.text, "-"):
		case w.static:
			return w.text
		default:
			return "?"
		}
	}
	return ""
}
