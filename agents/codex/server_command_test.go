package codex

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

const (
	unshare = " -c project_doc_max_bytes=0 -c features.hooks=false -c skills.include_instructions=false -c notify=[]"
	askings = ` -c approvals_reviewer="user" -c features.unified_exec_tty=false -c features.exec_permission_approvals=false`
	bounded = ` -c default_permissions="flow-step" -c permissions.flow-step.filesystem={":root"="read",`
	writing = `":workspace_roots"={"."="write"},":tmpdir"="write",":slash_tmp"="write",`
	denying = `"/proc/flow-step"="deny"} -c permissions.flow-step.network.enabled=`
)

func TestServerCommand(t *testing.T) {
	for name, tt := range map[string]struct {
		request agents.Request
		want    string
	}{
		"nothing asked":       {agents.Request{}, always + unshare},
		"inherit":             {agents.Request{Inherit: true}, always},
		"further directories": {agents.Request{AddDirs: []string{"/a"}}, always + unshare + ` -c sandbox_workspace_write.writable_roots=["/a"]`},
		"network":             {agents.Request{Network: agents.NetworkOn}, always + unshare + ` -c sandbox_workspace_write.network_access=true`},
		"rules": {
			agents.Request{RuleDefault: "allow", AddDirs: []string{"/a"}, Network: agents.NetworkOn},
			always + unshare + askings + bounded + writing + `"/a"="write",` + denying + "true",
		},
		"rules that let nothing be written": {
			agents.Request{RuleDefault: "allow", Rules: []agents.Rule{{Effect: "deny", Tool: "write_file"}, {Effect: "deny", Tool: "edit_file"}}},
			always + unshare + askings + bounded + denying + "false",
		},
		"what is to be asked may be written": {
			agents.Request{RuleDefault: "ask", Rules: []agents.Rule{{Effect: "allow", Tool: "web_search"}, {Effect: "allow", Tool: "read_file"}, {Effect: "allow", Tool: "subagent"}}},
			always + unshare + askings + bounded + writing + denying + "false",
		},
		"a default that closes turns off what is not asked": {
			agents.Request{RuleDefault: "deny"},
			always + unshare + ` -c web_search="disabled"` + askings + " -c features.view_image=false -c features.multi_agent=false" + bounded + denying + "false",
		},
		"no sandbox": {agents.Request{RuleDefault: "allow", Sandbox: agents.SandboxOff}, always + unshare + askings},
		"approval mode": {
			agents.Request{Approval: agents.ApprovalAsk},
			always + unshare + askings + bounded + writing + denying + "false",
		},
		"a key": {
			agents.Request{Key: "CODEX_API_KEY", Inherit: true, Args: []string{"-c", "openai_base_url=http://x/v1"}},
			always + ` -c model_provider="openai-key" -c model_providers.openai-key={name="OpenAI",base_url="http://x/v1",env_key="CODEX_API_KEY",wire_api="responses"} -c openai_base_url=http://x/v1`,
		},
		"a skill's name": {agents.Request{Prompt: "$x", Inherit: true}, always + ` -c skills.config=[{name="x",enabled=false}]`},
	} {
		t.Run(name, func(t *testing.T) {
			tt.request.Transport, tt.request.Dir = transportServer, "/repo"
			if tt.request.Prompt == "" {
				tt.request.Prompt = "go"
			}
			c, err := Adapter{}.Command(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("app-server"+tt.want, strings.Join(c.Args, " ")); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if !c.Talks || c.Interrupt != "TERM" || c.Dir != "/repo" || c.Stdin != tt.request.Prompt {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestServerRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		request agents.Request
		want    string
	}{
		"an argument of exec": {agents.Request{Args: []string{"--image=/a.png"}}, `takes no argument "--image=/a.png"`},
		"a bare flag":         {agents.Request{Args: []string{"-c", "x=1", "--yolo"}}, `takes no argument "--yolo"`},
		"plan mode":           {agents.Request{Approval: agents.ApprovalPlan}, "no plan mode"},
		"another transport":   {agents.Request{Transport: "smoke"}, `no transport "smoke"`},
	} {
		if tt.request.Transport == "" {
			tt.request.Transport = transportServer
		}
		tt.request.Prompt, tt.request.Dir = "go", "/repo"
		if _, err := (Adapter{}).Command(tt.request); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok := agents.Request{Prompt: "go", Dir: "/repo", Transport: transportServer, Args: []string{"-c", "a=1", "--enable", "x", "--disable=y", "--strict-config"}}
	if _, err := (Adapter{}).Command(ok); err != nil {
		t.Error(err)
	}
}

func TestTransport(t *testing.T) {
	for want, r := range map[string]agents.Request{"exec": {Approval: agents.ApprovalDeny}, "app-server": {RuleDefault: "allow"}, "named": {Transport: "named", RuleDefault: "deny"}} {
		if got := (Adapter{}).Transport(r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (Adapter{}).Transport(ruled("", "deny shell(rm *)")); got != transportServer {
		t.Error(got)
	}
}

// TestServerEnforcement: what app-server asks about is enforced; what it does not ask
// about is turned off, or detected.
func TestServerEnforcement(t *testing.T) {
	const asks = "enforced codex asks before every command and patch"
	for text, want := range map[string]string{
		"deny shell(rm *)":         asks,
		"ask write_file":           asks,
		"allow edit_file(docs/**)": asks,
		"deny *":                   asks,
		"allow shell":              "sandboxed within sandbox workspace-write",
		"deny web_search":          "enforced the tool is turned off",
		"deny web_search(x*)":      "detected codex does not ask before it searches",
		"deny web_fetch":           "sandboxed the sandbox has no network",
		"deny mcp":                 "detected codex does not ask before tools that say they only read",
		"deny read_file(**/.env)":  "detected codex reads by commands: what they name is judged",
	} {
		r := ruled("allow", text)
		r.Transport = transportServer
		e := Adapter{}.Enforcement(r)
		if got := string(e[0].How) + " " + e[0].Why; got != want {
			t.Errorf("%s: %s", text, got)
		}
		tool := r.Rules[0].Tool
		if got := (Adapter{}).Enforces(r, &r.Rules[0]); got == strings.HasPrefix(tool, "web_") {
			t.Errorf("%s: enforces %t", text, got)
		}
	}
	r := ruled("deny")
	r.Transport = transportServer
	if e := (Adapter{}).Enforcement(r); e[0].How != agents.Enforced || !(Adapter{}).Enforces(r, nil) {
		t.Errorf("the default: %+v", e)
	}
}
