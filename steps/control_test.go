package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func foreach(list string) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Foreach = &pipeline.Foreach{List: text(list)} }
}

func items(list string) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Foreach = &pipeline.Foreach{Items: json.RawMessage(list)} }
}

func repeat(until string, most int) func(*pipeline.Step) {
	return func(s *pipeline.Step) {
		s.Repeat = &pipeline.Repeat{Until: *text(until), Max: most}
		s.Previous = true
	}
}

func onlyIf(condition string, each bool) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.If, s.IfEach = text(condition), each }
}

func changed(s pipeline.Step, change ...func(*pipeline.Step)) pipeline.Step {
	for _, f := range change {
		f(&s)
	}
	return s
}

func group(id string, steps ...pipeline.Step) pipeline.Step {
	return pipeline.Step{ID: id, Kind: pipeline.KindGroup, Steps: steps, Pos: pipeline.Pos{Line: 4, Col: 3}}
}

func output(schema string) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Output = json.RawMessage(schema) }
}

// set is a step whose value `v` shows what a template sees.
func set(id, value string, change ...func(*pipeline.Step)) pipeline.Step {
	return changed(pipeline.Step{ID: id, Kind: pipeline.KindSet, Set: vars("v", value)}, change...)
}

// prints is a script that prints its own text.
func prints(p *process) (proc.Result, error) {
	for i, arg := range p.spec.Args {
		if arg == "-c" {
			return says(0, p.spec.Args[i+1])(p)
		}
	}
	return says(0, p.prompt)(p)
}

