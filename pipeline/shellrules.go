package pipeline

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// interpreters run the text of an argument or of standard input as a program.
func interpreters() []string {
	return []string{
		"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox", "pwsh",
		"python", "python2", "python3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh", "osascript", "Rscript",
	}
}

// rereaders read their arguments again as commands, programs or names of variables,
// whatever their options.
func rereaders() []string {
	return []string{
		"eval", ".", "source", "trap", "alias", "unset", "unalias", "read", "let", "declare", "typeset", "getopts", "mapfile", "readarray",
		"compgen", "complete", "bind", "enable", "fc", "hash", "set", "shift", "ulimit", "umask", "function", "wait",
		"ssh", "rsh", "su", "xargs", "parallel", "watch", "at", "batch", "crontab", "script", "expect", "screen", "tmux", "flock", "strace",
		"awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "yq", "make", "gmake", "psql", "mysql", "sqlite3", "bc", "dc", "m4", "gdb", "ed", "ex", "vi", "vim", "emacs",
	}
}

// wrappers run the command that follows them.
func wrappers() []string {
	return []string{
		"command", "builtin", "exec", "env", "nohup", "nice", "ionice", "setsid", "timeout", "stdbuf", "sudo", "doas", "chroot", "time", "unshare", "nsenter", "systemd-run", "runuser", "setpriv",
	}
}

// printers take any text as an argument and have no way to run it. `[[` is one
// only to a POSIX shell, which knows no such command.
func printers() []string {
	return []string{"echo", "printf", "test", "[", "[[", "true", "false", ":"}
}

