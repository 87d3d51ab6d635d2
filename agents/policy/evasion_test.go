package policy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flow/agents/policy"
)

// A spelling is a script that removes or changes the file canary.
type spelling struct {
	script string
	// denyList is what a policy makes of it that denies rm and allows all else: deny where
	// it sees the command, ask where it cannot tell, and allow where it is deceived.
	denyList policy.Effect
	needs    string // a program without which it cannot be tried; "-" where it cannot at all
}

const (
	caught = policy.Deny
	opaque = policy.Ask
	missed = policy.Allow
)

// spellings are ways to do what the rules forbid.
func spellings() []spelling {
	return []spelling{
		// Chains, groups, conditions, loops.
		{script: "rm canary", denyList: caught},
		{script: "true; rm canary", denyList: caught},
		{script: "true && rm canary", denyList: caught},
		{script: "false || rm canary", denyList: caught},
		{script: "echo a | rm canary", denyList: caught},
		{script: "echo a |& rm canary", denyList: caught},
		{script: "rm canary & wait", denyList: caught},
		{script: "(rm canary)", denyList: caught},
		{script: "{ rm canary; }", denyList: caught},
		{script: "! rm canary", denyList: caught},
		{script: "time rm canary", denyList: caught},
		{script: "coproc rm canary; wait", denyList: caught},
		{script: "if rm canary; then :; fi", denyList: caught},
		{script: "for f in canary; do rm $f; done", denyList: caught},
		{script: "while rm canary; do :; done", denyList: caught},
		{script: "case a in a) rm canary;; esac", denyList: caught},
		{script: "ls() { rm canary; }; ls", denyList: caught},
		{script: "f() { \"$@\"; }; f rm canary", denyList: opaque},
		{script: "ls\nrm canary", denyList: caught},
		{script: "ls \\\r\nrm canary", denyList: opaque},
		{script: "rm canary # ls", denyList: caught},
		{script: "ls # \\\nrm canary", denyList: opaque},
		{script: "cat <<'E'\nx\\\nE\nrm canary\nE", denyList: caught},
		{script: "cat <<E\nx\\\nE\nE\nrm canary", denyList: caught},
		{script: "echo 'a\\\n' ; rm canary #'", denyList: caught},
		{script: "select x in rm; do rm canary; break; done <<< 1", denyList: caught},
		// Substitutions and here-documents.
		{script: "echo $(rm canary)", denyList: caught},
		{script: "echo `rm canary`", denyList: caught},
		{script: "echo \"$(rm canary)\"", denyList: caught},
		{script: "echo ${x:-$(rm canary)}", denyList: caught},
		{script: "cat <(rm canary)", denyList: caught},
		{script: "cat <<E\n$(rm canary)\nE", denyList: caught},
		{script: "cat <<< $(rm canary)", denyList: caught},
		{script: "x=$(rm canary)", denyList: caught},
		{script: "echo $(( $(rm canary; echo 1) ))", denyList: caught},
		{script: "ls > $(rm canary; echo /dev/null)", denyList: caught},
		{script: "bash <<E\nrm canary\nE", denyList: opaque},
		{script: "bash <<< 'rm canary'", denyList: opaque},
		{script: "source /dev/stdin <<< 'rm canary'", denyList: opaque},
		{script: ". <(echo rm canary)", denyList: opaque},
		// Quoting and expansion.
		{script: `\rm canary`, denyList: caught},
		{script: `'rm' canary`, denyList: caught},
		{script: `r"m" canary`, denyList: caught},
		{script: `r''m canary`, denyList: caught},
		{script: `r\m canary`, denyList: caught},
		{script: "r\\\nm canary", denyList: caught},
		{script: `$'rm' canary`, denyList: caught},
		{script: `$'\x72m' canary`, denyList: opaque},
		{script: `$'\162\155' canary`, denyList: opaque},
		{script: `$"rm" canary`, denyList: opaque},
		{script: "{rm,canary}", denyList: opaque},
		{script: "/bin/r? canary", denyList: opaque},
		{script: "/bin/[r]m canary", denyList: opaque},
		{script: "x=rm; $x canary", denyList: opaque},
		{script: "x=rm; ${x} canary", denyList: opaque},
		{script: "x=mr; ${x:1}${x:0:1} canary", denyList: opaque},
		{script: "rm${x} canary", denyList: opaque},
		{script: "$(echo rm) canary", denyList: opaque},
		{script: "$(echo cm0gY2FuYXJ5 | base64 -d)", denyList: opaque},
		{script: "echo cm0gY2FuYXJ5 | base64 -d | sh", denyList: opaque},
		{script: "set -- rm canary; \"$@\"", denyList: opaque},
		{script: "IFS=,; x=rm,canary; $x", denyList: opaque},
		{script: "/bin/rm canary", denyList: caught},
		{script: "../../../../../../../bin/rm canary", denyList: caught, needs: "-"},
		{script: "alias x=rm\nshopt -s expand_aliases\nx canary", denyList: opaque},
		// Texts that are run later, or as something else.
		{script: "sh -c 'rm canary'", denyList: caught},
		{script: "bash -lc 'rm canary'", denyList: caught},
		{script: "bash -ce 'rm canary'", denyList: caught},
		{script: "bash -c -e 'rm canary'", denyList: caught},
		{script: "bash -o errexit -c 'rm canary'", denyList: caught},
		{script: "sh -c '$0 canary' rm", denyList: opaque},
		{script: "sh -c \"sh -c 'rm canary'\"", denyList: caught},
		{script: "eval rm canary", denyList: caught},
		{script: "eval 'r''m canary'", denyList: caught},
		{script: "eval -- rm canary", denyList: caught},
		{script: "trap 'rm canary' EXIT", denyList: caught},
		{script: "trap -- 'rm canary' EXIT", denyList: caught},
		{script: "PS4='$(rm canary)'; set -x; ls", denyList: opaque},
		{script: "x='a[$(rm canary)]'; echo $((x))", denyList: opaque},
		{script: "[[ 'a[$(rm canary)]' -eq 0 ]]", denyList: opaque},
		{script: "test -v 'a[$(rm canary)]'", denyList: opaque},
		{script: "[ -v 'a[$(rm canary)]' ]", denyList: opaque},
		{script: "printf -v 'a[$(rm canary)]' x", denyList: opaque},
		{script: "read 'a[$(rm canary)]' <<< x", denyList: opaque},
		{script: "let 'a[$(rm canary)]'", denyList: opaque},
		{script: "declare -i x='a[$(rm canary)]'", denyList: opaque},
		{script: "x='$(rm canary)'; echo \"${x@P}\"", denyList: opaque},
		{script: "for i in 'a[$(rm canary)]'; do echo $((i)); done", denyList: opaque},
		{script: "mapfile -C 'rm canary #' -c 1 <<< x", denyList: opaque},
		{script: "command_not_found_handle() { rm canary; }; nosuch", denyList: caught},
		// Programs that run others.
		{script: "command rm canary", denyList: caught},
		{script: "exec rm canary", denyList: caught},
		{script: "exec -a ls rm canary", denyList: caught},
		{script: "env rm canary", denyList: caught},
		{script: "env - /bin/rm canary", denyList: caught},
		{script: "env -S 'rm canary'", denyList: opaque},
		{script: "env --unset ls rm canary", denyList: opaque, needs: "-"},
		{script: "nohup rm canary", denyList: caught},
		{script: "nice -n 3 rm canary", denyList: caught},
		{script: "nice --adjustment 3 rm canary", denyList: opaque},
		{script: "timeout 5 rm canary", denyList: caught},
		{script: "timeout --signal KILL 5 rm canary", denyList: opaque},
		{script: "timeout -s KILL 5 rm canary", denyList: caught},
		{script: "command time -o ls rm canary", denyList: opaque, needs: "time"},
		{script: "stdbuf -oL rm canary", denyList: caught, needs: "stdbuf"},
		{script: "setsid -w rm canary", denyList: caught, needs: "setsid"},
		{script: "ionice -c 3 rm canary", denyList: caught, needs: "ionice"},
		{script: "flock a rm canary", denyList: caught, needs: "flock"},
		{script: "flock a -c 'rm canary'", denyList: opaque, needs: "flock"},
		{script: "taskset 1 rm canary", denyList: opaque, needs: "taskset"},
		{script: "strace -o /dev/null rm canary", denyList: opaque, needs: "-"},
		{script: "busybox rm canary", denyList: opaque, needs: "busybox"},
		{script: "sudo rm canary", denyList: caught, needs: "-"},
		{script: "doas -u root rm canary", denyList: caught, needs: "-"},
		{script: "su -c 'rm canary'", denyList: caught, needs: "-"},
		{script: "script -qc 'rm canary' /dev/null", denyList: caught, needs: "script"},
		{script: "watch -n 1 rm canary", denyList: caught, needs: "-"},
		{script: "ssh localhost rm canary", denyList: opaque, needs: "-"},
		{script: "parallel rm ::: canary", denyList: opaque, needs: "-"},
		{script: "docker run -v .:/w x rm /w/canary", denyList: opaque, needs: "-"},
		{script: "/lib64/ld-linux-x86-64.so.2 /bin/rm canary", denyList: opaque, needs: "/lib64/ld-linux-x86-64.so.2"},
		{script: "echo canary | xargs rm", denyList: caught},
		{script: "echo canary | xargs -I% sh -c 'rm %'", denyList: opaque},
		{script: "echo rm canary | xargs -I% sh -c %", denyList: opaque},
		{script: "echo 'rm canary' | xargs -d '\\n' sh -c", denyList: opaque},
		{script: "find . -name canary -exec rm {} +", denyList: caught, needs: "find"},
		{script: "find . -maxdepth 0 -exec ls {} \\; -exec rm canary \\;", denyList: caught, needs: "find"},
		{script: "find . -name canary -exec sh -c 'rm \"$1\"' x {} \\;", denyList: caught, needs: "find"},
		{script: "git -c alias.x='!rm canary' x", denyList: opaque, needs: "git"},
		{script: "git -c core.pager='rm canary; cat' -p help git", denyList: opaque, needs: "-"},
		{script: "git init -q && git config alias.x '!rm canary' && git x", denyList: opaque, needs: "git"},
		{script: "git diff --ext-diff", denyList: opaque, needs: "-"},
		{script: "git ls-remote --upload-pack='rm canary;' .", denyList: opaque, needs: "git"},
		{script: "git ls-remote 'ext::sh -c rm% canary'", denyList: opaque, needs: "-"},
		{script: "git rebase -x 'rm canary' HEAD~1", denyList: opaque, needs: "-"},
		{script: "git bisect run rm canary", denyList: opaque, needs: "-"},
		{script: "go test -exec 'rm canary' ./...", denyList: opaque, needs: "-"},
		{script: "go vet -vettool=./evil ./...", denyList: opaque, needs: "-"},
		{script: "tar cf /dev/null a --checkpoint=1 --checkpoint-action=exec='rm canary'", denyList: opaque, needs: "tar"},
		{script: "tar cf /dev/null a --checkpoint=1 --checkpoint-act=exec='rm canary'", denyList: opaque, needs: "tar"},
		{script: "tar cfI /dev/null 'sh -c \"rm canary\"' a", denyList: opaque, needs: "tar"},
		{script: "awk 'BEGIN{system(\"rm canary\")}'", denyList: opaque, needs: "awk"},
		{script: "awk 'BEGIN{print \"x\" > \"canary\"}'", denyList: opaque, needs: "awk"},
		{script: "sed -n '1e rm canary' a", denyList: opaque, needs: "sed"},
		{script: "sed 's/x/rm canary/e' a", denyList: opaque, needs: "sed"},
		{script: "sed -n 'w canary' a", denyList: opaque, needs: "sed"},
		{script: "vim -es -c '!rm canary' -c q", denyList: opaque, needs: "vim"},
		{script: "ed -s <<< '!rm canary'", denyList: opaque, needs: "ed"},
		{script: "python3 -c 'import os; os.remove(\"canary\")'", denyList: opaque, needs: "python3"},
		{script: "echo 'import os; os.remove(\"canary\")' | python3", denyList: opaque, needs: "python3"},
		{script: "perl -e 'unlink \"canary\"'", denyList: opaque, needs: "perl"},
		{script: "perl -ne 'unlink \"canary\"' a", denyList: opaque, needs: "perl"},
		{script: "node -e 'require(\"fs\").unlinkSync(\"canary\")'", denyList: opaque, needs: "node"},
		{script: "make --eval='x:;rm canary' x", denyList: opaque, needs: "make"},
		{script: "npx rimraf canary", denyList: opaque, needs: "-"},
		{script: "gdb -batch -ex 'shell rm canary'", denyList: opaque, needs: "gdb"},
		{script: "LD_PRELOAD=./evil.so ls rm", denyList: missed, needs: "-"},
		// Other ways to the same end, which only an allow-list and a sandbox stop.
		{script: "mv canary gone", denyList: missed},
		{script: "> canary", denyList: missed},
		{script: "ls > canary", denyList: missed},
		{script: "ls >| canary", denyList: missed},
		{script: "ls &> canary", denyList: missed},
		{script: "ls nosuch 2> canary", denyList: missed},
		{script: "exec 3> canary", denyList: missed},
		{script: "cd . && ls > canary", denyList: missed},
		{script: "cp a canary", denyList: missed},
		{script: "tee canary < a", denyList: missed},
		{script: "dd if=/dev/null of=canary", denyList: missed},
		{script: "truncate -s 0 canary", denyList: missed, needs: "truncate"},
		{script: "unlink canary", denyList: missed, needs: "unlink"},
		{script: "shred canary", denyList: missed, needs: "shred"},
		{script: "find . -name canary -delete", denyList: missed, needs: "find"},
		{script: "find . -fprint canary", denyList: missed, needs: "find"},
		{script: "sed -i d canary", denyList: missed, needs: "sed"},
		{script: "sed -ni p canary; sed -i d canary", denyList: missed, needs: "sed"},
		{script: "sort -o canary a", denyList: missed},
		{script: "sort -ocanary a", denyList: missed},
		{script: "sort --outp=canary a", denyList: missed},
		{script: "for x in -ocanary; do sort $x a; done", denyList: missed},
		{script: "sort ${x:--ocanary} a", denyList: missed},
		{script: "sort $(echo -ocanary) a", denyList: missed},
		{script: "echo -ocanary; sort $_ a", denyList: missed},
		{script: "echo > ./-ocanary; sort *ocanary a", denyList: missed},
		{script: "git diff --no-index --output=canary a /dev/null", denyList: missed, needs: "git"},
		{script: "git diff --no-index --output canary a /dev/null", denyList: missed, needs: "git"},
		{script: "echo 'rm canary' > s; chmod +x s; ./s", denyList: missed},
		{script: "echo 'rm canary' > go; chmod +x go; PATH=.:$PATH go test", denyList: missed},
		{script: "echo 'rm canary' > ls; chmod +x ls; ./ls", denyList: missed},
		{script: "echo 'rm canary' > e; BASH_ENV=./e bash -c ls", denyList: missed},
		{script: "echo 'rm canary' > go; chmod +x go; hash -p ./go ls; ls", denyList: opaque},
		{script: "printf 'x:\\n\\trm canary\\n' > Makefile; make", denyList: missed, needs: "make"},
		{script: "printf '{\"scripts\":{\"x\":\"rm canary\"}}' > package.json; npm run x", denyList: missed, needs: "-"},
	}
}

