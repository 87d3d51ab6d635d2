package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The benchmarks of flow as a whole. Each runs flow and the floor that it is to be
// held against in turn, so that a busy machine disturbs both alike, and reports
// medians. docs/performance.md says what the figures mean and how to run them.

// build compiles the package at path as a release is and returns the executable.
func build(b testing.TB, path string) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), filepath.Base(path))
	text, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, path).CombinedOutput()
	if err != nil {
		b.Fatalf("go build %s: %v\n%s", path, err, text)
	}
	return out
}

func buildRelease(b *testing.B) string {
	b.Helper()
	return build(b, "flow/cmd/flow")
}

// A launcher starts commands through a small program that measures them.
type launcher struct{ path string }

func newLauncher(b testing.TB) launcher {
	b.Helper()
	return launcher{build(b, "flow/cmd/flow/testdata/bench/launch")}
}

// A cost is what one command took.
type cost struct {
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"` // with that of the processes it waited for
	RSS  int64         `json:"rss"` // peak of the largest process, in bytes
}

// run runs a command to its end, which must be success.
func (l launcher) run(b testing.TB, stdin io.Reader, path string, args ...string) cost {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(l.path, append([]string{path}, args...)...)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = stdin, &stderr, []*os.File{w}
	err = cmd.Run()
	w.Close()
	if err != nil {
		b.Fatalf("%s %s: %v\n%s", path, strings.Join(args, " "), err, stderr.Bytes())
	}
	var c cost
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		b.Fatal(err)
	}
	return c
}

// took is how long do takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// times are durations of the same work, one for each turn.
type times []time.Duration

func (t times) seconds() float64 { return median(t).Seconds() }

// over is the median of the ratios to what the floor took in the same turns.
func (t times) over(floor times) float64 {
	ratios := make([]float64, len(t))
	for i := range t {
		ratios[i] = t[i].Seconds() / floor[i].Seconds()
	}
	return median(ratios)
}

const mib = 1 << 20
