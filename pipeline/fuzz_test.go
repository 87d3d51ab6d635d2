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
