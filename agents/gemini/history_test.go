package gemini

import (
	"testing"

	"flow/agents/internal/golden"
)

func TestHistory(t *testing.T) { golden.RunHistory(t, Adapter{}, "testdata/sessions") }

func FuzzHistory(f *testing.F) { golden.FuzzHistory(f, Adapter{}, "testdata/sessions") }