// allowList is a policy that allows some commands, and nothing else.
func allowList() *policy.Policy {
	return policy.New(rules("allow shell(go test *)", "allow shell(go vet *)", "allow shell(git status)", "allow shell(git diff *)", "allow shell(git log *)", "allow shell(git ls-remote *)", "allow shell(ls *)", "allow shell(echo *)",
		"allow shell(cat *)", "allow shell(grep *)", "allow shell(sort *)", "allow shell(find *)", "allow shell(sed *)", "allow shell(awk *)", "allow shell(tar *)", "allow shell(test *)", "allow shell([ *)", "allow shell(printf *)",
		"allow shell(head *)", "allow shell(wc *)", "allow shell(xargs *)", "allow shell(env *)", "allow shell(flock *)", "allow read_file(**)"), "deny", "/w")
}

func denyList() *policy.Policy { return policy.New(rules("deny shell(rm *)"), "allow", "/w") }

// Of all ways to spell what is forbidden none passes an allow-list. A deny-list is
// another matter, and docs/permissions.md gives its figures.
func TestSpellings(t *testing.T) {
	all := spellings()
	count, tried := map[policy.Effect]int{}, 0
	for _, s := range all {
		if d := allowList().Judge(shell(s.script)); d.Effect != policy.Deny && d.Effect != policy.Ask {
			t.Errorf("an allow-list lets %q pass (%s)", s.script, d.Why)
		}
		d := denyList().Judge(shell(s.script))
		if d.Effect != s.denyList {
			t.Errorf("a deny-list says %s of %q (%s), want %s", d.Effect, s.script, d.Why, s.denyList)
		}
		count[d.Effect]++
		if s.needs != "-" {
			tried++
		}
	}
	figures := fmt.Sprintf("Of %d spellings of a forbidden command, %d of them tried in a real shell, an allow-list lets none pass. `deny: shell(rm *)` with `default: allow` denies %d of them, asks about %d, and misses %d,",
		len(all), tried, count[caught], count[opaque], count[missed])
	page, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), figures) {
		t.Errorf("docs/permissions.md does not say: %s", figures)
	}
}

