package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"flow/agents"
	"flow/agents/policy"
)

// rules reads rules as a pipeline has them: "allow shell(go test *)".
func rules(lines ...string) (out []agents.Rule) {
	for i, line := range lines {
		effect, rest, _ := strings.Cut(line, " ")
		tool, pattern, _ := strings.Cut(rest, "(")
		out = append(out, agents.Rule{Effect: effect, Tool: tool, Pattern: strings.TrimSuffix(pattern, ")"), Where: fmt.Sprintf("p.yaml:%d:3", i+1)})
	}
	return out
}

func shell(script string) policy.Call { return policy.Call{Tool: agents.ToolShell, Target: script} }

func file(tool agents.Tool, path string) policy.Call { return policy.Call{Tool: tool, Target: path} }

func TestOrder(t *testing.T) {
	all := rules("allow shell(git *)", "ask shell(git push *)", "deny shell(git push --force *)")
	for _, fallback := range []string{"", "allow", "ask", "deny"} {
		p := policy.New(all, fallback, "/w")
		for script, want := range map[string]policy.Effect{
			"git status": policy.Allow, "git push": policy.Ask, "git push --force origin": policy.Deny, "make": policy.Effect(fallback),
		} {
			if d := p.Judge(shell(script)); d.Effect != want {
				t.Errorf("default %q: %s is %q, want %q", fallback, script, d.Effect, want)
			}
		}
	}
	d := policy.New(all, "deny", "/w").Judge(shell("git push --force x"))
	if d.Rule == nil || policy.Text(*d.Rule) != "deny shell(git push --force *) at p.yaml:3:3" {
		t.Errorf("the rule is %+v", d.Rule)
	}
	if d := policy.New(nil, "deny", "/w").Judge(shell("x")); d.Effect != policy.Deny || d.Rule != nil || d.Why != "shell x" {
		t.Errorf("without rules: %+v", d)
	}
	if !policy.New(nil, "", "/w").Empty() || policy.New(nil, "deny", "/w").Empty() {
		t.Error("what is empty?")
	}
}

// What is forbidden stays so however it is spelt. What cannot be told is asked for.
func TestForbidden(t *testing.T) {
	p := policy.New(rules("deny shell(rm *)", "deny shell(git push *)", "deny write_file(**/.env*)", "deny write_file(/etc/**)", "allow shell(echo *)"), "allow", "/w")
	cases := map[policy.Effect][]string{
		policy.Deny: {
			"rm -rf /", "rm", "true && rm x", "true; rm x", "false || rm x", "echo a | rm x", "echo a & rm x", "(rm x)", "{ rm x; }",
			"if true; then rm x; fi", "for f in a; do rm $f; done", "while rm x; do :; done", "case a in a) rm x;; esac", "f() { rm x; }; f",
			"echo $(rm x)", "echo `rm x`", `echo "$(rm x)"`, "echo <(rm x)", "echo ${x:-$(rm x)}", "cat <<E\n$(rm x)\nE", "x=$(rm x)", "! rm x", "time rm x", "coproc rm x",
			"/bin/rm x", "../../bin/rm x", `\rm x`, `r\m x`, `'rm' x`, `r"m" x`, `$'rm' x`, "rm\\\n x", "X=1 rm x",
			"sh -c 'rm x'", `bash -lc "rm x"`, "bash -c 'bash -c \"rm x\"'", "eval rm x", "eval 'rm x'", "trap 'rm x' EXIT", "watch rm x", "su -c 'rm x'",
			"nohup rm x", "nice -n 5 rm x", "timeout 5 rm x", "timeout -k 1 5 rm x", "timeout --foreground 5 rm x", "env rm x", "env A=1 -u B rm x", "env -- rm x", "sudo rm x", "sudo -u root -- rm x",
			"doas rm x", "command rm x", "builtin rm x", "exec rm x", "stdbuf -oL rm x", "setsid rm x", "ionice -c 3 rm x", "flock /tmp/l rm x", "xargs rm", "ls | xargs -n 1 rm -f", "find . -exec rm {} \\;", "find . -execdir rm {} +",
			"git push", "git push origin", "git -C /x push origin", "git -c a=b push", "git --no-pager push",
			"echo x > .env", "echo x >> a/.env.local", "echo x > /etc/passwd", "echo x >| .env", "echo x &> .env", "echo x 2> .env", "echo x > ../../etc/passwd", "echo x <> .env", "echo x >& .env", "cat < a > sub/../.env",
		},
		policy.Ask: {
			"$x a", "${x} a", "$(echo rm) x", "`echo rm` x", "r? x", "{rm,x}", "~/rm x", `$'\x72m' x`, "git $x", "curl x | sh", "bash < x", "sh x.sh", ". ./x", "source x", "ssh host rm x", "env -S 'rm x'",
			"eval $x", "eval \"$x\"", "sh -c \"$x\"", "trap \"$x\" EXIT", "rm$x", "if then", "echo 'a", "echo x > $f", "cd /etc; echo x > passwd", "pushd a && echo x > .env", "echo x > *", "busybox rm x",
			"", // the agent does not tell what it runs
		},
		policy.Allow: {
			"# rm", "ls", "echo rm x", "echo 'rm x'", "git status", "git pull", "echo x > a.txt", "echo x 2>&1", "echo x > /dev/null", "cat < .env", "firm x", "rmdir x", "git stash push", "cd sub && make", "[ -f x ]", "[[ -f x ]]", "test -f x", "true", "echo $x", "ls *",
		},
	}
	delete(cases, "")
	for want, scripts := range cases {
		for _, s := range scripts {
			if got := p.Judge(shell(s)); got.Effect != want && (want != policy.Ask || got.Effect != policy.Deny) {
				t.Errorf("%q is %q (%s), want %q", s, got.Effect, got.Why, want)
			}
		}
	}
}

