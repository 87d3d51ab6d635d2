package draw

import (
	"fmt"
	"io"
	"strings"

	"flow/pipeline"
)

// DOT writes the graph in the language of Graphviz. Its `dot` draws it.
func (g *Graph) DOT(w io.Writer) error {
	d := dot{names: g.names()}
	fmt.Fprintf(&d.b, "digraph %s {\n  compound=true;\n  node [fontname=\"monospace\", style=filled, fillcolor=white];\n", quoted(g.Name))
	d.nodes("  ", g.Nodes)
	eachEdge(g.Nodes, d.edge)
	d.b.WriteString("}\n")
	_, err := io.WriteString(w, d.b.String())
	return err
}

type dot struct {
	b     strings.Builder
	names map[*Node]string
}

func (d *dot) nodes(indent string, all []*Node) {
	for _, n := range all {
		label := quoted(n.lines()...)
		paint := n.dotPaint()
		if len(n.Nodes) == 0 {
			fmt.Fprintf(&d.b, "%s%s [label=%s, shape=%s%s];\n", indent, d.names[n], label, dotShape(n.Kind), paint)
			continue
		}
		fmt.Fprintf(&d.b, "%ssubgraph cluster_%s {\n%s  graph [label=%s, fontname=\"monospace\", style=filled%s];\n", indent, d.names[n], indent, label, clusterPaint(paint))
		d.nodes(indent+"  ", n.Nodes)
		fmt.Fprintf(&d.b, "%s}\n", indent)
	}
}

func (n *Node) dotPaint() string {
	if n.Status == "" {
		return ""
	}
	c := paint(n.Status)
	return fmt.Sprintf(", fillcolor=%q, color=%q", c.fill, c.line)
}

func clusterPaint(paint string) string {
	if paint == "" {
		return `, fillcolor="#f6f8fa"`
	}
	return paint
}

// edge draws between nodes: Graphviz knows no edge of a cluster, only one that is
// cut off at its border.
func (d *dot) edge(from, to *Node) {
	var options []string
	if len(from.Nodes) > 0 {
		options = append(options, "ltail=cluster_"+d.names[from])
	}
	if len(to.Nodes) > 0 {
		options = append(options, "lhead=cluster_"+d.names[to])
	}
	if to.Handles {
		options = append(options, "style=dashed")
	}
	fmt.Fprintf(&d.b, "  %s -> %s", d.names[last(from)], d.names[first(to)])
	if len(options) > 0 {
		fmt.Fprintf(&d.b, " [%s]", strings.Join(options, ", "))
	}
	d.b.WriteString(";\n")
}

// first and last are leaves of a node, to hang an edge on.
func first(n *Node) *Node {
	for len(n.Nodes) > 0 {
		n = staged(n.Nodes)[0]
	}
	return n
}

func last(n *Node) *Node {
	for len(n.Nodes) > 0 {
		all := staged(n.Nodes)
		n = all[len(all)-1]
	}
	return n
}

func dotShape(k pipeline.Kind) string {
	switch k {
	case pipeline.KindPrompt:
		return "ellipse"
	case pipeline.KindAsk:
		return "hexagon"
	case pipeline.KindMerge:
		return "invtrapezium"
	case pipeline.KindSet:
		return "parallelogram"
	default:
		return "box"
	}
}

// quoted is a string of Graphviz. A backslash begins one of its escapes.
func quoted(lines ...string) string {
	s := strings.Join(lines, "\n")
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
