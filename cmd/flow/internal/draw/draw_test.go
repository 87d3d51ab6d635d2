package draw_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/cmd/flow/internal/draw"
	"flow/pipeline"
)

var update = flag.Bool("update", false, "write the golden files anew")

// nightly has one of everything: a group of items and rounds, a called pipeline, a
// contest, a question, a merge, a handler, and a long line past several layers.
func nightly() *pipeline.Plan {
	text := func(s string) *pipeline.Text { return &pipeline.Text{Src: s} }
	called := &pipeline.Plan{Name: "publish", Steps: []pipeline.Step{
		{ID: "build", Kind: pipeline.KindRun},
		{ID: "upload", Kind: pipeline.KindRun, Needs: []string{"build"}},
	}}
	return &pipeline.Plan{
		Name: `nightly "<b>" & co`,
		Agents: map[string]pipeline.Profile{
			"analyst": {Name: "analyst", Use: "gemini"}, "claude": {Name: "claude", Use: "claude"}, "codex": {Name: "codex", Use: "codex"},
		},
		Steps: []pipeline.Step{
			{ID: "analyze", Kind: pipeline.KindPrompt, Agent: "analyst"},
			{
				ID: "fix", Kind: pipeline.KindGroup, Needs: []string{"analyze"},
				Foreach: &pipeline.Foreach{List: text("{{ .steps.analyze.output.issues }}"), MaxParallel: 2},
				Repeat:  &pipeline.Repeat{Until: *text(".steps.review.output.approved"), Max: 3},
				Steps: []pipeline.Step{
					{ID: "edit", Kind: pipeline.KindPrompt, Agent: "codex"},
					{ID: "test", Kind: pipeline.KindRun, Needs: []string{"edit"}},
					{ID: "review", Kind: pipeline.KindPrompt, Needs: []string{"edit", "test"}, Contest: &pipeline.Contest{
						Agents: []string{"claude", "codex"}, By: "approved",
					}},
				},
			},
			{ID: "merge", Kind: pipeline.KindMerge, Needs: []string{"fix"}, Agent: "codex", Merge: &pipeline.Merge{From: []string{"fix"}, OnConflict: "agent"}},
			{ID: "approve", Kind: pipeline.KindAsk, Needs: []string{"merge"}, If: text(`gt (len .steps.fix.items) 0 | and "]-->" "\x1b[31m"`)},
			{ID: "publish", Kind: pipeline.KindCall, Needs: []string{"approve"}, Call: &pipeline.Call{File: "publish.yaml", Plan: called}},
			{ID: "report", Kind: pipeline.KindRun, Needs: []string{"analyze", "publish"}, If: text("failed"), Handles: true},
			{ID: "note", Kind: pipeline.KindSet},
		},
	}
}

// stood is nightly in the middle of a run.
func stood() *draw.Graph {
	g := draw.New(nightly())
	g.Stand("running", []draw.State{
		{"analyze", "succeeded"},
		{"fix", "running"},
		{"fix.0", "succeeded"},
		{"fix.0.1", "succeeded"},
		{"fix.0.1.edit", "succeeded"},
		{"fix.0.1.review", "succeeded"},
		{"fix.0.1.review.0", "succeeded"},
		{"fix.1", "skipped"},
		{"fix.2", "running"},
		{"fix.2.1", "succeeded"},
		{"fix.2.1.edit", "succeeded"},
		{"fix.2.2", "running"},
		{"fix.2.2.edit", "running"},
		{"merge", "pending"},
		{"approve", "pending"},
		{"publish", "pending"},
		{"report", "pending"},
		{"note", "succeeded"},
	})
	return g
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"nightly.txt": draw.New(nightly()).Text, "nightly.mmd": draw.New(nightly()).Mermaid,
		"nightly.dot": draw.New(nightly()).DOT, "nightly.svg": draw.New(nightly()).SVG,
		"run.txt": stood().Text, "run.mmd": stood().Mermaid, "run.dot": stood().DOT, "run.svg": stood().SVG,
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCount shows how many parts of a step stand in which way.
func TestCount(t *testing.T) {
	for path, want := range map[string]string{
		"fix": "running 2/3 items", "fix.edit": "running 2/3", "fix.review": "succeeded 1/1 candidates", "merge": "pending", "publish.build": "",
	} {
		if got := strings.TrimSpace(status(stood().Nodes, path)); got != want {
			t.Errorf("%s stands as %q, want %q", path, got, want)
		}
	}
	rounds := draw.New(&pipeline.Plan{Steps: []pipeline.Step{{ID: "a", Kind: pipeline.KindRun, Repeat: &pipeline.Repeat{Max: 5}}}})
	rounds.Stand("failed", []draw.State{{"a", "failed"}, {"a.1", "succeeded"}, {"a.2", "failed"}})
	if got := status(rounds.Nodes, "a"); got != "failed round 2/5" {
		t.Errorf("a loop stands as %q", got)
	}
}

func status(nodes []*draw.Node, path string) string {
	for _, n := range nodes {
		if n.Path == path {
			return n.Status + " " + n.Count
		}
		if s := status(n.Nodes, path); s != "" {
			return s
		}
	}
	return ""
}

// FuzzFormats draws plans with any names and expressions: what comes out is
// well-formed, and no text of the plan becomes anything but text.
func FuzzFormats(f *testing.F) {
	f.Add("a", `"]; click n1 href "javascript:x"`, "--> b")
	f.Add("</title><script>", "]]>", "#quot; `x` \\")
	f.Add("\x00\x1b[2J", "\ufffe\ud7ff", "a\nb")
	f.Fuzz(func(t *testing.T, name, condition, file string) {
		g := draw.New(&pipeline.Plan{Name: name, Steps: []pipeline.Step{
			{ID: "a", Kind: pipeline.KindRun, If: &pipeline.Text{Src: condition}},
			{ID: "b", Kind: pipeline.KindCall, Needs: []string{"a"}, Call: &pipeline.Call{File: file, Plan: &pipeline.Plan{}}},
		}})
		var svg, dot, mermaid, text bytes.Buffer
		for _, err := range []error{g.SVG(&svg), g.DOT(&dot), g.Mermaid(&mermaid), g.Text(&text)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		wellFormed(t, svg.Bytes())
		if n := strings.Count(dot.String(), "\n"); n != 7 {
			t.Errorf("DOT has %d lines\n%s", n, dot.String())
		}
		if n := strings.Count(mermaid.String(), "\n"); n != 4 {
			t.Errorf("Mermaid has %d lines\n%s", n, mermaid.String())
		}
		if n := strings.Count(mermaid.String(), `"`); n != 4 {
			t.Errorf("Mermaid has %d quotes\n%s", n, mermaid.String())
		}
		if strings.ContainsRune(text.String(), '\x1b') {
			t.Errorf("the tree holds an escape: %q", text.String())
		}
	})
}

// wellFormed demands that a picture is XML with the elements that were drawn and no
// others.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok && !strings.Contains(" svg title defs marker path rect text polygon ", " "+e.Name.Local+" ") {
			t.Fatalf("an element %s\n%s", e.Name.Local, svg)
		}
	}
}
