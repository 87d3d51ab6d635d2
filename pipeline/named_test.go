package pipeline

import (
	"slices"
	"testing"
)

// TestFields is that editors are told of the same values as the checks know.
func TestFields(t *testing.T) {
	var steps []string
	for _, f := range StepFields() {
		steps = append(steps, f.Name)
	}
	if want := stepFields(); !slices.Equal(slices.Sorted(slices.Values(steps)), slices.Sorted(slices.Values(want))) {
		t.Errorf("fields of a step: %v, want %v", steps, want)
	}
	for _, f := range slices.Concat(Roots(), RunFields(), StepFields()) {
		if f.Doc == "" {
			t.Errorf("%s is not explained", f.Name)
		}
	}
}
