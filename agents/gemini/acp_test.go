package gemini

import (
	"slices"
	"strings"
	"testing"

	"flow/agents"
)

func talkRequest(change func(*agents.Request)) agents.Request {
	r := agents.Request{Prompt: "Work.", Dir: "/w", Scratch: "/s", Home: "/h", Transport: transport}
	if change != nil {
		change(&r)
	}
	return r
}

// The protocol in which the CLI asks is taken when a person is to be asked, or when the
// profile wants it.
func TestTransport(t *testing.T) {
	ask := []agents.Rule{{Effect: "deny", Tool: "shell"}, {Effect: "ask", Tool: "write_file"}}
	for name, tt := range map[string]struct {
		request agents.Request
		want    string
	}{
		"nothing":     {agents.Request{}, headless},
		"deny":        {agents.Request{Rules: ask[:1], RuleDefault: "deny"}, headless},
		"ask":         {agents.Request{Rules: ask}, transport},
		"default ask": {agents.Request{RuleDefault: "ask"}, transport},
		"wanted":      {agents.Request{Transport: transport}, transport},
		"not wanted":  {agents.Request{Transport: headless, Rules: ask}, headless},
	} {
		if got := (Adapter{}).Transport(tt.request); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestTalkCommand(t *testing.T) {
	c, err := Adapter{}.Command(talkRequest(func(r *agents.Request) {
		r.Approval, r.AddDirs, r.Model = agents.ApprovalAutoAll, []string{"/more"}, "m"
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--acp", "--approval-mode=default", "--include-directories=/more", "--model=m", "--extensions=none"} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("%s is not among %q", want, c.Args)
		}
	}
	if !c.Talks || slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--output-format") }) {
		t.Errorf("the command is no conversation: %q", c.Args)
	}
	if _, err := (Adapter{}).Command(talkRequest(func(r *agents.Request) { r.Transport = "stdio" })); err == nil {
		t.Error("an unknown transport is taken")
	}
}

// A fork is a copy of the session's file, which the CLI is then told to load.
func TestTalkSession(t *testing.T) {
	const parent, id = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	r := talkRequest(func(r *agents.Request) {
		r.Session = agents.Session{Mode: agents.SessionFork, ID: id, Parent: parent}
	})
	c, err := Adapter{}.Command(r)
	if err != nil || c.Prepare == nil {
		t.Fatalf("no preparation: %v", err)
	}
	d := Adapter{}.Dialog(r).(agents.Conversation)
	d.Open()
	d.Line([]byte(`{"id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"gemini-cli"},"agentCapabilities":{"loadSession":true}}}`))
	said := d.Take()
	if last := string(said[len(said)-1]); !strings.Contains(last, `"session/load"`) || !strings.Contains(last, id) {
		t.Errorf("the client said %s", last)
	}
}

// Over ACP the CLI begins a session of the same id before it loads the old one, in a file
// named by the minute: the old one's file must not have that name.
func TestTalkResume(t *testing.T) {
	const id = "22222222-2222-4222-8222-222222222222"
	resume := func(r *agents.Request) { r.Session = agents.Session{Mode: agents.SessionResume, ID: id} }
	c, err := Adapter{}.Command(talkRequest(resume))
	if err != nil {
		t.Fatal(err)
	}
	old := "/h/.gemini/tmp/flow-x/chats/session-2026-11-21T20-16-22222222.jsonl"
	after := c.Prepare.Make([]agents.File{{Path: old, Data: []byte(`{"sessionId":"` + id + `"}` + "\n")}})
	if len(after) != 1 || !strings.HasSuffix(after[0].Path, "/chats/session-2000-01-01T00-00-22222222.jsonl") {
		t.Errorf("the session is in %v", after)
	}
	_, err = Adapter{}.Command(talkRequest(func(r *agents.Request) { resume(r); r.Inherit = true }))
	if err == nil {
		t.Error("a session in the user's home is loaded")
	}
}

// With rules the CLI asks for everything, and decides nothing by itself but what is its own
// affair.
func TestTalkPolicy(t *testing.T) {
	file := func(r agents.Request) string {
		t.Helper()
		data, err := talkPolicy(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	ruled := file(talkRequest(func(r *agents.Request) {
		r.RuleDefault = "allow"
		r.Rules = []agents.Rule{{Effect: "allow", Tool: "shell"}, {Effect: "deny", Tool: "shell", Pattern: "rm *"}, {Effect: "ask", Tool: "write_file"}}
	}))
	everything := "[[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \".\"\ndecision = \"ask_user\"\npriority = 60\n\n" +
		"[[rule]]\ntoolName = \"*\"\ndecision = \"ask_user\"\npriority = 60\n"
	if !strings.HasPrefix(ruled, everything) {
		t.Errorf("it does not ask for everything:\n%s", ruled)
	}
	for rule := range strings.SplitSeq(ruled, "[[rule]]\n") {
		own := strings.Contains(rule, "update_topic") || strings.Contains(rule, "write_todos") || strings.Contains(rule, "complete_task")
		if rule != "" && !strings.Contains(rule, `"ask_user"`) && !own {
			t.Errorf("it decides by itself:\n%s", rule)
		}
	}
	if plain := file(talkRequest(nil)); plain != "" {
		t.Errorf("without rules it has a policy:\n%s", plain)
	}
	if bounded := file(talkRequest(func(r *agents.Request) { r.Sandbox = agents.SandboxReadOnly })); !strings.Contains(bounded, `"write_file"`) {
		t.Errorf("it may write in a read-only sandbox:\n%s", bounded)
	}
}

// The CLI takes a text that begins with / or $ for a command of its own.
func TestTalkPrompt(t *testing.T) {
	for prompt, want := range map[string]string{
		"/memory show": "The task:\n\n/memory show", " $x": "The task:\n\n $x", "a /b @c $d": "a /b @c $d",
	} {
		if got := talkPrompt(agents.Request{Prompt: prompt}); got != want {
			t.Errorf("%q becomes %q", prompt, got)
		}
	}
}

// What standard error tells is heard over ACP too.
func TestTalkStderr(t *testing.T) {
	d := Adapter{}.Dialog(talkRequest(nil))
	events := d.Stderr([]byte("Attempt 1 failed with status 500. Retrying with backoff... _ApiError: oops"))
	if len(events) != 1 {
		t.Fatalf("%v", events)
	}
	if retry, ok := events[0].Body.(agents.Retry); !ok || retry.Status != 500 {
		t.Errorf("%+v", events[0].Body)
	}
}
