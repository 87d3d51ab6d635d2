package policy

import (
	"regexp"
	"slices"
	"strings"
)

// A danger is what a program's options can do that people who allow the program do not
// have in mind.
type danger struct {
	long bool     // one dash begins a whole word, as -exec, not letters that may be joined
	runs []string // options by which it runs what they name; without dashes
	more []string // options by which it writes a file or turns to other instructions
}

// dangerOf is the danger of a program; its zero value is that of one nobody knows.
func dangerOf(program string) danger {
	switch program {
	case "git":
		return danger{
			runs: []string{"c", "exec-path", "upload-pack", "receive-pack", "exec", "ext-diff", "textconv", "config-env", "extcmd", "open-files-in-pager", "template"},
			more: []string{"output", "output-directory", "C", "git-dir", "work-tree"},
		}
	case "go":
		return danger{
			long: true, runs: []string{"exec", "toolexec", "vettool", "overlay"},
			more: []string{"o", "modfile", "ldflags", "gcflags", "asmflags", "gccgoflags", "compiler", "C", "coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "outputdir"},
		}
	case "find":
		return danger{long: true, runs: []string{"exec", "execdir", "ok", "okdir"}, more: []string{"delete", "fprint", "fprint0", "fprintf", "fls"}}
	case "make", "gmake":
		return danger{runs: []string{"eval", "E"}, more: []string{"f", "file", "makefile", "C", "directory", "I", "include-dir"}}
	case "npm", "pnpm", "yarn":
		return danger{runs: []string{"script-shell", "node-options", "userconfig", "globalconfig"}, more: []string{"prefix", "dir", "cwd", "C"}}
	case "cargo":
		return danger{runs: []string{"config", "Z"}, more: []string{"manifest-path", "target-dir", "C"}}
	case "curl":
		return danger{more: []string{
			"o", "O", "output", "remote-name", "remote-name-all", "output-dir", "D", "dump-header", "c", "cookie-jar", "trace", "trace-ascii", "stderr", "libcurl", "K", "config",
			"T", "upload-file", "d", "data", "data-ascii", "data-binary", "data-raw", "data-urlencode", "json", "F", "form", "form-string",
		}}
	case "wget":
		return danger{runs: []string{"use-askpass", "e", "execute"}, more: []string{"O", "output-document", "P", "directory-prefix", "o", "output-file", "a", "append-output", "post-file", "post-data", "body-file"}}
	default:
		return dangerOfTool(program)
	}
}

func dangerOfTool(program string) danger {
	switch program {
	case "tar":
		return danger{runs: []string{"to-command", "checkpoint-action", "use-compress-program", "I", "F", "info-script", "new-volume-script", "rsh-command", "rmt-command"}}
	case "zip":
		return danger{runs: []string{"TT", "unzip-command"}}
	case "rg":
		return danger{runs: []string{"pre", "hostname-bin"}}
	case "sort":
		return danger{runs: []string{"compress-program"}, more: []string{"o", "output", "T", "temporary-directory"}}
	case "sed", "gsed":
		return danger{more: []string{"i", "in-place", "f", "file"}}
	case "awk", "gawk", "mawk", "nawk":
		return danger{runs: []string{"f", "file", "E", "exec", "i", "include", "l", "load", "e", "source"}}
	case "ssh", "scp", "rsync":
		return danger{runs: []string{"o", "e", "rsh", "F", "S", "rsync-path"}}
	case "man":
		return danger{runs: []string{"P", "pager", "H", "html"}}
	case "gcc", "cc", "g++", "c++", "clang", "clang++":
		return danger{long: true, runs: []string{"wrapper", "specs", "fplugin", "B", "Xclang"}, more: []string{"o"}}
	case "pytest":
		return danger{runs: []string{"p", "c", "rootdir", "override-ini", "confcutdir"}}
	}
	return danger{}
}

// named returns the option of list that a word of a command is, "" for none. Letters may
// be joined, and long names cut short, as getopt lets them.
func (d danger) named(list []string, text string) string {
	name, _, _ := strings.Cut(text, "=")
	switch {
	case !strings.HasPrefix(name, "-") || strings.Trim(name, "-") == "":
		return ""
	case d.long:
		name = strings.TrimPrefix(strings.TrimLeft(name, "-"), "test.")
		return pick(list, func(option string) bool { return option == name })
	case strings.HasPrefix(name, "--"):
		return pick(list, func(option string) bool { return len(option) > 1 && strings.HasPrefix(option, name[2:]) })
	}
	return pick(list, func(option string) bool {
		return option == name[1:] || len(option) == 1 && strings.Contains(text[1:], option)
	})
}

func pick(list []string, is func(string) bool) string {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return ""
}

// escapes reports whether c has an argument with which its program runs another one, or
// writes a file, although that is not what people allow it for. A pattern that spells
// the argument allows it.
func (c command) escapes(pattern string) bool {
	d := dangerOf(c.name())
	spelt := strings.Fields(pattern)
	for i, w := range c.arguments() {
		option := d.named(slices.Concat(d.runs, d.more), c.asOption(i, w.text))
		if option != "" && !slices.ContainsFunc(spelt, func(word string) bool { return d.named([]string{option}, word) != "" }) {
			return true
		}
	}
	return c.program(pattern) || c.sets(pattern) || c.free() && (len(d.runs) > 0 || len(d.more) > 0)
}

// runsOther reports whether an option or an argument names what c's program is to run.
func (c command) runsOther() bool {
	d := dangerOf(c.name())
	for i, w := range c.arguments() {
		if d.named(d.runs, c.asOption(i, w.text)) != "" {
			return true
		}
	}
	return c.program("")
}

// asOption is an argument as tar reads it, whose first one needs no dash.
func (c command) asOption(i int, text string) string {
	if i == 0 && c.name() == "tar" && !strings.HasPrefix(text, "-") {
		return "-" + text
	}
	return text
}

func (c command) arguments() []word { return c.words[min(1, len(c.words)):] }

// free reports whether an argument that is not known before the script runs may turn
// out to be an option.
func (c command) free() bool {
	return slices.ContainsFunc(c.arguments(), func(w word) bool { return w.free })
}

// program reports whether an argument of c is a program in a language of its own, or a
// subcommand, that runs others; not if the pattern of a rule spells it.
func (c command) program(pattern string) bool {
	switch c.name() {
	case "git":
		return c.gitRuns(pattern)
	case "make", "gmake":
		return c.has(pattern, func(s string) bool { return shellSetting.MatchString(s) })
	case "npm", "pnpm", "yarn", "bun":
		sub := c.subcommand()
		return (sub == "exec" || sub == "x" || sub == "dlx") && !slices.Contains(strings.Fields(pattern), sub)
	case "sed", "gsed":
		return !c.onlyEdits()
	case "awk", "gawk", "mawk", "nawk":
		return !c.known() || c.has("", func(s string) bool {
			return strings.ContainsAny(s, "|>@") || strings.Contains(s, "system") || strings.Contains(s, "getline")
		})
	}
	return false
}

// sets reports whether c gives a make variables that a pattern does not spell.
func (c command) sets(pattern string) bool {
	return (c.name() == "make" || c.name() == "gmake") && c.has(pattern, func(s string) bool { return !strings.HasPrefix(s, "-") && strings.Contains(s, "=") })
}

// shellSetting matches the variables by which make runs its commands otherwise.
var shellSetting = regexp.MustCompile(`^(SHELL|\.SHELLFLAGS|MAKE|MAKEFLAGS|GNUMAKEFLAGS|MFLAGS)[:?+!]*=`)

// has reports whether an argument is so that a pattern does not spell.
func (c command) has(pattern string, is func(string) bool) bool {
	return slices.ContainsFunc(c.arguments(), func(w word) bool { return is(w.text) && !slices.Contains(strings.Fields(pattern), w.text) })
}

// known reports whether all of c is known before the script runs.
func (c command) known() bool {
	return !slices.ContainsFunc(c.words, func(w word) bool { return !w.static })
}

// gitRuns reports whether a subcommand of git, or an address, makes it run a command.
func (c command) gitRuns(pattern string) bool {
	sub := c.subcommand()
	runs := slices.Contains([]string{"bisect", "submodule", "filter-branch", "difftool", "mergetool", "hook", "config", "send-email", "instaweb", "?"}, sub)
	rebases := sub == "rebase" && c.has(pattern, func(s string) bool { return strings.HasPrefix(s, "-x") })
	pages := sub == "grep" && c.has(pattern, func(s string) bool { return strings.HasPrefix(s, "-O") })
	if sub == "config" && !setsGit(c) {
		runs = false
	}
	return rebases || pages || runs && !slices.Contains(strings.Fields(pattern), sub) || c.has(pattern, func(s string) bool { return strings.Contains(s, "ext::") })
}
