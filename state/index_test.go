package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

var t0 = time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)

// someRuns makes the runs r0 (oldest) to r4: succeeded, failed, interrupted,
// running, and resumed after it had failed.
func someRuns(t *testing.T) *Store {
	t.Helper()
	s := openStore(t)
	for i := range 5 {
		r, err := s.Create(Header{ID: fmt.Sprintf("r%d", i), Name: "demo", Created: t0.Add(time.Duration(i) * time.Hour)}, nil)
		must(t, err)
		t.Cleanup(func() { _ = r.Close() })
		switch i {
		case 0:
			must(t, r.Finish("succeeded"))
			closeRun(t, r)
		case 1, 4:
			must(t, r.Finish("failed"))
			closeRun(t, r)
		case 2:
			closeRun(t, r)
		}
	}
	r := openRun(t, s, "r4")
	appendFacts(t, r, 1, true)
	return s
}

const allRuns = "r4 running, r3 running, r2 interrupted, r1 failed, r0 succeeded"

func listed(t *testing.T, s *Store, limit int) string {
	t.Helper()
	list, err := s.Runs(limit)
	must(t, err)
	var words []string
	for _, sum := range list {
		words = append(words, sum.ID+" "+sum.Status)
	}
	return strings.Join(words, ", ")
}

func TestRuns(t *testing.T) {
	s := someRuns(t)
	for limit, want := range map[int]string{
		0: allRuns, 1: "r4 running", 2: "r4 running, r3 running", 5: allRuns, 9: allRuns,
	} {
		if got := listed(t, s, limit); got != want {
			t.Errorf("limit %d: %s", limit, got)
		}
	}
	list, err := s.Runs(0)
	must(t, err)
	if got := list[4]; got.Name != "demo" || !got.Created.Equal(t0) || got.Ended.IsZero() || !list[2].Ended.IsZero() {
		t.Errorf("%+v", got)
	}
	must(t, os.RemoveAll(s.path(runsDir, "r4")))
	if got := listed(t, s, 1); got != "r3 running" {
		t.Errorf("after r4 was removed: %s", got)
	}
}

func TestOpeningAFinishedRunChangesNothing(t *testing.T) {
	s := someRuns(t)
	closeRun(t, openRun(t, s, "r1"))
	if got := listed(t, s, 0); got != allRuns {
		t.Error(got)
	}
}

func TestRunsOfAnEmptyState(t *testing.T) {
	s := openStore(t)
	for range 2 {
		if got := listed(t, s, 0) + listed(t, s, 5); got != "" {
			t.Error(got)
		}
	}
}

func TestIndexIsRebuilt(t *testing.T) {
	tests := []struct {
		name   string
		damage func([]byte) []byte
	}{
		{"missing", nil},
		{"empty", func([]byte) []byte { return nil }},
		{"garbage in the middle", func(b []byte) []byte { return slices.Concat([]byte("garbage\n"), b) }},
		{"zeros", func(b []byte) []byte { clear(b[100:150]); return b }},
		{"the beginning is gone", func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }},
		{"a path for an id", func([]byte) []byte { return []byte("{\"id\":\"../..\",\"type\":\"created\"}\n") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := someRuns(t)
			name := s.path(indexFile)
			if tt.damage == nil {
				must(t, os.Remove(name))
			} else {
				mustWrite(t, name, tt.damage(mustRead(t, name)))
			}
			for _, limit := range []int{0, 9} {
				if got := listed(t, s, limit); got != allRuns {
					t.Errorf("limit %d: %s", limit, got)
				}
			}
		})
	}
}

func TestIndexTornTail(t *testing.T) {
	s := someRuns(t)
	name := s.path(indexFile)
	mustWrite(t, name, append(mustRead(t, name), `{"id":"r3","type":"fin`...))
	if got := listed(t, s, 0); got != allRuns {
		t.Error(got)
	}
	closeRun(t, createRun(t, s, "r5"))
	if got := listed(t, s, 2); got != "r5 interrupted, r4 running" {
		t.Error(got)
	}
	if bytes.Contains(mustRead(t, name), []byte(`"fin{`)) {
		t.Error("the torn line was not cut")
	}
}

func TestIndexEndWasLost(t *testing.T) {
	s := someRuns(t)
	r := openRun(t, s, "r2")
	s.dir, r.store = s.Dir(), &Store{dir: filepath.Join(t.TempDir(), "none")}
	if err := r.Finish("succeeded"); !errors.Is(err, ErrUnlisted) {
		t.Errorf("the index could not be written: %v", err)
	}
	closeRun(t, r)
	if got := listed(t, s, 0); got != strings.Replace(allRuns, "r2 interrupted", "r2 succeeded", 1) {
		t.Error(got)
	}
	before := mustRead(t, s.path(indexFile))
	for range 2 { // the first who opens the run makes up for it
		closeRun(t, openRun(t, s, "r2"))
	}
	added := bytes.TrimPrefix(mustRead(t, s.path(indexFile)), before)
	if bytes.Count(added, []byte("\n")) != 1 || !bytes.Contains(added, []byte(`"succeeded"`)) {
		t.Errorf("the index got %q", added)
	}
}

