package steps

import (
	"testing"
	"time"

	"flow/pipeline/dag"
)

func TestWorked(t *testing.T) {
	took := func(ms string) dag.Input { return dag.Input{Result: []byte(`{"durationMs":` + ms + `}`)} }
	group := dag.Input{Steps: map[string]dag.Input{"a": took("10"), "b": took("20"), "skipped": {}}}
	for name, c := range map[string]struct {
		in   dag.Input
		want time.Duration
	}{
		"a step":             {took("15"), 15 * time.Millisecond},
		"a group":            {group, 30 * time.Millisecond},
		"items":              {dag.Input{Items: []dag.Input{group, took("5"), {}}}, 35 * time.Millisecond},
		"a contest's winner": {dag.Input{Result: []byte(`{"durationMs":7,"winner":1}`), Items: []dag.Input{took("50"), took("7")}}, 7 * time.Millisecond},
		"nothing":            {dag.Input{}, 0},
	} {
		if got, err := worked(c.in); got != c.want || err != nil {
			t.Errorf("%s: %v (%v), want %v", name, got, err, c.want)
		}
	}
	if _, err := worked(dag.Input{Items: []dag.Input{{Result: []byte("{")}}}); err == nil {
		t.Error("a damaged result is taken for one")
	}
}
