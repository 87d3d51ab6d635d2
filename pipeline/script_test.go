package pipeline_test

import (
	"strings"
	"testing"

	"flow/pipeline"

	"mvdan.cc/sh/v3/syntax"
)

// refusedScripts have a value in places where it could be read as more than one text.
func refusedScripts() []string {
	return []string{
		`{{ .v }}`, `{{ .v }} x`, `"{{ .v }}" x`, `./{{ .v }}.sh`, `sudo {{ .v }}`, `env A=1 {{ .v }}`, `command {{ .v }}`, `timeout 5 {{ .v }}`, `nice -n 5 {{ .v }}`,
		`echo '{{ .v }}'`, `echo $'{{ .v }}'`, `echo $"{{ .v }}"`, `echo \{{ .v }}`, `echo "\{{ .v }}"`, `echo ${{ .v }}`, `echo $HOME{{ .v }}`, `echo "$HOME{{ .v }}"`, `echo "${{ .v }}"`, `echo ${x:-{{ .v }}}`, `echo "${x:-{{ .v }}}"`, `echo ${x#{{ .v }}}`, `echo ${ {{ .v }} }`,
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
