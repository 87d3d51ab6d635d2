package program

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/internal/golden"
)

func request(x agents.Exec, args ...string) agents.Request {
	return agents.Request{Prompt: "Say {session} {model}.", Dir: "/w", Scratch: "/s", Args: args, Exec: &x}
}

func TestCommand(t *testing.T) {
	const prompt = "Say {session} {model}."
	resume := agents.Exec{Resume: []string{"--resume={session}"}}
	for name, tt := range map[string]struct {
		request agents.Request
		args    []string
		stdin   string
		file    string
	}{
		"stdin":          {request(agents.Exec{}, "-q"), []string{"-q"}, prompt, ""},
		"argument":       {request(agents.Exec{Prompt: "argument"}, "-q"), []string{"-q", prompt}, "", ""},
		"argument, told": {request(agents.Exec{Prompt: "argument"}, "--say={prompt}", "-q"), []string{"--say=" + prompt, "-q"}, "", ""},
		"no option":      {with(request(agents.Exec{Prompt: "argument"}), func(r *agents.Request) { r.Prompt = "--yolo" }), []string{"\n--yolo"}, "", ""},
		"file":           {request(agents.Exec{Prompt: "file"}, "--file"), []string{"--file", "/s/prompt.txt"}, "", prompt},
		"model":          {with(request(agents.Exec{}, "-m{model}"), func(r *agents.Request) { r.Model = "m1" }), []string{"-mm1"}, prompt, ""},
		"resume": {with(request(resume, "-q"), func(r *agents.Request) {
			r.Session = agents.Session{Mode: agents.SessionResume, ID: "s-7"}
		}), []string{"-q", "--resume=s-7"}, prompt, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Adapter{}.Command(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			var file string
			if len(c.Files) > 0 {
				file = string(c.Files[0].Data)
			}
			if !cmp.Equal(c.Args, tt.args) || c.Stdin != tt.stdin || file != tt.file || c.Talks {
				t.Errorf("%q, stdin %q, file %q", c.Args, c.Stdin, file)
			}
		})
	}
}

func with(r agents.Request, change func(*agents.Request)) agents.Request {
	change(&r)
	return r
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*agents.Request)
		want   string
	}{
		"model":    {func(r *agents.Request) { r.Model = "m" }, "nothing says how the command is told its model"},
		"resume":   {func(r *agents.Request) { r.Session.Mode = agents.SessionResume }, "nothing says how the command goes on in a session"},
		"fork":     {func(r *agents.Request) { r.Session.Mode = agents.SessionFork }, "a command cannot branch a session"},
		"hole":     {func(r *agents.Request) { r.Args = []string{"{prompt}"} }, "the command gets its prompt on standard input, but `args` has {prompt}"},
		"approval": {func(r *agents.Request) { r.Approval = agents.ApprovalDeny }, "flow cannot tell the command its `approval`"},
		"turns":    {func(r *agents.Request) { r.MaxTurns = 3 }, "flow cannot tell the command its `max-turns`"},
		"sandbox":  {func(r *agents.Request) { r.Sandbox = agents.SandboxReadOnly }, "this machine cannot put the command into a sandbox"},
		"long":     {func(r *agents.Request) { r.Exec.Prompt, r.Prompt = "argument", strings.Repeat("x", 1<<17) }, "an argument of 131072 bytes is too long to be passed"},
		"NUL":      {func(r *agents.Request) { r.Prompt = "a\x00b" }, "the prompt is no text"},
		"an option?": {func(r *agents.Request) {
			r.Exec.Resume, r.Session = []string{"-r", "{session}"}, agents.Session{Mode: agents.SessionResume, ID: "--yolo"}
		}, `the session "--yolo" would be taken for an option`},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(agents.Exec{})
			tt.change(&r)
			_, err := Adapter{}.Command(r)
			if p, ok := errors.AsType[*agents.Problem](err); !ok || p.Message != tt.want || p.Hint == "" {
				t.Errorf("refused with %v, want %q", err, tt.want)
			}
		})
	}
}

func translate(x agents.Exec, stdout string, exit agents.Exit) (agents.Outcome, []agents.Event) {
	var events []agents.Event
	d := Adapter{}.Dialog(agents.Request{Exec: &x})
	tr := agents.NewTranslator(d, agents.Envelope{Agent: Name}, func() time.Time { return time.Time{} },
		func(e agents.Event) { events = append(events, e) })
	for line := range bytes.Lines([]byte(stdout)) {
		tr.Stdout(bytes.TrimSuffix(line, []byte("\n")), agents.Native{})
	}
	return tr.End(exit), events
}