func TestReindexListsWhatCannotBeRead(t *testing.T) {
	s := someRuns(t)
	mustWrite(t, filepath.Join(s.path(runsDir, "r0"), journalFile), []byte("garbage\n"))
	header := filepath.Join(s.path(runsDir, "r1"), headerFile)
	mustWrite(t, header, bytes.Replace(mustRead(t, header), []byte(`"format": 1`), []byte(`"format": 9`), 1))
	makeDir(t, s.path(runsDir, "r6"), 0o700)
	mustWrite(t, s.path(runsDir, "note.txt"), nil)
	must(t, s.Reindex())
	got := strings.Split(listed(t, s, 0), ", ")
	slices.Sort(got)
	want := []string{"r0 damaged", "r1 newer", "r2 interrupted", "r3 running", "r4 running", "r6 damaged"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	before := mustRead(t, s.path(indexFile))
	listed(t, s, 0)
	if !bytes.Equal(before, mustRead(t, s.path(indexFile))) {
		t.Error("a damaged run makes each list rebuild the index")
	}
}

func TestIndexLinesAreSmall(t *testing.T) {
	s := openStore(t)
	long := strings.Repeat("é", 3000)
	r, err := s.Create(Header{ID: strings.Repeat("x", 64), Name: long, File: "/a" + long + "/p.yaml"}, nil)
	must(t, err)
	closeRun(t, r)
	list, err := s.Runs(0)
	must(t, err)
	if size := len(mustRead(t, s.path(indexFile))); size > 1024 || !strings.HasSuffix(list[0].File, "é/p.yaml") {
		t.Errorf("%d bytes, %q", size, list[0].File)
	}
	if strings.ContainsRune(list[0].Name, '\uFFFD') {
		t.Error("a character was cut")
	}
}

func TestAnIDIsUsedAgain(t *testing.T) {
	s := someRuns(t)
	must(t, os.RemoveAll(s.path(runsDir, "r0")))
	closeRun(t, createRun(t, s, "r0"))
	if got := listed(t, s, 0); got != "r0 interrupted, r4 running, r3 running, r2 interrupted, r1 failed" {
		t.Error(got)
	}
}

// Runs that begin and end while others list and rebuild are not lost.
func TestIndexUnderConcurrentUse(t *testing.T) {
	s := openStore(t)
	var g errgroup.Group
	for w := range 4 {
		g.Go(func() error {
			for i := range 5 {
				r, err := s.Create(Header{ID: fmt.Sprintf("r%d-%d", w, i)}, nil)
				if err != nil {
					return err
				}
				if err := errors.Join(r.Finish("succeeded"), r.Close()); err != nil {
					return err
				}
			}
			return nil
		})
		g.Go(func() error {
			for range 5 {
				_, err := s.Runs(w)
				if err := errors.Join(err, s.Reindex()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, g.Wait())
	before := mustRead(t, s.path(indexFile))
	if got := listed(t, s, 0); strings.Count(got, "succeeded") != 20 {
		t.Error(got)
	}
	if !bytes.Equal(before, mustRead(t, s.path(indexFile))) {
		t.Error("the index had to be rebuilt")
	}
}

func TestResolve(t *testing.T) {
	s := openStore(t)
	if _, err := s.Resolve("last"); !errors.Is(err, ErrNotFound) {
		t.Errorf("empty: %v", err)
	}
	for _, id := range []string{"20261121-a", "20261121-b", "20261122-a", "20261122"} {
		closeRun(t, createRun(t, s, id))
	}
	good := map[string]string{
		"20261121-a": "20261121-a", "20261122": "20261122", "20261122-": "20261122-a",
		"last": "20261122", "latest": "20261122",
	}
	for prefix, want := range good {
		if got, err := s.Resolve(prefix); err != nil || got != want {
			t.Errorf("%s: %q, %v", prefix, got, err)
		}
	}
	_, err := s.Resolve("20261121")
	if err == nil || !strings.Contains(err.Error(), "20261121-a, 20261121-b") {
		t.Errorf("%v", err)
	}
	for _, prefix := range []string{"", "x", "../"} {
		_, err := s.Resolve(prefix)
		var e *Error
		if !errors.Is(err, ErrNotFound) || !errors.As(err, &e) || e.Path != s.Dir() || !strings.Contains(e.Hint, "flow runs") {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, id := range []string{"none", "../x"} {
		if _, err := s.OpenRun(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("open %s: %v", id, err)
		}
		if _, err := s.Read(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("read %s: %v", id, err)
		}
	}
}
