package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"flow/pipeline"

	"gopkg.in/yaml.v3"
)

// manySteps is a file of n steps, every second one an agent's, each naming the one before.
func manySteps(n int) []byte {
	var b strings.Builder
	b.WriteString("inputs: {p: {type: string}}\nagents: {a: {use: claude}}\nsteps:\n")
	for i := range n {
		switch {
		case i == 0:
			b.WriteString("  s0: {run: make}\n")
		case i%2 == 0:
			fmt.Fprintf(&b, "  s%d:\n    run: echo {{ .steps.s%d.text }}\n    timeout: 1m\n", i, i-1)
		default:
			fmt.Fprintf(&b, "  s%d:\n    agent: a\n    prompt: Look at {{ .steps.s%d.stdout }}\n    timeout: 1m\n", i, i-1)
		}
	}
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		src := manySteps(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := pipeline.Parse("p.yaml", src, options()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(n)+"/yaml", func(b *testing.B) { // the floor
			for b.Loop() {
				var root yaml.Node
				if err := yaml.Unmarshal(src, &root); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewRenderer(b *testing.B) {
	p := parse(b, string(manySteps(10_000)))
	for b.Loop() {
		renderer(b, p)
	}
}

func BenchmarkText(b *testing.B) {
	prompt := text(strings.Repeat("Some words of a prompt. ", 400) + "{{ range .steps.a.output.list }}- {{ . }}\n{{ end }}{{ .inputs.x }}")
	include := text("Before {{ .inputs.big }} after")
	r := renderer(b, &pipeline.Plan{Steps: []pipeline.Step{{ID: "a", Prompt: &prompt}, {ID: "b", Prompt: &include}}})
	d := data()
	d["inputs"].(map[string]any)["big"] = strings.Repeat("x", 1<<20)
	for name, t := range map[string]pipeline.Text{"10KB": prompt, "1MiB value": include} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Text(t, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScript(b *testing.B) {
	src := text("set -e\ngo test {{ .v }}\ncat <<EOF\n{{ .v }}\nEOF\n")
	r := renderer(b, &pipeline.Plan{Steps: []pipeline.Step{{ID: "a", Run: &src}}})
	for b.Loop() {
		if _, err := r.Script(src, pipeline.Data{"v": "x"}); err != nil {
			b.Fatal(err)
		}
	}
}
