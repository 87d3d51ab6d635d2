package lsp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"

	"flow/pipeline"
)

// An editor speaks to a server as real ones do, by a client that is not ours.
type editor struct {
	t           *testing.T
	client      *jrpc2.Client
	diagnostics chan publishParams
	ended       chan error
}

const uri = "file:///project/review.yaml"

// edit starts a server. Documents are checked as soon as the typing stops for delay.
func edit(t *testing.T, delay time.Duration) *editor {
	t.Helper()
	fromEditor, toServer := io.Pipe()
	fromServer, toEditor := io.Pipe()
	e := &editor{t: t, diagnostics: make(chan publishParams, 100), ended: make(chan error, 1)}
	go func() {
		err := Serve(fromEditor, toEditor, Options{
			Check: check, Agents: []string{"claude", "codex", "gemini"}, Delay: delay,
			Config: func(path string) bool { return strings.HasSuffix(path, ".flow.yaml") },
		})
		toEditor.Close()
		e.ended <- err
	}()
	e.client = jrpc2.NewClient(channel.LSP(fromServer, toServer), &jrpc2.ClientOptions{OnNotify: func(r *jrpc2.Request) {
		var p publishParams
		if err := r.UnmarshalParams(&p); err != nil {
			t.Error(err)
		}
		e.diagnostics <- p
	}})
	t.Cleanup(func() { e.client.Close() })
	e.call("initialize", map[string]any{"capabilities": map[string]any{}}, nil)
	e.notify("initialized", map[string]any{})
	return e
}

func check(path string, text []byte) (pipeline.Errors, []pipeline.Warning) {
	all := pipeline.AgentInfo{Resume: true, Fork: true}
	_, warnings, err := pipeline.Parse(path, text, pipeline.Options{Agents: map[string]pipeline.AgentInfo{"claude": all, "codex": all, "gemini": all}})
	errs, _ := errors.AsType[pipeline.Errors](err)
	return errs, warnings
}

func (e *editor) call(method string, params, result any) {
	e.t.Helper()
	var raw json.RawMessage
	if err := e.client.CallResult(context.Background(), method, params, &raw); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			e.t.Fatalf("%s: %v in %s", method, err, raw)
		}
	}
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	if err := e.client.Notify(context.Background(), method, params); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

// open shows the server a document and returns what is wrong with it.
func (e *editor) open(text string) []diagnostic {
	e.t.Helper()
	e.notify("textDocument/didOpen", openParams{document{uri, text}})
	return e.published()
}

func (e *editor) published() []diagnostic {
	e.t.Helper()
	select {
	case p := <-e.diagnostics:
		return p.Diagnostics
	case <-time.After(30 * time.Second):
		e.t.Fatal("the server publishes nothing")
		return nil
	}
}

// typed changes the document. It is not checked unless the typing stops.
func (e *editor) typed(text string) {
	e.t.Helper()
	e.notify("textDocument/didChange", map[string]any{
		"textDocument": document{URI: uri}, "contentChanges": []map[string]string{{"text": text}},
	})
}

// cursor takes the mark out of a text and says where it was.
func cursor(t *testing.T, marked string) (string, position) {
	t.Helper()
	before, after, ok := strings.Cut(marked, "▮")
	if !ok {
		t.Fatalf("no cursor in %q", marked)
	}
	lines := strings.Split(before, "\n")
	units := 0
	for _, r := range lines[len(lines)-1] {
		units += unitsOf(r)
	}
	return before + after, position{len(lines) - 1, units}
}

const review = `inputs:
  branch: {type: string, default: main, description: What to review}
  limit: {type: integer}
secrets: [TOKEN]
env: {CI: "true"}
agents:
  reviewer: {use: claude, model: opus}
steps:
  analyze:
    agent: gemini
    prompt: |
      Look at {{ .inputs.branch }}.
    output:
      type: object
      properties:
        issues: {type: array, items: {type: object, properties: {title: {type: string, description: The problem}}}}
        count: {type: integer}
  fix:
    foreach: .steps.analyze.output.issues
    steps:
      edit:
        agent: codex
        prompt: "Fix {{ .item.title }}"
      test: {needs: [edit], run: "go test"}
`

