package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"flow/pipeline"
)

// attacks are values that do something when any part of them becomes text of a
// shell: each would create the file named by $CANARY, or another one.
func attacks() []string {
	run := `touch "$CANARY"`
	return []string{
		"$(" + run + ")", "`" + run + "`", "; " + run + ";", "\n" + run + "\n", "&& " + run, "| " + run, "|| " + run, "& " + run + " &",
		`"; ` + run + `; "`, `'; ` + run + `; '`, `"$(` + run + `)"`, `'"$(` + run + `)"'`, `\"; ` + run + `; \"`, "\\\n" + run,
		"EOF\n" + run + "\nEOF\n", "\nEOF\n" + run + "\n", "\tEOF\n" + run, "${x:-$(" + run + ")}", "${x:=`" + run + "`}", "a[$(" + run + ")]", "$((a[$(" + run + ")]))",
		"x) " + run + " ;; *", "}; " + run + "; {", "fi; " + run + "; if true; then", "done; " + run + "; for i in 1; do", "); " + run + "; (", ")) && " + run,
		"# \n" + run, "<(" + run + ")", ">(" + run + ")", ">$CANARY", "> \"$CANARY\"", "2>$CANARY", "!! " + run, "\r" + run, "\r\n" + run, "\v" + run + "\f", "\x1b[31m", "*", "?", "[a-z]*", "~", "~root", "{a,b}", "{1..3}",
		"a b  c", "  lead and trail  ", "\ttab\t", "{{ .x }}", "{{ raw .x }}", "", "x=1", "%s %n", "%(" + run + ")T", `\$(` + run + `)`, "\\", `\\`, `\n`, "$", "$$", "$?", "$@", "${@}", "!", "^a^b", "&", "-", "--", "- item",
		"__f1_", "__f2_", "${__f1}", "$__f1", "$0", "é 漢字 🙂", "\u202e\u200b", "'", `"`, "a'b\"c\\d`e$f!g", "' '", `" "`, "'\\''", "$'\\n'", "`", "$(", "${", "((", "[[ 1 -eq 1 ]]", "a\nb\n\nc", strings.Repeat("x'\"", 2000),
	}
}

// A context is a script that prints one value, and what it prints when that is V.
type scriptContext struct{ src, want string }

