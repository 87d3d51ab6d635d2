package native_test

import (
	"strconv"
	"testing"

	"flow/agents/internal/native"
)

// The last 1024 ids are remembered, and the oldest is forgotten first.
func TestRing(t *testing.T) {
	var r native.Ring
	for i := range 3000 {
		want := ""
		if i >= 1024 {
			want = strconv.Itoa(i - 1024)
		}
		if got := r.Put(strconv.Itoa(i)); got != want {
			t.Fatalf("%d takes the place of %q, not of %q", i, got, want)
		}
	}
}
