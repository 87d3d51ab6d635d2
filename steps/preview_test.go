package steps_test

import (
	"encoding/json"
	"strings"
	"testing"

	"flow/agents"
	"flow/agents/claude"
	"flow/agents/codex"
	"flow/agents/gemini"
	"flow/pipeline"
	"flow/steps"
)

func previewOf(t *testing.T, p *pipeline.Plan, inputs map[string]any) *steps.Preview {
	t.Helper()
	got, err := steps.NewPreview(steps.PreviewConfig{
		Plan: p, Inputs: inputs, Workspace: "/work",
		Adapters: map[string]agents.Adapter{"claude": claude.Adapter{}, "codex": codex.Adapter{}, "gemini": gemini.Adapter{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func text(s string) *pipeline.Text { return &pipeline.Text{Src: s, Pos: pipeline.Pos{Line: 1, Col: 1}} }

func profiles() map[string]pipeline.Profile {
	return map[string]pipeline.Profile{
		"claude": {Name: "claude", Use: "claude"}, "codex": {Name: "codex", Use: "codex"}, "gemini": {Name: "gemini", Use: "gemini"},
	}
}

func turn(id string, needs ...string) pipeline.Step {
	return pipeline.Step{ID: id, Kind: pipeline.KindPrompt, Agent: "claude", Prompt: text("hi"), Needs: needs}
}

// TestPreviewTurns counts the turns that agents may take.
func TestPreviewTurns(t *testing.T) {
	with := func(s pipeline.Step, change func(*pipeline.Step)) pipeline.Step { change(&s); return s }
	three := func(s *pipeline.Step) { s.Foreach = &pipeline.Foreach{Items: json.RawMessage(`[1,2,3]`)} }
	unknown := func(s *pipeline.Step) { s.Foreach = &pipeline.Foreach{List: text(".steps.a.output")} }
	rounds := func(s *pipeline.Step) { s.Repeat = &pipeline.Repeat{Until: *text(".steps.b.ok"), Max: 4} }
	group := func(inner ...pipeline.Step) pipeline.Step {
		return pipeline.Step{ID: "g", Kind: pipeline.KindGroup, Steps: inner}
	}
	for name, c := range map[string]struct {
		steps []pipeline.Step
		want  string
	}{
		"none":                      {[]pipeline.Step{{ID: "a", Kind: pipeline.KindRun, Run: text("true")}}, "0"},
		"two":                       {[]pipeline.Step{turn("a"), turn("b", "a")}, "2"},
		"a condition of an input":   {[]pipeline.Step{with(turn("a"), func(s *pipeline.Step) { s.If = text("not .inputs.full") })}, "0"},
		"a condition that holds":    {[]pipeline.Step{with(turn("a"), func(s *pipeline.Step) { s.If = text(".inputs.full") })}, "1"},
		"what may be skipped":       {[]pipeline.Step{turn("a"), with(turn("b"), func(s *pipeline.Step) { s.If = text("eq .steps.a.text \"x\"") }), turn("c", "b")}, "1 to 3"},
		"items":                     {[]pipeline.Step{with(turn("a"), three)}, "3"},
		"unknown items":             {[]pipeline.Step{turn("a"), with(turn("b", "a"), unknown)}, "1 or more"},
		"unknown items, no agent":   {[]pipeline.Step{with(pipeline.Step{ID: "a", Kind: pipeline.KindRun, Run: text("x")}, unknown)}, "0"},
		"rounds":                    {[]pipeline.Step{with(turn("a"), rounds)}, "1 to 4"},
		"items of rounds of groups": {[]pipeline.Step{with(with(group(turn("a"), turn("b", "a")), rounds), three)}, "6 to 24"},
		"a race": {[]pipeline.Step{with(turn("a"), func(s *pipeline.Step) {
			s.Contest = &pipeline.Contest{Agents: []string{"claude", "codex", "gemini"}, Race: true}
		})}, "1 to 3"},
		"a vote with a judge": {[]pipeline.Step{with(turn("a"), func(s *pipeline.Step) {
			s.Contest = &pipeline.Contest{Agents: []string{"claude", "codex"}, Judge: &pipeline.Step{ID: "judge", Kind: pipeline.KindPrompt, Agent: "gemini"}}
		})}, "3"},
		"a call":    {[]pipeline.Step{{ID: "a", Kind: pipeline.KindCall, Call: &pipeline.Call{Plan: &pipeline.Plan{Agents: profiles(), Steps: []pipeline.Step{turn("x"), turn("y")}}}}}, "2"},
		"conflicts": {[]pipeline.Step{{ID: "a", Kind: pipeline.KindMerge, Agent: "claude", Merge: &pipeline.Merge{From: []string{"b"}, OnConflict: "agent"}}}, "0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			p := previewOf(t, &pipeline.Plan{Agents: profiles(), Steps: c.steps}, map[string]any{"full": true})
			if got := p.Turns.String(); got != c.want {
				t.Errorf("%s turns, want %s", got, c.want)
			}
		})
	}
}

// TestPreviewCall shows a called pipeline with the inputs that are known already.
func TestPreviewCall(t *testing.T) {
	called := &pipeline.Plan{
		File: "sub.yaml", Agents: profiles(),
		Inputs: []pipeline.Input{
			{Name: "n", Type: "integer", Schema: json.RawMessage(`{"type":"integer"}`)},
			{Name: "text", Type: "string", Required: true, Schema: json.RawMessage(`{"type":"string"}`)},
			{Name: "mode", Type: "string", Default: json.RawMessage(`"fast"`), Schema: json.RawMessage(`{"type":"string"}`)},
		},
		Steps: []pipeline.Step{{
			ID: "go", Kind: pipeline.KindPrompt, Agent: "claude", If: text("gt .inputs.n 1"),
			Prompt: text("{{ .inputs.mode }} {{ .inputs.n }} {{ .inputs.text }}"),
		}},
	}
	p := previewOf(t, &pipeline.Plan{Steps: []pipeline.Step{{
		ID: "sub", Kind: pipeline.KindCall,
		Call: &pipeline.Call{File: "sub.yaml", Plan: called, With: []pipeline.Var{
			{Name: "n", Value: *text("{{ .inputs.count }}")}, {Name: "text", Value: *text("{{ .steps.a.text }}")},
		}},
	}}}, map[string]any{"count": int64(2)})
	inner := p.Steps[0].Steps[0]
	if inner.Path != "sub.go" || inner.Prompt != "fast 2 ‹.inputs.text›" || inner.If.Value == nil || !*inner.If.Value {
		t.Errorf("%+v, %+v", inner, inner.If)
	}
}

// TestPreviewHoldsNoSecret looks for the value of a secret, and of what was made from
// one, in everything that a preview says.
func TestPreviewHoldsNoSecret(t *testing.T) {
	p := previewOf(t, &pipeline.Plan{
		Agents: profiles(), Secrets: []string{"TOKEN"},
		Env: []pipeline.Var{{Name: "AUTH", Value: *text("Bearer {{ .secrets.TOKEN }}")}, {Name: "PLAIN", Value: *text("{{ .inputs.x }}")}},
		Steps: []pipeline.Step{
			{ID: "a", Kind: pipeline.KindPrompt, Agent: "claude", Prompt: text("{{ .env.PLAIN }} {{ .env.AUTH }}")},
			{ID: "b", Kind: pipeline.KindRun, Run: text("echo {{ .env.PLAIN }} {{ .steps.a.text }}")},
		},
	}, map[string]any{"x": "hello"})
	if got := p.Steps[0].Prompt; got != "hello ‹.env.AUTH›" {
		t.Errorf("the prompt is %q", got)
	}
	if got := strings.Join(p.Steps[0].Env, " "); got != "AUTH PLAIN" {
		t.Errorf("the variables are %s", got)
	}
	if got := p.Steps[1].Values; len(got) != 1 || got[".env.PLAIN"] != "hello" {
		t.Errorf("the script's values are %v", got)
	}
}

// TestPreviewSession names the sessions that only the run will know.
func TestPreviewSession(t *testing.T) {
	fork := turn("b", "a")
	fork.Session = pipeline.Session{Mode: pipeline.SessionFork, Step: "a"}
	p := previewOf(t, &pipeline.Plan{Agents: profiles(), Steps: []pipeline.Step{turn("a"), fork}}, nil)
	command := strings.Join(p.Steps[1].Agents[0].Command, " ")
	if !strings.Contains(command, "--resume ‹session of a› --fork-session --session-id ‹session›") {
		t.Errorf("the command is %s", command)
	}
}
