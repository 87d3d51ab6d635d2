package pipeline

import "slices"

// A refusal says why a value may not stand somewhere in a script, and what does the
// same safely. The zero refusal is none.
type refusal struct{ why, hint string }

// The safe ways. TestSafeWays runs each.
const (
	hintEnv       = `pass it by env: {NAME: "{{ … }}"} and write "$NAME"`
	hintDouble    = `write it in double quotes: "{{ … }}"`
	hintBraces    = `write braces around the name: "${HOME}{{ … }}"`
	hintSubst     = `write $( … ) for the backquotes`
	hintHeredoc   = `leave out the quotes: <<EOF; write \$ where the text has a dollar sign of its own`
	hintPrintf    = `write printf '%s\n' {{ … }}`
	hintTest      = `compare it as text, one comparison a test: [ {{ … }} = x ]`
	hintNumber    = `compute it in the template, outside of the arithmetic: {{ add (int …) 1 }}`
	hintCase      = `choose by the value: case {{ … }} in test) make test ;; *) exit 1 ;; esac`
	hintName      = `write the name of the command itself`
	hintAssign    = `assign it plainly: X={{ … }}`
	hintPlain     = `declare no variable by -i or -n in this script`
	hintFixed     = `write a fixed word here`
	hintProgram   = `pass it by env: {NAME: "{{ … }}"} and let the program read that: sh -c 'echo "$NAME"', ENVIRON["NAME"] in awk, os.environ["NAME"] in Python`
	hintInput     = `give the program by an option, and the value as data: printf '%s\n' {{ … }} | sh -c 'cat'`
	hintElsewhere = `pass it by env: {NAME: "{{ … }}"} and send it as data: printf '%s\n' "$NAME" | ssh HOST 'cat >FILE'`
)

// rereaderHint is the safe way around a command that reads its arguments again.
func rereaderHint(name string) string {
	switch {
	case name == "ssh" || name == "rsh":
		return hintElsewhere
	case name == "let":
		return hintNumber
	case name == "declare" || name == "typeset":
		return hintAssign
	case slices.Contains([]string{"set", "shift", "wait", "ulimit", "umask"}, name):
		return hintEnv
	case slices.Contains([]string{
		"read", "unset", "unalias", "getopts", "mapfile", "readarray", "hash", "enable", "complete", "compgen", "bind", "fc", "function",
	}, name):
		return hintCase // the value would be a name
	}
	return hintProgram
}
