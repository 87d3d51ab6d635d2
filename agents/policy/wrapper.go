package policy

import (
	"cmp"
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
	unclear                        // so too, although it is a program whose other uses are understood
)

// A wrapped is what a command runs: other commands or a script.
type wrapped struct {
	kind   wrapperKind
	inner  []command
	script *string
}

// unwrap finds out what a command runs.
func unwrap(c command) wrapped {
	w := unwrapped(c)
	if w.kind == transparent && len(c.assigns) > 0 {
		w.kind = adding // PATH=… or BASH_ENV=… changes what runs
	}
	return w
}

func unwrapped(c command) wrapped {
	switch {
	case len(c.words) == 0:
		return wrapped{}
	case !c.words[0].static:
		return wrapped{kind: hidden}
	}
	switch c.name() {
	case "sh", "bash", "dash", "ash":
		return c.shell()
	case "su", "script":
		return c.session()
	case "eval":
		return c.joined(transparent, "", "")
	case "trap":
		return c.trap()
	case "watch":
		return c.joined(adding, "bcdegtpx", "nq")
	case "find":
		return c.find()
	}
	if w, ok := c.prefix(); ok {
		return w
	}
	if c.obscure() || c.runsOther() {
		return wrapped{kind: hidden}
	}
	return wrapped{}
}

// obscure reports whether c's program runs what its command line does not show in words
// that are understood here: other languages, other shells, other machines.
func (c command) obscure() bool {
	switch name := c.name(); name {
	case ".", "source", "alias", "zsh", "ksh", "mksh", "rbash", "fish", "csh", "tcsh", "pwsh", "busybox", "toybox",
		"ssh", "parallel", "chroot", "unshare", "nsenter", "tmux", "screen", "at", "batch", "crontab", "systemd-run", "runuser", "pkexec", "setpriv", "start-stop-daemon", "run-parts",
		"strace", "ltrace", "gdb", "lldb", "perf", "valgrind", "chrt", "taskset", "numactl", "prlimit", "setarch", "fakeroot", "proot", "firejail", "bwrap", "unbuffer", "expect", "rlwrap", "hyperfine", "entr",
		"npx", "bunx", "uvx", "pipx", "vi", "vim", "nvim", "view", "ex", "ed", "emacs", "nano", "socat", "nc", "ncat":
		return true
	case "hash", "enable", "bind", "complete", "mapfile", "readarray":
		return len(c.words) > 1
	default:
		return strings.HasPrefix(name, "ld-") || strings.HasPrefix(name, "ld.so") || c.inline()
	}
}

// inline reports whether c is an interpreter that is given its program otherwise than by
// a file or a module.
func (c command) inline() bool {
	name := strings.TrimRight(c.name(), "0123456789.")
	if !slices.Contains([]string{"python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "php", "lua", "luajit", "tclsh", "Rscript", "osascript"}, name) {
		return false
	}
	for _, w := range c.arguments() {
		switch {
		case !w.static:
			return true
		case slices.Contains([]string{"-m", "--version", "-V", "--help", "--test"}, w.text), name == "deno" && (w.text == "test" || w.text == "lint" || w.text == "fmt"):
			return false
		case name == "python" && slices.Contains([]string{"-u", "-B", "-O", "-I", "-s"}, w.text):
		case strings.HasPrefix(w.text, "-") || name == "deno":
			return true
		default:
			return false
		}
	}
	return true
}

// A grammar says which options a program has that runs the rest of its command line.
type grammar struct {
	kind     wrapperKind
	flags    string   // letters of options alone
	values   string   // letters of options that take a value
	long     []string // long options alone; of others only --name=value is understood
	operands int      // words before the command
}

func grammarOf(program string) (g grammar, ok bool) {
	switch program {
	case "nohup", "builtin":
		return grammar{kind: transparent}, true
	case "setsid":
		return grammar{kind: transparent, flags: "cfw", long: []string{"ctty", "fork", "wait"}}, true
	case "time":
		return grammar{kind: transparent, flags: "pv", values: "f", long: []string{"portability", "verbose"}}, true
	case "exec":
		return grammar{kind: transparent, flags: "cl", values: "a"}, true
	case "command":
		return grammar{kind: transparent, flags: "p"}, true
	case "nice":
		return grammar{kind: transparent, flags: "0123456789", values: "n"}, true
	case "ionice":
		return grammar{kind: transparent, flags: "t", values: "cn"}, true
	case "stdbuf":
		return grammar{kind: transparent, values: "ioe"}, true
	case "timeout":
		return grammar{kind: transparent, flags: "fpv", values: "ks", long: []string{"foreground", "preserve-status", "verbose"}, operands: 1}, true
	case "flock":
		return grammar{kind: adding, flags: "sxeunoF", values: "wE", operands: 1}, true
	case "env":
		return grammar{kind: adding, flags: "i0v", values: "uC", long: []string{"ignore-environment", "null", "debug"}}, true
	case "xargs":
		return grammar{kind: adding, flags: "0rtpxo", values: "adEILnPs", long: []string{"null", "no-run-if-empty", "verbose", "exit"}}, true
	case "sudo", "doas":
		return grammar{kind: adding, flags: "AbEHiknPsS", values: "ugCDhprtTU", long: []string{"non-interactive", "preserve-env", "login"}}, true
	}
	return grammar{}, false
}

// prefix is for programs that run the rest of their own command line.
func (c command) prefix() (wrapped, bool) {
	g, ok := grammarOf(c.name())
	switch {
	case !ok:
		return wrapped{}, false
	case c.name() == "command" && strings.HasPrefix(c.argument(1), "-") && strings.ContainsAny(c.argument(1), "vV"):
		return wrapped{}, true // it says where a program is
	}
	rest, ok := g.command(c.arguments())
	switch {
	case !ok:
		return wrapped{kind: unclear}, true
	case len(rest) == 0:
		return wrapped{}, true
	}
	inner := command{words: slices.Clone(rest)}
	if c.name() == "xargs" {
		inner = c.withInput(inner)
	}
	return wrapped{kind: g.kind, inner: []command{inner}}, true
}

// withInput is the command that an xargs runs, with what it reads: at the end, or in the
// place of what -I says.
func (c command) withInput(inner command) command {
	place := ""
	for i, w := range c.words[:len(c.words)-len(inner.words)] {
		if value, ok := strings.CutPrefix(w.text, "-I"); ok {
			place = cmp.Or(value, c.argument(i+1))
		}
	}
	if place == "" {
		inner.words = append(inner.words, word{text: "…", free: true})
		return inner
	}
	for i, w := range inner.words {
		if strings.Contains(w.text, place) {
			inner.words[i].static, inner.words[i].free = false, strings.HasPrefix(w.text, place)
		}
	}
	return inner
}

// command skips options, assignments and operands, and returns the rest. It is false
// where it does not understand one.
func (g grammar) command(words []word) ([]word, bool) {
	operands := g.operands
	for len(words) > 0 {
		n, ok := g.option(words)
		switch {
		case !ok:
			return nil, false
		case n == 0 && words[0].text == "--":
			return words[min(1+operands, len(words)):], true
		case n == 0 && g.kind == adding && isAssignment(words[0].text):
			n = 1
		case n == 0 && operands > 0:
			n = 1
			operands--
		case n == 0:
			return words, true
		}
		words = words[min(n, len(words)):]
	}
	return nil, true
}

// option is the number of words of the option that words begin with; 0: there is none.
func (g grammar) option(words []word) (n int, ok bool) {
	switch text := words[0].text; {
	case !words[0].static:
		return 0, false
	case !strings.HasPrefix(text, "-") || text == "--":
		return 0, true
	case text == "-":
		return 1, strings.Contains(g.flags, "i") // env -
	case strings.HasPrefix(text, "--"):
		name, _, valued := strings.Cut(text[2:], "=")
		return 1, valued && name != "split-string" && name != "replace" || slices.Contains(g.long, name)
	default:
		return g.letters(text[1:])
	}
}

// letters is option for letters that are joined: the first that takes a value takes what
// is behind it, or the next word.
func (g grammar) letters(text string) (n int, ok bool) {
	for i := range len(text) {
		switch {
		case strings.IndexByte(g.values, text[i]) >= 0 && i+1 == len(text):
			return 2, true
		case strings.IndexByte(g.values, text[i]) >= 0:
			return 1, true
		case strings.IndexByte(g.flags, text[i]) < 0:
			return 0, false
		}
	}
	return 1, true
}

func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/ -")
}

