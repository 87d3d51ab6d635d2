package pipeline_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"flow/pipeline"
)

// TestReopenedStreams is that a script is warned of that empties the stream it prints to.
func TestReopenedStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		run, keys string
		want      string // line:col of the warning and its hint, "" for none
	}{
		"error":           {run: "echo a\necho b > /dev/stderr", want: "5:16 write >&2"},
		"output":          {run: "echo b >/dev/stdout", want: "4:15 write >&1"},
		"both":            {run: "make &> /dev/fd/1", want: "4:15 write >&1"},
		"clobbers":        {run: "make >| /proc/self/fd/2", want: "4:15 write >&2"},
		"quoted":          {run: `echo b > "/dev/stderr"`, want: "4:16 write >&2"},
		"tee":             {run: "make | tee /dev/stderr | wc", want: "4:18 write tee -a /dev/stderr"},
		"below":           {run: "if x; then (echo a > /dev/stderr); fi", want: "4:28 write >&2"},
		"behind a value":  {run: "echo {{ .run.id }} > /dev/stderr", want: "4:28 write >&2"},
		"bash":            {run: "echo a > /dev/stderr", keys: "shell: bash", want: "4:16 write >&2"},
		"appends":         {run: "echo a >> /dev/stderr"},
		"tee that does":   {run: "make | tee -a /dev/stderr"},
		"the right way":   {run: "echo a >&2"},
		"text":            {run: "echo '> /dev/stderr'"},
		"another program": {run: "echo a > /dev/stderr", keys: "shell: fish"},
		"unparsable":      {run: "echo a > /dev/stderr )"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "steps:\n  a:\n    run: |\n      " + strings.ReplaceAll(tt.run, "\n", "\n      ") + "\n    " + tt.keys + "\n"
			dir := project(t, map[string]string{"p.yaml": file})
			_, warnings, err := pipeline.Load(filepath.Join(dir, "p.yaml"), options())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				if !strings.Contains(w.Msg, "what was printed before is lost") {
					t.Errorf("another warning: %s", w)
				}
				got = append(got, fmt.Sprintf("%d:%d %s", w.Pos.Line, w.Pos.Col, w.Hint))
			}
			if all := strings.Join(got, "\n"); all != tt.want {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
}
