package pipeline

import (
	"maps"
	"slices"
	"strings"
)

// order writes the needs of every step of a scope in the order of the file, and
// refuses cycles.
func (l *loader) order(sc *scope) {
	for _, nd := range sc.steps {
		for _, i := range slices.Sorted(maps.Keys(nd.links)) {
			nd.step.Needs = append(nd.step.Needs, sc.steps[i].step.ID)
		}
		nd.step.Refs = slices.Sorted(maps.Keys(nd.refs))
		if f := nd.step.Foreach; f != nil {
			for _, id := range nd.step.Refs {
				if !nd.refs[id] {
					f.Refs = append(f.Refs, id)
				}
			}
		}
		if c := nd.step.Contest; c != nil && c.Judge != nil {
			c.Judge.Refs, c.Judge.Previous = nd.step.Refs, nd.step.Previous // its prompt is a template of the step
		}
		if nd.inner != nil {
			l.order(nd.inner)
		}
	}
	l.cycles(sc)
}

// cycles reports each circle of needs once, at its first step in the file.
func (l *loader) cycles(sc *scope) {
	c := cycleSearch{l: l, sc: sc, state: make([]byte, len(sc.steps))}
	for i := range sc.steps {
		c.visit(i)
	}
}

type cycleSearch struct {
	l     *loader
	sc    *scope
	state []byte // 0 new, 1 on the way, 2 done
	way   []int
}

func (c *cycleSearch) visit(i int) {
	if c.state[i] != 0 {
		return
	}
	c.state[i] = 1
	c.way = append(c.way, i)
	for _, next := range slices.Sorted(maps.Keys(c.sc.steps[i].links)) {
		if c.state[next] == 1 {
			c.found(next)
		} else {
			c.visit(next)
		}
	}
	c.way = c.way[:len(c.way)-1]
	c.state[i] = 2
}

// maxCircle is how many steps of a long circle are named before its end.
const maxCircle = 10

func (c *cycleSearch) found(start int) {
	circle := c.way[slices.Index(c.way, start):]
	first := slices.Index(circle, slices.Min(circle))
	circle = append(slices.Clone(circle[first:]), circle[:first+1]...)
	var names []string
	for i, n := range circle {
		if i == maxCircle && len(circle) > maxCircle+2 {
			names = append(names, "…")
		}
		if i < maxCircle || i >= len(circle)-2 || len(circle) <= maxCircle+2 {
			names = append(names, c.sc.steps[n].step.ID)
		}
	}
	c.l.fail(c.sc.steps[circle[0]].step.Pos, "a step waits for every step that its templates or `needs` name; remove one", "steps wait for each other: %s", strings.Join(names, " → "))
}
