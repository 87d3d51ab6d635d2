package steps

import (
	"testing"

	"flow/agents"
	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

// Rules that match no call of any agent that they are for are warned of, at their place.
func TestLintRules(t *testing.T) {
	src := `
permissions: {rules: [{deny: web_fetch}, {deny: shell(rm x; *)}, {allow: mcp(a)}, {deny: mcp(b)}]}
agents:
  open: {use: fake, inherit: true}
  shut: {use: fake}
  bare: {use: bare}
steps:
  a: {agent: bare, prompt: x, permissions: {rules: [{allow: web_search}, {deny: "*"}, {allow: shell(a  b)}]}}
  b: {agent: shut, prompt: x, needs: [a], permissions: {rules: [{ask: mcp(c)}, {allow: shell(a b)}]}}
  c: {agent: open, prompt: x, needs: [b], permissions: {rules: [{ask: mcp(d)}]}}
`
	adapters := map[string]agents.Adapter{"fake": fakeAgent{hermetic: true}, "bare": fakeAgent{tools: []agents.Tool{agents.ToolShell, agents.ToolMCP}}}
	p, _, err := pipeline.Parse("p.yaml", []byte(src), pipeline.Options{Agents: map[string]pipeline.AgentInfo{"fake": {}, "bare": {}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range Lint(p, adapters) {
		if w.Hint == "" {
			t.Errorf("%v has no hint", w)
		}
		got = append(got, w.String())
	}
	want := []string{
		"p.yaml:2:49: warning: the rule `deny: shell(rm x; *)` never matches: every command of a script is compared by itself, without redirections",
		"p.yaml:8:61: warning: the rule `allow: web_search` never matches: Fake has no such tool of its own",
		"p.yaml:8:95: warning: the rule `allow: shell(a  b)` never matches: commands are compared with one space between their words and without needless quotes",
		"p.yaml:9:71: warning: the rule `ask: mcp(c)` never matches: without `inherit: true` agent shut loads no MCP servers",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