// shell is a shell that is given a script: as an argument, or else in a way that does
// not show it.
func (c command) shell() wrapped {
	script := false
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		switch {
		case !w.static:
			return wrapped{kind: hidden}
		case (w.text == "-o" || w.text == "+o") && slices.Contains([]string{"errexit", "nounset", "pipefail", "xtrace", "posix", "noglob"}, c.argument(i+1)):
			i++
		case len(w.text) > 1 && (w.text[0] == '-' || w.text[0] == '+') && strings.Trim(w.text[1:], "abcefhlmnuvx") == "":
			script = script || strings.Contains(w.text, "c")
		case script && !strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "+"):
			return c.scriptAt(i, transparent)
		default:
			return wrapped{kind: hidden}
		}
	}
	return wrapped{kind: hidden}
}

// session is a program that runs its option -c in a shell, as somebody or somewhere else.
func (c command) session() wrapped {
	for i, w := range c.arguments() {
		if w.static && (w.text == "--command" || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c")) {
			return c.scriptAt(i+2, adding)
		}
	}
	return wrapped{kind: hidden}
}

// trap runs a script later.
func (c command) trap() wrapped {
	i := 1
	if c.argument(1) == "--" {
		i = 2
	}
	if strings.HasPrefix(c.argument(i), "-") {
		return wrapped{} // it prints, or sets back
	}
	return c.scriptAt(i, adding)
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

// joined takes all arguments behind the options together for a script.
func (c command) joined(kind wrapperKind, flags, values string) wrapped {
	words, ok := grammar{flags: flags, values: values}.command(c.arguments())
	if !ok || slices.ContainsFunc(words, func(w word) bool { return !w.static }) {
		return wrapped{kind: unclear}
	}
	var parts []string
	for _, w := range words {
		parts = append(parts, w.text)
	}
	text := strings.Join(parts, " ")
	return wrapped{kind: kind, script: &text}
}

// find are the commands that find runs on each file.
func (c command) find() wrapped {
	var all []command
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
				inner[j].static, inner[j].free = false, strings.HasPrefix(w.text, "{}") && !c.searchesHere()
			}
		}
		if len(inner) > 0 {
			all = append(all, command{words: inner})
		}
	}
	if len(all) == 0 {
		return wrapped{}
	}
	return wrapped{kind: adding, inner: all}
}

// searchesHere reports whether what find finds begins with a directory that it names, and
// so is no option.
func (c command) searchesHere() bool {
	first := c.argument(1)
	return first != "" && !strings.HasPrefix(first, "-") && c.words[1].static
}
