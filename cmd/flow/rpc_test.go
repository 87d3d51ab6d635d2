package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/cmd/flow/internal/rpc"
)

// TestRPCPython has a client that is not of ours discover agents, run one, permit a call, and
// hear of it all.
func TestRPCPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	script, err := filepath.Abs(filepath.Join("testdata", "rpc", "client.py"))
	if err != nil {
		t.Fatal(err)
	}
	r := newCrashRun(t, "python")
	cmd := r.command()
	cmd.Path, cmd.Args, cmd.Err = python, []string{python, script}, nil
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"agents: claude codex gemini\n", "agent_tool_call  touch permitted", "agent_permission  touch permitted", "answer: answered\n",
		"agent_status permission_decided", "agent_tool_result ", "agent_message ", "agent_complete   Simulated claude answer to: Look around.", "run_complete succeeded",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "permitted")); err != nil {
		t.Error(err)
	}
}

// TestRPCMethods calls every method, well and badly.
func TestRPCMethods(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "methods")
	p := r.rpc(t)
	begun, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Say {{ it }}.", Type: "codex", Options: simulated("")})
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, method(rpc.RunComplete, begun.Run))
	for _, c := range []struct{ method, params, want string }{
		{"rpc/methods", `{}`, `"openrpc":"1.3.2"`},
		{"rpc/initialize", `{"client":{"name":"a"}}`, `{"protocol":1,"server":{"name":"flow"`},
		{"rpc/initialize", `{"client":"a"}`, `-32602 params.client: is a string`},
		{"agent/discover", `{}`, `"active":"claude","status":"idle"`},
		{"agent/discover", `{"all":true}`, `-32602 params.all: is unknown`},
		{"agent/select", `{"type":"gemini"}`, `{"status":"selected","type":"gemini","name":"Gemini CLI"}`},
		{"agent/select", `{"type":"nobody"}`, `-32602 params.type: "nobody" is no agent`},
		{"agent/select", `{}`, `-32602 params.type: is missing`},
		{"agent/configure", `{"model":"m","autoApprove":["read_file"]}`, `{"status":"configured","type":"gemini","options":{"model":"m","autoApprove":["read_file"]}}`},
		{"agent/configure", `{"sandbox":"read-only"}`, `"options":{"model":"m","sandbox":"read-only","autoApprove":["read_file"]}`},
		{"agent/configure", `{"type":"claude","transport":"smoke"}`, `-32003 `},
		{"agent/configure", `{"sandbox":"docker"}`, `-32602 params.sandbox: "docker" is unknown`},
		{"agent/configure", `{"autoApprove":["fly"]}`, `-32003 `},
		{"agent/run", `{}`, `-32602 params.prompt: is missing`},
		{"agent/run", `{"prompt":" "}`, `-32602 params.prompt: is empty`},
		{"agent/run", `{"prompt":"a","mode":"old"}`, `-32602 params.mode: "old" is unknown`},
		{"agent/run", `{"prompt":"a","mode":"continue"}`, `-32602 params.session_id: is missing`},
		{"agent/run", `{"prompt":"a","mode":"continue","session_id":"none"}`, `-32001 flow knows no session none`},
		{"agent/run", `{"prompt":"a","session_id":"x"}`, `-32602 params.mode: is not continue`},
		{"agent/run", `{"prompt":"a","type":"claude"}`, `-32004 `},
		{"agent/run", `{"prompt":"a","type":"claude","options":{"simulate":true,"dir":"here"}}`, `-32602 params.options.dir: here is relative`},
		{"agent/run", `{"prompt":"a","type":"claude","options":{"simulate":true,"timeout":"soon"}}`, `-32003 `},
		{"agent/run", `{"prompt":"a","type":"claude","options":{"simulate":true,"permissions":[1]}}`, `-32602 params.options.permissions: is not an object`},
		{"agent/stop", `{}`, `-32001 no run of agent/run is under way`},
		{"agent/stop", `{"run":"RUN"}`, `-32000 run RUN is not under way`},
		{"agent/respond", `{"run":"RUN","id":"x","decision":"allow"}`, `-32001 run RUN waits for no answer to "x"`},
		{"agent/respond", `{"run":"RUN","id":"x","decision":"maybe"}`, `-32602 params.decision: "maybe" is unknown`},
		{"agent/respond", `{"run":"none","id":"x","decision":"allow"}`, `-32001 `},
		{"pipeline/validate", `{"text":"steps: {a: {run: echo}}"}`, `{"valid":true,"problems":[`},
		{"pipeline/validate", `{"text":"steps: {a: {rum: echo}}"}`, `{"valid":false,"problems":[{"file":"`},
		{"pipeline/validate", `{}`, `-32602 params.file: is missing`},
		{"pipeline/validate", `{"file":"none.yaml"}`, `-32602 `},
		{"pipeline/run", `{"text":"steps: {a: {rum: echo}}"}`, `-32003 `},
		{"pipeline/run", `{"text":"inputs: {n: {type: integer}}\nsteps: {a: {run: 'echo {{ .inputs.n }}'}}","inputs":{"n":"x"}}`, `-32602 params.inputs: `},
		{"pipeline/run", `{"text":"steps: {a: {run: echo}}","ask_timeout":"soon"}`, `-32602 params.ask_timeout: "soon" is no duration`},
		{"pipeline/run", `{"text":"steps: {a: {run: echo}}","run_id":"RUN"}`, `-32602 run RUN exists already`},
		{"pipeline/run", `{"text":"steps: {a: {run: echo}}","dir":"/none"}`, `-32602 params.dir: /none is no directory`},
		{"pipeline/resume", `{"run":"RUN"}`, `{"run":"RUN","status":"succeeded","after":`},
		{"pipeline/resume", `{"run":"RUN","inputs":{"a":"b"}}`, `-32602 params.inputs: is given without update`},
		{"pipeline/resume", `{"run":"none"}`, `-32001 `},
		{"pipeline/cancel", `{"run":"RUN"}`, `-32000 run RUN is not under way`},
		{"pipeline/cancel", `{"run":""}`, `-32602 params.run: is empty`},
		{"pipeline/approve", `{"run":"RUN"}`, `-32000 run RUN waits for no answer`},
		{"run/list", `{}`, `{"runs":[{"id":"RUN","name":"agent-run"`},
		{"run/list", `{"status":"failed"}`, `{"runs":[]}`},
		{"run/list", `{"limit":-1}`, `-32602 params.limit: is -1`},
		{"run/show", `{"run":"last"}`, `"questions":[],"here":false}`},
		{"run/show", `{"run":"none"}`, `-32001 `},
		{"run/events", `{"run":"RUN","limit":1}`, `"next":1,"more":true,"subscribed":false}`},
		{"run/events", `{"run":"RUN","after":100000}`, `{"run":"RUN","events":[],"next":100000,"more":false`},
		{"run/events", `{"run":"RUN","step":"turn9"}`, `-32602 params.step: run RUN has no step`},
		{"run/unsubscribe", `{"run":"RUN"}`, `-32001 the client does not follow run RUN`},
	} {
		params := strings.ReplaceAll(c.params, "RUN", begun.Run)
		var result json.RawMessage
		err := p.Call(t.Context(), c.method, json.RawMessage(params), &result)
		got := string(result)
		if e, ok := errors.AsType[*rpc.Error](err); ok {
			got = jsonText(t, e.Code) + " " + e.Message
		} else if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(c.want, "RUN", begun.Run)
		if !strings.HasPrefix(got, want) && (want[0] != '"' || !strings.Contains(got, want)) {
			t.Errorf("%s %s\n got %.500s\nwant %s", c.method, params, got, want)
		}
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRPCConversation: turns go on in one session, and are steps of one run.
func TestRPCConversation(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "conversation")
	p := r.rpc(t)
	first, err := p.Run(t.Context(), rpc.RunParams{Prompt: "One.", Type: "claude", Options: simulated("ids")})
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, method(rpc.RunComplete, first.Run))
	done := p.await(t, method(rpc.AgentComplete, first.Run))
	session := done.Params["session_id"].(string)
	options := simulated("ids")
	options.Model = "opus"
	second, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Two.", Mode: "continue", SessionID: session, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	if second.Run != first.Run || second.Step != "turn2" || second.After < int64(done.Params["seq"].(float64)) {
		t.Errorf("%+v goes on with %+v", second, first)
	}
	p.await(t, func(n note) bool {
		return n.Method == rpc.RunComplete && n.Params["seq"].(float64) > float64(second.After)
	})
	answer := p.await(t, func(n note) bool { return n.Method == rpc.AgentComplete && n.Params["step"] == "turn2" })
	if answer.Params["session_id"] != session || !strings.Contains(answer.Params["text"].(string), "turn 2") {
		t.Errorf("the second turn, after session %s: %v", session, answer.Params)
	}
	shown, err := p.Show(t.Context(), first.Run)
	if err != nil {
		t.Fatal(err)
	}
	if report := string(shown.Report); !strings.Contains(report, `"turn1"`) || !strings.Contains(report, `"turn2"`) {
		t.Errorf("the report: %s", report)
	}
	if _, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Three.", Mode: "continue", Run: first.Run, Type: "codex", Options: simulated("")}); err == nil {
		t.Error("another agent goes on in the session")
	}
}

