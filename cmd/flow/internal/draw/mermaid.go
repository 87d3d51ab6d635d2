package draw

import (
	"fmt"
	"io"
	"strings"

	"flow/pipeline"
	"flow/pipeline/dag"
)

// Mermaid writes the graph as a Mermaid flowchart.
func (g *Graph) Mermaid(w io.Writer) error {
	var b strings.Builder
	names := g.names()
	b.WriteString("flowchart TD\n")
	mermaidNodes(&b, "  ", names, g.Nodes)
	mermaidEdges(&b, names, g.Nodes)
	var styled []string
	walk(g.Nodes, func(n *Node) {
		if n.Status != "" {
			styled = append(styled, fmt.Sprintf("  style %s fill:%s,stroke:%s\n", names[n], paint(n.Status).fill, paint(n.Status).line))
		}
	})
	b.WriteString(strings.Join(styled, ""))
	_, err := io.WriteString(w, b.String())
	return err
}

// names gives every node a name of its own that means nothing in any format: an id
// such as `end` would, and two paths could become one without their dots.
func (g *Graph) names() map[*Node]string {
	names := map[*Node]string{}
	walk(g.Nodes, func(n *Node) { names[n] = fmt.Sprintf("n%d", len(names)+1) })
	return names
}

func mermaidNodes(b *strings.Builder, indent string, names map[*Node]string, all []*Node) {
	for _, n := range all {
		label := `"` + mermaidText(n.lines()) + `"`
		if len(n.Nodes) > 0 {
			fmt.Fprintf(b, "%ssubgraph %s[%s]\n", indent, names[n], label)
			mermaidNodes(b, indent+"  ", names, n.Nodes)
			fmt.Fprintf(b, "%send\n", indent)
			continue
		}
		left, right := mermaidShape(n.Kind)
		fmt.Fprintf(b, "%s%s%s%s%s\n", indent, names[n], left, label, right)
	}
}

func mermaidShape(k pipeline.Kind) (left, right string) {
	switch k {
	case pipeline.KindPrompt:
		return "(", ")"
	case pipeline.KindAsk:
		return "{{", "}}"
	case pipeline.KindMerge:
		return `[\`, `/]`
	case pipeline.KindSet:
		return "[/", "/]"
	default:
		return "[", "]"
	}
}

func mermaidEdges(b *strings.Builder, names map[*Node]string, all []*Node) {
	eachEdge(all, func(from, to *Node) {
		arrow := "-->"
		if to.Handles {
			arrow = "-.->"
		}
		fmt.Fprintf(b, "  %s %s %s\n", names[from], arrow, names[to])
	})
}

// eachEdge calls f for every need, those inside of groups too.
func eachEdge(all []*Node, f func(from, to *Node)) {
	byID := make(map[string]*Node, len(all))
	for _, n := range all {
		byID[n.ID] = n
	}
	for _, n := range all {
		for _, id := range n.Needs {
			f(byID[id], n)
		}
		eachEdge(n.Nodes, f)
	}
}

// mermaidText writes lines as one label. Everything that Mermaid, Markdown or HTML
// might read is a character code.
func mermaidText(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteString("<br/>")
		}
		for _, r := range line {
			if strings.ContainsRune("\"#&<>`*_[]{}|\\;$'%", r) {
				fmt.Fprintf(&b, "#%d;", r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// colours of a node that stands in a run.
type colours struct{ fill, line string }

func paint(status string) colours {
	switch dag.Status(status) {
	case dag.OK:
		return colours{"#dafbe1", "#1a7f37"}
	case dag.Failure:
		return colours{"#ffebe9", "#cf222e"}
	case dag.Running:
		return colours{"#ddf4ff", "#0969da"}
	case dag.Waiting, dag.Retrying:
		return colours{"#fff8c5", "#9a6700"}
	default:
		return colours{"#f6f8fa", "#6e7781"}
	}
}