func labels(items []completionItem) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.Label)
	}
	return out
}

// TestComplete opens a document that is whole, types on, and asks what could follow.
func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		add        string // behind review, with the cursor
		want, lack []string
	}{
		"keys of a step":          {"  next:\n    ▮", []string{"prompt", "run", "needs", "foreach"}, []string{"inputs", "use"}},
		"without those it has":    {"  next:\n    run: x\n    ti▮", []string{"timeout"}, []string{"run"}},
		"keys of the pipeline":    {"▮", []string{"description", "outputs"}, []string{"steps", "inputs", "run"}},
		"keys of a nested map":    {"  next:\n    retry:\n      ▮", []string{"max", "backoff", "on"}, []string{"run"}},
		"keys in braces":          {"  next: {run: x, retry: {max: 1, b▮", []string{"backoff"}, []string{"run", "needs"}},
		"keys of an element":      {"  next:\n    run: x\n    notify:\n      - run: x\n        ▮", []string{"on"}, []string{"run", "timeout"}},
		"choices of a value":      {"  next:\n    prompt: x\n    sandbox: r▮", []string{"read-only", "workspace-write"}, nil},
		"choices in a list":       {"  next:\n    run: x\n    retry: {max: 1, on: [▮", []string{"rate_limit", "exit"}, []string{"max"}},
		"booleans":                {"  next:\n    continue-on-error: ▮", []string{"true", "false"}, nil},
		"needs":                   {"  next:\n    needs: [▮", []string{"analyze", "fix"}, []string{"edit", "next"}},
		"needs as a list":         {"  next:\n    needs:\n      - a▮", []string{"analyze", "fix"}, []string{"edit"}},
		"needs within a group":    {"  g:\n    steps:\n      a: {run: x}\n      b: {run: x, needs: [▮", []string{"a"}, []string{"analyze"}},
		"sessions":                {"  next:\n    prompt: x\n    session: {continue: ▮", []string{"analyze"}, nil},
		"agents":                  {"  next:\n    agent: ▮", []string{"reviewer", "claude", "gemini"}, []string{"analyze"}},
		"built-in agents":         {"agents:\n  x: {use: ▮", []string{"claude", "codex"}, []string{"reviewer"}},
		"roots":                   {"  next:\n    prompt: \"{{ .▮", []string{"inputs", "steps", "item"}, []string{"prompt"}},
		"inputs":                  {"  next:\n    prompt: \"{{ .inputs.▮", []string{"branch", "limit"}, []string{"steps"}},
		"steps":                   {"  next:\n    run: echo {{ .steps.an▮", []string{"analyze", "fix"}, []string{"next"}},
		"fields of a step":        {"  next:\n    run: echo {{ .steps.analyze.▮", []string{"text", "output", "items"}, []string{"count"}},
		"output by its schema":    {"  next:\n    run: echo {{ .steps.analyze.output.▮", []string{"issues", "count"}, []string{"text"}},
		"steps of a group":        {"  next:\n    run: echo {{ .steps.fix.steps.▮", []string{"edit", "test"}, []string{"analyze"}},
		"items by their schema":   {"  next:\n    foreach: .steps.analyze.output.issues\n    prompt: \"{{ .item.▮", []string{"title"}, nil},
		"in a block of text":      {"  next:\n    prompt: |\n      key: value\n      Look at {{ .secrets.▮", []string{"TOKEN"}, nil},
		"no keys in text":         {"  next:\n    prompt: |\n      ▮", nil, []string{"prompt", "run"}},
		"functions":               {"  next:\n    run: echo {{ tr▮", []string{"trim", "truncate", "range"}, []string{"always"}},
		"a condition":             {"  next:\n    run: x\n    if: ▮", []string{"always", "failed", "eq", "contains"}, []string{"needs"}},
		"values in a condition":   {"  next:\n    run: x\n    if: eq .steps.analyze.output.▮", []string{"count"}, nil},
		"the round before":        {"  next:\n    repeat: {until: .steps.e.exit, max: 3}\n    steps:\n      e: {run: \"{{ .previous.▮", []string{"e"}, nil},
		"beside wide characters":  {"  next:\n    prompt: \"日本 𝄞 {{ .inputs.▮", []string{"branch"}, nil},
		"variables of the runner": {"  next:\n    run: echo {{ .env.▮", []string{"CI"}, nil},
		"what a run knows":        {"  next:\n    run: echo {{ .run.▮", []string{"id", "dir", "started", "pipeline"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := edit(t, time.Hour)
			e.open(review)
			text, at := cursor(t, review+c.add)
			e.typed(text)
			var items []completionItem
			e.call("textDocument/completion", positionParams{document{URI: uri}, at}, &items)
			got := labels(items)
			for _, want := range c.want {
				if !slices.Contains(got, want) {
					t.Errorf("%s is not offered: %v", want, got)
				}
			}
			for _, lack := range c.lack {
				if slices.Contains(got, lack) {
					t.Errorf("%s is offered: %v", lack, got)
				}
			}
		})
	}
}