// everything maps all that can be mapped.
func everything(format string) agents.Exec {
	return agents.Exec{Format: format, Resume: []string{"{session}"}, Events: map[string]agents.Pick{
		"text":  {Path: ".m.content.0.text", Match: map[string]string{".type": "message", ".n": "1"}},
		"delta": {Path: ".delta"}, "session": {Path: ".id"}, "model": {Path: ".model"}, "tool": {Path: ".tool"},
		"input-tokens": {Path: ".usage.in"}, "output-tokens": {Path: ".usage.out"}, "cost": {Path: ".usd"},
		"error": {Path: ".error"}, "done": {Path: ".done"},
	}}
}

func TestOutcome(t *testing.T) {
	const message = `{"type":"message","n":1,"m":{"content":[{"text":"Hello"}]}}` + "\n"
	text, lines, whole := agents.Exec{}, everything("jsonl"), everything("json")
	for name, tt := range map[string]struct {
		exec   agents.Exec
		stdout string
		exit   agents.Exit
		text   string
		cause  agents.Cause
	}{
		"text":            {text, "a\nb\n\n", agents.Exit{}, "a\nb", ""},
		"no text":         {text, " \n", agents.Exit{}, " ", agents.CauseIncomplete},
		"exit status":     {text, "a\n", agents.Exit{Code: 2, Stderr: "401 Unauthorized"}, "a", agents.CauseAuth},
		"no reason":       {text, "a\n", agents.Exit{Code: 2}, "a", agents.CauseUnknown},
		"killed":          {text, "a\n", agents.Exit{Code: -1, Signal: "SEGV"}, "a", agents.CauseCrash},
		"timeout":         {text, "a\n", agents.Exit{Code: -1, Signal: "TERM", Intent: agents.IntentTimeout}, "a", agents.CauseTimeout},
		"message":         {lines, message + `{"done":true}`, agents.Exit{}, "Hello", ""},
		"no end":          {lines, message, agents.Exit{}, "Hello", agents.CauseIncomplete},
		"pieces":          {lines, `{"delta":"a "}` + "\n" + `{"delta":"b"}` + "\n" + `{"done":1}`, agents.Exit{}, "a b", ""},
		"pieces after it": {lines, message + `{"delta":"more"}` + "\n" + `{"done":1}`, agents.Exit{}, "more", ""},
		"no match":        {lines, `{"type":"message","n":2,"m":{"content":[{"text":"x"}]}}` + "\n" + `{"done":1}`, agents.Exit{}, "", agents.CauseIncomplete},
		"error":           {lines, message + `{"error":{"code":7},"done":1}`, agents.Exit{}, "Hello", agents.CauseUnknown},
		"one object":      {whole, "{\"delta\":\n\"a\",\"done\":true}", agents.Exit{}, "a", ""},
		"no object":       {whole, "oops\n", agents.Exit{}, "", agents.CauseProtocol},
		"nothing":         {whole, "", agents.Exit{}, "", agents.CauseProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			out, events := translate(tt.exec, tt.stdout, tt.exit)
			golden.Check(t, events, out)
			var cause agents.Cause
			if out.Problem != nil {
				cause = out.Problem.Cause
			}
			if out.Text != tt.text || cause != tt.cause {
				t.Errorf("%q (%s): %v", out.Text, cause, out.Problem)
			}
		})
	}
}

// What is mapped is in the outcome.
func TestFigures(t *testing.T) {
	out, _ := translate(everything("jsonl"), `{"id":"s-7","model":"m1","tool":"edit","usage":{"in":3,"out":"many"}}`+"\n"+
		`{"delta":"x","usage":{"in":7,"out":2},"usd":0.5,"done":{}}`, agents.Exit{})
	usage := agents.Usage{InputTokens: 7, OutputTokens: 2, TotalTokens: 9}
	if out.SessionID != "s-7" || out.Model != "m1" || out.Usage == nil || *out.Usage != usage || out.CostUSD == nil || *out.CostUSD != 0.5 {
		t.Errorf("%+v", out)
	}
	x := everything("jsonl")
	x.Resume = nil
	if out, _ := translate(x, `{"id":"s-7","delta":"x","done":1}`, agents.Exit{}); out.SessionID != "" {
		t.Error("a session is told that cannot be gone on with")
	}
}

// FuzzDialog lets a command print anything.
func FuzzDialog(f *testing.F) {
	f.Add([]byte(`{"delta":"x"}`+"\n"), "jsonl", ".delta", 0)
	f.Add([]byte("text\n"), "text", "..", 1)
	f.Add([]byte(`{"a":[1,{"b":null}]}`), "json", ".a.1.b", 0)
	f.Fuzz(func(t *testing.T, stdout []byte, format, path string, code int) {
		x := everything(format)
		x.Events["text"] = agents.Pick{Path: path, Match: map[string]string{path: "1"}}
		out, events := translate(x, string(stdout), agents.Exit{Code: code})
		golden.Check(t, events, out)
	})
}
