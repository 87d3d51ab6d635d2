package mask

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocuments: in the documents that flow prints its own keys and words stay, in whatever
// pieces they are written.
func TestDocuments(t *testing.T) {
	m := masker(t, "status", "succeeded")
	own := func(keys []string, key bool) bool {
		return !slices.Contains(keys[:len(keys)-1], "outputs") && (key || keys[len(keys)-1] == "status")
	}
	in := `{
  "status": "succeeded",
  "outputs": {"status": ["succeeded"], "n": 1},
  "steps": {"a": {"status": "succeeded", "text": "the status is\n\u0073ucceeded"}}
}
{"status":"succeeded","text":"status"}
{"text":"status`
	want := `{
  "status": "succeeded",
  "outputs": {"***": ["***"], "n": 1},
  "steps": {"a": {"status": "succeeded", "text": "the *** is\n***"}}
}
{"status":"succeeded","text":"***"}
{"text":"***`
	for size := 1; size <= len(in); size++ {
		var out strings.Builder
		d := m.Documents(&out, own)
		for piece := range slices.Chunk([]byte(in), size) {
			if n, err := d.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := d.Flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Fatalf("in pieces of %d: %s", size, diff)
		}
	}
}
