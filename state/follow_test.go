package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
)

// A follower sees each event once, in order, through a crash and a resume.
func TestFollowAcrossWriters(t *testing.T) {
	s := openStore(t)
	synctest.Test(t, func(t *testing.T) {
		r, err := s.Create(Header{ID: "a"}, nil)
		must(t, err)
		must(t, r.AppendEvents([]byte("1\n2\n")))
		v, err := s.Read("a")
		must(t, err)
		lines := make(chan string, 100)
		done := make(chan error)
		go func() {
			done <- v.Follow(t.Context(), func(line []byte) error { lines <- string(line); return nil })
		}()
		expect := func(want ...string) {
			t.Helper()
			for _, w := range want {
				if got := <-lines; got != w {
					t.Fatalf("got %q, want %q", got, w)
				}
			}
		}
		expect("1", "2")
		must(t, r.AppendEvents([]byte("3\n")))
		expect("3")
		must(t, r.Close())
		tear(t, filepath.Join(v.Dir(), eventsFile), "torn")
		tear(t, filepath.Join(v.Dir(), journalFile), `{"seq":2`)
		r, err = s.OpenRun(t.Context(), "a")
		must(t, err)
		must(t, r.AppendEvents([]byte("4\n")))
		expect("4")
		must(t, r.AppendEvents([]byte("5\n")))
		must(t, r.Finish("succeeded"))
		expect("5")
		must(t, <-done)
		must(t, r.Close())
		if len(lines) != 0 {
			t.Errorf("%d lines too many", len(lines))
		}
	})
}

// tear appends half a line, as a kill does.
func tear(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, errors.Join(err, f.Close()))
}

func TestFollowAFinishedRun(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	must(t, r.AppendEvents([]byte("1\n2\n")))
	must(t, r.Finish("failed"))
	closeRun(t, r)
	var got []string
	must(t, r.Follow(t.Context(), func(line []byte) error { got = append(got, string(line)); return nil }))
	if !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("%q", got)
	}
}

func TestFollowEndsWithItsContextAndItsCallback(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	must(t, r.AppendEvents([]byte("1\n2\n")))
	ctx, cancel := context.WithCancel(t.Context())
	err := r.Follow(ctx, func([]byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	stop, calls := errors.New("stop"), 0
	err = r.Follow(t.Context(), func([]byte) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestEventsOfAllSizes(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	var want []int
	for _, size := range []int{0, 1, tailBuffer - 2, tailBuffer - 1, tailBuffer, tailBuffer + 1, 3 * tailBuffer, 5} {
		must(t, r.AppendEvents(append(bytes.Repeat([]byte("x"), size), '\n')))
		want = append(want, size)
	}
	var got []int
	must(t, r.Events(func(line []byte) error { got = append(got, len(line)); return nil }))
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
