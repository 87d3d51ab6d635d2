package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/pipeline"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func options() pipeline.Options {
	return pipeline.Options{Agents: map[string]pipeline.AgentInfo{
		"claude": {Resume: true, Fork: true, Transports: []string{"print", "stream-json"}}, "codex": {Resume: true}, "gemini": {Resume: true, Transports: []string{"headless"}},
	}}
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got, -update writes it):\n%s", file, d)
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return names
}

func TestErrors(t *testing.T) {
	for _, file := range files(t, "testdata/errors/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, _, err := pipeline.Load(file, options())
			var errs pipeline.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("want Errors, got %v", err)
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			pipeline.Format(&b, errs, src)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", b.Bytes())
			for _, e := range errs {
				inside(t, e, src)
			}
		})
	}
}

// inside checks that a place exists in the file.
func inside(t *testing.T, e pipeline.Error, src []byte) {
	t.Helper()
	if e.Source != "" {
		return
	}
	lines := bytes.Split(src, []byte("\n"))
	if e.Pos.Line < 1 || e.Pos.Line > len(lines) || e.Pos.Col < 1 {
		t.Errorf("%q: line %d:%d is not in a file of %d lines", e.Msg, e.Pos.Line, e.Pos.Col, len(lines))
	} else if width := len(bytes.Runes(lines[e.Pos.Line-1])); e.Pos.Col > width+1 {
		t.Errorf("%q: column %d is not in line %d of %d characters", e.Msg, e.Pos.Col, e.Pos.Line, width)
	}
}

func TestPlans(t *testing.T) {
	for _, file := range files(t, "testdata/plans/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			plan, warnings, err := pipeline.Load(file, options())
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			for _, w := range warnings {
				b.WriteString("// " + w.String() + "\n")
			}
			e := json.NewEncoder(&b)
			e.SetIndent("", "  ")
			if err := e.Encode(plan); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".json", b.Bytes())
			roundTrip(t, plan)
			if _, err := pipeline.NewRenderer(plan, pipeline.Funcs{}); err != nil {
				t.Errorf("a plan that was loaded does not render: %v", err)
			}
		})
	}
}

// roundTrip checks that a plan is the same after it was stored.
func roundTrip(t *testing.T, plan *pipeline.Plan) {
	t.Helper()
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var again pipeline.Plan
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plan, &again); d != "" {
		t.Errorf("the plan changes in JSON (-before +after):\n%s", d)
	}
}