// TestCompleteEdits is that an item replaces what was begun, in UTF-16 units.
func TestCompleteEdits(t *testing.T) {
	e := edit(t, time.Hour)
	text, at := cursor(t, review+"  next:\n    prompt: \"𝄞 {{ .inputs.br▮\"\n")
	e.open(text)
	var items []completionItem
	e.call("textDocument/completion", positionParams{document{URI: uri}, at}, &items)
	want := span{position{at.Line, at.Character - 2}, at}
	if len(items) == 0 || items[0].TextEdit.Range != want || items[0].TextEdit.NewText != "branch" || items[0].Detail != "string, default main" {
		t.Errorf("%+v, want %+v", items, want)
	}
}

// TestHover points at things and reads what is said of them.
func TestHover(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a key":            {strings.Replace(review, "    foreach", "    fore▮ach", 1), "**foreach**"},
		"a key in braces":  {strings.Replace(review, "{use:", "{u▮se:", 1), "Which agent this is"},
		"a value's step":   {strings.Replace(review, "needs: [edit", "needs: [ed▮it", 1), "prompt (codex)"},
		"an agent":         {review + "  next: {agent: revi▮ewer, prompt: x}\n", "model: opus"},
		"an input":         {strings.Replace(review, ".inputs.branch", ".inputs.bra▮nch", 1), "string, default main\n\nWhat to review"},
		"an item":          {strings.Replace(review, ".item.title", ".item.ti▮tle", 1), "string\n\nThe problem"},
		"a step":           {review + "  next: {run: \"echo {{ .steps.ana▮lyze.output.count }}\"}\n", "prompt (gemini)"},
		"a field":          {review + "  next: {run: \"echo {{ .steps.analyze.out▮put.count }}\"}\n", "The answer as data"},
		"a schema's field": {review + "  next: {run: \"echo {{ .steps.analyze.output.co▮unt }}\"}\n", "integer"},
		"a function":       {review + "  next: {run: \"echo {{ trun▮cate 3 .inputs.branch }}\"}\n", "`truncate N TEXT`"},
		"nothing":          {strings.Replace(review, "Look at", "Lo▮ok at", 1), ""},
		"a user's name":    {strings.Replace(review, "  analyze:", "  ana▮lyze:", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := edit(t, time.Hour)
			text, at := cursor(t, c.text)
			e.open(text)
			var h *hover
			e.call("textDocument/hover", positionParams{document{URI: uri}, at}, &h)
			switch {
			case h == nil && c.want != "", h != nil && c.want == "":
				t.Errorf("%+v, want %q", h, c.want)
			case h != nil && !strings.Contains(h.Contents.Value, c.want):
				t.Errorf("%q, want %q", h.Contents.Value, c.want)
			}
		})
	}
}

