package draw

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestNothingOverlaps lays out random graphs: boxes keep their distance within a
// layer, layers stand below one another, and all is inside of the drawing.
func TestNothingOverlaps(t *testing.T) {
	for seed := range uint64(50) {
		d := layOut(randomNodes(rand.New(rand.NewPCG(seed, 1)), 40))
		bottom := -gapY
		for _, layer := range d.layers {
			right, top := -gapX, bottom+gapY
			for _, b := range layer {
				if b.x < right+gapX-0.01 || b.x < 0 || b.x+b.w > d.w+0.01 {
					t.Fatalf("seed %d: a box from %.1f to %.1f, after %.1f, in a drawing of %.1f", seed, b.x, b.x+b.w, right, d.w)
				}
				if b.y < top-0.01 || b.y+b.h > d.h+0.01 {
					t.Fatalf("seed %d: a box from %.1f down to %.1f, below %.1f, in a drawing of %.1f", seed, b.y, b.y+b.h, top, d.h)
				}
				right, bottom = b.x+b.w, max(bottom, b.y+b.h)
			}
		}
	}
}

func randomNodes(r *rand.Rand, count int) []*Node {
	all := make([]*Node, count)
	for i := range all {
		n := &Node{ID: fmt.Sprintf("s%d", i), Stage: 1}
		for j := range i {
			if r.IntN(12) == 0 {
				n.Needs = append(n.Needs, all[j].ID)
				n.Stage = max(n.Stage, all[j].Stage+1)
			}
		}
		all[i] = n
	}
	return all
}

// TestLongEdges draws a chain in which every step needs the first one too: the points
// of its edges would be two million.
func TestLongEdges(t *testing.T) {
	all := []*Node{{ID: "s0", Stage: 1}}
	for i := 1; i < 2000; i++ {
		all = append(all, &Node{ID: fmt.Sprintf("s%d", i), Stage: i + 1, Needs: []string{"s0", fmt.Sprintf("s%d", i-1)}})
	}
	if d := layOut(all); d.points > maxPoints || len(d.layers) != 2000 {
		t.Errorf("%d points in %d layers", d.points, len(d.layers))
	}
}
