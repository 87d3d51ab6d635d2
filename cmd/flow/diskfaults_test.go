package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/state/failpoint"
)

// TestDiskFaults has the n-th operation on a file of flow's own fail, for all kinds of
// operations, from the first to the last of a run: with a disk that is full from then on,
// with one that turned read-only, and with an error that comes once. flow says so or does
// without; a resume then comes to what an undisturbed run comes to.
//
// The short form takes samples, spread over kinds and the length of the run; -long takes all.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	calm := newDiskRun(t, "calm")
	log := calm.dir + "-points.log"
	calm.env = append(calm.env, failpoint.LogVariable+"="+log)
	calm.finish(t, calm.begin()...)
	counts, want := reached(t, log), calm.outcome(t)
	if want["turns"] != diskTurns {
		t.Fatalf("the undisturbed run took %v turns of agents, want %d", want["turns"], diskTurns)
	}
	calm.env = calm.env[:1]
	calm.invariants(t)
	seed := uint64(time.Now().UnixNano())
	points := samples(counts, rand.New(rand.NewPCG(seed, 0)))
	t.Logf("%d operations, %d of them made to fail; seed %d", counts["disk"], len(points), seed)
	for i, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := newDiskRun(t, fmt.Sprintf("fault%d", i))
			r.fault(t, point, want, r.begin()...)
		})
	}
}

// samples are the points at which operations are to fail.
func samples(counts map[string]int, random *rand.Rand) (points []string) {
	add := func(name, fault string, most int) {
		count := counts[name]
		if *long {
			most = count
		}
		most = min(most, count)
		for i := range most { // one of each of as many equal parts
			from, to := i*count/most, (i+1)*count/most
			points = append(points, fmt.Sprintf("%s:%d%s", name, from+1+random.IntN(to-from), fault))
		}
	}
	add("disk-grow", "+=ENOSPC", 5)
	add("disk-change", "+=EROFS", 3)
	for _, kind := range diskKinds(counts) {
		add(kind, "=EIO", 1)
	}
	return points
}

// fault runs flow with a fault, and shows that nothing was lost by it.
func (r diskRun) fault(t *testing.T, point string, want map[string]any, args ...string) {
	t.Helper()
	got := r.with(t, point, args...)
	r.tells(t, got)
	if left := processesOf(r.id, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if got.code != 0 {
		r.finish(t, r.goOn()...)
	}
	if diff := cmp.Diff(want, r.outcome(t)); diff != "" {
		t.Errorf("it is not what an undisturbed run comes to (-want +got):\n%s\nafter\n%s", diff, got.out)
	}
	r.invariants(t)
	if out := r.finish(t, "state", "check"); strings.Contains(out, r.state()) {
		t.Errorf("state check has to note something:\n%s", out)
	}
	if t.Failed() {
		t.Logf("the command with the fault ended with %d:\n%s", got.code, got.out)
	}
}

// tells demands that flow did not fail without a word, or with one that helps nobody.
func (r diskRun) tells(t *testing.T, got diskEnd) {
	t.Helper()
	switch {
	case strings.Contains(got.out, "goroutine "), strings.Contains(got.out, "panic:"):
		t.Errorf("it panicked:\n%s", got.out)
	case got.code == 0:
	case got.code != exitFailed && got.code != exitState:
		t.Errorf("exit status %d:\n%s", got.code, got.out)
	case !strings.Contains(got.out, "hint: "), !strings.Contains(got.out, filepath.Dir(r.dir)):
		t.Errorf("it does not say where or what to do:\n%s", got.out)
	}
}
