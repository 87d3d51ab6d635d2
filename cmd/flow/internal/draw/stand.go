package draw

import (
	"fmt"
	"slices"
	"strings"

	"flow/pipeline/dag"
)

// A State is how one step of a run, or one item or round of it, stands.
type State struct {
	Path   string // with the numbers of items, rounds and candidates
	Status string
}

// Stand gives the graph the state of a run. A step of which there are several, since
// it is inside of a `foreach` or `repeat`, stands as the one that matters most.
func (g *Graph) Stand(run string, states []State) {
	g.Status = run
	own, within := map[string][]string{}, map[string][]string{}
	for _, s := range states {
		path, numbers := static(s.Path)
		switch numbers {
		case 0:
			own[path] = append(own[path], s.Status)
		case 1:
			within[path] = append(within[path], s.Status)
		}
	}
	walk(g.Nodes, func(n *Node) { n.stand(own[n.Path], within[n.Path]) })
}

// static returns a path without its numbers, and how many of those stand at its end.
func static(path string) (string, int) {
	var ids []string
	trailing := 0
	for part := range strings.SplitSeq(path, ".") {
		if part != "" && part[0] >= '0' && part[0] <= '9' {
			trailing++
			continue
		}
		ids, trailing = append(ids, part), 0
	}
	return strings.Join(ids, "."), trailing
}

func (n *Node) stand(own, within []string) {
	n.Status = gravest(own)
	switch {
	case len(own) > 1:
		n.Count = fmt.Sprintf("%d/%d", count(own, dag.OK), len(own))
	case len(within) == 0 || n.many == "":
	case n.many == rounds:
		n.Count = fmt.Sprintf("round %d/%d", len(within), n.max)
	default:
		n.Count = fmt.Sprintf("%d/%d %s", count(within, dag.OK, dag.SkippedStep), len(within), n.many) // an item that was skipped is none that is missing
	}
}

// count is how many of the statuses are one of those wanted.
func count(statuses []string, wanted ...dag.Status) int {
	n := 0
	for _, s := range statuses {
		if slices.Contains(wanted, dag.Status(s)) {
			n++
		}
	}
	return n
}

// gravest returns the status that says most about a set of steps.
func gravest(statuses []string) string {
	for _, s := range []dag.Status{dag.Failure, dag.Waiting, dag.Running, dag.Retrying, "interrupted", dag.Cancelled, dag.Pending, dag.OK, dag.SkippedStep} {
		if slices.Contains(statuses, string(s)) {
			return string(s)
		}
	}
	if len(statuses) > 0 {
		return statuses[0]
	}
	return ""
}