// TestRPCSettled: what is chosen once holds for the runs that follow.
func TestRPCSettled(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "settled")
	p := r.rpc(t)
	if chosen, err := p.Select(t.Context(), "codex"); err != nil || chosen.Type != "codex" || chosen.Name != "Codex" {
		t.Errorf("%+v, %v", chosen, err)
	}
	set, err := p.Configure(t.Context(), rpc.ConfigureParams{AgentOptions: rpc.AgentOptions{Model: "gpt-x"}})
	if err != nil || set.Type != "codex" || set.Options.Model != "gpt-x" {
		t.Errorf("%+v, %v", set, err)
	}
	run, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Hello.", Options: simulated("")})
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, method(rpc.RunComplete, run.Run))
	list, err := p.Runs(t.Context(), rpc.ListParams{})
	if err != nil || len(list.Runs) != 1 || list.Runs[0].ID != run.Run || list.Runs[0].Status != "succeeded" {
		t.Errorf("%+v, %v", list, err)
	}
	long, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Wait.", Options: simulated("stall=1h")})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Unsubscribe(t.Context(), long.Run); err != nil {
		t.Error(err)
	}
	if _, err := p.Stop(t.Context(), long.Run); err != nil {
		t.Error(err)
	}
	shown, err := p.Show(t.Context(), run.Run)
	if err != nil || !strings.Contains(string(shown.Report), `"model":"gpt-x"`) {
		t.Errorf("%s, %v", shown.Report, err)
	}
	checked, err := p.Validate(t.Context(), rpc.ValidateParams{PipelineRef: rpc.PipelineRef{Text: "stpes: {}"}})
	if err != nil || checked.Valid || len(checked.Problems) == 0 {
		t.Errorf("%+v, %v", checked, err)
	}
}