// commandName is the name of a command without its directory; "" when the script
// itself computes it.
func commandName(w *syntax.Word) string {
	last := w.Parts[len(w.Parts)-1]
	text := ""
	switch x := last.(type) {
	case *syntax.Lit:
		text = strings.ReplaceAll(x.Value, `\`, "")
	case *syntax.SglQuoted:
		text = x.Value
	case *syntax.DblQuoted:
		if len(x.Parts) > 0 {
			if lit, ok := x.Parts[len(x.Parts)-1].(*syntax.Lit); ok {
				text = lit.Value
				if len(x.Parts) > 1 && !strings.Contains(text, "/") {
					return ""
				}
			}
		}
	}
	if len(w.Parts) > 1 && !strings.Contains(text, "/") {
		return ""
	}
	return path.Base(text)
}

// plainWord is the text of a word without expansions, or "".
func plainWord(w *syntax.Word) string {
	if len(w.Parts) != 1 {
		return ""
	}
	switch x := w.Parts[0].(type) {
	case *syntax.Lit:
		return x.Value
	case *syntax.SglQuoted:
		return x.Value
	case *syntax.DblQuoted:
		if len(x.Parts) == 1 {
			if lit, ok := x.Parts[0].(*syntax.Lit); ok {
				return lit.Value
			}
		}
	}
	return ""
}

// callProblem says why a value may not stand in child, a word or an assignment of a
// command, or "".
func callProblem(c *syntax.CallExpr, child syntax.Node) string {
	at := slices.IndexFunc(c.Args, func(w *syntax.Word) bool { return syntax.Node(w) == child })
	if at < 0 {
		return "" // an assignment before the command
	}
	if at == 0 {
		return "a value cannot be the name of a command"
	}
	name := commandName(c.Args[0])
	switch {
	case name == "" || name == "/":
		return "a value cannot go to a command that the script computes"
	case slices.Contains(rereaders(), name):
		return "a value cannot go to `" + name + "`: it reads its arguments again as commands or names"
	case name == "printf":
		return printfProblem(c, at)
	case name == "test" || name == "[":
		return bracketProblem(c)
	case slices.Contains(printers(), name):
		return ""
	case slices.Contains(wrappers(), name):
		return wrapperProblem(c, at, name)
	}
	return argumentProblem(c, at, name)
}

// printfProblem refuses a value as format (`-v` among it is a variable's name, and
// bash evaluates its index) or behind an option.
func printfProblem(c *syntax.CallExpr, at int) string {
	first := plainWord(c.Args[1])
	if first == "--" && len(c.Args) > 2 && at > 2 {
		return ""
	}
	if at == 1 || strings.HasPrefix(first, "-") {
		return "a value cannot be the format of printf; write printf '%s\\n' {{ … }}"
	}
	return ""
}

func bracketProblem(c *syntax.CallExpr) string {
	for _, w := range c.Args[1:] {
		if s := plainWord(w); s == "-v" || s == "-R" || s == "-o" || s == "-a" {
			return "a value cannot stand in a test with `" + s + "`"
		}
	}
	return ""
}

// wrapperProblem finds the command behind a wrapper. Options of wrappers may take
// values of their own, so with options it is not told.
func wrapperProblem(c *syntax.CallExpr, at int, name string) string {
	i := 1
	if name == "timeout" || name == "chroot" {
		i = 2
	}
	for ; i < len(c.Args); i++ {
		if s := plainWord(c.Args[i]); name != "env" && name != "sudo" || !strings.Contains(s, "=") {
			break
		}
	}
	for _, w := range c.Args[1:min(i+1, len(c.Args))] {
		if strings.HasPrefix(plainWord(w), "-") {
			return "a value cannot go to a command behind `" + name + "` with options"
		}
	}
	if at <= i {
		return "a value cannot be the name of a command, or stand before it"
	}
	return callProblem(&syntax.CallExpr{Args: c.Args[i:]}, c.Args[at])
}

// argumentProblem looks for what makes an argument of any command a program: an
// interpreter among the words before it, or an option that takes a command.
func argumentProblem(c *syntax.CallExpr, at int, name string) string {
	for i, w := range c.Args[:at] {
		if slices.Contains(interpreters(), commandName(w)) {
			if why := interpreterProblem(c.Args[i:], at-i); why != "" {
				return why
			}
		}
	}
	for _, w := range c.Args[1:] {
		if s := plainWord(w); (name == "find" || name == "fd") && slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}, s) {
			return "a value cannot go to `" + name + "` with `" + s + "`"
		}
	}
	if name == "git" && gitRuns(c.Args[1:at]) {
		return "a value cannot go to git here: it may name a command to run"
	}
	return commandOption(c.Args[at-1], c.Args[at])
}

// interpreterProblem: behind the name of a script file values are its arguments;
// anywhere else they may be the program.
func interpreterProblem(args []*syntax.Word, at int) string {
	script := 1
	if plainWord(args[script]) == "-m" && strings.HasPrefix(commandName(args[0]), "python") {
		script = 2
	}
	if s := plainWord(args[min(script, len(args)-1)]); at > script && s != "" && s[0] != '-' {
		return ""
	}
	return "a value cannot go to `" + commandName(args[0]) + "` as a program"
}

func gitRuns(args []*syntax.Word) bool {
	return slices.ContainsFunc(args, func(w *syntax.Word) bool {
		return slices.Contains([]string{"-c", "config", "bisect", "submodule", "filter-branch", "--exec", "-x", "--config-env", "difftool", "mergetool", "alias"}, plainWord(w))
	})
}

// commandOption refuses `--exec VALUE`, `--exec=VALUE` and their like.
func commandOption(before, w *syntax.Word) string {
	text := ""
	if lit, ok := w.Parts[0].(*syntax.Lit); ok {
		text = lit.Value
	}
	for _, o := range []string{
		"--exec", "--command", "--eval", "--upload-pack", "--receive-pack", "--checkpoint-action", "--to-command", "--rsh",
		"--use-compress-program", "--rsync-path", "--pager", "--editor", "--init-file", "--rcfile", "-exec", "-toolexec",
	} {
		if plainWord(before) == o || strings.HasPrefix(text, o+"=") {
			return "a value cannot follow `" + o + "`: it is a command"
		}
	}
	if s := plainWord(before); s == "-c" || s == "-e" || s == "--expr" {
		return "a value cannot follow `" + s + "`: it may be a program"
	}
	return ""
}

func declProblem(d *syntax.DeclClause) string {
	name := d.Variant.Value
	if name != "export" && name != "readonly" && name != "local" {
		return "a value cannot go to `" + name + "`"
	}
	for _, a := range d.Args {
		if a.Name == nil {
			return "a value cannot go to `" + name + "` with options"
		}
	}
	return ""
}

// evaluates reports whether a script declares a variable as an integer or as a
// reference: assigning to one evaluates the text, and `a[$(id)]` runs a command.
func evaluates(file *syntax.File) bool {
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		d, ok := n.(*syntax.DeclClause)
		if !ok {
			return true
		}
		for _, a := range d.Args {
			option := a.Name == nil && a.Value != nil
			found = found || option && strings.ContainsAny(plainWord(a.Value), "in$")
			found = found || option && plainWord(a.Value) == ""
		}
		return true
	})
	return found
}

// assignProblem allows a value as the text of a variable, unless the variable makes
// the shell or a loader run something.
func assignProblem(a *syntax.Assign, child syntax.Node) string {
	inValue := a.Value != nil && child == syntax.Node(a.Value)
	inArray := a.Array != nil && child == syntax.Node(a.Array)
	switch {
	case a.Name == nil || a.Index != nil || !inValue && !inArray:
		return "a value cannot be the name or index of a variable"
	case powerful(a.Name.Value):
		return "a value cannot be assigned to " + a.Name.Value
	}
	return ""
}

// powerful reports whether the text of a variable names what is run.
func powerful(name string) bool {
	for _, prefix := range []string{"LD_", "DYLD_", "BASH_", "GIT_", "PYTHON", "PERL", "NODE_", "RUBY"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"PATH", "IFS", "ENV", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "SHELL", "EDITOR", "VISUAL", "PAGER", "SHELLOPTS", "BASHOPTS", "FPATH", "CDPATH", "RANDOM", "SRANDOM", "SECONDS", "HISTCMD", "OPTIND", "LINENO", "EPOCHSECONDS",
	}, name)
}

func redirectProblem(r *syntax.Redirect, child, parent syntax.Node) string {
	if r.Hdoc == nil || child != syntax.Node(r.Hdoc) {
		switch {
		case child != syntax.Node(r.Word), r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc, r.Op == syntax.DplIn, r.Op == syntax.DplOut:
			return "a value cannot stand here"
		}
	} else if delimiterQuoted(r.Word) {
		return "a value cannot stand in a here-document with a quoted end: nothing is replaced there"
	}
	if st, ok := parent.(*syntax.Stmt); ok && r.Op != syntax.RdrOut && r.Op != syntax.AppOut && readsProgram(&syntax.Stmt{Cmd: st.Cmd}) {
		return "a value cannot be the input of a command that runs what it reads"
	}
	return ""
}

func delimiterQuoted(w *syntax.Word) bool {
	lit, ok := w.Parts[0].(*syntax.Lit)
	return len(w.Parts) != 1 || !ok || strings.Contains(lit.Value, `\`)
}

// readsProgram reports whether a command, or one inside of it, runs its standard
// input, or may.
func readsProgram(st *syntax.Stmt) bool {
	found := false
	if st.Cmd == nil {
		return false
	}
	syntax.Walk(st, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			found = found || runsInput(c.Args)
		}
		return true
	})
	return found
}

// dataReaders are rereaders whose standard input is data, and not a program.
func dataReaders() []string {
	return []string{"read", "mapfile", "readarray", "awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "yq", "set", "shift", "wait", "unset", "trap", "declare", "typeset", "let", "alias"}
}

func runsInput(args []*syntax.Word) bool {
	for i, w := range args {
		name := commandName(w)
		if i == 0 && (name == "" || slices.Contains(rereaders(), name) && !slices.Contains(dataReaders(), name)) {
			return true
		}
		if i > 0 && slices.Contains([]string{"eval", "source", "ssh", "xargs", "parallel"}, name) {
			return true
		}
		if slices.Contains(interpreters(), name) && stdinIsProgram(args[i:]) {
			return true
		}
	}
	return false
}

// stdinIsProgram: an interpreter reads its program from standard input unless it is
// given a file, or a program by -c, -e or -m.
func stdinIsProgram(args []*syntax.Word) bool {
	if len(args) == 1 {
		return true
	}
	first := plainWord(args[1])
	return first == "" || first == "-" || first[0] == '-' && !slices.Contains([]string{"-c", "-e", "-m", "--eval"}, first)
}

// testProblem allows comparisons of texts in [[ ]]; those of numbers are arithmetic.
func testProblem(t *syntax.BinaryTest) string {
	switch t.Op {
	case syntax.TsMatchShort, syntax.TsMatch, syntax.TsNoMatch, syntax.AndTest, syntax.OrTest, syntax.TsBefore, syntax.TsAfter:
		return ""
	}
	return "a value cannot stand beside `" + t.Op.String() + "` in [[ ]]: it is arithmetic or a pattern"
}

func unaryProblem(t *syntax.UnaryTest) string {
	switch t.Op {
	case syntax.TsEmpStr, syntax.TsNempStr, syntax.TsExists, syntax.TsRegFile, syntax.TsDirect, syntax.TsNot:
		return ""
	}
	return "a value cannot stand behind `" + t.Op.String() + "` in [[ ]]"
}

// takesOptions reports whether word w of a call may be read as an option: no `--`
// stands before it, and the command is not one that prints.
func takesOptions(c *syntax.CallExpr, w *syntax.Word) bool {
	if slices.Contains(printers(), commandName(c.Args[0])) {
		return false
	}
	for _, a := range c.Args {
		if a == w {
			return true
		}
		if plainWord(a) == "--" {
			return false
		}
	}
	return true
}