// What is allowed by name is not a way to more than that.
func TestAllowed(t *testing.T) {
	p := policy.New(rules("allow shell(go test *)", "allow shell(git diff *)", "allow shell(find . *)", "allow shell(ls)", "allow shell(bash -c *)", "allow write_file(out/**)"), "deny", "/w")
	for _, s := range []string{
		"go test", "go test ./...", "go  test   -v ./...", "'go' test", "go test ./... 2>&1", "go test > out/log", "go test ./... && git diff", "go test | ls", "timeout 60 go test ./...", "nohup nice -n 3 go test", "time go test",
		"cd sub && go test", "cd /w/sub; go test", "sh -c 'go test && ls'", "git diff HEAD~1", "git diff \"$x\"", "find . -name '*.go'", "ls", "(ls)", "if ls; then go test; fi", "go test \"./$(ls)\"", ": comment", "ls > /dev/null", "bash -c 'ls'",
	} {
		if d := p.Judge(shell(s)); d.Effect != policy.Allow {
			t.Errorf("%q is %q (%s)", s, d.Effect, d.Why)
		}
	}
	for _, s := range []string{
		"rm x", "go", "go testx", "go build", "gotest", "ls -l", "ls x", "go test; rm x", "go test && rm x", "go test || rm x", "go test | tee x", "go test & rm x", "go test $(rm x)", "go test `rm x`", "go test <(rm x)", "go test \"$(rm x)\"", "go test $(ls)", "go test *.go", // a file may be named -exec=…
		"go test\nrm x", "go test > x", "go test >> ~/.bashrc", "ls > out/../x", "ls > $x", "cd / && ls > out/x", "ls 2> x", "PATH=/tmp go test", "X=1 go test", "X=1", "export X=1; go test", "env go test", "sudo go test", "xargs go test", "/tmp/go test", "./go test",
		"go test -exec rm", "go test -exec=rm ./...", "go test --exec rm", "go test -toolexec rm", "go test -o x", "git diff --output=x", "git diff --ext-diff", "git -c core.pager=x diff", "find . -delete", "find . -exec rm {} +", "find . -fprint x",
		"sh -c 'rm x'", "sh -c \"$x\"", "sh", "eval rm x", "$x", "`ls`", "go test () { rm x; }", "go() { rm x; }; go test", "alias go=rm; go test", "function ls { rm; }", "trap 'rm x' EXIT", "bash -c 'rm x'", "coproc rm", "cat <<E\n$(rm x)\nE", "cd ..", "cd $x", "cd sub && ls > f",
	} {
		if d := p.Judge(shell(s)); d.Effect == policy.Allow || d.Effect == policy.Unruled {
			t.Errorf("%q passes: %s", s, d.Why)
		}
	}
}