// TestRPCStop: a turn that is stopped leaves a run that goes on.
func TestRPCStop(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "stop")
	p := r.rpc(t)
	begun, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Wait.", Type: "codex", Options: simulated("stall=10m@1")})
	if err != nil {
		t.Fatal(err)
	}
	p.await(t, func(n note) bool { return n.Method == rpc.AgentStatus && n.Params["status"] == "started" })
	if d, err := p.Discover(t.Context()); err != nil || d.Status != "running" {
		t.Errorf("%v, %v", d.Status, err)
	}
	if _, err := p.Resume(t.Context(), rpc.ResumeParams{Run: begun.Run}); err == nil || !strings.Contains(err.Error(), "is in use by process") {
		t.Errorf("a run that is under way: %v", err)
	}
	if _, err := p.Stop(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if end := p.await(t, method(rpc.RunComplete, begun.Run)); end.Params["status"] != "cancelled" {
		t.Errorf("the end: %v", end.Params)
	}
	if left := processesOf(begun.Run, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	again, err := p.Resume(t.Context(), rpc.ResumeParams{Run: begun.Run})
	if err != nil {
		t.Fatal(err)
	}
	end := p.await(t, func(n note) bool {
		return n.Method == rpc.RunComplete && n.Params["seq"].(float64) > float64(again.After)
	})
	if end.Params["status"] != "succeeded" {
		t.Errorf("the end: %v", end.Params)
	}
}

// TestRPCPermission: whoever answers first decides, and a client that leaves has denied.
func TestRPCPermission(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent, decision string
		happens         bool
	}{
		{"claude", "allow", true},
		{"claude", "deny", false},
		{"codex", "allow", true},
		{"claude", "", false},
	} {
		t.Run(c.agent+" "+c.decision, func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, "permission")
			p := r.rpc(t, "--detach").answering(t)
			begun, err := p.Run(t.Context(), rpc.RunParams{Prompt: "Touch.", Type: c.agent, Options: asked("run=touch permitted")})
			if err != nil {
				t.Fatal(err)
			}
			question := p.await(t, method(rpc.AgentPermission, begun.Run)).Params
			if question["operation"] != "shell_execute" || question["agent_type"] != c.agent || !strings.Contains(question["target"].(string), "touch permitted") {
				t.Errorf("asked is %v", question)
			}
			if shown, err := p.Show(t.Context(), begun.Run); err != nil || len(shown.Questions) != 1 || !shown.Here {
				t.Errorf("%+v, %v", shown.Questions, err)
			}
			if c.decision == "" {
				err = p.Close()
			} else {
				_, err = p.Respond(t.Context(), rpc.RespondParams{Run: begun.Run, ID: question["request_id"].(string), Decision: c.decision, Message: "so be it"})
			}
			if err != nil {
				t.Fatal(err)
			}
			p.await(t, method(rpc.RunComplete, begun.Run))
			if _, err := os.Stat(filepath.Join(r.dir, "permitted")); (err == nil) != c.happens {
				t.Errorf("it happened: %v", err == nil)
			}
			decided := p.await(t, func(n note) bool { return n.Params["status"] == "permission_decided" }).Params["details"].(map[string]any)
			if by := decided["by"]; (by == "person") != (c.decision != "") {
				t.Errorf("decided is %v", decided)
			}
		})
	}
}

