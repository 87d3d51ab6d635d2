package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// crashAtPoints has flow, or its guardian, die at each failpoint that runs reach: first it
// learns from an undisturbed run which there are, and how often each is reached. In the short
// form each is hit once; in the long one at up to 12 of the times that it is reached.
func crashAtPoints(t *testing.T, y *survived, seed uint64) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed, 1))
	p := pointPlot(seed)
	calm := p.story(t, newSurvived(), "calm", nil, 0, random)
	calm.tell(t, nil)
	calm.conclude(t)
	want := calm.fate(t)
	if t.Failed() {
		return
	}
	times := 1
	if *long {
		times = 12
	}
	points := spread(random, calm.reached, times)
	for _, names := range failpoints(t) {
		for _, name := range names {
			if calm.reached[name] == 0 {
				points = append(points, point{name, 1}) // perhaps after a kill
			}
		}
	}
	t.Run("hands", func(t *testing.T) { p.tellAll(t, y, &want, apart(points)) })
	var missed [][]point // by all, for what came before was another thing each time
	for _, name := range slices.Sorted(maps.Keys(calm.reached)) {
		if y.deaths(name) == 0 {
			missed = append(missed, []point{{name, 1}})
		}
	}
	t.Run("missed", func(t *testing.T) { p.tellAll(t, y, &want, missed) })
}

// tellAll tells a story for each hand of points, at all of which the run dies.
func (p plot) tellAll(t *testing.T, y *survived, want *fate, hands [][]point) {
	for i, deadly := range hands {
		s := p.story(t, y, fmt.Sprintf("p%d-%s", i, deadly[0].name), want, 0, nil)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s.deadly = deadly
			s.tell(t, nil)
			s.conclude(t)
			said, err := os.ReadFile(s.output.Name())
			if err != nil {
				t.Fatal(err)
			}
			sees(t, "02-killed-at-a-point", string(said))
		})
	}
}

// apart deals the points out to stories of about 20, so that those with related names, of which
// the first may keep the others from being reached, come into different ones.
func apart(points []point) [][]point {
	var alone [][]point
	points = slices.DeleteFunc(slices.Clone(points), func(p point) bool {
		switch {
		case strings.HasPrefix(p.name, "cache-"): // a step that flow died in leaves the cache alone
			alone = append(alone, []point{p})
		case p.name == "exits-written": // the guardian comes there when flow died while a process ran
			alone = append(alone, []point{{"session-seen", 1}, p})
		default:
			return false
		}
		return true
	})
	hands := make([][]point, len(points)/20+1)
	for i, p := range points {
		hands[i%len(hands)] = append(hands[i%len(hands)], p)
	}
	return append(hands, alone...)
}

// spread chooses times at which each point is reached: the first one, and up to so many in
// all.
func spread(random *rand.Rand, reached map[string]int, times int) (all []point) {
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		all = append(all, point{name, 1})
		for range min(times, reached[name]) - 1 {
			all = append(all, point{name, 2 + random.IntN(reached[name]-1)})
		}
	}
	return all
}

// pointPlot has the scenes that reach all points that runs reach.
func pointPlot(seed uint64) plot {
	var chosen []scene
	for _, s := range scenes() {
		if strings.Contains(" script agent worktrees conflict copy question permission cache artifacts notify long secret noise ", " "+s.name+" ") {
			chosen = append(chosen, s)
		}
	}
	return plotOf(seed, rand.New(rand.NewPCG(seed, 0)), false, chosen)
}

// everywhere fails for every failpoint of the source at which nothing has died.
func (y *survived) everywhere(t *testing.T) {
	t.Helper()
	for pkg, names := range failpoints(t) {
		for _, name := range names {
			if y.points[name] == 0 && !t.Failed() {
				t.Errorf("nothing has died at the failpoint %s of %s", name, pkg)
			}
		}
	}
}

// deaths is how often something has died at a failpoint.
func (y *survived) deaths(name string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.points[name]
}
