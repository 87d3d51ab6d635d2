package gemini

import (
	"testing"

	"flow/agents"
	"flow/agents/internal/golden"
)

func TestGolden(t *testing.T) { golden.Run(t, Adapter{}, "testdata") }

func FuzzDialog(f *testing.F) { golden.Fuzz(f, Adapter{}, "testdata", "result") }

// BenchmarkLine measures the message that streams are made of.
func BenchmarkLine(b *testing.B) {
	d := Adapter{}.Dialog(agents.Request{})
	line := []byte(`{"type":"message","timestamp":"2026-11-20T23:37:46.425Z","role":"assistant","content":"Hello world, again and again.","delta":true}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		d.Line(line)
	}
}
