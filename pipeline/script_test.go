package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flow/pipeline"

	"mvdan.cc/sh/v3/syntax"
)

// attacks are values that do something when any part of them becomes text of a
// shell: each would create the file named by $CANARY.
func attacks() []string {
	run := `touch "$CANARY"`
	return []string{
		"$(" + run + ")", "`" + run + "`", "; " + run + ";", "\n" + run + "\n", "&& " + run, "| " + run, "|| " + run, "& " + run + " &",
		`"; ` + run + `; "`, `'; ` + run + `; '`, `"$(` + run + `)"`, `'"$(` + run + `)"'`, `\"; ` + run + `; \"`, "\\\n" + run,
		"EOF\n" + run + "\nEOF\n", "\nEOF\n" + run + "\n", "${x:-$(" + run + ")}", "a[$(" + run + ")]", "$((a[$(" + run + ")]))",
		"x) " + run + " ;; *", "}; " + run + "; {", "fi; " + run + "; if true; then", "done; " + run + "; for i in 1; do",
		"# \n" + run, "<(" + run + ")", ">$CANARY", "> \"$CANARY\"", "!! " + run, "\r" + run, "*", "~", "{a,b}", "a b  c", "{{ .x }}", "", "x=1", "%s %n", `\$(` + run + `)`, "\\",
		"__f1_", "${__f1}", "$0", "é 漢字 🙂", "'", `"`, "a'b\"c\\d`e$f!g",
	}
}

// templates print the value once and nothing else, when they work.
func scriptTemplates() []string {
	return []string{
		`printf '%s\n' {{ .v }}`,
		`printf '%s\n' "{{ .v }}"`,
		`printf '[%s]\n' a{{ .v }}b`,
		`printf '%s\n' "x {{ .v }} y"`,
		`X={{ .v }}; printf '%s\n' "$X"`,
		`X="{{ .v }}"; printf '%s\n' "$X"`,
		`export X={{ .v }}; printf '%s\n' "$X"`,
		"cat <<EOF\n{{ .v }}\nEOF",
		"cat <<-EOF\n\t{{ .v }}\n\tEOF",
		`for x in {{ .v }}; do printf '%s\n' "$x"; done`,
		`case {{ .v }} in "$CANARY") echo no;; *) printf '%s\n' "{{ .v }}";; esac`,
		`if [ {{ .v }} = "x" ]; then echo same; fi; printf '%s\n' {{ .v }}`,
		`printf '%s\n' "$(printf '%s\n' "{{ .v }}")"`,
		`(printf '%s\n' {{ .v }}) | cat`,
		"# about {{ .v }}\nprintf '%s\\n' {{ .v }}",
		`f() { printf '%s\n' {{ .v }}; }; f`,
		`{{ if .v }}printf '%s\n' {{ .v }}{{ else }}echo{{ end }}`,
		`{{ range list .v .v }}printf '%s\n' {{ . }}
{{ end }}`,
		`printf '%s%s\n' {{ .v }}{{ .v }} x`,
	}
}

// runScript runs a script as a step does: its values are shell variables.
func runScript(t *testing.T, shell string, s pipeline.Script) (stdout string, injected bool) {
	t.Helper()
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	var b strings.Builder
	for _, v := range s.Values {
		b.WriteString(v.Name + "='" + strings.ReplaceAll(v.Value, "'", `'\''`) + "'\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := exec.CommandContext(ctx, shell, "-eu", "-c", b.String()+s.Body)
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "CANARY=" + canary}
	out, err := c.Output()
	if err != nil {
		t.Logf("%s: %v", shell, err)
	}
	if _, err := os.Stat(canary); !errors.Is(err, os.ErrNotExist) {
		return string(out), true
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		return string(out), true // some other file was made
	}
	return string(out), false
}

// TestScriptAttacks runs every attack through every template in real shells.
func TestScriptAttacks(t *testing.T) {
	shells := []string{"sh"}
	if _, err := exec.LookPath("bash"); err == nil {
		shells = append(shells, "bash")
	}
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	for i, src := range scriptTemplates() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for n, attack := range attacks() {
				s, err := r.Script(text(src), pipeline.Data{"v": attack})
				if err != nil {
					t.Fatalf("%s with %q is refused: %v", src, attack, err)
				}
				sameTree(t, src, s.Body, r)
				out, injected := runScript(t, shells[n%len(shells)], s)
				if injected {
					t.Fatalf("%s with %q ran the value\n%s", src, attack, s.Body)
				}
				if !strings.Contains(strings.ReplaceAll(out, "\t", ""), strings.ReplaceAll(strings.TrimRight(attack, "\n"), "\t", "")) {
					t.Errorf("%s with %q printed %q", src, attack, out)
				}
			}
		})
	}
}

