package claude

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// ruled is a request with rules like "deny shell(rm *)".
func ruled(fallback string, rules ...string) agents.Request {
	r := agents.Request{Prompt: "go", Dir: "/repo", RuleDefault: fallback}
	for _, text := range rules {
		effect, rest, _ := strings.Cut(text, " ")
		tool, pattern, _ := strings.Cut(rest, "(")
		r.Rules = append(r.Rules, agents.Rule{Effect: effect, Tool: tool, Pattern: strings.TrimSuffix(pattern, ")"), Where: "p.yaml:1:1"})
	}
	return r
}

func TestRules(t *testing.T) {
	tests := []struct {
		name string
		r    agents.Request
		want string // from --tools on
	}{
		{
			"a default that denies leaves what is allowed", ruled("deny", "allow read_file(**)", "allow shell(go test *)"),
			"--tools Read,Bash --permission-mode dontAsk --allowedTools Read(/**) Bash(go test *)",
		},
		{"nobody can be asked", ruled("ask", "allow search_content"), "--tools Grep --permission-mode dontAsk --allowedTools Grep"},
		{
			"a default that allows gives everything", ruled("allow", "deny shell(rm *)", "ask web_search"),
			"--tools Read,Grep,Glob,Edit,Write,Bash,WebFetch --permission-mode acceptEdits " +
				"--allowedTools Read Grep Glob Edit Write Bash WebFetch --disallowedTools Bash(rm *) WebSearch",
		},
		{
			"without a default the modes hold", ruled("", "deny read_file(secrets/)", "deny write_file(/etc/**)", "deny read_file(~/.ssh/**)"),
			"--tools Read,Grep,Glob,Edit,Write --permission-mode acceptEdits --disallowedTools Read(/secrets/**) Edit(//etc/**) Read(~/.ssh/**)",
		},
		{
			"web and servers", ruled("deny", "allow web_fetch(example.com)", "allow mcp(github/list)", "allow mcp(jira)", "allow mcp(x/*)"),
			"--tools WebFetch --permission-mode dontAsk --allowedTools WebFetch(domain:example.com) mcp__github__list mcp__jira mcp__x",
		},
		{"nothing at all", ruled("deny"), "--tools  --permission-mode dontAsk"},
		{"nothing at all, as a rule", ruled("", "deny *"), "--tools  --permission-mode acceptEdits --disallowedTools Read Grep Glob Edit Write Bash WebFetch WebSearch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Adapter{}.Command(tt.r)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(c.Args[slices.Index(c.Args, "--tools"):], " ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A rule cannot open what the profile's sandbox keeps shut.
func TestRulesAndSandbox(t *testing.T) {
	r := ruled("deny", "allow shell(ls)")
	r.Sandbox = agents.SandboxWorkspaceWrite
	_, err := Adapter{}.Command(r)
	if err == nil || !strings.Contains(err.Error(), "p.yaml:1:1") {
		t.Errorf("got %v", err)
	}
	if r.Sandbox = agents.SandboxOff; strings.Join(tools(r), ",") != "Bash" {
		t.Errorf("sandbox off: %q", tools(r))
	}
}

// With the two-way transport the answers decide. The CLI's own denials are a second line;
// it is given every tool that a rule may let pass, and never a mode that does not ask.
func TestTalkRules(t *testing.T) {
	plan, deny, all := agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAutoAll
	for _, tt := range []struct {
		name     string
		r        agents.Request
		approval agents.ApprovalMode
		want     string // from --tools on
	}{
		{
			"a default that denies", ruled("deny", "allow read_file(**)", "ask shell(git push *)", "deny shell(rm *)"), "",
			"--tools Read,Bash --permission-mode default --disallowedTools Bash(rm *)",
		},
		{"a default that asks", ruled("ask", "deny web_search"), "", "--tools Read,Grep,Glob,Edit,Write,Bash,WebFetch --permission-mode default --disallowedTools WebSearch"},
		{"a default that allows", ruled("allow", "ask shell"), deny, "--tools Read,Grep,Glob,Edit,Write,Bash,WebFetch,WebSearch --permission-mode default"},
		{"no default", ruled("", "ask shell", "deny read_file(secrets/)"), "", "--tools Read,Grep,Glob,Edit,Write,Bash --permission-mode acceptEdits --disallowedTools Read(/secrets/**)"},
		{"no default, nothing by itself", ruled("", "allow shell(ls)"), deny, "--tools Read,Grep,Glob,Edit,Write,Bash --permission-mode default"},
		{"a plan", ruled("ask"), plan, "--tools Read,Grep,Glob,Edit,Write,Bash,WebFetch,WebSearch --permission-mode plan"},
		{"dangerous ones", ruled(""), agents.ApprovalAskDangerous, "--tools Read,Grep,Glob,Edit,Write --permission-mode default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Transport, tt.r.Approval = talked, tt.approval
			c, err := Adapter{}.Command(tt.r)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(c.Args[slices.Index(c.Args, "--tools"):], " ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, e := range (Adapter{}).Enforcement(tt.r) {
				if e.How != agents.Enforced || !(Adapter{}).Enforces(tt.r, e.Rule) {
					t.Errorf("%+v is not enforced", e)
				}
			}
		})
	}
	everything := ruled("", "ask shell")
	everything.Transport, everything.Approval, everything.Sandbox = talked, all, agents.SandboxOff
	if c, err := (Adapter{}).Command(everything); err != nil || slices.Contains(c.Args, "bypassPermissions") {
		t.Errorf("%q, %v: in that mode nothing is asked", c.Args, err)
	}
	asked := ruled("deny", "ask mcp(github)")
	asked.Transport, asked.Inherit = talked, true
	if c, err := (Adapter{}).Command(asked); err != nil || slices.Contains(c.Args, "--strict-mcp-config") {
		t.Errorf("%q, %v: no server is loaded to be asked about", c.Args, err)
	}
}

func TestTransport(t *testing.T) {
	named := ruled("deny")
	named.Transport = printed
	for want, r := range map[string]agents.Request{talked: ruled("deny"), printed: named, "carrier-pigeon": {Transport: "carrier-pigeon"}} {
		if got := (Adapter{}).Transport(r); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := (Adapter{}).Transport(agents.Request{}); got != printed {
		t.Errorf("without permissions: %s", got)
	}
}

func TestEnforcement(t *testing.T) {
	for text, want := range map[string]string{
		"allow shell(go test *)":      "enforced",
		"deny shell":                  "enforced",
		"deny shell(echo (x))":        "detected Claude Code's rules cannot hold ( or )",
		"deny web_fetch(*.x.org)":     "detected Claude Code has no such patterns for WebFetch",
		"deny search_content(src/**)": "detected Claude Code has no such patterns for Grep",
		"deny mcp(a/b*)":              "enforced no MCP server is loaded",
		"deny *(x)":                   "detected Claude Code has no patterns over all tools",
	} {
		r := ruled("", text)
		e := Adapter{}.Enforcement(r)
		if got := strings.TrimSpace(string(e[0].How) + " " + e[0].Why); len(e) != 1 || got != want {
			t.Errorf("%s: %s", text, got)
		}
		if enforced := (Adapter{}).Enforces(r, &r.Rules[0]); enforced != strings.HasPrefix(want, "enforced") {
			t.Errorf("%s: enforces %t", text, enforced)
		}
	}
	for _, tt := range []struct {
		r    agents.Request
		want string
	}{
		{ruled("deny", "allow read_file(**)"), "enforced"},
		{ruled("deny", "allow read_file(src/**)"), "detected Claude Code reads files of the working directory unasked"},
		{ruled("deny", "allow shell(make)"), "detected Claude Code runs commands that only read unasked"},
		{ruled("deny", "allow shell"), "enforced"},
		{ruled("allow"), "enforced"},
	} {
		all := Adapter{}.Enforcement(tt.r)
		last := all[len(all)-1]
		if got := strings.TrimSpace(string(last.How) + " " + last.Why); last.Rule != nil || got != tt.want {
			t.Errorf("%v: the default is %s, want %s", tt.r.Rules, got, tt.want)
		}
	}
	inherit := ruled("", "deny mcp(a/b*)", "deny mcp(a/b)", "deny mcp")
	inherit.Inherit = true
	if c, err := (Adapter{}).Command(inherit); err != nil || !slices.Contains(c.Args, "--strict-mcp-config") {
		t.Errorf("servers are loaded: %q, %v", c.Args, err)
	}
}