func contexts() []scriptContext {
	return []scriptContext{
		{`printf '%s\n' {{ .v }}`, "V"},
		{`printf '%s\n' "{{ .v }}"`, "V"},
		{`printf '[%s]\n' a{{ .v }}b`, "[aVb]"},
		{`printf '%s\n' 'a'{{ .v }}"b"`, "aVb"},
		{`printf '%s\n' "x {{ .v }} y"`, "x V y"},
		{`printf '%s%s\n' {{ .v }}{{ .v }} x`, "VVx"},
		{`printf '%s\n' "${HOME}{{ .v }}"`, "/homeV"},
		{`X={{ .v }}; printf '%s\n' "$X"`, "V"},
		{`X="{{ .v }}"; printf '%s\n' "$X"`, "V"},
		{`X=a{{ .v }}"b"; printf '%s\n' "$X"`, "aVb"},
		{`export X={{ .v }}; printf '%s\n' "$X"`, "V"},
		{`readonly X="{{ .v }}"; printf '%s\n' "$X"`, "V"},
		{`X={{ .v }} sh -c 'printf "%s\n" "$X"'`, "V"},
		{"cat <<EOF\n{{ .v }}\nEOF", "V"},
		{"cat <<EOF\na \"{{ .v }}\" 'b'\nEOF", "a \"V\" 'b'"},
		{"cat <<-EOF\n\t{{ .v }}\n\tEOF", "V"},
		{"cat <<A; cat <<B\n{{ .v }}\nA\n{{ .v }}\nB", "V\nV"},
		{`for x in {{ .v }}; do printf '%s\n' "$x"; done`, "V"},
		{`for x in a "{{ .v }}"; do printf '%s\n' "$x"; done`, "a\nV"},
		{`case {{ .v }} in "$CANARY") echo no;; *) printf '%s\n' "{{ .v }}";; esac`, "V"},
		{`case "$CANARY" in {{ .v }}) echo no;; *) printf '%s\n' {{ .v }};; esac`, "V"},
		{`if [ {{ .v }} = "no" ]; then echo same; fi; printf '%s\n' {{ .v }}`, "V"},
		{`test -n "x{{ .v }}" && printf '%s\n' {{ .v }}`, "V"},
		{`printf '%s\n' "$(printf '%s\n' "{{ .v }}")"`, "V"},
		{`printf '%s\n' "$(printf '%s\n' {{ .v }})"`, "V"},
		{`printf '%s\n' "a$(cat <<EOF` + "\n{{ .v }}\nEOF\n" + `)b"`, "aVb"},
		{`(printf '%s\n' {{ .v }}) | cat`, "V"},
		{`{ printf '%s\n' {{ .v }}; } 2>&1`, "V"},
		{`printf '%s\n' {{ .v }} | while IFS= read -r l || [ -n "$l" ]; do printf '%s\n' "$l"; done`, "V"},
		{`true && printf '%s\n' {{ .v }} || false`, "V"},
		{`printf '%s\n' {{ .v }} & wait`, "V"},
		{`! printf '%s\n' {{ .v }} || true`, "V"},
		{`while :; do printf '%s\n' {{ .v }}; break; done`, "V"},
		{"# about {{ .v }}\nprintf '%s\\n' {{ .v }}", "V"},
		{`f() { printf '%s\n' {{ .v }}; }; f`, "V"},
		{`f() { printf '%s\n' "$1"; }; f -- {{ .v }} || true; printf '%s\n' {{ .v }}`, "--\nV"},
		{`{{ if .v }}printf '%s\n' {{ .v }}{{ else }}echo{{ end }}`, "V"},
		{"{{ range list .v .v }}printf '%s\\n' {{ . }}\n{{ end }}", "V\nV"},
		{`{{ with .v }}printf '%s\n' "{{ . }}"{{ else }}echo{{ end }}`, "V"},
		{`printf '%s\n' {{ printf "%s" .v }}`, "V"},
		{`printf '%s\n' {{ .v }} >out; cat out; rm out`, "V"},
		{`env -i printf '%s\n' x >/dev/null; timeout 60 printf '%s\n' {{ .v }}`, "V"},
	}
}

// bashContexts are for bash only.
func bashContexts() []scriptContext {
	return []scriptContext{
		{`cat <<<{{ .v }}`, "V"},
		{`cat <<<"a {{ .v }}"`, "a V"},
		{`a=(x {{ .v }}); printf '%s\n' "${a[1]}"`, "V"},
		{`[[ {{ .v }} == "no" ]] || printf '%s\n' {{ .v }}`, "V"},
		{`[[ -n x{{ .v }} ]] && printf '%s\n' "{{ .v }}"`, "V"},
		{`f() { local X={{ .v }}; printf '%s\n' "$X"; }; f`, "V"},
		{`cat <(printf '%s\n' {{ .v }})`, "V"},
		{`printf '%s\n' {{ .v }} |& cat`, "V"},
	}
}

func scriptTemplates() []string {
	var all []string
	for _, c := range contexts() {
		all = append(all, c.src)
	}
	return all
}

// places are the keys of the language that hold a script.
func places() map[string]func(*pipeline.Step) pipeline.Text {
	return map[string]func(*pipeline.Step) pipeline.Text{
		"{run: %q, shell: %s}":                                                func(s *pipeline.Step) pipeline.Text { return *s.Run },
		"{agent: claude, prompt: x, check: %q} # %s":                          func(s *pipeline.Step) pipeline.Text { return s.Check.Run },
		"{run: 'true', isolation: worktree, worktree: {setup: %q}} # %s":      func(s *pipeline.Step) pipeline.Text { return *s.Isolation.Setup },
		"{run: 'true', isolation: copy, worktree: {copy: x, setup: %q}} # %s": func(s *pipeline.Step) pipeline.Text { return *s.Isolation.Setup },
		"{run: 'true', notify: {run: %q}} # %s":                               func(s *pipeline.Step) pipeline.Text { return s.Notify[0].Run },
	}
}