// sameTree checks that the body is that of a harmless value: no value has a say in it.
func sameTree(t *testing.T, src, body string, r *pipeline.Renderer) {
	t.Helper()
	harmless, err := r.Script(text(src), pipeline.Data{"v": "harmless"})
	if err != nil {
		t.Fatal(err)
	}
	if body != harmless.Body && !strings.Contains(src, "{{ if") {
		t.Errorf("%s becomes\n%s\ninstead of\n%s", src, body, harmless.Body)
	}
}

// Places where a value could be read as more than one text are refused, with the
// place of the action.
func TestScriptRefused(t *testing.T) {
	cases := []string{
		`{{ .v }}`, `{{ .v }} x`, `"{{ .v }}" x`, `./{{ .v }}.sh`, `sudo {{ .v }}`, `env A=1 {{ .v }}`, `command {{ .v }}`, `timeout 5 {{ .v }}`, `nice -n 5 {{ .v }}`,
		`echo '{{ .v }}'`, `echo $'{{ .v }}'`, `echo $"{{ .v }}"`, `echo \{{ .v }}`, `echo "\{{ .v }}"`, `echo ${{ .v }}`, `echo "${{ .v }}"`, `echo ${x:-{{ .v }}}`, `echo "${x:-{{ .v }}}"`, `echo ${x#{{ .v }}}`, `echo ${ {{ .v }} }`,
		`echo $(( {{ .v }} ))`, `echo $(( 1 + {{ .v }} ))`, `echo $(( $(echo {{ .v }}) ))`, "(( {{ .v }} ))", `let x={{ .v }}`, `let "x={{ .v }}"`, `a[{{ .v }}]=1`, `echo "${a[{{ .v }}]}"`, `[[ {{ .v }} -eq 1 ]]`, `[[ -v {{ .v }} ]]`, `[[ x =~ {{ .v }} ]]`, `for (( i={{ .v }}; i<1; i++ )); do echo; done`,
		"echo `echo {{ .v }}`", "cat <<'EOF'\n{{ .v }}\nEOF\n", "cat <<\"EOF\"\n{{ .v }}\nEOF\n", "cat <<\\EOF\n{{ .v }}\nEOF\n", "cat <<{{ .v }}\nx\nEOF\n",
		`curl {{ .v }}#top`, `eval {{ .v }}`, `eval "echo {{ .v }}"`, `eval "$(echo {{ .v }})"`, `. {{ .v }}`, `source {{ .v }}`, `trap "{{ .v }}" EXIT`, `alias x={{ .v }}`, `unset {{ .v }}`, `read {{ .v }}`, `export {{ .v }}`, `export -n X={{ .v }}`, `declare -i x={{ .v }}`, `declare x={{ .v }}`, `printf -v {{ .v }} x`, `printf {{ .v }}`, `printf "{{ .v }}\n"`, `test -v {{ .v }}`, `[ -v "{{ .v }}" ]`,
		`sh -c "{{ .v }}"`, `sh -c {{ .v }}`, `bash -ec "echo {{ .v }}"`, `sh {{ .v }}`, `bash -c 'echo "$1"' {{ .v }}`, `/bin/sh -c "{{ .v }}"`, `"sh" -c "{{ .v }}"`, `s\h -c "{{ .v }}"`, `sudo -u bob sh -c "{{ .v }}"`, `sudo sh -c "{{ .v }}"`, `timeout -k 1 5 sh -c "{{ .v }}"`, `docker exec c sh -c "{{ .v }}"`, `env -S "{{ .v }}"`, `env LD_PRELOAD={{ .v }} true`, `su -c "{{ .v }}"`, `ssh host "{{ .v }}"`, `ssh host {{ .v }}`, `ssh {{ .v }}`,
		`python3 -c "print({{ .v }})"`, `python -c {{ .v }}`, `node -e "{{ .v }}"`, `perl -e "{{ .v }}"`, `ruby -e {{ .v }}`, `awk "{{ .v }}" f`, `awk -v x={{ .v }} 1 f`, `sed "s/x/{{ .v }}/" f`, `jq "{{ .v }}" f`, `make X={{ .v }}`, `xargs {{ .v }}`, `find . -name {{ .v }} -exec sh {} ;`, `find . -exec grep {{ .v }} {} +`, `git -c core.pager={{ .v }} log`, `git config alias.x {{ .v }}`, `git clone --upload-pack={{ .v }} u`, `tar --checkpoint-action={{ .v }} f`, `rsync --rsh {{ .v }} a b`, `mytool -c {{ .v }}`, `psql -c {{ .v }}`,
		`echo {{ .v }} | sh`, `echo "{{ .v }}" | bash -s`, `echo {{ .v }} | ssh host`, `echo {{ .v }} | sudo sh`, `echo {{ .v }} | xargs rm`, `echo {{ .v }} | cat | sh`, `{ echo {{ .v }}; } | sh`, `echo {{ .v }} | while read -r l; do eval "$l"; done`, "sh <<EOF\n{{ .v }}\nEOF\n", "ssh host <<EOF\necho {{ .v }}\nEOF\n", "python3 - <<EOF\nprint({{ .v }})\nEOF\n", "bash <<<{{ .v }}", "cat <<EOF | sh\n{{ .v }}\nEOF\n", `sh -c "$(cat {{ .v }})"`,
		`PATH={{ .v }}`, `IFS={{ .v }} read x`, `BASH_ENV={{ .v }} true`, `LD_PRELOAD={{ .v }} true`, `GIT_SSH_COMMAND={{ .v }} git fetch`, `{{ .v }}=x`, `{{ .v }}() { :; }`, `for {{ .v }} in a; do :; done`, `echo x >&{{ .v }}`, `$CMD {{ .v }}`, `"$(which x)" {{ .v }}`, `"x" {{ .v }}; )`, `case x in {{ .v }}`,
		`declare -i n; n={{ .v }}`, `typeset -n r; r={{ .v }}`, `f() { local -i n; n={{ .v }}; }; f`, `declare -ri n=1; for n in {{ .v }}; do :; done`, `go test -exec {{ .v }}`,
		`if true; then sh -c {{ .v }}; fi`, `f() { eval {{ .v }}; }`, `{{ if true }}eval {{ .v }}{{ end }}`,
	}
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	for _, src := range cases {
		got, err := r.Script(text(src), pipeline.Data{"v": "$(touch \"$CANARY\")"})
		if e, ok := errors.AsType[pipeline.Error](err); !ok {
			t.Errorf("%s is allowed: %q", src, got.Body)
		} else if e.Hint == "" || e.Pos.Line < 7 {
			t.Errorf("%s: %v (hint %q)", src, err, e.Hint)
		}
	}
}