// TestDefine follows names to where they are declared.
func TestDefine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a step in a template": {review + "  next: {run: \"echo {{ .steps.analyze.out▮put.count }}\"}\n", "analyze"},
		"an input":             {strings.Replace(review, ".inputs.branch", ".inp▮uts.branch", 1), ""},
		"an input's name":      {strings.Replace(review, ".inputs.branch", ".inputs.br▮anch", 1), "branch"},
		"a need":               {strings.Replace(review, "needs: [edit", "needs: [ed▮it", 1), "edit"},
		"an agent":             {review + "  next: {agent: revi▮ewer, prompt: x}\n", "reviewer"},
		"a built-in agent":     {review + "  next: {agent: cla▮ude, prompt: x}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := edit(t, time.Hour)
			text, at := cursor(t, c.text)
			e.open(text)
			var l *location
			e.call("textDocument/definition", positionParams{document{URI: uri}, at}, &l)
			got := ""
			if l != nil {
				line := strings.Split(text, "\n")[l.Range.Start.Line]
				got = line[l.Range.Start.Character:l.Range.End.Character]
			}
			if got != c.want {
				t.Errorf("it leads to %q, want %q", got, c.want)
			}
		})
	}
	e := edit(t, time.Hour)
	text, at := cursor(t, "steps:\n  a: {run: x}\n  b:\n    prompt-file: prompts/a ▮b.md\n")
	e.open(text)
	var l location
	e.call("textDocument/definition", positionParams{document{URI: uri}, at}, &l)
	if l.URI != "file:///project/prompts/a%20b.md" {
		t.Errorf("the file is %s", l.URI)
	}
}

func TestSymbols(t *testing.T) {
	e := edit(t, time.Hour)
	e.open(review)
	var all []symbol
	e.call("textDocument/documentSymbol", positionParams{TextDocument: document{URI: uri}}, &all)
	var names []string
	var list func([]symbol)
	list = func(all []symbol) {
		for _, s := range all {
			names = append(names, s.Name+": "+s.Detail)
			list(s.Children)
		}
	}
	list(all)
	want := "branch: input, limit: input, reviewer: agent, analyze: prompt (gemini), fix: steps, edit: prompt (codex), test: run"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if fix := all[4]; fix.Range.Start.Line != 17 || fix.Range.End.Line != 23 {
		t.Errorf("fix stands at %+v", fix.Range)
	}
}

// TestDiagnostics is what an editor underlines: at once when a document is opened or
// saved, and when the typing stops.
func TestDiagnostics(t *testing.T) {
	e := edit(t, time.Millisecond)
	if got := e.open("naem: x\nsteps: {a: {run: \"𝄞 {{ .steps.b.text }}\"}}\n"); len(got) != 2 ||
		got[0].Range != (span{position{0, 0}, position{0, 4}}) || !strings.Contains(got[0].Message, "hint: did you mean `name`?") ||
		got[1].Range != (span{position{1, 24}, position{1, 37}}) || got[1].Severity != severityError {
		t.Errorf("%+v", got)
	}
	e.typed("steps: {a: {run: x}}\ninputs: {x: {type: string}}\n")
	if got := e.published(); len(got) != 1 || got[0].Severity != severityWarning || got[0].Message != "input `x` is not used\nhint: remove it" {
		t.Errorf("%+v", got)
	}
	e.typed("steps: {a: {run: x}}\n")
	if got := e.published(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	e.notify("textDocument/didClose", openParams{document{URI: uri}})
	if got := e.published(); len(got) != 0 {
		t.Errorf("a closed document: %+v", got)
	}
}

// TestTyping sends a document a few characters at a time, and asks for everything at
// every step: a half-written document is no reason to fail.
func TestTyping(t *testing.T) {
	e := edit(t, time.Hour)
	e.open("")
	line, character := 0, 0
	for i, r := range review {
		if i%3 == 0 {
			e.typed(review[:i])
			at := positionParams{document{URI: uri}, position{line, character}}
			for _, question := range []string{"completion", "hover", "definition", "documentSymbol"} {
				e.call("textDocument/"+question, at, nil)
			}
		}
		if character++; r == '\n' {
			line, character = line+1, 0
		}
	}
}

// TestEnd is how a server ends, and how it answers what it cannot.
func TestEnd(t *testing.T) {
	e := edit(t, time.Hour)
	for method, params := range map[string]any{
		"textDocument/rename":     map[string]any{},
		"textDocument/hover":      positionParams{document{URI: "file:///not/open.yaml"}, position{}},
		"textDocument/completion": []int{1},
	} {
		if _, err := e.client.Call(context.Background(), method, params); err == nil {
			t.Errorf("%s is answered", method)
		}
	}
	e.call("shutdown", nil, nil)
	if _, err := e.client.Call(context.Background(), "textDocument/hover", nil); err == nil {
		t.Error("it is answered after shutdown")
	}
	e.notify("exit", nil)
	if err := <-e.ended; err != nil {
		t.Error(err)
	}
	rude := edit(t, time.Hour)
	rude.notify("exit", nil)
	if err := <-rude.ended; !errors.Is(err, ErrNoShutdown) {
		t.Errorf("an editor that left without a word: %v", err)
	}
}

// TestStream feeds the server what is no message.
func TestStream(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "Content-Length: 2\r\n\r\n{}": "", "Content-Length: 1\r\n\r\n{": "-32700",
		"Content-Length: -1\r\n\r\n": "!", "Content-Length: 99999999999\r\n\r\n": "!", "hello\n\n": "!", "Content-Length: 10\r\n\r\n{}": "!", "Content": "!",
	} {
		var out bytes.Buffer
		err := Serve(strings.NewReader(in), &out, Options{Check: check})
		if (err != nil) != (want == "!") || want != "!" && !strings.Contains(out.String(), want) {
			t.Errorf("%q: %v, %q", in, err, out.String())
		}
	}
}

