package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

func text(s string) pipeline.Text { return pipeline.Text{Src: s, Pos: pipeline.Pos{Line: 7, Col: 11}} }

func renderer(tb testing.TB, p *pipeline.Plan) *pipeline.Renderer {
	tb.Helper()
	r, err := pipeline.NewRenderer(p, pipeline.Funcs{
		File:       func(path string) (string, error) { return "<" + path + ">", nil },
		Transcript: func(step string) (string, error) { return "what " + step + " said", nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func data() pipeline.Data {
	return pipeline.Data{
		"inputs": map[string]any{"x": "hello", "n": int64(1_000_000), "f": 1e6, "yes": true, "null": nil, "tmpl": "{{ .inputs.x }}"},
		"steps": map[string]any{"a": map[string]any{
			"text": "a\nb\n", "output": map[string]any{"list": []any{"p", "q<&>", int64(3)}, "z": int64(1)}, "duration": 90 * time.Second,
		}},
	}
}

func TestText(t *testing.T) {
	cases := []struct{ src, want string }{
		{"plain }} text", "plain }} text"},
		{"{{ .inputs.x }}", "hello"},
		{"{{ .inputs.tmpl }}", "{{ .inputs.x }}"}, // a value is rendered once
		{"{{ .inputs.n }} {{ .inputs.f }}", "1000000 1000000"},
		{"{{ .steps.a.output }}", `{"list":["p","q<&>",3],"z":1}`},
		{"{{ .steps.a.duration }}", "1m30s"},
		{"{{ range .steps.a.output.list }}[{{ . }}]{{ end }}", "[p][q<&>][3]"},
		{"{{ range $i, $x := .steps.a.output.list }}{{ $i }}={{ $x }} {{ end }}", "0=p 1=q<&> 2=3 "},
		{"{{ range lines .steps.a.text }}<{{ . }}>{{ end }}", "<a><b>"},
		{"{{ json .steps.a.output.list }}", `["p","q<&>",3]`},
		{"{{ .inputs.null | default \"none\" }}", "none"},
		{"{{ get .inputs \"nope\" | default \"none\" }}", "none"},
		{"{{ dig \"a\" \"b\" 1 (dict \"a\" (dict \"b\" 2)) }}", "2"},
		{"{{ truncate 3 .inputs.x }}", "hel… [2 more characters]"},
		{"{{ shquote \"it's\" }}", `'it'\''s'`},
		{"{{ file (print \"a\" \"b\") }}", "<ab>"},
		{"{{ transcript \"a\" }}", "what a said"},
		{"{{ join \",\" (seq 1 4) }} {{ until 3 }}", "1,2,3,4 [0,1,2]"},
		{"{{ keys .steps.a.output | join \" \" }}", "list z"},
		{"{{ add 1 2 3 }} {{ sub 5 7 }} {{ mul 3 4 }} {{ div 7 2 }} {{ mod 7 2 }} {{ max 1 9 3 }} {{ round 1.256 2 }}", "6 -2 12 3 1 9 1.26"},
		{"{{ index .steps.a.output.list 1 }}", "q<&>"},
		{"{{ (fromJson \"{\\\"a\\\": [1, 2.5]}\").a }}", "[1,2.5]"},
		{"{{ \"a b\" | upper | replace \" \" \"-\" | quote }}", `"A-B"`},
		{"{{ regexReplaceAll \"l+\" .inputs.x \"<$0>\" }}", "he<ll>o"},
		{"{{ if and .inputs.yes (eq .inputs.x \"hello\") }}y{{ else }}n{{ end }}", "y"},
		{"{{ indent 2 \"a\\nb\" }}", "  a\n  b"},
		{"{{ b64enc \"x\" | b64dec }}{{ substr 1 3 \"abcd\" }}{{ repeat 3 \"z\" }}", "xbczzz"},
		{"{{ uniq (list 1 1 2) }}{{ append (list 1) 2 }}{{ concat (list 1) (list 2) }}{{ chunk 2 (list 1 2 3) }}", "[1,2][1,2][1,2][[1,2],[3]]"},
		{"{{ printf \"%05d|%-4s|\" 42 \"a\" }}", "00042|a   |"},
		{"{{- /* a comment */ -}} x", "x"},
	}
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	for _, c := range cases {
		got, err := r.Text(text(c.src), data())
		if err != nil || got != c.want {
			t.Errorf("%s\n got %q, %v\nwant %q", c.src, got, err, c.want)
		}
	}
}

func TestTextErrors(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	cases := []struct{ src, want string }{
		{"one\n  {{ .inputs.nope }}", "p.yaml:8:23: there is no value `nope`"},
		{"{{ .inputs.x.y }}", "p.yaml:7:"},
		{"{{ .inputs.null }}", "the value is null"},
		{"{{ eq .inputs.n .steps.a.output }}", "incompatible types for comparison: integer and object"},
		{"{{ index .inputs \"nope\" }}", "there is no key \"nope\""},
		{"{{ fail \"because\" }}", "because"},
		{"{{ atoi \"x\" }}", "is not a whole number"},
		{"{{ fromJson \"{\" }}", "not JSON"},
		{"{{ div 1 0 }}", "division by zero"},
		{"{{ range 1000000000 }}{{ end }}", "more than 100000 turns"},
		{"{{ range until 400 }}{{ range until 400 }}x{{ end }}{{ end }}", "more than 100000 turns"},
		{"{{ until 1000000000 }}", "more than 100000 elements"},
		{"{{ repeat 1000000000 \"x\" }}", "longer than 4 MiB"},
		{"{{ repeat 9223372036854775807 \"xy\" }}", "longer than 4 MiB"},
		{"{{ indent 100000 \"x\" }}", "is not from 0 to 1000"},
		{"{{ replace \"\" .inputs.big .inputs.big }}", "longer than 4 MiB"},
		{"{{ regexReplaceAll \"\" .inputs.big .inputs.big }}", "longer than 4 MiB"},
		{"{{ regexReplaceAll \".*\" .inputs.big (repeat 100 \"$0\") }}", "longer than 4 MiB"},
		{"{{ printf \"%999999999d\" 1 }}", "at most three digits"},
		{"{{ printf \"%*d\" 999999999 1 }}", "at most three digits"},
		{"{{ printf (repeat 100 \"%[1]s\") .inputs.big }}", "longer than 4 MiB"},
		{"{{ $s := .inputs.big }}{{ range until 50 }}{{ $s = print $s $s }}{{ end }}", "longer than 4 MiB"},
		{"{{ $l := list 1 2 3 }}{{ range until 50 }}{{ $l = list $l $l $l }}{{ end }}{{ json $l }}", "more than 100000 elements"},
		{"{{ $s := \"'\" }}{{ range until 50 }}{{ $s = shquote $s }}{{ end }}", "longer than 4 MiB"},
		{"{{ range until 50 }}{{ $.inputs.big }}{{ end }}", "longer than 4 MiB"},
		{"{{ __out $ 1 2 }}", "unknown function"},
		{"{{ env \"HOME\" }}", "unknown function"},
		{"{{ failed }}{{ template \"t\" }}", "not available"},
		{strings.Repeat("{{ if true }}", 60) + strings.Repeat("{{ end }}", 60), "more than 50 nested"},
	}
	r := renderer(t, &pipeline.Plan{File: "p.yaml"})
	d := data()
	d["inputs"].(map[string]any)["big"] = big
	for _, c := range cases {
		got, err := r.Text(text(c.src), d)
		var e pipeline.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.File != "p.yaml" || e.Pos.Line < 7 {
			t.Errorf("%.80s\n got %.60q, %v\nwant an error with %q", c.src, got, err, c.want)
		}
	}
}

// A fence is a line that the text does not have, whatever the text does.
func TestFence(t *testing.T) {
	r := renderer(t, &pipeline.Plan{})
	body := "x"
	for range 4 {
		d := pipeline.Data{"inputs": map[string]any{"x": body}}
		got, err := r.Text(text("{{ fence .inputs.x }}"), d)
		if err != nil {
			t.Fatal(err)
		}
		mark, _, _ := strings.Cut(got, "\n")
		if strings.Count(got, mark) != 2 || !strings.HasSuffix(got, "\n"+mark) {
			t.Fatalf("the fence %q is not unique in %q", mark, got)
		}
		body = got
	}
}

func TestCondition(t *testing.T) {
	fine, bad := pipeline.NeedState{}, pipeline.NeedState{Failed: true}
	cases := []struct {
		src   string
		needs pipeline.NeedState
		want  bool
		err   string
	}{
		{`eq .inputs.x "hello"`, fine, true, ""},
		{`{{ eq .inputs.x "nope" }}`, fine, false, ""},
		{" {{ not .inputs.yes }} \n", fine, false, ""},
		{"true", fine, true, ""},
		{"always", bad, true, ""},
		{"failed", bad, true, ""},
		{"failed", fine, false, ""},
		{"succeeded", fine, true, ""},
		{"succeeded", pipeline.NeedState{Cancelled: true}, false, ""},
		{"and failed .inputs.yes", bad, true, ""},
		{"or (not failed) .inputs.yes", bad, true, ""},
		{`.inputs.x`, fine, false, "7:11: the condition is the text \"hello\", not true or false"},
		{`"true"`, fine, false, "not true or false"},
		{`.inputs.n`, fine, false, "not true or false"},
		{`.inputs.null`, fine, false, "null"},
		{`eq .inputs.nope 1`, fine, false, "there is no value `nope`"},
		{`{{ if true }}x{{ end }}`, fine, false, "must be one expression"},
	}
	r := renderer(t, &pipeline.Plan{})
	for _, c := range cases {
		got, err := r.Condition(text(c.src), data(), c.needs)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, %v; want %v %s", c.src, got, err, c.want, c.err)
		}
	}
}

func TestOutputs(t *testing.T) {
	p := &pipeline.Plan{Outputs: []pipeline.Var{
		{Name: "n", Value: text("{{ len .steps.a.output.list }}")},
		{Name: "l", Value: text("{{ .steps.a.output.list }}")},
		{Name: "b", Value: text("{{ .inputs.yes }}")},
		{Name: "s", Value: text("{{ .inputs.n }} left")},
		{Name: "p", Value: text("plain")},
		{Name: "z", Value: text("{{ .inputs.null }}")},
	}}
	got, err := renderer(t, p).Outputs(data())
	want := map[string]any{"n": 3, "l": []any{"p", "q<&>", int64(3)}, "b": true, "s": "1000000 left", "p": "plain", "z": nil}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestFrozenFile(t *testing.T) {
	r := renderer(t, &pipeline.Plan{Files: map[string]string{"a.md": "as it was"}})
	got, err := r.Text(text(`{{ file "a.md" }}`), nil)
	if got != "as it was" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Renderings share templates and functions, and nothing else.
func TestConcurrentRendering(t *testing.T) {
	src := text("{{ range until 100 }}{{ $.inputs.x }}{{ end }}")
	r := renderer(t, &pipeline.Plan{Steps: []pipeline.Step{{ID: "a", Kind: pipeline.KindPrompt, Prompt: &src}}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			x := fmt.Sprint(i)
			for range 50 {
				got, err := r.Text(src, pipeline.Data{"inputs": map[string]any{"x": x}})
				if err != nil || got != strings.Repeat(x, 100) {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// The table that the documentation is made from has no gaps, and names no function
// that reads more than its arguments.
func TestFunctions(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range pipeline.Functions() {
		if seen[f.Name] || f.Doc == "" || !strings.HasPrefix(f.Signature, f.Name) {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
	}
	for _, name := range []string{"env", "expandenv", "now", "date", "uuidv4", "randInt", "getHostByName", "set", "unset"} {
		if seen[name] {
			t.Errorf("%s must not be available", name)
		}
	}
}
