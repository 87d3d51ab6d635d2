package pipeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpression(t *testing.T) {
	for src, want := range map[string]string{
		"{{ .inputs.x }}": ".inputs.x", "{{- .a -}}\n": ".a", "eq .a\n  1": "eq .a 1", "{{ .a }} {{ .b }}": "{{ .a }} {{ .b }}", "x {{ .a }}": "x {{ .a }}",
	} {
		if got := (Text{Src: src}).Expression(); got != want {
			t.Errorf("%q is %q, want %q", src, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc…": 4, "日本": 4, "e\u0301": 1} {
		if got := Columns(s); got != want {
			t.Errorf("%q takes %d columns, want %d", s, got, want)
		}
	}
}

func TestStages(t *testing.T) {
	steps := []Step{{ID: "d", Needs: []string{"c", "a"}}, {ID: "a"}, {ID: "b"}, {ID: "c", Needs: []string{"b"}}}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 2, "d": 3}, Stages(steps)); diff != "" {
		t.Error(diff)
	}
}