func TestScriptAllowed(t *testing.T) {
	cases := []struct{ src, want string }{
		{`go test {{ .v }}`, `go test "${__f1}"`},
		{`git commit -m "{{ .v }}"`, `git commit -m "${__f1}"`},
		{`python3 script.py {{ .v }}`, `python3 script.py "${__f1}"`},
		{`python3 -m pytest {{ .v }}`, `python3 -m pytest "${__f1}"`},
		{`bash build.sh --name={{ .v }}`, `bash build.sh --name="${__f1}"`},
		{`sudo cp {{ .v }} /tmp`, `sudo cp "${__f1}" /tmp`},
		{`timeout 60 go test {{ .v }}`, `timeout 60 go test "${__f1}"`},
		{`env A={{ .v }} go test`, ``},
		{`A={{ .v }} go test`, `A="${__f1}" go test`},
		{`"$HOME/bin/tool" {{ .v }}`, `"$HOME/bin/tool" "${__f1}"`},
		{`echo {{ .v }} | python3 read.py`, `echo "${__f1}" | python3 read.py`},
		{`echo {{ .v }} | jq .a`, `echo "${__f1}" | jq .a`},
		{`echo "{{ .v }}#top"`, `echo "${__f1}#top"`},
		{`echo {{ .v }} > {{ .v }}.txt`, `echo "${__f1}" > "${__f2}".txt`},
		{`[[ {{ .v }} == "{{ .v }}" ]]`, `[[ "${__f1}" == "${__f2}" ]]`},
		{`arr=({{ .v }} b)`, `arr=("${__f1}" b)`},
		{`echo "a $(git log {{ .v }}) b"`, `echo "a $(git log "${__f1}") b"`},
		{`echo __f1 {{ .v }}`, `echo __f1 "${___f1}"`},
		{`echo plain`, `echo plain`},
	}
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	for _, c := range cases {
		got, err := r.Script(text(c.src), pipeline.Data{"v": "value"})
		if c.want == "" {
			if err == nil {
				t.Errorf("%s is allowed: %s", c.src, got.Body)
			}
		} else if err != nil || got.Body != c.want {
			t.Errorf("%s\n got %s %v\nwant %s", c.src, got.Body, err, c.want)
		}
	}
}

