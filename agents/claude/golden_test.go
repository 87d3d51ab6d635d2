package claude_test

import (
	"testing"

	"flow/agents/claude"
	"flow/agents/internal/golden"
)

// The recordings are those of Claude Code 2.1.329; NAME.meta.json has the argument
// vector and the end of each process.
func TestGolden(t *testing.T) { golden.Run(t, claude.Adapter{}, "testdata") }

func FuzzDialog(f *testing.F) { golden.Fuzz(f, claude.Adapter{}, "testdata", "result") }
