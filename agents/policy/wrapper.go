package policy

import (
	"slices"
	"strings"
)

// A wrapperKind says how a command relates to what it runs.
type wrapperKind int

const (
	plain       wrapperKind = iota // it runs nothing
	transparent                    // what it runs decides
	adding                         // both have to pass: it adds something (rights, arguments)
	hidden                         // what it runs cannot be told
)

// A wrapped is what a command runs: another command or a script.
type wrapped struct {
	kind   wrapperKind
	inner  command
	script *string
}

// unwrap finds out what a command runs.
func unwrap(c command) wrapped {
	if len(c.words) == 0 {
		return wrapped{}
	}
	if !c.words[0].static {
		return wrapped{kind: hidden}
	}
	switch c.name() {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "su", "script":
		return c.shell()
	case "eval":
		return c.joined(transparent)
	case "trap":
		return c.scriptAt(1, adding)
	case "watch":
		return c.joined(adding)
	case ".", "source", "ssh", "parallel", "busybox", "chroot", "unshare", "nsenter", "tmux", "screen", "at", "crontab":
		return wrapped{kind: hidden}
	case "find":
		return c.find()
	}
	return c.prefix()
}

// prefix is for programs that run the rest of their own command line.
func (c command) prefix() wrapped {
	kind, values, operands := transparent, "", 0 // options that take a value, and words before the command
	switch c.name() {
	case "nohup", "setsid", "builtin", "time":
	case "exec":
		values = "a"
	case "command":
		if strings.HasPrefix(c.argument(1), "-") && strings.ContainsAny(c.argument(1), "vV") {
			return wrapped{}
		}
	case "nice":
		values = "n"
	case "ionice":
		values = "cnpPu"
	case "stdbuf":
		values = "ioe"
	case "timeout":
		values, operands = "ks", 1
	case "flock":
		kind, values, operands = adding, "wEc", 1
	case "env":
		kind, values = adding, "uCS"
	case "xargs":
		kind, values = adding, "aEeIiLlnPsd"
	case "sudo", "doas":
		kind, values = adding, "ugCDhprtTU"
	default:
		return wrapped{}
	}
	return c.after(kind, values, operands)
}

// after skips options, assignments and operands. What then remains is the inner command.
func (c command) after(kind wrapperKind, values string, operands int) wrapped {
	rest := c.words[1:]
	for len(rest) > 0 {
		w := rest[0]
		switch {
		case !w.static:
			return wrapped{kind: hidden}
		case w.text == "-S" || strings.HasPrefix(w.text, "--split-string"), w.text == "-c" && c.name() == "flock":
			return wrapped{kind: hidden}
		case w.text == "--":
			rest = rest[1:]
			return wrapped{kind: kind, inner: command{words: rest[min(operands, len(rest)):]}}
		case len(w.text) == 2 && w.text[0] == '-' && strings.Contains(values, w.text[1:]):
			rest = rest[min(2, len(rest)):]
		case strings.HasPrefix(w.text, "-") && len(w.text) > 1, kind == adding && isAssignment(w.text):
			rest = rest[1:]
		case operands > 0:
			operands--
			rest = rest[1:]
		default:
			inner := command{words: slices.Clone(rest)}
			if c.name() == "xargs" {
				inner.words = append(inner.words, word{"…", false})
			}
			return wrapped{kind: kind, inner: inner}
		}
	}
	return wrapped{}
}

func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/ -")
}

// shell is a shell that is given a script: as an argument, or else in a way that does
// not show it.
func (c command) shell() wrapped {
	for i, w := range c.words[1:] {
		switch {
		case !w.static:
			return wrapped{kind: hidden}
		case strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c"):
			return c.scriptAt(i+2, transparent)
		}
	}
	return wrapped{kind: hidden}
}

// scriptAt takes the i-th word for a script.
func (c command) scriptAt(i int, kind wrapperKind) wrapped {
	switch {
	case i >= len(c.words):
		return wrapped{}
	case !c.words[i].static:
		return wrapped{kind: hidden}
	}
	return wrapped{kind: kind, script: &c.words[i].text}
}

// joined takes all arguments together for a script.
func (c command) joined(kind wrapperKind) wrapped {
	if !c.static() {
		return wrapped{kind: hidden}
	}
	var parts []string
	for _, w := range c.words[1:] {
		parts = append(parts, w.text)
	}
	text := strings.Join(parts, " ")
	return wrapped{kind: kind, script: &text}
}

// find is the command that find runs on each file.
func (c command) find() wrapped {
	for i, w := range c.words {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, w.text) {
			continue
		}
		inner := slices.Clone(c.words[i+1:])
		if end := slices.IndexFunc(inner, func(w word) bool { return w.text == ";" || w.text == "+" }); end >= 0 {
			inner = inner[:end]
		}
		for j, w := range inner {
			if strings.Contains(w.text, "{}") {
				inner[j].static = false
			}
		}
		if len(inner) > 0 {
			return wrapped{kind: adding, inner: command{words: inner}}
		}
	}
	return wrapped{}
}
