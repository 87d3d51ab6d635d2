package state

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func openStore(tb testing.TB) *Store {
	tb.Helper()
	return openStoreIn(tb, filepath.Join(tb.TempDir(), "state"))
}

func openStoreIn(tb testing.TB, dir string) *Store {
	tb.Helper()
	s, err := Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func createRun(tb testing.TB, s *Store, id string) *Run {
	tb.Helper()
	r, err := s.Create(Header{ID: id, Name: "demo", File: "demo.yaml", FlowVersion: "1.2.3"}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

func openRun(tb testing.TB, s *Store, id string) *Run {
	tb.Helper()
	r, err := s.OpenRun(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

func closeRun(tb testing.TB, r *Run) {
	tb.Helper()
	if err := r.Close(); err != nil {
		tb.Fatal(err)
	}
}

func appendFacts(tb testing.TB, r *Run, n int, sync bool) {
	tb.Helper()
	for i := range n {
		if err := r.Append(tb.Context(), "fact", map[string]int{"n": i}, sync); err != nil {
			tb.Fatal(err)
		}
	}
}

func mustRead(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func mustWrite(tb testing.TB, name string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// waitFor polls until cond holds.
func waitFor(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			tb.Fatalf("timed out: %s", what)
		case <-tick.C:
		}
	}
}