// What begins with a dash is not an argument but an option.
func TestScriptOptions(t *testing.T) {
	cases := []struct {
		src, v string
		ok     bool
	}{
		{`rm {{ .v }}`, "-rf", false},
		{`rm "{{ .v }}"`, "--no-preserve-root", false},
		{`rm -- {{ .v }}`, "-rf", true},
		{`rm ./{{ .v }}`, "-rf", true},
		{`rm {{ .e }}{{ .v }}`, "-rf", false},
		{`echo {{ .v }}`, "-n", true},
		{`git commit -m "{{ .v }}"`, "- a list\n- of things", true},
		{`git commit -m "{{ .v }}"`, "-x", false},
		{`X={{ .v }}`, "-x", true},
	}
	r := renderer(t, &pipeline.Plan{})
	for _, c := range cases {
		_, err := r.Script(text(c.src), pipeline.Data{"v": c.v, "e": ""})
		if (err == nil) != c.ok {
			t.Errorf("%s with %q: %v", c.src, c.v, err)
		}
	}
	if _, err := r.Script(text("echo {{ .v }}"), pipeline.Data{"v": "a\x00b"}); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a NUL passes: %v", err)
	}
}

// FuzzScript: whatever the script and the values, the body does not depend on the
// values, and parses with each value as one parameter.
func FuzzScript(f *testing.F) {
	for _, src := range scriptTemplates() {
		for _, a := range attacks()[:6] {
			f.Add(src, a)
		}
	}
	f.Add("echo \"$(cat <<E\n{{ .v }}\nE\n)\"", "E")
	r := renderer(f, &pipeline.Plan{})
	f.Fuzz(func(t *testing.T, src, value string) {
		s, err := r.Script(text(src), pipeline.Data{"v": value})
		if err != nil || strings.ContainsAny(src, "|") || strings.Contains(src, "{{") && strings.Count(src, "{{") != strings.Count(src, "{{ .v }}") {
			return
		}
		other, err := r.Script(text(src), pipeline.Data{"v": "other"})
		if err != nil || other.Body != s.Body {
			t.Fatalf("%q: %q with one value, %q (%v) with another", src, s.Body, other.Body, err)
		}
		if len(s.Values) == 0 {
			return
		}
		if _, err := syntax.NewParser().Parse(strings.NewReader(s.Body), ""); err != nil {
			t.Fatalf("%q becomes %q: %v", src, s.Body, err)
		}
	})
}
