package codex

import (
	"strings"
	"testing"

	"flow/agents"
)

// Codex's own sandbox has a network only when it is asked for.
func TestNetwork(t *testing.T) {
	for _, tt := range []struct {
		box     agents.SandboxMode
		network agents.Network
		want    string // in the arguments, "" for no word of it
		web     agents.Enforcement
	}{
		{agents.SandboxWorkspaceWrite, "", "", agents.Sandboxed},
		{agents.SandboxWorkspaceWrite, agents.NetworkOff, "sandbox_workspace_write.network_access=false", agents.Sandboxed},
		{agents.SandboxWorkspaceWrite, agents.NetworkOn, "sandbox_workspace_write.network_access=true", agents.Detected},
		{"", agents.NetworkOn, "sandbox_workspace_write.network_access=true", agents.Detected},
		{agents.SandboxReadOnly, agents.NetworkOff, "", agents.Sandboxed},
	} {
		r := ruled("", "deny web_fetch")
		r.Sandbox, r.Network = tt.box, tt.network
		c, err := Adapter{}.Command(r)
		if err != nil {
			t.Fatal(err)
		}
		args := strings.Join(c.Args, " ")
		if !strings.Contains(args, tt.want) || tt.want == "" && strings.Contains(args, "network_access") {
			t.Errorf("%s, network %q: %s", tt.box, tt.network, args)
		}
		if e := (Adapter{}).Enforcement(r); e[0].How != tt.web {
			t.Errorf("%s, network %q: %+v", tt.box, tt.network, e)
		}
	}
}

func TestNetworkOfReadOnly(t *testing.T) {
	_, err := Adapter{}.Command(agents.Request{Prompt: "go", Dir: "/repo", Sandbox: agents.SandboxReadOnly, Network: agents.NetworkOn})
	if err == nil || !strings.Contains(err.Error(), "no network") {
		t.Error(err)
	}
}
