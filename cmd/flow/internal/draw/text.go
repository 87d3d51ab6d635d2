package draw

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Text writes the graph as a tree: the number before a step is its stage.
func (g *Graph) Text(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(strings.TrimSpace(g.Name+"  "+g.Status) + "\n")
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	g.tree(t, "", g.Nodes)
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (g *Graph) tree(w io.Writer, indent string, all []*Node) {
	all = staged(all)
	for i, n := range all {
		branch, below := "├─ ", "│  "
		if i == len(all)-1 {
			branch, below = "└─ ", "   "
		}
		fmt.Fprintf(w, "%s%s%d %s\t", indent, branch, n.Stage, n.ID)
		if g.Status != "" {
			fmt.Fprintf(w, "%s\t", strings.TrimSpace(n.Status+" "+n.Count))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", n.What, n.after(), strings.Join(n.Marks, "; "))
		g.tree(w, indent+below, n.Nodes)
	}
}

// staged returns nodes in the order of their stages.
func staged(all []*Node) []*Node {
	return slices.SortedStableFunc(slices.Values(all), func(a, b *Node) int { return a.Stage - b.Stage })
}

func (n *Node) after() string {
	if len(n.Needs) == 0 {
		return ""
	}
	return "after " + strings.Join(n.Needs, ", ")
}

// lines are what is written into the box of a node.
func (n *Node) lines() []string {
	lines := append([]string{n.ID, n.What}, n.Marks...)
	if stands := strings.TrimSpace(n.Status + " " + n.Count); stands != "" {
		lines = append(lines, stands)
	}
	return lines
}
