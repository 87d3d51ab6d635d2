package pipeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func previewData() Data {
	return Data{
		"inputs": map[string]any{"path": "src", "list": []any{"a", "b"}, "full": true, "opts": map[string]any{"n": int64(3)}},
		"run":    map[string]any{"pipeline": "p"},
		"env":    map[string]any{"CI": "true"},
	}
}

func TestPreview(t *testing.T) {
	r, err := NewRenderer(&Plan{File: "p.yaml", Files: map[string]string{"frozen.md": "ice"}}, Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		src, want string
		known     bool
	}{
		{"no template", "no template", true},
		{"Look at {{ .inputs.path | upper }}", "Look at SRC", true},
		{"{{ .inputs.path }}: {{ .steps.a.text | trim }}", "src: ‹.steps.a.text | trim›", false},
		{"{{ .run.pipeline }} {{ .run.id }} {{ .env.CI }} {{ .env.TOKEN }} {{ .secrets.X }}", "p ‹.run.id› true ‹.env.TOKEN› ‹.secrets.X›", false},
		{"{{ json .run }}", "‹json .run›", false},
		{"{{ if .inputs.full }}all {{ .item.title }}{{ else }}some{{ end }}", "all ‹.item.title›", false},
		{"{{ if .previous }}again {{ .inputs.path }}{{ else }}first{{ end }}.", "‹if .previous›again src‹else›first‹end›.", false},
		{"{{ range .inputs.list }}[{{ . }} {{ $.steps.a.text }}]{{ end }}", "[a ‹$.steps.a.text›][b ‹$.steps.a.text›]", false},
		{"{{ range $i, $x := .steps.a.items }}{{ $i }} {{ .text }} {{ $.inputs.path }}{{ if .ok }}{{ break }}{{ end }}{{ else }}none{{ end }}", "‹range $i, $x := .steps.a.items›‹$i› ‹.text› src‹if .ok›‹break›‹end›‹else›none‹end›", false},
		{"{{ with .inputs.opts }}{{ .n }}{{ end }}", "3", true},
		{"{{ with .steps.a.output }}{{ .n }}{{ end }}", "‹with .steps.a.output›‹.n›‹end›", false},
		{"{{ $x := .steps.a.text }}{{ $y := .inputs.path }}{{ $x }} {{ $y }} {{ printf \"%s%s\" $x $y }}", "‹$x› src ‹printf \"%s%s\" $x $y›", false},
		{"{{ $x := \"a\" }}{{ $x }}{{ if .steps.a.ok }}{{ $x = \"b\" }}{{ end }}{{ $x }}", "‹$x›‹if .steps.a.ok›‹end›‹$x›", false},
		{"{{ $x := \"a\" }}{{ if .steps.a.ok }}{{ $x := \"b\" }}{{ $x }}{{ end }}{{ $x }}", "‹if .steps.a.ok›b‹end›a", false},
		{"{{ transcript \"a\" }}{{ file \"frozen.md\" }}{{ file .inputs.path }}", "‹transcript \"a\"›ice‹file .inputs.path›", false},
		{"{{ (index .steps \"a\").text }}", "‹(index .steps \"a\").text›", false},
	} {
		got, known, err := r.Preview(Text{Src: c.src, Pos: Pos{1, 1}}, previewData())
		if err != nil || got != c.want || known != c.known {
			t.Errorf("%s\n got %q %t %v\nwant %q %t", c.src, got, known, err, c.want, c.known)
		}
	}
	if _, _, err := r.Preview(Text{Src: "{{ fail \"no\" }}", Pos: Pos{1, 1}}, previewData()); err == nil {
		t.Error("an error of a known action is lost")
	}
}

func TestPreviewValue(t *testing.T) {
	r, err := NewRenderer(&Plan{File: "p.yaml"}, Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]any{
		".inputs.list": []any{"a", "b"}, "{{ .inputs.opts.n }}": int64(3), "and .inputs.full (gt .inputs.opts.n 2)": true,
		"failed": nil, ".steps.a.output.list": nil, "and .inputs.full .steps.a.ok": nil,
	} {
		got, known, err := r.PreviewValue(Text{Src: src, Pos: Pos{1, 1}}, previewData())
		if err != nil || known != (want != nil) || !cmp.Equal(got, want) {
			t.Errorf("%s is %v %t %v, want %v", src, got, known, err, want)
		}
	}
}

// FuzzPreview holds previews against renderings: what is known is the same, and what
// can be rendered can be previewed.
func FuzzPreview(f *testing.F) {
	for _, src := range []string{
		"{{ .inputs.path }}", "{{ range .inputs.list }}{{ . }}{{ else }}x{{ end }}", "{{ $x := .steps.a.text }}{{ if $x }}{{ $x }}{{ end }}",
		"{{ with .steps.a }}{{ .text }}{{ end }}{{ .steps.a.text | trim }}", "{{ range $i, $e := .inputs.list }}{{ if eq $e \"a\" }}{{ continue }}{{ end }}{{ $i }}{{ end }}",
	} {
		f.Add(src)
	}
	r, err := NewRenderer(&Plan{File: "p.yaml"}, Funcs{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src string) {
		text, all := Text{Src: src, Pos: Pos{1, 1}}, previewData()
		all["steps"] = map[string]any{"a": map[string]any{"text": " t ", "output": map[string]any{}}}
		shown, known, err := r.Preview(text, previewData())
		rendered, renderErr := r.Text(text, all)
		if err == nil && known && renderErr == nil && shown != rendered {
			t.Errorf("%q is previewed as %q and rendered as %q", src, shown, rendered)
		}
		if known && (err == nil) != (renderErr == nil) {
			t.Errorf("%q: preview %v, rendering %v", src, err, renderErr)
		}
	})
}
