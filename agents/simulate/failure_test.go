package simulate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"flow/agents"
)

func TestFailures(t *testing.T) {
	tests := []struct {
		agent, cause string
		status       int
		want         string // in the last line
	}{
		{Claude, "auth", 1, `"api_error_status":401`},
		{Claude, "billing", 1, "Credit balance is too low"},
		{Claude, "rate_limit", 1, `"api_error_type":"rate_limit_error"`},
		{Claude, "usage_limit", 1, `"api_error":"usage_limit_reached"`},
		{Claude, "overloaded", 1, `"api_error_status":529`},
		{Claude, "network", 1, `"api_error":"connection_failed"`},
		{Claude, "server", 1, `"api_error_status":500`},
		{Claude, "context", 1, `"terminal_reason":"prompt_too_long"`},
		{Claude, "budget", 1, `"subtype":"error_max_budget_usd"`},
		{Claude, "max_turns", 1, `"subtype":"error_max_turns"`},
		{Claude, "max_output", 1, "output token maximum"},
		{Claude, "refusal", 1, `"stop_reason":"refusal"`},
		{Claude, "model_not_found", 1, `"api_error_status":404`},
		{Claude, "invalid_request", 1, `"api_error_status":400`},
		{Codex, "auth", 1, "unexpected status 401 Unauthorized"},
		{Codex, "rate_limit", 1, "exceeded retry limit, last status: 429 Too Many Requests"},
		{Codex, "usage_limit", 1, "You’ve hit your usage limit."},
		{Codex, "overloaded", 1, "Selected model is at capacity."},
		{Codex, "network", 1, "Connection failed: error sending request"},
		{Codex, "server", 1, "high demand"},
		{Codex, "context", 1, "ran out of room in the model's context window"},
		{Codex, "max_output", 1, "Incomplete response returned, reason: max_output_tokens"},
		{Codex, "refusal", 1, "Invalid prompt: flagged"},
		{Codex, "model_not_found", 1, "does not exist"},
		{Codex, "invalid_request", 1, "turn.failed"},
		{Gemini, "auth", 145, "UNAUTHENTICATED"},
		{Gemini, "rate_limit", 173, "exceeded your current quota"},
		{Gemini, "usage_limit", 173, "exhausted your daily quota"},
		{Gemini, "overloaded", 247, "UNAVAILABLE"},
		{Gemini, "network", 1, "fetch failed"},
		{Gemini, "server", 244, "INTERNAL"},
		{Gemini, "context", 144, "input token count"},
		{Gemini, "max_turns", 53, "FatalTurnLimitedError"},
		{Gemini, "max_output", 0, `"status":"success"`},
		{Gemini, "refusal", 0, `"status":"error"`},
		{Gemini, "model_not_found", 1, "is not found for API version"},
		{Gemini, "invalid_request", 144, "INVALID_ARGUMENT"},
	}
	for _, tt := range tests {
		t.Run(tt.agent+" "+tt.cause, func(t *testing.T) {
			args := argv(tt.agent)
			if tt.agent == Codex {
				args = argv(Codex, "--disable", "unbounded_connection_retries")
			}
			o := newLab(t).script("fail="+tt.cause).run(tt.agent, "p", args...)
			last, err := json.Marshal(o.last(t))
			if err != nil {
				t.Fatal(err)
			}
			if o.status != tt.status || !strings.Contains(string(last), tt.want) {
				t.Errorf("status %d, last line %s", o.status, last)
			}
		})
	}
}

func TestClaudeTellsItsRetries(t *testing.T) {
	for env, want := range map[string]int{"": 10, "0": 0, "3": 3} {
		o := newLab(t).script("fail=auth").with("CLAUDE_CODE_MAX_RETRIES", env).run(Claude, "p", argv(Claude)...)
		if got := strings.Count(o.stdout, `"subtype":"api_retry"`); got != want {
			t.Errorf("%d retries with CLAUDE_CODE_MAX_RETRIES=%q, want %d", got, env, want)
		}
	}
}

func TestFailingInTheFirstTurnsOnly(t *testing.T) {
	for _, agent := range vendors() {
		l := newLab(t).script("fail=server@2")
		o := l.run(agent, "p", argv(agent)...)
		id := sessionOf(t, o)
		resume := map[string][]string{
			Claude: argv(Claude, "--resume", id), Codex: codexArgv("resume", id), Gemini: argv(Gemini, "--resume", id),
		}[agent]
		second, third := l.run(agent, "p", resume...), l.run(agent, "p", resume...)
		if o.status == 0 || second.status == 0 || third.status != 0 {
			t.Errorf("%s: %d %d %d", agent, o.status, second.status, third.status)
		}
	}
}

func TestFailingInTheFirstProcessesOnly(t *testing.T) {
	l := newLab(t).script("exit=7@2:key;rubbish@2:key")
	var got []string
	for range 3 {
		o := l.run(Codex, "p", argv(Codex)...)
		got = append(got, fmt.Sprint(o.status, strings.Contains(o.stdout, "no JSON")))
	}
	// Both items count as one, since they are in the same process.
	if fmt.Sprint(got) != "[7 true 7 true 0 false]" {
		t.Errorf("%v", got)
	}
	if o := l.script("exit=7@2:other").run(Codex, "p", argv(Codex)...); o.status != 7 {
		t.Errorf("another key counts with the first: %+v", o)
	}
}

