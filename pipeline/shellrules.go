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
// command.
func callProblem(c *syntax.CallExpr, child syntax.Node) refusal {
	at := slices.IndexFunc(c.Args, func(w *syntax.Word) bool { return syntax.Node(w) == child })
	if at < 0 {
		return refusal{} // an assignment before the command
	}
	if at == 0 {
		return refusal{"a value cannot be the name of a command", hintCase}
	}
	name := commandName(c.Args[0])
	switch {
	case name == "" || name == "/":
		return refusal{"a value cannot go to a command that the script computes", hintName}
	case slices.Contains(rereaders(), name):
		return refusal{"a value cannot go to `" + name + "`: it reads its arguments again as commands or names", rereaderHint(name)}
	case name == "printf":
		return printfProblem(c, at)
	case name == "test" || name == "[":
		return bracketProblem(c)
	case slices.Contains(printers(), name):
		return refusal{}
	case slices.Contains(wrappers(), name):
		return wrapperProblem(c, at, name)
	}
	return argumentProblem(c, at, name)
}

// printfProblem refuses a value as format (`-v` among it is a variable's name, and
// bash evaluates its index) or behind an option.
func printfProblem(c *syntax.CallExpr, at int) refusal {
	first := plainWord(c.Args[1])
	if first == "--" && len(c.Args) > 2 && at > 2 {
		return refusal{}
	}
	if at == 1 || strings.HasPrefix(first, "-") {
		return refusal{"a value cannot be the format of printf", hintPrintf}
	}
	return refusal{}
}

func bracketProblem(c *syntax.CallExpr) refusal {
	for _, w := range c.Args[1:] {
		if s := plainWord(w); s == "-v" || s == "-R" || s == "-o" || s == "-a" {
			return refusal{"a value cannot stand in a test with `" + s + "`", hintTest}
		}
	}
	return refusal{}
}

// wrapperProblem finds the command behind a wrapper. Options of wrappers may take
// values of their own, so with options it is not told.
func wrapperProblem(c *syntax.CallExpr, at int, name string) refusal {
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
			return refusal{"a value cannot go to a command behind `" + name + "` with options", hintEnv}
		}
	}
	if at <= i {
		return refusal{"a value cannot be the name of a command, or stand before it", hintCase}
	}
	return callProblem(&syntax.CallExpr{Args: c.Args[i:]}, c.Args[at])
}

// argumentProblem looks for what makes an argument of any command a program: an
// interpreter among the words before it, or an option that takes a command.
func argumentProblem(c *syntax.CallExpr, at int, name string) refusal {
	for i, w := range c.Args[:at] {
		if slices.Contains(interpreters(), commandName(w)) {
			if r := interpreterProblem(c.Args[i:], at-i); r != (refusal{}) {
				return r
			}
		}
	}
	for _, w := range c.Args[1:] {
		if s := plainWord(w); (name == "find" || name == "fd") && slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}, s) {
			return refusal{"a value cannot go to `" + name + "` with `" + s + "`", hintProgram}
		}
	}
	if name == "git" && gitRuns(c.Args[1:at]) {
		return refusal{"a value cannot go to git here: it may name a command to run", hintCase}
	}
	return commandOption(c.Args[at-1], c.Args[at])
}

// interpreterProblem: behind the name of a script file values are its arguments;
// anywhere else they may be the program.
func interpreterProblem(args []*syntax.Word, at int) refusal {
	script := 1
	if plainWord(args[script]) == "-m" && strings.HasPrefix(commandName(args[0]), "python") {
		script = 2
	}
	if s := plainWord(args[min(script, len(args)-1)]); at > script && s != "" && s[0] != '-' {
		return refusal{}
	}
	return refusal{"a value cannot go to `" + commandName(args[0]) + "` as a program", hintProgram}
}

func gitRuns(args []*syntax.Word) bool {
	return slices.ContainsFunc(args, func(w *syntax.Word) bool {
		return slices.Contains([]string{"-c", "config", "bisect", "submodule", "filter-branch", "--exec", "-x", "--config-env", "difftool", "mergetool", "alias"}, plainWord(w))
	})
}

// commandOption refuses `--exec VALUE`, `--exec=VALUE` and their like.
func commandOption(before, w *syntax.Word) refusal {
	text := ""
	if lit, ok := w.Parts[0].(*syntax.Lit); ok {
		text = lit.Value
	}
	for _, o := range []string{
		"--exec", "--command", "--eval", "--upload-pack", "--receive-pack", "--checkpoint-action", "--to-command", "--rsh",
		"--use-compress-program", "--rsync-path", "--pager", "--editor", "--init-file", "--rcfile", "-exec", "-toolexec",
	} {
		if plainWord(before) == o || strings.HasPrefix(text, o+"=") {
			return refusal{"a value cannot follow `" + o + "`: it is a command", hintCase}
		}
	}
	if s := plainWord(before); s == "-c" || s == "-e" || s == "--expr" {
		return refusal{"a value cannot follow `" + s + "`: it may be a program", hintProgram}
	}
	return refusal{}
}

func declProblem(d *syntax.DeclClause) refusal {
	name := d.Variant.Value
	if name != "export" && name != "readonly" && name != "local" {
		return refusal{"a value cannot go to `" + name + "`", hintAssign}
	}
	for _, a := range d.Args {
		if a.Name == nil {
			return refusal{"a value cannot go to `" + name + "` with options", hintAssign}
		}
	}
	return refusal{}
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
func assignProblem(a *syntax.Assign, child syntax.Node) refusal {
	inValue := a.Value != nil && child == syntax.Node(a.Value)
	inArray := a.Array != nil && child == syntax.Node(a.Array)
	switch {
	case a.Name == nil || a.Index != nil || !inValue && !inArray:
		return refusal{"a value cannot be the name or index of a variable", hintCase}
	case powerful(a.Name.Value):
		return refusal{"a value cannot be assigned to " + a.Name.Value, hintCase}
	}
	return refusal{}
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

func redirectProblem(r *syntax.Redirect, child, parent syntax.Node) refusal {
	if r.Hdoc == nil || child != syntax.Node(r.Hdoc) {
		switch {
		case child != syntax.Node(r.Word), r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc, r.Op == syntax.DplIn, r.Op == syntax.DplOut:
			return refusal{"a value cannot stand here", hintFixed}
		}
	} else if delimiterQuoted(r.Word) {
		return refusal{"a value cannot stand in a here-document with a quoted end: nothing is replaced there", hintHeredoc}
	}
	if st, ok := parent.(*syntax.Stmt); ok && r.Op != syntax.RdrOut && r.Op != syntax.AppOut && readsProgram(&syntax.Stmt{Cmd: st.Cmd}) {
		return refusal{"a value cannot be the input of a command that runs what it reads", hintProgram}
	}
	return refusal{}
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
func testProblem(t *syntax.BinaryTest) refusal {
	switch t.Op {
	case syntax.TsMatchShort, syntax.TsMatch, syntax.TsNoMatch, syntax.AndTest, syntax.OrTest, syntax.TsBefore, syntax.TsAfter:
		return refusal{}
	}
	return refusal{"a value cannot stand beside `" + t.Op.String() + "` in [[ ]]: it is arithmetic or a pattern", hintTest}
}

func unaryProblem(t *syntax.UnaryTest) refusal {
	switch t.Op {
	case syntax.TsEmpStr, syntax.TsNempStr, syntax.TsExists, syntax.TsRegFile, syntax.TsDirect, syntax.TsNot:
		return refusal{}
	}
	return refusal{"a value cannot stand behind `" + t.Op.String() + "` in [[ ]]", hintTest}
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
