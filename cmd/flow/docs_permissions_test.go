package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"flow/agents"
	"flow/agents/policy"
	"flow/pipeline"
)

// What docs/permissions.md says of calls is what becomes of them.
func TestPermissionsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if names := strings.Join(policy.Protected(), " "); !strings.Contains(page, "\n"+names+"\n") {
		t.Errorf("the page does not list what is protected: %s", names)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(permissions:.*?)```\n\n\\| call \\| decision \\|\n\\|---\\|---\\|\n(.*?)\n\n").FindAllStringSubmatch(page, -1)
	if len(examples) < 3 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		p := policyOf(t, example[1])
		for row := range strings.SplitSeq(example[2], "\n") {
			cells := cellsOf(row)
			if d := p.Judge(shownCall(t, cells[0])); string(d.Effect) != cells[1] {
				t.Errorf("%s is %s: %s", row, d.Effect, d.Why)
			}
		}
	}
}

// The table of what holds without a rule is what holds.
func TestPermissionsPageTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| | no `approval` |")
	if !ok {
		t.Fatal("there is no table")
	}
	head, rows, _ := strings.Cut(table, "\n|---")
	_, rows, _ = strings.Cut(rows, "\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	modes := append([]string{""}, cellsOf("| |" + head)[1:]...)
	p := policy.New(nil, "", "/w")
	for row := range strings.SplitSeq(rows, "\n") {
		cells := cellsOf(row)
		for i, mode := range modes {
			if d := p.Decide(shownCall(t, cells[0]), agents.ApprovalMode(mode), false); string(d.Effect) != cells[i+1] {
				t.Errorf("%s in mode %q is %s", row, mode, d.Effect)
			}
		}
	}
	if len(modes) != 7 || strings.Count(rows, "\n") < 8 {
		t.Errorf("%q, %s", modes, rows)
	}
}

func cellsOf(row string) []string {
	cells := strings.Split(strings.Trim(row, "|"), " | ")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(cell)
	}
	return cells
}

// shownCall is the call that a cell shows, as `TOOL: TARGET`.
func shownCall(t *testing.T, cell string) policy.Call {
	t.Helper()
	tool, target, ok := strings.Cut(strings.Trim(cell, "`"), ": ")
	if !ok {
		t.Fatalf("%s is no call", cell)
	}
	return policy.Call{Tool: agents.Tool(tool), Native: target, Target: target}
}

// policyOf is the policy of permissions as a pipeline has them.
func policyOf(t *testing.T, permissions string) *policy.Policy {
	t.Helper()
	plan, _, err := pipeline.Parse("p.yaml", []byte(permissions+"steps: {a: {agent: claude, prompt: x}}\n"), languageOptions())
	if err != nil {
		t.Fatal(err)
	}
	all := plan.PermissionsOf(&plan.Steps[0])
	var rules []agents.Rule
	for _, r := range all.Rules {
		rules = append(rules, agents.Rule{Effect: r.Effect, Tool: r.Tool, Pattern: r.Pattern})
	}
	return policy.New(rules, all.Default, "/w", all.Protect...)
}