// loadScript loads a script at a place of a pipeline.
func loadScript(src, place, shell string) (*pipeline.Plan, []pipeline.Warning, error) {
	src = strings.ReplaceAll(src, ".v }}", ".inputs.v }}")
	for _, word := range []string{" .v ", "(.v)"} {
		src = strings.ReplaceAll(src, word, strings.Replace(word, ".v", ".inputs.v", 1))
	}
	return pipeline.Parse("p.yaml", []byte("inputs: {v: {type: string}}\nsteps:\n  a: "+fmt.Sprintf(place, src, shell)+"\n"), options())
}

// A tally counts what became of the pairs of a context and an attack.
type tally struct{ exact, refused, injected, wrong int }

func (c *tally) add(o tally) {
	c.exact, c.refused, c.injected, c.wrong = c.exact+o.exact, c.refused+o.refused, c.injected+o.injected, c.wrong+o.wrong
}

// TestScriptAttacks runs every attack in every context in real shells, for every key
// that holds a script.
func TestScriptAttacks(t *testing.T) {
	var total tally
	t.Run("shells", func(t *testing.T) {
		results := make(chan tally, 100)
		t.Cleanup(func() {
			close(results)
			for one := range results {
				total.add(one)
			}
		})
		for _, shell := range shells(t) {
			all := contexts()
			if shell == "bash" {
				all = append(all, bashContexts()...)
			}
			for i, c := range all {
				t.Run(fmt.Sprint(shell, i), func(t *testing.T) {
					t.Parallel()
					results <- attackContext(t, c, shell)
				})
			}
		}
	})
	for _, src := range refusedScripts() {
		total.refused += len(attacks()) * len(shells(t))
		refusedEverywhere(t, src)
	}
	n := total.exact + total.refused + total.injected + total.wrong
	t.Logf("%d attacks, %d injected, %d exact, %d refused (%d%%), for each of %d keys", n, total.injected, total.exact, total.refused, 100*total.refused/n, len(places()))
	if total.injected > 0 || total.wrong > 0 || len(attacks()) < 40 {
		t.Errorf("%d attacks of %d: %+v", n, len(attacks()), total)
	}
}

func shells(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		return []string{"sh"}
	}
	return []string{"sh", "bash"}
}

// attackContext runs all attacks in one context.
func attackContext(t *testing.T, c scriptContext, shell string) tally {
	t.Helper()
	scripts := make([]pipeline.Script, len(attacks()))
	for place, script := range places() {
		plan, _, err := loadScript(c.src, place, shell)
		if err != nil {
			t.Fatalf("%s is refused in %s: %v", c.src, place, err)
		}
		r := renderer(t, plan)
		for i, attack := range attacks() {
			if scripts[i].Body != "" && i%10 > 0 {
				continue // every key is rendered in the same way: some values show it
			}
			s, err := r.Script(script(&plan.Steps[0]), pipeline.Data{"inputs": map[string]any{"v": attack}})
			if isOption(err) {
				s = pipeline.Script{Body: optionRefused} // a value cannot change what is refused
			} else if err != nil {
				t.Fatalf("%s with %q is refused: %v", c.src, attack, err)
			}
			if scripts[i].Body != "" && scripts[i].Body != s.Body {
				t.Errorf("%s in %s becomes\n%s\nelsewhere\n%s", c.src, place, s.Body, scripts[i].Body)
			}
			scripts[i] = s
		}
	}
	return judge(t, c, shell, scripts)
}

const optionRefused = "exit 0"

// isOption reports whether a script was refused for a value that begins with a dash.
func isOption(err error) bool {
	e, ok := errors.AsType[pipeline.Error](err)
	return ok && strings.Contains(e.Msg, "would be read as an option")
}