// Whatever a spelling stands in, it does not pass.
func TestSpellingsInContext(t *testing.T) {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	contexts := map[string]func(string) string{
		"subshell":     func(s string) string { return "(\n" + s + "\n)" },
		"group":        func(s string) string { return "{ ls\n" + s + "\n}" },
		"substitution": func(s string) string { return "echo \"$(\n" + s + "\n)\"" },
		"process":      func(s string) string { return "cat <(\n" + s + "\n)" },
		"heredoc":      func(s string) string { return "cat <<END_OF_TEXT\n$(\n" + s + "\n)\nEND_OF_TEXT\n" },
		"condition":    func(s string) string { return "if ls; then\n" + s + "\nfi" },
		"loop":         func(s string) string { return "while ls; do\n" + s + "\ndone" },
		"case":         func(s string) string { return "case $x in *)\n" + s + "\n;; esac" },
		"function":     func(s string) string { return "ls() {\n" + s + "\n}\nls" },
		"shell":        func(s string) string { return "sh -c " + quoted(s) },
		"bash":         func(s string) string { return "timeout 5 bash -euo pipefail -c " + quoted(s) },
		"eval":         func(s string) string { return "eval " + quoted(s) },
		"find":         func(s string) string { return "find . -exec sh -c " + quoted(s) + " \\;" },
		"xargs":        func(s string) string { return "ls | xargs -n 1 sh -c " + quoted(s) },
		"default":      func(s string) string { return "echo ${x:-$(\n" + s + "\n)}" },
		"arithmetic":   func(s string) string { return "echo $(( $(\n" + s + "\n) + 1 ))" },
		"background":   func(s string) string { return "{\n" + s + "\n} &\nwait" },
		"beside":       func(s string) string { return "ls && git status\n" + s + "\necho done" },
	}
	p := allowList()
	for _, s := range spellings() {
		for name, context := range contexts {
			if d := p.Judge(shell(context(s.script))); d.Effect != policy.Deny && d.Effect != policy.Ask {
				t.Errorf("an allow-list lets %q pass in a %s: %s", s.script, name, d.Why)
			}
		}
	}
}