// v is the value that a set step came to, as JSON.
func (w *world) v(m *dag.Machine, path string) string {
	w.t.Helper()
	r := w.want(m, path, dag.OK)
	text, err := r.Output.Load(w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// statuses lists the nodes with how they stand, and why where that is recorded.
func statuses(m *dag.Machine) string {
	var all []string
	for _, s := range m.Steps() {
		line := s.Path + " " + string(s.Status)
		if s.Status == dag.Failure || s.Status == dag.Cancelled {
			line += ": " + s.Reason
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func wantStatuses(t *testing.T, m *dag.Machine, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), statuses(m)); diff != "" {
		t.Error(diff)
	}
}

func TestForeach(t *testing.T) {
	w := newWorld(t,
		script("list", `[{"n":"a"},{"n":"b"},{"n":"c"}]`, output(`{"type":"array"}`)),
		set("each", `{{ .index }} {{ .item.n }}`, foreach(".steps.list.output"), needs("list"), onlyIf(`ne .item.n "b"`, true)),
		set("seen", `{{ range .steps.each.items }}{{ .index }}={{ .item.n }}:{{ .status }} {{ end }}`, needs("each")),
		set("typed", `{{ (index .steps.each.items 2).output }}`, needs("each")),
	)
	w.play = prints
	m := w.finish()
	wantStatuses(t, m, "list succeeded", "each succeeded", "each.0 succeeded", "each.1 skipped", "each.2 succeeded", "seen succeeded", "typed succeeded")
	if got, want := w.v(m, "seen"), `{"v":"0=a:succeeded 1=b:skipped 2=c:succeeded "}`; got != want {
		t.Errorf("others see %s", got)
	}
	if got := w.v(m, "typed"); got != `{"v":{"v":"2 c"}}` {
		t.Errorf("an item's output is %s", got)
	}
}

// What cannot be gone over is refused with its place.
func TestForeachRefused(t *testing.T) {
	many := "[" + strings.Repeat("1,", pipeline.MaxItems) + "1]"
	for _, c := range []struct{ list, why string }{
		{`"x"`, "over what is no list"},
		{"3", "over what is no list"},
		{many, "10001 items; the limit is 10000"},
	} {
		w := newWorld(t, script("list", c.list, output(`{}`)), set("each", "{{ .item }}", foreach(".steps.list.output"), needs("list")))
		w.play = prints
		r := w.want(w.finish(), "each", dag.Failure)
		if !strings.Contains(r.Error, c.why) || !strings.HasPrefix(r.Error, "p.yaml:5:") || r.Cause != "config" {
			t.Errorf("%.20s: %s (%s), want %s", c.list, r.Error, r.Cause, c.why)
		}
	}
}

func TestRepeat(t *testing.T) {
	w := newWorld(t,
		changed(group("fix",
			set("edit", `{{ .iteration }}{{ if .previous }} after {{ .previous.edit.output.v }}{{ end }}`, func(s *pipeline.Step) { s.Previous = true }),
			set("review", `{{ len .steps.edit.output.v }}`, needs("edit")),
		), repeat(`gt .steps.review.output.v 8`, 5)),
		set("seen", `{{ .steps.fix.iterations }} {{ .steps.fix.steps.edit.output.v }}`, needs("fix")))
	m := w.finish()
	if got := w.v(m, "seen"); got != `{"v":"2 2 after 1"}` {
		t.Errorf("others see %s", got)
	}
	wantStatuses(t, m, "fix succeeded", "fix.1 succeeded", "fix.1.edit succeeded", "fix.1.review succeeded",
		"fix.2 succeeded", "fix.2.edit succeeded", "fix.2.review succeeded", "seen succeeded")
}

func TestRepeatEnds(t *testing.T) {
	never := "`until` did not hold after 2 rounds"
	for _, c := range []struct {
		until  string
		goOn   bool
		status dag.Status
		why    string
	}{
		{"eq .iteration 2", false, dag.OK, ""},
		{`eq .iteration 1 | not`, false, dag.OK, ""},
		{"eq .iteration 3", false, dag.Failure, never},
		{"eq .iteration 3", true, dag.OK, ""},
		{`"yes"`, false, dag.Failure, "not true or false"},
	} {
		w := newWorld(t, set("x", "same", repeat(c.until, 2), func(s *pipeline.Step) { s.Repeat.GoOn = c.goOn }))
		r := w.want(w.finish(), "x", c.status)
		if !strings.Contains(r.Error, c.why) || c.why == never && r.Cause != string(agents.CauseCheck) {
			t.Errorf("%s: %s (%s)", c.until, r.Error, r.Cause)
		}
	}
}

// callee is a pipeline that says hello, with a variable and a secret of its own.
func callee() *pipeline.Plan {
	return &pipeline.Plan{
		Name: "callee", File: "callee.yaml", Secrets: []string{"S"}, Env: vars("B", "callee {{ .inputs.who }}", "C", "{{ .secrets.S }}"),
		Inputs: []pipeline.Input{
			{Name: "who", Type: "string", Required: true, Schema: json.RawMessage(`{"type":"string"}`)},
			{Name: "n", Type: "integer", Default: json.RawMessage("7"), Schema: json.RawMessage(`{"type":"integer"}`)},
		},
		Steps: []pipeline.Step{
			set("greet", "{{ .run.pipeline }}: hello {{ .inputs.who }} {{ .inputs.n }}"),
			script("shell", "echo {{ .env.B }}", needs("greet")),
		},
		Outputs: vars("said", "{{ .steps.greet.output.v }}", "n", "{{ .inputs.n }}"),
	}
}

func call(id string, plan *pipeline.Plan, with []pipeline.Var, change ...func(*pipeline.Step)) pipeline.Step {
	return changed(pipeline.Step{
		ID: id, Kind: pipeline.KindCall, Pos: pipeline.Pos{Line: 4, Col: 3},
		Call: &pipeline.Call{File: plan.File, Plan: plan, With: with},
	}, change...)
}

func TestCall(t *testing.T) {
	w := newWorld(t,
		call("each", callee(), vars("who", "{{ .item }}", "n", "{{ .index }}"), items(`["Ann","Bob"]`)),
		set("seen", `{{ range .steps.each.items }}{{ .output.said }} {{ add1 .output.n }}, {{ end }}`, needs("each")),
		set("plain", "{{ .run.pipeline }}"))
	w.plan.Name, w.plan.Env = "caller", vars("A", "caller's", "B", "hidden")
	w.config.Secrets = map[string]string{"S": "s3cret"}
	w.play = prints
	m := w.finish()
	if got, want := w.v(m, "seen"), `{"v":"callee: hello Ann 0 1, callee: hello Bob 1 2, "}`; got != want {
		t.Errorf("the caller sees %s", got)
	}
	if got := w.v(m, "plain"); got != `{"v":"caller"}` {
		t.Errorf("the caller's pipeline is %s", got)
	}
	for _, p := range w.ran {
		for _, want := range []string{"A=caller's", "B=callee ", "C=s3cret"} {
			if !slices.ContainsFunc(p.spec.Env, func(v string) bool { return strings.HasPrefix(v, want) }) {
				t.Errorf("%s has no variable %s in %q", p.spec.Label, want, p.spec.Env)
			}
		}
	}
}

func TestCallRefused(t *testing.T) {
	w := newWorld(t,
		call("wrong", callee(), vars("who", "{{ 3 }}")),
		call("missing", callee(), nil))
	m := w.finish()
	if r := w.want(m, "wrong", dag.Failure); !strings.HasPrefix(r.Error, "p.yaml:5:7: input `who` of callee.yaml: ") {
		t.Error(r.Error)
	}
	if r := w.want(m, "missing", dag.Failure); !strings.Contains(r.Error, "input `who` is required") {
		t.Error(r.Error)
	}
}

func contest(judge bool, by string, agents ...string) func(*pipeline.Step) {
	return func(s *pipeline.Step) {
		s.Agent, s.Contest = "", &pipeline.Contest{Agents: agents, By: by, Race: !judge && by == ""}
		if judge {
			s.Contest.Judge = &pipeline.Step{
				ID: judgeID, Kind: pipeline.KindPrompt, Agent: "a", Prompt: text("Short ones win."),
				Output: json.RawMessage(`{"type":"object","required":["winner"],"properties":{"winner":{"type":"integer"}}}`),
			}
		}
	}
}

func (w *world) agents(names ...string) {
	for _, name := range names {
		w.plan.Agents[name] = pipeline.Profile{Name: name, Use: "fake"}
	}
}

// by lets each step's processes do what is listed for its path.
func by(plays map[string]func(*process) (proc.Result, error)) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		play := plays[parent(parent(p.spec.Label))]
		if play == nil {
			p.t.Errorf("process %s was not expected", p.spec.Label)
			return proc.Result{Code: -1}, nil
		}
		return play(p)
	}
}

func TestRace(t *testing.T) {
	w := newWorld(t, ask("x", contest(false, "", "a", "b", "c")),
		set("seen", `{{ .steps.x.text }} by {{ .steps.x.agent }} of {{ len .steps.x.items }}`, needs("x")))
	w.agents("b", "c")
	w.play = by(map[string]func(*process) (proc.Result, error){
		"x.0": says(0, "problem server down"),
		"x.1": says(0, "session S", "answer good"),
		"x.2": func(p *process) (proc.Result, error) {
			<-p.ctx.Done()
			return proc.Result{Code: -1, Signal: "TERM"}, nil
		},
	})
	m := w.finish()
	if got := w.v(m, "seen"); got != `{"v":"good by b of 3"}` {
		t.Errorf("others see %s", got)
	}
	if r := w.want(m, "x", dag.OK); r.Winner == nil || *r.Winner != 1 || r.Session != "S" {
		t.Errorf("the result is %+v", r)
	}
}

func TestVote(t *testing.T) {
	answers := func(verdicts ...string) map[string]func(*process) (proc.Result, error) {
		plays := map[string]func(*process) (proc.Result, error){}
		for i, v := range verdicts {
			plays[fmt.Sprint("x.", i)] = says(0, v)
		}
		return plays
	}
	const yes, no, broken = `answer {"ok":{"now":true}}`, `answer {"ok":{"now":false}}`, "problem auth no login"
	for _, c := range []struct {
		answers []string
		winner  int
		cause   string
	}{
		{[]string{yes, no, no}, 1, ""},
		{[]string{no, yes, yes}, 1, ""},
		{[]string{broken, no, yes}, 1, ""}, // a tie: the first value wins
		{[]string{broken, broken, yes}, 2, ""},
		{[]string{`answer {}`, `answer {}`, yes}, 2, ""},
		{[]string{`answer {}`, `answer {}`, broken}, 0, "schema"},
	} {
		w := newWorld(t, ask("x", contest(false, "ok.now", "a", "b", "c"), output(`{"type":"object"}`)))
		w.agents("b", "c")
		w.play = by(answers(c.answers...))
		status := dag.OK
		if c.cause != "" {
			status = dag.Failure
		}
		r := w.want(w.finish(), "x", status)
		if r.Cause != c.cause || c.cause == "" && *r.Winner != c.winner {
			t.Errorf("%q: %+v", c.answers, r)
		}
	}
}

func TestJudge(t *testing.T) {
	w := newWorld(t, ask("x", contest(true, "", "a", "b", "c")), set("seen", "{{ .steps.x.text }}", needs("x")))
	w.agents("b", "c")
	var prompts []string
	w.play = by(map[string]func(*process) (proc.Result, error){
		"x.0": says(0, "answer long one"), "x.1": says(0, "problem auth no"), "x.2": says(0, "answer short"),
		"x.judge": func(p *process) (proc.Result, error) {
			prompts = append(prompts, p.prompt)
			if len(prompts) == 1 { // not one of those that it was shown
				return says(0, "session J", `answer {"winner":1}`)(p)
			}
			return says(0, "session J", `answer {"winner":2}`)(p)
		},
	})
	m := w.finish()
	if got := w.v(m, "seen"); got != `{"v":"short"}` {
		t.Errorf("others see %s", got)
	}
	if len(prompts) != 2 || !strings.Contains(prompts[1], "which is none of those") {
		t.Fatalf("the judge was asked %q", prompts)
	}
	for _, want := range []string{"do x", "Candidate 0:", "long one", "Candidate 2:", "short", "Short ones win."} {
		if !strings.Contains(prompts[0], want) {
			t.Errorf("the judge is not shown %q: %s", want, prompts[0])
		}
	}
	if strings.Contains(prompts[0], "Candidate 1:") {
		t.Error("the judge is shown a candidate that failed")
	}
}

// With one candidate left there is nothing to judge.
func TestJudgeOfOne(t *testing.T) {
	w := newWorld(t, ask("x", contest(true, "", "a", "b")))
	w.agents("b")
	w.play = by(map[string]func(*process) (proc.Result, error){"x.0": says(0, "problem auth no"), "x.1": says(0, "answer ok")})
	m := w.finish()
	if r := w.want(m, "x", dag.OK); *r.Winner != 1 {
		t.Errorf("the winner is %d", *r.Winner)
	}
	w.want(m, "x.judge", dag.SkippedStep)
}

// A step with `session: continue` goes on in its own session of the round before, and
// never in that of another item; a round that did not run is passed over.
func TestSessionOverRounds(t *testing.T) {
	own := func(s *pipeline.Step) {
		s.Session = pipeline.Session{Mode: pipeline.SessionContinue, Step: "edit", Root: "fix.edit"}
		s.Previous = true
	}
	w := newWorld(t, changed(group("fix", ask("edit", own, onlyIf("ne .iteration 2", false))), items(`["a","b"]`), repeat("eq .iteration 4", 4)))
	w.play = func(p *process) (proc.Result, error) {
		id := p.request.Session.ID
		if p.request.Session.Mode == agents.SessionNew {
			id = "S-" + p.spec.Label
		}
		return says(0, "session "+id, "answer ok")(p)
	}
	if m := w.finish(); m.Status() != dag.RunSucceeded || len(w.ran) != 6 {
		t.Fatal(statuses(m))
	}
	for _, p := range w.ran {
		item, round := strings.Split(p.spec.Label, ".")[1], strings.Split(p.spec.Label, ".")[2]
		want := agents.Session{}
		if round != "1" {
			want = agents.Session{Mode: agents.SessionResume, ID: "S-fix." + item + ".1.edit.1.1"}
		}
		if diff := cmp.Diff(want, p.request.Session); diff != "" {
			t.Errorf("%s: %s", p.spec.Label, diff)
		}
	}
}