// Rules that are about every command need not understand it.
func TestAnyCommand(t *testing.T) {
	for line, want := range map[string]policy.Effect{"allow shell": policy.Allow, "deny shell": policy.Deny, "deny *": policy.Deny, "ask shell": policy.Ask} {
		p := policy.New(rules(line, "allow read_file(**)"), "deny", "/w")
		for _, s := range []string{"ls", "$x", "if then", "ls > x"} {
			if d := p.Judge(shell(s)); d.Effect != want {
				t.Errorf("%s: %q is %q", line, s, d.Effect)
			}
		}
	}
	p := policy.New(rules("allow shell", "deny write_file"), "deny", "/w")
	if d := p.Judge(shell("ls > x")); d.Effect != policy.Deny {
		t.Errorf("a redirection is %q", d.Effect)
	}
	p = policy.New(rules("allow read_file(**)"), "", "/w")
	for _, s := range []string{"ls", "$x", "if then", "ls > x"} {
		if d := p.Judge(shell(s)); d.Effect != policy.Unruled {
			t.Errorf("without a rule, %q is %q", s, d.Effect)
		}
	}
}

func TestFiles(t *testing.T) {
	cases := []struct {
		pattern string
		match   []string
		not     []string
	}{
		{"**", []string{"a", "a/b", "/w/a", ".hidden", "a/../b"}, []string{"/etc/passwd", "../x", "~/x", "/w/../x", "/wx/a"}},
		{"src/**", []string{"src", "src/a", "src/a/b", "/w/src/a", "x/../src/a"}, []string{"srcx/a", "a/src/b", "src/../a", "/src/a"}},
		{"src/", []string{"src/a"}, []string{"src/../a"}},
		{"*.go", []string{"a.go"}, []string{"a/b.go", "a.gox"}},
		{"**/*.go", []string{"a.go", "a/b/c.go"}, []string{"/x/a.go", "a.gox"}},
		{"a/**/b", []string{"a/b", "a/x/b", "a/x/y/b"}, []string{"a/xb", "b"}},
		{"a?c", []string{"abc"}, []string{"a/c", "ac"}},
		{"/etc/**", []string{"/etc/passwd", "/etc/../etc/x", "../etc/x"}, []string{"etc/passwd", "/etcx"}},
		{"/w/a", []string{"a", "/w/a"}, []string{"b"}},
		{"~/x", []string{"~/x"}, []string{"x", "/x"}},
		{"./a", []string{"a"}, []string{"b"}},
		{"a.b", []string{"a.b"}, []string{"axb"}},
	}
	for _, c := range cases {
		p := policy.New(rules("allow read_file("+c.pattern+")"), "deny", "/w")
		for _, path := range c.match {
			if d := p.Judge(file(agents.ToolReadFile, path)); d.Effect != policy.Allow {
				t.Errorf("%s does not match %s", c.pattern, path)
			}
		}
		for _, path := range append(c.not, "") {
			if d := p.Judge(file(agents.ToolReadFile, path)); d.Effect != policy.Deny {
				t.Errorf("%s matches %q", c.pattern, path)
			}
		}
	}
}

