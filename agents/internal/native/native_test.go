package native_test

import (
	"math"
	"testing"

	"flow/agents/internal/native"
)

// JSON has one kind of number; whatever it is written like, it counts.
func TestInt(t *testing.T) {
	for text, want := range map[string]int64{
		"7": 7, "-7": -7, "7.0": 7, "7.9": 7, "7e2": 700, "9223372036854775807": math.MaxInt64,
		"1e300": 0, "nan": 0, `"7"`: 0, "null": 0, "true": 0, "{}": 0,
	} {
		var r native.Reader
		v, events := r.Object([]byte(`{"n":{"x":` + text + `}}`))
		if v == nil {
			t.Fatalf("%s: %v", text, events)
		}
		if got := native.Int(v, "n", "x"); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
		if got := native.Int(v, "n", "absent"); got != 0 {
			t.Errorf("an absent number is %d", got)
		}
	}
}