// The spellings do what they are there for, so that the table is worth something.
func TestSpellingsWork(t *testing.T) {
	for _, s := range spellings() {
		if s.needs == "-" {
			continue
		}
		if s.needs != "" {
			if _, err := exec.LookPath(s.needs); err != nil {
				continue
			}
		}
		if harmed, out := try(t, s.script); !harmed {
			t.Errorf("%q does nothing: %s", s.script, out)
		}
	}
}

// benign are scripts that the allow-list lets pass.
func benign() []string {
	return []string{
		"ls", "ls -la | head -n 3", "ls && echo done", "ls; git status", "ls > /dev/null 2>&1", "ls || true", "(cd sub && ls)", "cd sub; ls", "timeout 20 ls", "nice -n 5 ls", "time ls", "nohup ls > /dev/null",
		"git status", "git diff HEAD --stat", "git log --oneline -n 3", "git diff -- a", "git diff ./a && git status",
		"echo \"$HOME\"", "echo 'rm canary'", "echo rm canary", "grep -rn rm .", "grep -c x a | sort -n", "cat a | wc -l", "cat < a", "wc -l <<< x",
		"for f in a sub; do ls $f; done", "if test -f a; then cat a; fi", "[ -f a ] && cat a", "[[ -f a ]] && cat a", "echo $((1 + 2))",
		"find . -name '*.go' -type f", "sort -u a", "sort -k 2 -n a", "sed -n '1,3p' a", "sed 's/x/y/g; /^$/d' a", "awk '{print $1}' a", "printf '%s\\n' \"$x\"",
		"tar tf nosuch.tar", "sh -c 'ls && echo'", "bash -lc 'ls'", "find . -name a -print0 | xargs -0 grep x", "env ls", "flock a ls", "cat <<'E'\n$(rm canary)\nE", "echo `ls`", "echo \"$(ls)\"", "ls -- *",
	}
}

