package draw

import (
	"fmt"
	"html"
	"io"
	"strings"

	"flow/pipeline"
)

const margin = 20.0

// SVG writes the graph as a picture that stands for itself: no script, no font and
// nothing else from outside.
func (g *Graph) SVG(w io.Writer) error {
	d := layOut(g.Nodes)
	title := strings.TrimSpace(g.Name + "  " + g.Status)
	width := max(d.w, float64(pipeline.Columns(title))*charWidth) + 2*margin
	height := d.h + 2*margin + 2*lineHeight
	p := &picture{}
	p.tag("svg", `xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.1f %.1f" width="%.1f" height="%.1f" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"`, width, height, width, height)
	p.line("<title>%s</title>", html.EscapeString(title))
	p.line(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>`)
	p.line(`<rect width="100%%" height="100%%" fill="white"/>`)
	p.text(margin, margin+lineHeight/2, title, true)
	p.scope(d, margin, margin+2*lineHeight)
	p.line("</svg>")
	_, err := io.WriteString(w, p.b.String())
	return err
}

type picture struct{ b strings.Builder }

func (p *picture) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

func (p *picture) tag(name, format string, args ...any) {
	p.line("<"+name+" "+format+">", args...)
}

func (p *picture) text(x, y float64, s string, bold bool) {
	weight := ""
	if bold {
		weight = ` font-weight="bold"`
	}
	p.line(`<text x="%.1f" y="%.1f" fill="#1f2328"%s>%s</text>`, x, y, weight, html.EscapeString(s))
}

// scope draws a drawing with its corner at x, y: the boxes, and the lines over them.
func (p *picture) scope(d *drawing, x, y float64) {
	for _, layer := range d.layers {
		for _, b := range layer {
			if b.node != nil {
				p.box(b, x+b.x, y+b.y)
			}
		}
	}
	for _, l := range d.lines {
		p.edge(l, x, y)
	}
}

func (p *picture) box(b *box, x, y float64) {
	c := colours{"white", "#57606a"}
	if len(b.node.Nodes) > 0 {
		c.fill = "#f6f8fa"
	}
	if b.node.Status != "" {
		c = paint(b.node.Status)
	}
	p.shape(b, x, y, fmt.Sprintf(`fill="%s" stroke="%s"`, c.fill, c.line))
	lines := b.node.lines()
	for i, s := range lines {
		p.text(x+padding, y+padding+lineHeight*(float64(i)+0.75), s, i == 0)
	}
	if b.inner != nil {
		p.scope(b.inner, x+(b.w-b.inner.w)/2, y+2*padding+lineHeight*float64(len(lines)))
	}
}

func (p *picture) shape(b *box, x, y float64, style string) {
	const slant = padding * 0.75
	right, bottom := x+b.w, y+b.h
	switch k := b.node.Kind; k {
	case pipeline.KindAsk:
		p.line(`<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f" %s/>`,
			x, y, right, y, right+slant, y+b.h/2, right, bottom, x, bottom, x-slant, y+b.h/2, style)
	case pipeline.KindMerge:
		p.line(`<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f" %s/>`,
			x-slant, y, right+slant, y, right, bottom, x, bottom, style)
	default:
		radius := 2
		if k == pipeline.KindPrompt {
			radius = 12
		}
		p.line(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%d" %s/>`, x, y, b.w, b.h, radius, style)
	}
}

// edge draws a line from the bottom of its first box to the top of its last, upright
// where it leaves, passes and arrives.
func (p *picture) edge(l line, x, y float64) {
	from := l.through[0]
	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f,%.1f", x+from.centre(), y+from.y+from.h)
	for i, to := range l.through[1:] {
		from := l.through[i]
		x1, y1, x2, y2 := x+from.centre(), y+from.y+from.h, x+to.centre(), y+to.y
		fmt.Fprintf(&path, " C%.1f,%.1f %.1f,%.1f %.1f,%.1f", x1, (y1+y2)/2, x2, (y1+y2)/2, x2, y2)
		if to.node == nil {
			fmt.Fprintf(&path, " V%.1f", y2+to.h)
		}
	}
	dashed := ""
	if l.dashed {
		dashed = ` stroke-dasharray="5 4"`
	}
	p.line(`<path d="%s" fill="none" stroke="#57606a"%s marker-end="url(#arrow)"/>`, path.String(), dashed)
}
