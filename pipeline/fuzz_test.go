package pipeline_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/pipeline"
)

// FuzzParse: any bytes are a plan that survives JSON and renders, or mistakes that
// have places in the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/errors/*.yaml", "testdata/plans/*.yaml", "testdata/plans/called/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		o := options()
		o.ReadFile = func(path string) ([]byte, error) {
			if strings.HasSuffix(path, ".yaml") {
				return src, nil // it calls itself, by as many names as it likes
			}
			return []byte("text of " + path), nil
		}
		plan, _, err := pipeline.Parse("p.yaml", src, o)
		var errs pipeline.Errors
		switch {
		case err == nil:
			roundTrip(t, plan)
			if _, err := pipeline.NewRenderer(plan, pipeline.Funcs{}); err != nil {
				t.Fatalf("a plan does not render: %v", err)
			}
		case !errors.As(err, &errs) || len(errs) == 0:
			t.Fatalf("not Errors: %v", err)
		}
		for _, e := range errs {
			if len(e.Msg) == 0 || e.Pos.Line < 1 || e.Pos.Col < 1 {
				t.Errorf("an error without a place: %#v", e)
			}
			inside(t, e, src)
		}
	})
}

// FuzzParseConfig: any bytes are mistakes with places in the file, or a configuration under
// which a pipeline is as valid as it was.
func FuzzParseConfig(f *testing.F) {
	names, err := filepath.Glob("testdata/configs/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("agents: {default: r, claude: {model: a, fallback: [codex, r], env: {A: b}}, r: {use: gemini, permissions: {default: deny}}}\npermissions: {rules: [{deny: shell}]}\nbudget: {usd: 1}\ntimeout: 1m"))
	pipe := []byte("agents: {codex: {use: codex, fallback: gemini}, x: {use: claude, env: {A: '{{ .env.B }}'}}}\nenv: {B: c}\nsteps: {a: {agent: x, prompt: hi}, b: {agent: codex, prompt: hi}, c: {agent: gemini, prompt: hi}}")
	f.Fuzz(func(t *testing.T, src []byte) {
		o := transports()
		c, _, err := pipeline.ParseConfig("c.yaml", src, pipeline.UserConfig, o)
		if err != nil {
			var errs pipeline.Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("not Errors: %v", err)
			}
			for _, e := range errs {
				inside(t, e, src)
			}
			return
		}
		o.Configs = []*pipeline.Config{c}
		plan, _, err := pipeline.Parse("p.yaml", pipe, o)
		if err != nil {
			t.Fatalf("the pipeline has mistakes: %v", err)
		}
		roundTrip(t, plan)
		for _, s := range append(pipeline.Settings(plan, pipe, o), pipeline.Settings(pipeline.Configured(o), nil, o)...) {
			if s.Origin == "" || s.Value == nil {
				t.Errorf("%+v comes from nowhere", s)
			}
		}
	})
}