// usual are scripts that a deny-list has no business with.
func usual() []string {
	return append(benign(),
		"go build -o bin/x ./...", "go test -coverprofile=c.out ./...", "go test ./... 2>&1 | tee log", "GOOS=linux go build", "export CGO_ENABLED=0; go vet ./...", "go build -ldflags '-X main.v=1'",
		"git commit -m 'rm what is old'", "git add -A && git commit -m x", "git rm a", "git checkout -b x", "git config --get user.name", "docker rm x", "npm test", "npm run build", "npm ci && npm run lint -- --fix",
		"python3 x.py --rm", "python3 -m pytest -q", "node index.js", "make -j4 test", "make VERBOSE=1", "cargo build --release", "sed -i 's#a#b#g' a", "sed -E -e 's/(a|b)/\\1/' a", "curl -sSL https://go.dev -o f", "tar xzf x.tgz", "tar -cf x.tar a",
		"for f in *.go; do gofmt -l \"$f\"; done", "i=$((i+1))", "if [ \"$x\" -gt 3 ]; then echo $x; fi", "cat > f <<'EOF'\n$(x) `y`\nEOF", "x=$(ls); echo \"$x\"", "awk -F: '{print $1}' /etc/passwd", "while read -r l; do echo \"$l\"; done < a", "xargs -I{} cp {} out < a",
		"mkdir -p a/b && cd a/b && touch c", "rmdir x", "./configure --prefix=/usr && make", "ps aux | grep -v rm", "which rm", "man rm", "kill %1",
	)
}