// judge runs the scripts, one for each attack, and looks at what they did.
func judge(t *testing.T, c scriptContext, shell string, scripts []pipeline.Script) tally {
	t.Helper()
	var result tally
	outputs, made := runScripts(t, shell, scripts)
	if len(made) > 0 || len(outputs) != len(scripts) {
		t.Errorf("%s: %s ran a value: it made %q; %d outputs\n%s", shell, c.src, made, len(outputs), scripts[0].Body)
		return tally{injected: max(1, len(made))}
	}
	for i, attack := range attacks() {
		if scripts[i].Body == optionRefused {
			result.refused++
			continue
		}
		want := strings.ReplaceAll(c.want, "V", attack)
		if strings.Contains(c.src, "$(") { // takes the newlines from the end of its output
			want = strings.ReplaceAll(c.want, "V", strings.TrimRight(attack, "\n"))
		}
		if strings.TrimRight(outputs[i], "\n") == strings.TrimRight(want, "\n") {
			result.exact++
			continue
		}
		result.wrong++
		t.Errorf("%s: %s with %q printed %.200q, want %.200q", shell, c.src, attack, outputs[i], want)
	}
	return result
}

// runScripts runs each script in a subshell of its own, read from a file, behind its
// values, as a step does it. It returns what each printed, and the files that were
// made.
func runScripts(t *testing.T, shell string, scripts []pipeline.Script) (outputs, made []string) {
	t.Helper()
	dir, strict := t.TempDir(), "set -eu"
	if shell == "bash" {
		strict = "set -euo pipefail"
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for i, s := range scripts {
		var b strings.Builder
		for _, v := range s.Values {
			b.WriteString(v.Name + "=" + quoted(v.Value) + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte(b.String()+s.Body), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "(NAME=%s; %s; . ../%d)\nprintf '\\000'\n", quoted(attacks()[i]), strict, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := os.WriteFile(filepath.Join(dir, "all"), all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, shell, "../all")
	c.Dir, c.Env = filepath.Join(dir, "work"), []string{"PATH=" + os.Getenv("PATH"), "HOME=/home", "CANARY=canary", "NAME="}
	out, err := c.Output()
	if err != nil {
		t.Logf("%s: %v", shell, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), filesIn(t, c.Dir)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// refusedEverywhere checks that a script is refused at every place, when it is loaded
// and, should it come so far, when it is rendered, with a safe way that TestSafeWays
// has run.
func refusedEverywhere(t *testing.T, src string) {
	t.Helper()
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	// The values play no part: some stand for all.
	for _, attack := range attacks()[:3] {
		s, err := r.Script(text(src), pipeline.Data{"v": attack})
		e, ok := errors.AsType[pipeline.Error](err)
		switch {
		case !ok:
			t.Errorf("%s is allowed: %q", src, s.Body)
		case e.Pos.Line < 7 || safeWays()[e.Hint] == nil && !strings.Contains(e.Msg, "does not parse"):
			t.Errorf("%s: %v (hint %q)", src, err, e.Hint)
		}
	}
	for place := range places() {
		if _, _, err := loadScript(src, place, "bash"); err == nil {
			t.Errorf("%s loads in %s", src, place)
		}
	}
}

// A safeWay is what the hint of a refusal tells authors to write. $NAME is the value,
// by `env`.
type safeWay = scriptContext

func safeWays() map[string][]safeWay {
	const value = `printf '%s\n' {{ .v }}`
	return map[string][]safeWay{
		`pass it by env: {NAME: "{{ … }}"} and write "$NAME"`:                               {{`printf '%s\n' "$NAME"`, "V"}, {`set -- "$NAME"; printf '%s\n' "$1"`, "V"}, {`env -u X printf '%s\n' "$NAME"`, "V"}},
		`write it in double quotes: "{{ … }}"`:                                              {{`printf '%s\n' "{{ .v }}"`, "V"}, {`printf '%s\n' "{{ .v }}#top"`, "V#top"}},
		`write braces around the name: "${HOME}{{ … }}"`:                                    {{`printf '%s\n' "${HOME}{{ .v }}"`, "/homeV"}},
		"write $( … ) for the backquotes":                                                   {{`printf '%s\n' "$(printf '%s\n' {{ .v }})"`, "V"}},
		`leave out the quotes: <<EOF; write \$ where the text has a dollar sign of its own`: {{"cat <<EOF\n\\$HOME {{ .v }}\nEOF", "$HOME V"}},
		`write printf '%s\n' {{ … }}`:                                                       {{value, "V"}},
		"compare it as text, one comparison a test: [ {{ … }} = x ]":                        {{`[ {{ .v }} = x ] || [ "{{ .v }}" = y ] || ` + value, "V"}},
		"choose by the value: case {{ … }} in test) make test ;; *) exit 1 ;; esac":         {{`case {{ .v }} in test) make test ;; *) ` + value + ` ;; esac`, "V"}},
		"write the name of the command itself":                                              {{value, "V"}},
		"assign it plainly: X={{ … }}":                                                      {{`X={{ .v }}; printf '%s\n' "$X"`, "V"}},
		"declare no variable by -i or -n in this script":                                    {{`n={{ .v }}; printf '%s\n' "$n"`, "V"}},
		"write a fixed word here":                                                           {{value + ` 2>&1`, "V"}},
		`pass it by env: {NAME: "{{ … }}"} and let the program read that: sh -c 'echo "$NAME"', ENVIRON["NAME"] in awk, os.environ["NAME"] in Python`: {
			{`sh -c 'printf "%s\n" "$NAME"'`, "V"},
			{`eval 'printf "%s\n" "$NAME"'`, "V"},
			{`trap 'printf "%s\n" "$NAME"' EXIT`, "V"},
			{`awk 'BEGIN { printf "%s\n", ENVIRON["NAME"] }'`, "V"},
			{`find . -maxdepth 0 -exec sh -c 'printf "%s\n" "$NAME"' \;`, "V"},
			{"sh <<'EOF'\nprintf '%s\\n' \"$NAME\"\nEOF", "V"},
		},
		`give the program by an option, and the value as data: printf '%s\n' {{ … }} | sh -c 'cat'`: {{value + ` | sh -c 'cat'`, "V"}},
		`pass it by env: {NAME: "{{ … }}"} and send it as data: printf '%s\n' "$NAME" | ssh HOST 'cat >FILE'`: {
			{`ssh() { shift; sh -c "$*"; }; printf '%s\n' "$NAME" | ssh HOST 'cat >FILE; cat FILE; rm FILE'`, "V"},
		},
		"put `--` before it": {{`printf -- '%s\n' {{ .v }}`, "V"}, {`basename -a -- {{ .v }} >/dev/null; ` + value, "V"}},
		"compute it in the template, outside of the arithmetic: {{ add (int …) 1 }}": {{`printf '%s\n' {{ add (int .v) 1 }}`, "42"}},
	}
}

// What the hints say works, whatever the value is.
func TestSafeWays(t *testing.T) {
	for hint, ways := range safeWays() {
		for i, way := range ways {
			t.Run(fmt.Sprintf("%.30s %d", hint, i), func(t *testing.T) {
				t.Parallel()
				if way.want == "42" {
					computed(t, way)
					return
				}
				attackContext(t, way, shells(t)[(len(hint)+i)%len(shells(t))])
			})
		}
	}
}

// computed checks the way that takes numbers only.
func computed(t *testing.T, way safeWay) {
	t.Helper()
	r := renderer(t, &pipeline.Plan{})
	for _, attack := range append(attacks(), "41") {
		s, err := r.Script(text(way.src), pipeline.Data{"v": attack})
		if attack == "41" && (err != nil || s.Values[0].Value != way.want) {
			t.Errorf("%s: %v %v", way.src, s, err)
		} else if attack != "41" && err == nil {
			t.Errorf("%s takes %q for a number: %v", way.src, attack, s)
		}
	}
}