func TestMishaps(t *testing.T) {
	for _, agent := range vendors() {
		l := newLab(t)
		if o := l.script("silent").run(agent, "p", argv(agent)...); o.status != 0 || strings.Contains(o.stdout, `"result"`) || strings.Contains(o.stdout, "turn.completed") {
			t.Errorf("%s, silent: %+v", agent, o)
		}
		o := l.script("rubbish").run(agent, "p", argv(agent)...)
		if o.status != 0 || !strings.Contains(o.stdout, "\nthis line is no JSON\n") {
			t.Errorf("%s, rubbish: %+v", agent, o)
		}
		o = l.script("big=200000").run(agent, "p", argv(agent)...)
		if got := finalText(t, agent, o); len(got) != 200000 || o.status != 0 {
			t.Errorf("%s, big: %d bytes", agent, len(got))
		}
	}
}

func TestAnswersBySchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"approved":{"type":"boolean"},"issues":{"type":"array","items":{"type":"string"}}},"required":["approved","issues"],"additionalProperties":false}`
	const valid = `{"approved":true,"issues":["issues 1","issues 2"]}`
	l := newLab(t)
	file := l.dir + "/schema.json"
	write(t, file, schema)
	run := func(agent, script string) outcome {
		prompt, args := "p", argv(agent)
		switch agent {
		case Claude:
			args = argv(agent, "--json-schema", schema)
		case Codex:
			args = argv(agent, "--output-schema", file)
		case Gemini:
			prompt = withSchema("p", schema)
		}
		return l.script(script).run(agent, prompt, args...)
	}
	for _, agent := range vendors() {
		if got := finalText(t, agent, run(agent, "")); got != valid {
			t.Errorf("%s: %s", agent, got)
		}
		if got := finalText(t, agent, run(agent, `json={"x":1,"y":2};ids`)); got != `{"x":1,"y":2}` {
			t.Errorf("%s, json: %s", agent, got)
		}
		if got := finalText(t, agent, run(agent, "badschema=1")); agent != Claude && got != `["against the schema"]` {
			t.Errorf("%s, badschema: %s", agent, got)
		}
	}
	if got := get(t, run(Claude, "").last(t), "structured_output.approved"); got != true {
		t.Errorf("claude's structured_output: %v", got)
	}
	o := run(Claude, "badschema=1")
	if r := o.last(t); o.status != 1 || r["subtype"] != "error_max_structured_output_retries" {
		t.Errorf("claude, which checks the answer itself: %d %v", o.status, r)
	}
	// A model that does not call the tool succeeds, but without the output.
	if r := run(Claude, "text=no").last(t); r["structured_output"] != nil || r["is_error"] != false {
		t.Errorf("claude, text: %v", r)
	}
}

// The first sessions that answer with a boolean say no, each again when it is asked again;
// answers without one do not count, nor do other directories.
func TestRefusing(t *testing.T) {
	const verdict, plan = `{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"]}`, `{"type":"array","items":{"type":"string"}}`
	l := newLab(t).script("no@2:review")
	ask := func(schema string, args ...string) string {
		t.Helper()
		return finalText(t, Gemini, l.run(Gemini, withSchema("p", schema), argv(Gemini, args...)...))
	}
	const first, second, third = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"
	const no, yes = `{"approved":false}`, `{"approved":true}`
	if got := ask(plan); got != `["value 1","value 2"]` {
		t.Errorf("without a boolean: %s", got)
	}
	for _, c := range []struct{ flag, session, want string }{
		{"--session-id", first, no},
		{"--resume", first, no},
		{"--session-id", second, no},
		{"--session-id", third, yes},
		{"--resume", second, no},
		{"--resume", third, yes},
	} {
		if got := ask(verdict, c.flag, c.session); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.flag, c.session[:1], got, c.want)
		}
	}
	t.Chdir(t.TempDir())
	if got := ask(verdict); got != no {
		t.Errorf("elsewhere: %s", got)
	}
	if got := finalText(t, Gemini, l.with(EnvScript+"_GEMINI", "text=own").run(Gemini, "p", argv(Gemini)...)); got != "own" {
		t.Errorf("the script of one agent: %s", got)
	}
	l = l.script("no@1")
	id := sessionOf(t, l.run(Gemini, withSchema("p", verdict), argv(Gemini)...))
	if got := ask(verdict, "--resume", id); got != yes {
		t.Errorf("in the second turn of a session: %s", got)
	}
}

func withSchema(prompt, schema string) string {
	return agents.WithSchema(prompt, json.RawMessage(schema))
}

func TestClaudeRunsSlashCommands(t *testing.T) {
	l := newLab(t)
	if r := l.run(Claude, "/cost now", argv(Claude)...).last(t); r["local_command"] != "cost" || r["num_turns"] != 0.0 {
		t.Errorf("a command: %v", r)
	}
	if r := l.run(Claude, "/usr/bin/env is a path", argv(Claude)...).last(t); r["local_command"] != nil || r["num_turns"] != 1.0 {
		t.Errorf("a path: %v", r)
	}
}