// A rule that denies one command leaves the usual ones alone.
func TestUsual(t *testing.T) {
	for _, script := range usual() {
		if d := denyList().Judge(shell(script)); d.Effect != policy.Allow {
			t.Errorf("%q is %s: %s", script, d.Effect, d.Why)
		}
	}
}

// Benign scripts pass an allow-list, and whatever passes one does no harm.
func TestBenign(t *testing.T) {
	p := allowList()
	passed := 0
	for _, script := range benign() {
		d := p.Judge(shell(script))
		if d.Effect == policy.Allow {
			passed++
		} else {
			t.Errorf("%q does not pass: %s", script, d.Why)
		}
	}
	t.Logf("%d of %d benign scripts pass", passed, len(benign()))
	scripts := benign()
	for _, s := range spellings() {
		scripts = append(scripts, s.script)
	}
	for _, script := range scripts {
		if p.Judge(shell(script)).Effect != policy.Allow {
			continue
		}
		if harmed, out := try(t, script); harmed {
			t.Errorf("%q passes and does harm: %s", script, out)
		}
	}
}

// try runs a script beside a canary, and reports whether that was harmed.
func try(t *testing.T, script string) (harmed bool, output string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"canary": "alive\n", "a": "x\n", "sub/b": "x\n"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	out, _ := cmd.CombinedOutput() // most of them fail, one way or another
	text, err := os.ReadFile(filepath.Join(dir, "canary"))
	return err != nil || string(text) != "alive\n", string(out)
}