// FuzzPlace asks for everything at any place of any document.
func FuzzPlace(f *testing.F) {
	f.Add(review, 3, 7)
	f.Add("a: &a {steps: *a}\nsteps: *a\n", 1, 8)
	f.Add("steps:\n- - b: {c: [\n  - {{", 2, 6)
	f.Add("steps:\n  a:\n    output: &x {properties: {y: *x}}\n    run: '{{ .steps.a.output.y.y.'", 3, 30)
	f.Add("\xff\xfe:\r\n\t- ", 1, 2)
	text, err := pipeline.LanguageSchema()
	if err != nil {
		f.Fatal(err)
	}
	language, err := readSchema(text)
	if err != nil {
		f.Fatal(err)
	}
	before := newDoc(uri, review, nil)
	f.Fuzz(func(t *testing.T, text string, line, character int) {
		s := &server{language: language, functions: pipeline.Functions(), docs: map[string]*doc{}}
		d := newDoc(uri, text, before)
		s.docs[uri] = d
		params, err := json.Marshal(positionParams{document{URI: uri}, position{line, character}})
		if err != nil {
			t.Fatal(err)
		}
		for _, question := range []string{"completion", "hover", "definition", "documentSymbol"} {
			if _, problem, err := s.ask(message{Method: "textDocument/" + question, Params: params}); problem != nil || err != nil {
				t.Errorf("%s: %+v %v", question, problem, err)
			}
		}
		errs, _ := check(d.path, []byte(text))
		for _, e := range errs {
			d.diagnostic(e, severityError)
		}
	})
}

// A configuration has keys of its own.
func TestConfiguration(t *testing.T) {
	const config = "file:///project/.flow.yaml"
	e := edit(t, 0)
	for marked, want := range map[string][2]string{ // what is offered, and what is not
		"st▮\n": {"state-dir", "steps"}, "agents:\n  claude:\n    mo▮\n": {"model", "run"},
	} {
		text, at := cursor(t, marked)
		e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": config, "languageId": "yaml", "version": 1, "text": text}})
		var items []completionItem
		e.call("textDocument/completion", positionParams{document{URI: config}, at}, &items)
		if got := labels(items); !slices.Contains(got, want[0]) || slices.Contains(got, want[1]) {
			t.Errorf("%q offers %q, want %s and not %s", marked, got, want[0], want[1])
		}
	}
}