// A file that is forbidden in any directory is so outside of the workspace as well, for
// whatever writes files, and in whatever company.
func TestForbiddenFiles(t *testing.T) {
	p := policy.New(rules("deny write_file(**/.env*)"), "allow", "/w")
	for _, c := range []policy.Call{
		file(agents.ToolWriteFile, ".env"), file(agents.ToolEditFile, "a/.env.local"), file(agents.ToolEditFile, "/home/u/.env"), file(agents.ToolEditFile, "~/.env"), file(agents.ToolWriteFile, "../.env"),
		{Tool: agents.ToolEditFile, Target: "a", Arguments: []byte(`{"changes":[{"path":"a"},{"path":"b/.env"}]}`)},
		{Tool: agents.ToolWriteFile, Target: "a", Arguments: []byte(`{"file_path":"/w/.env"}`)},
		// Names that differ in case are others to the agent.
		{Tool: agents.ToolWriteFile, Target: ".env", Arguments: []byte(`{"file_path":".env","FILE_PATH":"a"}`)},
		{Tool: agents.ToolEditFile, Target: ".env", Arguments: []byte(`{"changes":[{"path":".env","Path":"a"}],"change\u017f":[{"path":"a"}]}`)},
		{Tool: agents.ToolEditFile, Target: ".env", Arguments: []byte(`{"Path":"a"}`)},
	} {
		if d := p.Judge(c); d.Effect != policy.Deny || d.Rule == nil {
			t.Errorf("%+v is %+v", c, d)
		}
	}
	for _, c := range []policy.Call{file(agents.ToolWriteFile, "env"), file(agents.ToolReadFile, ".env")} {
		if d := p.Judge(c); d.Effect != policy.Allow {
			t.Errorf("%+v is %q", c, d.Effect)
		}
	}
	if d := p.Judge(file(agents.ToolEditFile, "")); d.Effect != policy.Ask {
		t.Errorf("a file that is not named is %q", d.Effect)
	}
	list := policy.Call{Tool: agents.ToolReadFile, Target: "a .key", Arguments: []byte(`{"include":["a",".key"]}`)}
	if d := policy.New(rules("deny read_file(.key)"), "", "/w").Judge(list); d.Effect != policy.Deny {
		t.Errorf("a file in a list is %q", d.Effect)
	}
}

func TestOtherTools(t *testing.T) {
	search := func(target, args string) policy.Call {
		return policy.Call{Tool: agents.ToolSearchContent, Target: target, Arguments: []byte(args)}
	}
	fetch := func(url string) policy.Call { return policy.Call{Tool: agents.ToolWebFetch, Target: url} }
	mcp := func(name string) policy.Call { return policy.Call{Tool: agents.ToolMCP, Native: name} }
	cases := []struct {
		rule string
		call policy.Call
		hit  bool
	}{
		{"allow search_content", search("x", ""), true},
		{"allow search_content(src/**)", search("x", `{"path":"src"}`), true},
		{"allow search_content(src/**)", search("x", `{}`), false},
		{"allow search_content(src/**)", search("x", `{"path":"/etc","PATH":"src"}`), false},
		{"allow search_content(**)", search("x", `{}`), true},
		{"allow search_content(**)", search("x", `{"dir_path":"/etc"}`), false},
		{"allow find_files(**)", policy.Call{Tool: agents.ToolFindFiles, Target: "/etc/*"}, false},
		{"allow find_files(**)", policy.Call{Tool: agents.ToolFindFiles, Target: "*.go"}, true},
		{"allow find_files(**)", policy.Call{Tool: agents.ToolFindFiles, Target: "../*"}, false},
		{"allow find_files(**)", policy.Call{Tool: agents.ToolFindFiles, Target: "{..,x}/*"}, false},
		{"allow find_files(**)", policy.Call{Tool: agents.ToolFindFiles, Target: "../*", Arguments: []byte(`{"path":"a/b"}`)}, true},
		{"allow web_fetch", fetch("https://a.b"), true},
		{"allow web_fetch(domain:go.dev)", fetch("https://go.dev/x"), true},
		{"allow web_fetch(domain:go.dev)", fetch("https://GO.dev.:443/x"), true},
		{"allow web_fetch(domain:go.dev)", fetch("https://pkg.go.dev/x"), false},
		{"allow web_fetch(domain:go.dev)", fetch("https://go.dev@evil.com/"), false},
		{"allow web_fetch(domain:go.dev)", fetch("https://go.dev.evil.com/"), false},
		{"allow web_fetch(domain:go.dev)", fetch("https://evil.com/?https://go.dev"), false},
		{"allow web_fetch(domain:go.dev)", fetch("read https://go.dev/a and https://go.dev/b"), true},
		{"allow web_fetch(domain:go.dev)", fetch("read https://go.dev/a and https://evil.com/b"), false},
		{"allow web_fetch(domain:go.dev)", fetch("go.dev"), false},
		{"allow web_fetch(domain:*.go.dev)", fetch("https://pkg.go.dev/x"), true},
		{"allow web_fetch(domain:*.go.dev)", fetch("https://go.dev/x"), false},
		{"deny web_fetch(domain:evil.com)", fetch("http://www.evil.com"), true},
		{"allow web_search", policy.Call{Tool: agents.ToolWebSearch, Target: "x"}, true},
		{"allow mcp", mcp("mcp__a__b"), true},
		{"allow mcp(a)", mcp("mcp__a__b"), true},
		{"allow mcp(a)", mcp("mcp_a_b"), true},
		{"allow mcp(a)", mcp("mcp__ab__b"), false},
		{"allow mcp(a/b)", mcp("mcp__a__b"), true},
		{"allow mcp(a/b)", mcp("mcp__a__c"), false},
		{"allow mcp(a/get_*)", mcp("mcp__a__get_x"), true},
		{"allow *", policy.Call{Tool: agents.ToolSubagent, Target: "x"}, true},
		{"allow *", policy.Call{Tool: agents.ToolOther, Native: "X"}, true},
		{"allow shell", policy.Call{Tool: agents.ToolOther, Native: "X", Risk: agents.RiskHigh}, false},
	}
	for _, c := range cases {
		d := policy.New(rules(c.rule), "ask", "/w").Judge(c.call)
		if (d.Rule != nil) != c.hit || !c.hit && d.Effect != policy.Ask {
			t.Errorf("%s on %+v is %+v", c.rule, c.call, d)
		}
	}
}

