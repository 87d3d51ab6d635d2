package codex

import (
	"os"
	"slices"
	"testing"
	"time"

	"flow/agents"
	"flow/agents/internal/golden"
)

// TestMain makes "local time", in which codex tells when a limit ends, the same
// everywhere.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

func TestRecordings(t *testing.T) { golden.Run(t, Adapter{}, "testdata") }

func FuzzDialog(f *testing.F) { golden.Fuzz(f, Adapter{}, "testdata", "turn.completed") }

// What Info promises is what Command accepts: an approval mode is offered exactly if
// some sandbox honours it, and the other way round.
func TestCapabilitiesAgreeWithCommand(t *testing.T) {
	approvals := []agents.ApprovalMode{
		agents.ApprovalPlan, agents.ApprovalDeny, agents.ApprovalAsk, agents.ApprovalAskDangerous,
		agents.ApprovalAutoEdit, agents.ApprovalAutoAll,
	}
	sandboxes := []agents.SandboxMode{agents.SandboxOff, agents.SandboxReadOnly, agents.SandboxWorkspaceWrite}
	var gotApprovals []agents.ApprovalMode
	var gotSandboxes []agents.SandboxMode
	for _, approval := range approvals {
		if slices.ContainsFunc(sandboxes, func(s agents.SandboxMode) bool {
			return slices.ContainsFunc(Adapter{}.Info().Transports, func(transport string) bool {
				return accepts(agents.Request{Approval: approval, Sandbox: s, Transport: transport})
			})
		}) {
			gotApprovals = append(gotApprovals, approval)
		}
	}
	for _, sandbox := range sandboxes {
		if accepts(agents.Request{Sandbox: sandbox}) {
			gotSandboxes = append(gotSandboxes, sandbox)
		}
	}
	c := Adapter{}.Info().Capabilities
	if !slices.Equal(gotApprovals, c.Approval) {
		t.Errorf("Command accepts %v, Info offers %v", gotApprovals, c.Approval)
	}
	if !slices.Equal(gotSandboxes, c.Sandbox) {
		t.Errorf("Command accepts %v, Info offers %v", gotSandboxes, c.Sandbox)
	}
	const id = "01a1fe5e-2185-7b21-bb46-43b512e79c6a"
	for what, ok := range map[string][2]bool{
		"resume":        {c.Resume, accepts(agents.Request{Session: agents.Session{Mode: agents.SessionResume, ID: id}})},
		"fork":          {c.Fork, accepts(agents.Request{Session: agents.Session{Mode: agents.SessionFork, Parent: id}})},
		"system prompt": {c.SystemPrompt, accepts(agents.Request{SystemPrompt: "be brief"})},
		"max turns":     {c.MaxTurns, accepts(agents.Request{MaxTurns: 3})},
		"max cost":      {c.MaxCost, accepts(agents.Request{MaxCostUSD: 1})},
	} {
		if ok[0] != ok[1] {
			t.Errorf("%s: Info says %v, Command %v", what, ok[0], ok[1])
		}
	}
}

func accepts(r agents.Request) bool {
	r.Prompt, r.Dir = "hello", "/repo"
	_, err := Adapter{}.Command(r)
	return err == nil
}
