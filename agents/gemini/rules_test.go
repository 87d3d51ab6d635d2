package gemini

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// ruled adds rules like "deny shell(rm *)" to a request, and a default.
func ruled(fallback string, rules ...string) func(*agents.Request) {
	return func(r *agents.Request) {
		r.RuleDefault, r.Home = fallback, "/home"
		for _, text := range rules {
			effect, rest, _ := strings.Cut(text, " ")
			tool, pattern, _ := strings.Cut(rest, "(")
			r.Rules = append(r.Rules, agents.Rule{Effect: effect, Tool: tool, Pattern: strings.TrimSuffix(pattern, ")"), Where: "p.yaml:1:1"})
		}
	}
}

// policyLines is a policy with one line a rule: priority, decision, tool and what of it.
func policyLines(t *testing.T, with func(*agents.Request)) string {
	t.Helper()
	var out strings.Builder
	for _, rule := range strings.Split(file(t, command(t, request(with)), "/scratch/gemini-policy.toml"), "[[rule]]\n")[1:] {
		fields := map[string]string{}
		for line := range strings.Lines(rule) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
			fields[key] = strings.Trim(value, `"`)
		}
		words := []string{fields["priority"], fields["decision"], fields["toolName"], fields["commandPrefix"], fields["commandRegex"], fields["argsPattern"]}
		out.WriteString(strings.Join(strings.Fields(strings.Join(words, " ")), " ") + "\n")
	}
	return out.String()
}

func TestRules(t *testing.T) {
	const own = "61 allow update_topic\n61 allow write_todos\n61 allow complete_task\n"
	tests := []struct {
		name string
		with func(*agents.Request)
		want string
	}{
		{
			"a default that denies leaves what is allowed", ruled("deny", "allow read_file(**)", "allow shell(go test *)"),
			"900 deny mcp_*\n900 deny discovered_tool_*\n60 deny *\n" + own +
				"100 allow read_file\n100 allow read_many_files\n100 allow run_shell_command go test\n",
		},
		{
			"a default that allows", ruled("allow", "deny shell(make)", "ask web_fetch"),
			"50 allow write_file\n50 allow replace\n50 allow web_fetch\n60 allow run_shell_command .\n60 allow *\n200 deny run_shell_command make\\\n200 deny web_fetch\n",
		},
		{
			"what the CLI has no words for denies nothing, and allows more", ruled("deny", "deny read_file(secret/**)", "allow write_file(docs/**)"),
			"900 deny run_shell_command\n900 deny mcp_*\n900 deny discovered_tool_*\n60 deny *\n" + own + "100 allow write_file\n",
		},
		{
			"servers", ruled("deny", "allow mcp(github/list)", "allow mcp(jira)", "deny mcp(jira/delete)"),
			"900 deny run_shell_command\n900 deny discovered_tool_*\n60 deny *\n" + own +
				"100 allow mcp_github_list\n100 allow mcp_jira_*\n200 deny mcp_jira_delete\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policyLines(t, tt.with)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRulesAndSandbox(t *testing.T) {
	_, err := Adapter{}.Command(request(func(r *agents.Request) {
		ruled("deny", "allow shell(ls)")(r)
		r.Sandbox = agents.SandboxWorkspaceWrite
	}))
	if err == nil || !strings.Contains(err.Error(), "p.yaml:1:1") {
		t.Errorf("got %v", err)
	}
}

func TestEnforcement(t *testing.T) {
	for text, want := range map[string]string{
		"allow shell(go test *)":    "enforced",
		"deny shell(rm * x)":        "detected Gemini CLI knows * only as the last word of a command",
		"deny shell(git*)":          "detected Gemini CLI knows * only as the last word of a command",
		"deny read_file(secret/**)": "detected Gemini CLI has no such patterns for read_file",
		"allow edit_file(**)":       "enforced",
		"deny web_fetch(x.org)":     "detected Gemini CLI has no such patterns for web_fetch",
		"deny mcp(a*)":              "enforced no MCP server is loaded",
		"deny *":                    "enforced",
	} {
		r := request(ruled("", text))
		e := Adapter{}.Enforcement(r)
		if got := strings.TrimSpace(string(e[0].How) + " " + e[0].Why); len(e) != 1 || got != want {
			t.Errorf("%s: %s", text, got)
		}
		if enforced := (Adapter{}).Enforces(r, &r.Rules[0]); enforced != strings.HasPrefix(want, "enforced") {
			t.Errorf("%s: enforces %t", text, enforced)
		}
	}
	for text, want := range map[string]agents.Enforcement{"allow write_file": agents.Enforced, "allow write_file(docs/**)": agents.Detected} {
		if e := (Adapter{}).Enforcement(request(ruled("deny", text))); e[1].Rule != nil || e[1].How != want {
			t.Errorf("%s: the default is %+v", text, e[1])
		}
	}
}