// An agent's own plan, and the tool by which it answers, are nobody's business.
func TestHarmless(t *testing.T) {
	p := policy.New(rules("deny *"), "deny", "/w")
	for _, c := range []policy.Call{{Tool: agents.ToolTodo}, {Tool: agents.ToolOther, Native: "StructuredOutput", Risk: agents.RiskLow}} {
		if d := p.Judge(c); d.Effect != policy.Allow {
			t.Errorf("%+v is %q", c, d.Effect)
		}
	}
}

// printed is a script as a formatter writes it.
func printed(script string) (string, bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	var b strings.Builder
	if err != nil || syntax.NewPrinter().Print(&b, file) != nil {
		return "", false
	}
	return b.String(), true
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"go test", "rm x", "sh -c 'rm'", "find . -exec rm {} \\;", "env -S x", "timeout", "xargs", "nice -n", "sh -c", "echo > $x", "trap", "X=1", "a\x00b"} {
		f.Add(s)
	}
	for _, s := range spellings() {
		f.Add(s.script)
	}
	for _, s := range usual() {
		f.Add(s)
	}
	p := policy.New(rules("allow shell(ls *)", "allow shell(echo *)", "allow shell(sed *)", "allow shell(sort *)", "allow read_file", "deny shell(rm *)", "deny write_file(.env)"), "deny", "/w")
	f.Fuzz(func(t *testing.T, script string) {
		d := p.Judge(shell(script))
		if d.Effect == policy.Unruled {
			t.Errorf("%q is left undecided", script)
		}
		// How it is laid out changes nothing of what it may.
		if again, ok := printed(script); ok && d.Effect == policy.Allow && p.Judge(shell(again)).Effect != policy.Allow {
			t.Errorf("%q is allowed, and not as %q", script, again)
		}
		// Whatever a script does, something forbidden beside it stays forbidden.
		if both := p.Judge(shell("rm x; true\n" + script)); both.Effect != policy.Deny && both.Effect != policy.Ask {
			t.Errorf("%q hides a command that is forbidden: %+v", script, both)
		}
	})
}
