package draw

import (
	"slices"

	"flow/pipeline"
)

// All lengths are in pixels of the drawing.
const (
	charWidth  = 7.2 // of the 12 px monospace font
	lineHeight = 16.0
	padding    = 12.0
	gapX       = 28.0 // between neighbours
	gapY       = 44.0 // between layers
	sweeps     = 8    // over the layers, to order and to align

	// maxPoints bounds the points of long edges in one scope. Edges beyond it are drawn
	// straight over what is between.
	maxPoints = 50_000
)

// A box is a node with its place, or the point where a long edge passes a layer.
type box struct {
	node       *Node // nil: an edge passes
	x, y, w, h float64
	layer      int
	up, down   []*box // neighbours in the layers next to its own
	inner      *drawing
}

func (b *box) centre() float64 { return b.x + b.w/2 }

// A line is an edge: the boxes that it goes through, from the need to who needs it.
type line struct {
	through []*box
	dashed  bool
}

// A drawing is the layout of one scope: boxes in layers, from the top down. Groups are
// laid out first and are boxes of a fixed size in the scope around them.
type drawing struct {
	w, h   float64
	layers [][]*box
	lines  []line
	points int
}

// layOut places the nodes of one scope by the classic steps of layered drawing: layers
// by longest path (the stages), order within a layer by the mean of the neighbours,
// then places as near to the neighbours as the order allows.
func layOut(all []*Node) *drawing {
	d := &drawing{}
	byID := make(map[string]*box, len(all))
	for _, n := range all {
		b := newBox(n)
		byID[n.ID] = b
		d.put(b)
	}
	for _, n := range all {
		for _, id := range n.Needs {
			d.connect(byID[id], byID[n.ID], n.Handles)
		}
	}
	for i := range sweeps {
		d.sweep(i%2 == 0, orderLayer)
	}
	d.pack()
	for i := range sweeps {
		d.sweep(i%2 == 0, alignLayer)
	}
	d.fit()
	return d
}

func newBox(n *Node) *box {
	b := &box{node: n, layer: n.Stage - 1}
	longest := 0
	lines := n.lines()
	for _, s := range lines {
		longest = max(longest, pipeline.Columns(s))
	}
	b.w = float64(longest)*charWidth + 2*padding
	b.h = float64(len(lines))*lineHeight + 2*padding
	if len(n.Nodes) > 0 {
		b.inner = layOut(n.Nodes)
		b.w = max(b.w, b.inner.w+2*padding)
		b.h += b.inner.h + padding
	}
	return b
}

func (d *drawing) put(b *box) {
	for len(d.layers) <= b.layer {
		d.layers = append(d.layers, nil)
	}
	d.layers[b.layer] = append(d.layers[b.layer], b)
}

// connect draws a line between two boxes, with a point in every layer between them.
func (d *drawing) connect(from, to *box, dashed bool) {
	l := line{through: []*box{from}, dashed: dashed}
	for at := from; at != to; {
		next := to
		if at.layer+1 < to.layer && d.points < maxPoints {
			d.points++
			next = &box{layer: at.layer + 1}
			d.put(next)
		}
		at.down, next.up = append(at.down, next), append(next.up, at)
		l.through = append(l.through, next)
		at = next
	}
	d.lines = append(d.lines, l)
}

// sweep goes through the layers, down or up, and fits each to the one before.
func (d *drawing) sweep(down bool, fit func(layer []*box, neighbours func(*box) []*box)) {
	if down {
		for _, layer := range d.layers {
			fit(layer, func(b *box) []*box { return b.up })
		}
		return
	}
	for _, layer := range slices.Backward(d.layers) {
		fit(layer, func(b *box) []*box { return b.down })
	}
}

// orderLayer sorts a layer by the mean place of the neighbours. Here x is a place in
// the order.
func orderLayer(layer []*box, neighbours func(*box) []*box) {
	slices.SortStableFunc(layer, func(a, b *box) int {
		switch ma, mb := mean(a, neighbours(a)), mean(b, neighbours(b)); {
		case ma < mb:
			return -1
		case ma > mb:
			return 1
		}
		return 0
	})
	for i, b := range layer {
		b.x = float64(i) - b.w/2 // so that its centre is its place
	}
}

// mean is where the neighbours of b are, or b itself where it has none.
func mean(b *box, neighbours []*box) float64 {
	if len(neighbours) == 0 {
		return b.centre()
	}
	sum := 0.0
	for _, n := range neighbours {
		sum += n.centre()
	}
	return sum / float64(len(neighbours))
}

// pack places each layer from the left, and the layers below one another.
func (d *drawing) pack() {
	y := 0.0
	for _, layer := range d.layers {
		x, height := 0.0, 0.0
		for _, b := range layer {
			b.x, b.y = x, y
			x += b.w + gapX
			height = max(height, b.h)
		}
		for _, b := range layer {
			if b.node == nil {
				b.h = height // the line goes straight through
			}
		}
		y += height + gapY
	}
}

// alignLayer moves the boxes of a layer towards their neighbours and keeps their order.
// Pushing from the left and from the right each keep the gaps, so their mean does.
func alignLayer(layer []*box, neighbours func(*box) []*box) {
	wish, left, right := make([]float64, len(layer)), make([]float64, len(layer)), make([]float64, len(layer))
	for i, b := range layer {
		wish[i] = mean(b, neighbours(b)) - b.w/2
		left[i] = wish[i]
		if i > 0 {
			left[i] = max(wish[i], left[i-1]+layer[i-1].w+gapX)
		}
	}
	for i, b := range slices.Backward(layer) {
		right[i] = wish[i]
		if i+1 < len(layer) {
			right[i] = min(wish[i], right[i+1]-b.w-gapX)
		}
	}
	for i, b := range layer {
		b.x = (left[i] + right[i]) / 2
	}
}

// fit moves the drawing to the origin and measures it.
func (d *drawing) fit() {
	least := 0.0
	for i, layer := range d.layers {
		for j, b := range layer {
			if i == 0 && j == 0 || b.x < least {
				least = b.x
			}
		}
	}
	for _, layer := range d.layers {
		for _, b := range layer {
			b.x -= least
			d.w, d.h = max(d.w, b.x+b.w), max(d.h, b.y+b.h)
		}
	}
}
