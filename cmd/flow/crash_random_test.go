package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCrashes kills runs of pipelines that are made at random, at random moments and at every
// failpoint, until each has succeeded all the same. The long form (-long) takes half an hour
// and prints what was survived.
func TestCrashes(t *testing.T) {
	t.Parallel()
	y := newSurvived()
	parts := 0
	t.Cleanup(func() {
		if parts == 4 { // else -run asked for some of it only
			y.everywhere(t)
		}
		t.Logf("survived:\n%v", y)
	})
	seed := seedOf(t)
	t.Run("moments", func(t *testing.T) { parts++; crashAtMoments(t, y, seed) })
	t.Run("points", func(t *testing.T) { parts++; crashAtPoints(t, y, seed) })
	t.Run("errands", func(t *testing.T) { parts++; crashOnErrands(t, y, seed) })
	t.Run("servers", func(t *testing.T) { parts++; crashServers(t, y, seed) })
}

// crashAtMoments tells stories of runs that are disturbed at random moments.
func crashAtMoments(t *testing.T, y *survived, seed uint64) {
	t.Parallel()
	plots, stories := 2, 1
	if *long {
		plots, stories = 200, 3
	}
	for i := range plots {
		p := newPlot(seed+uint64(i), i%2 == 1)
		t.Run(fmt.Sprintf("seed=%d", p.seed), func(t *testing.T) {
			t.Parallel()
			want, usual := p.undisturbed(t)
			y.mu.Lock()
			y.plots++
			y.mu.Unlock()
			for j := range stories {
				t.Run(fmt.Sprintf("story=%d", j), func(t *testing.T) {
					s := p.story(t, y, fmt.Sprintf("s%d", j), want, usual, rand.New(rand.NewPCG(p.seed, uint64(j+1))))
					s.tell(t, s.blows(5))
					s.conclude(t)
				})
			}
		})
	}
}

// undisturbed is what the plot comes to when nothing happens to it, and how long it takes.
func (p plot) undisturbed(t *testing.T) (*fate, time.Duration) {
	t.Helper()
	s := p.story(t, newSurvived(), "calm", nil, 0, nil)
	began := time.Now()
	s.tell(t, nil)
	usual := time.Since(began)
	s.conclude(t)
	f := s.fate(t)
	return &f, usual
}

func (p plot) story(t *testing.T, y *survived, id string, want *fate, usual time.Duration, random *rand.Rand) *story {
	t.Helper()
	r := p.stage(t, id)
	out, err := os.Create(filepath.Join(filepath.Dir(r.dir), "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return &story{model: newModel(r, want), plot: p, usual: usual, random: random, score: y, output: out, reached: map[string]int{}}
}

// conclude judges a run that has succeeded, and shows the whole story if it went wrong.
func (s *story) conclude(t *testing.T) {
	t.Helper()
	if s.want != nil && !t.Failed() {
		s.compare(t)
	}
	if !t.Failed() {
		s.quiet(t)
	}
	if t.Failed() {
		said, err := os.ReadFile(s.output.Name())
		t.Logf("%s\n%s%v", s.plot.text, said, err)
	}
	s.score.told(s)
}
