package policy_test

import (
	"testing"

	"flow/agents/policy"
)

// Rules that match nothing, and those that look odd but may.
func TestNever(t *testing.T) {
	for rule, hint := range map[string]string{
		"allow shell(cd x && make *)":        "write a rule for each command",
		"allow shell(go test * | tee log)":   "write a rule for each command",
		"deny shell(* > /etc/*)":             "write a rule for each command",
		"deny shell(rm *; *)":                "write a rule for each command",
		"allow shell(! go test)":             "write a rule for each command",
		"deny shell(# rm)":                   "write a rule for each command",
		"allow shell(go  test *)":            "write shell(go test *)",
		"allow shell( go test)":              "write shell(go test)",
		"allow shell('go' test *)":           "write shell(go test *)",
		"allow shell(git commit -m \"a b\")": "write shell(git commit -m 'a b')",
		"allow shell(timeout * go test *)":   "allow the command behind it",
		"allow shell(nohup make)":            "allow the command behind it",
		"deny write_file(a//b)":              "write write_file(a/b)",
		"allow read_file(a/./b/**)":          "write read_file(a/b/**)",
		"allow shell(make)":                  "", "allow shell(*)": "", "allow shell(* --force)": "", "allow shell(git * push)": "", "allow shell(git commit -m 'a b')": "", "deny shell(timeout *)": "", "allow shell(timeout)": "",
		"allow shell(X=1 make)": "", "allow shell(export X=*)": "", "allow shell(git commit -m '*)": "", "allow shell(ls ~/x)": "", "allow shell(./x.sh *)": "", "allow shell([ *)": "", "allow shell(git diff \"$x\")": "", "allow shell(env go test *)": "", "allow shell": "",
		"allow write_file(./a)": "", "allow write_file(a/)": "", "allow write_file(/etc/**)": "", "allow write_file(~/x)": "", "allow write_file(**)": "", "allow write_file": "", "allow web_search": "", "allow *": "", "allow mcp(a/b)": "",
	} {
		if why, got := policy.Never(rules(rule)[0]); got != hint || (why == "") != (hint == "") {
			t.Errorf("%s: %q, %q, want %q", rule, why, got, hint)
		}
	}
}