const askingPipeline = `
steps:
  sure: {ask: 'Sure?', timeout: 1h}
  form: {ask: 'Where?', timeout: 1h, output: {type: string}}
  done: {needs: [sure, form], run: echo done}
`

// TestRPCQuestions: ask steps are answered by a client that is there, or later.
func TestRPCQuestions(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "questions")
	p := r.rpc(t)
	begun, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{Text: askingPipeline}, RunID: "later"})
	if err != nil {
		t.Fatal(err)
	}
	if end := p.await(t, method(rpc.RunComplete, begun.Run)); end.Params["status"] != "waiting" {
		t.Errorf("nobody is there, and the run is %v", end.Params)
	}
	if q := p.await(t, func(n note) bool { return n.Method == rpc.RunQuestion && n.Params["step"] == "form" }); !strings.Contains(string(q.Raw), `"form":{"type":"string"}`) {
		t.Errorf("the question: %s", q.Raw)
	}
	if a, err := p.Approve(t.Context(), rpc.ApproveParams{Run: "later", Step: "sure", NoResume: true}); err != nil || a.Status != "stored" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := p.Approve(t.Context(), rpc.ApproveParams{Run: "later", Step: "sure"}); err == nil || !strings.Contains(err.Error(), "has an answer already") {
		t.Errorf("a second answer: %v", err)
	}
	if _, err := p.Approve(t.Context(), rpc.ApproveParams{Run: "later", Step: "form", Answer: json.RawMessage(`7`)}); err == nil || !strings.Contains(err.Error(), "params.answer") {
		t.Errorf("a wrong answer: %v", err)
	}
	if a, err := p.Approve(t.Context(), rpc.ApproveParams{Run: "later", Step: "form", Answer: json.RawMessage(`"here"`)}); err != nil || a.Status != "running" {
		t.Errorf("%+v, %v", a, err)
	}
	p.await(t, func(n note) bool { return n.Method == rpc.RunComplete && n.Params["status"] == "succeeded" })

	p.answering(t)
	if _, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{Text: askingPipeline}, RunID: "now"}); err != nil {
		t.Fatal(err)
	}
	for step, answer := range map[string]string{"sure": "", "form": `"there"`} {
		q := p.await(t, func(n note) bool {
			return n.Method == rpc.RunQuestion && n.Params["run"] == "now" && n.Params["step"] == step
		})
		got, err := p.Respond(t.Context(), rpc.RespondParams{Run: "now", ID: q.Params["question_id"].(string), Decision: "allow", Answer: json.RawMessage(answer)})
		if err != nil || !got.Live || got.Step != step {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if end := p.await(t, method(rpc.RunComplete, "now")); end.Params["status"] != "succeeded" {
		t.Errorf("the end: %v", end.Params)
	}
}

// TestRPCClientGone: a client that leaves stops what it has begun. It can be resumed.
func TestRPCClientGone(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "gone")
	p := r.rpc(t)
	const text = "steps: {wait: {run: 'touch begun; test -e go || sleep 600'}}"
	if _, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: rpc.PipelineRef{Text: text}, RunID: "gone"}); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { _, err := os.Stat(filepath.Join(r.dir, "begun")); return err == nil }) {
		t.Fatal("it never began")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if end := p.await(t, method(rpc.RunComplete, "gone")); end.Params["status"] != "cancelled" {
		t.Errorf("the end: %v", end.Params)
	}
	<-p.Ended()
	write(t, r.dir, "go")
	r.finish(t, "resume", "gone")
}

// TestRPCSchema: the published schema is that of the methods.
func TestRPCSchema(t *testing.T) {
	var out strings.Builder
	a := &app{stdout: &out, stderr: &out, getenv: os.Getenv}
	if err := a.schema("rpc"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", "rpc.schema.json")
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("go test ./cmd/flow -run RPCSchema -update\n%s", diff)
	}
	for _, m := range a.newHost("").server().Methods() {
		if !slices.Contains(strings.Fields(strings.ReplaceAll(string(want), `"`, " ")), m.Name) {
			t.Errorf("the schema has no %s", m.Name)
		}
	}
}
