package claude

import (
	"slices"
	"strings"
	"testing"

	"flow/agents"
)

// An agent that is confined may have a shell, but not without a network of which it could
// not be kept.
func TestConfined(t *testing.T) {
	const editing = "Read,Grep,Glob,Edit,Write"
	for name, tt := range map[string]struct {
		change func(*agents.Request)
		tools  string // "": it is refused
	}{
		"workspace":           {func(*agents.Request) {}, editing + ",Bash"},
		"not confined":        {func(r *agents.Request) { r.Confined = false }, editing},
		"offline":             {func(r *agents.Request) { r.Network = agents.NetworkOff }, editing},
		"offline, inheriting": {func(r *agents.Request) { r.Network, r.Inherit = agents.NetworkOff, true }, ""},
		"read-only":           {func(r *agents.Request) { r.Sandbox = agents.SandboxReadOnly }, "Read,Grep,Glob"},
		"everything":          {func(r *agents.Request) { r.Approval = agents.ApprovalAutoAll }, editing + ",Bash"},
		"everything, free":    {func(r *agents.Request) { r.Approval, r.Confined = agents.ApprovalAutoAll, false }, ""},
		"a rule":              {func(r *agents.Request) { *r = boxed(ruled("deny", "allow shell(go test *)")) }, "Bash"},
		"a rule, offline": {func(r *agents.Request) {
			*r = boxed(ruled("deny", "allow shell(go test *)"))
			r.Network = agents.NetworkOff
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := boxed(agents.Request{Prompt: "go", Dir: "/repo"})
			tt.change(&r)
			c, err := Adapter{}.Command(r)
			if (err != nil) != (tt.tools == "") {
				t.Fatal(err)
			}
			if i := slices.Index(c.Args, "--tools"); err == nil && c.Args[i+1] != tt.tools {
				t.Errorf("tools %s, want %s", c.Args[i+1], tt.tools)
			}
			if box := slices.Contains(c.Env, "IS_SANDBOX=1"); box != (tt.tools != "" && r.Approval == agents.ApprovalAutoAll) {
				t.Errorf("it is told that it is in a sandbox: %t", box)
			}
		})
	}
}

func boxed(r agents.Request) agents.Request {
	r.Sandbox, r.Confined = agents.SandboxWorkspaceWrite, true
	return r
}

// What the user's own sessions obey cannot be written from within a sandbox.
func TestWritable(t *testing.T) {
	c, err := Adapter{}.Command(agents.Request{Prompt: "go", Dir: "/repo"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range c.Writable {
		name, ok := strings.CutPrefix(path, "${CLAUDE_CONFIG_DIR:-~/.claude}/")
		if !ok || name == "" || slices.Contains([]string{"settings.json", "CLAUDE.md", "agents", "commands", "hooks", "plugins", "skills"}, strings.Trim(name, "/")) {
			t.Errorf("%s may be written", path)
		}
	}
	if !slices.Contains(c.Writable, "${CLAUDE_CONFIG_DIR:-~/.claude}/projects/") {
		t.Error("sessions cannot be kept")
	}
}

func TestEnforcementWhenConfined(t *testing.T) {
	e := Adapter{}.Enforcement(boxed(ruled("", "deny write_file(/opt/(x)/**)", "deny write_file(src/(x)/**)")))
	if e[0].How != agents.Sandboxed || e[1].How != agents.Detected {
		t.Errorf("%+v", e)
	}
}
