// Package draw draws a pipeline, or how a run of it stands: as a tree for a
// terminal, as Mermaid or Graphviz source, and as SVG. The same plan gives the same
// bytes.
package draw

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"flow/pipeline"
)

// A Graph is a pipeline to be drawn.
type Graph struct {
	Name   string
	Status string // of the run, or ""
	Nodes  []*Node
}

// A Node is a step. One with Nodes is a group, or a called pipeline.
type Node struct {
	Path  string // ids from the root, joined by dots
	ID    string
	Kind  pipeline.Kind
	What  string   // the kind and who does it: "prompt: analyst (gemini)"
	Marks []string // what makes many of one, and when it runs at all
	Stage int      // 1 for a step without needs, else one more than the latest of them
	Needs []string // ids of siblings
	// Handles says that the step is asked for even if what it needs did not succeed.
	Handles bool
	Nodes   []*Node

	Status string // of the step in a run, or ""
	Count  string // "3/5 items", or ""

	many parts // what Count counts
	max  int   // rounds at most
}

// parts are what a step is made of, in the words of Count.
type parts string

const (
	items      parts = "items"
	rounds     parts = "rounds"
	candidates parts = "candidates"
)

// New returns the graph of a plan.
func New(p *pipeline.Plan) *Graph {
	return &Graph{Name: clean(p.Name), Nodes: nodes("", p, p.Steps)}
}

func nodes(prefix string, p *pipeline.Plan, steps []pipeline.Step) []*Node {
	stages := pipeline.Stages(steps)
	all := make([]*Node, len(steps))
	for i := range steps {
		s := &steps[i]
		n := &Node{
			Path: prefix + s.ID, ID: s.ID, Kind: s.Kind, What: what(p, s), Marks: Marks(s),
			Stage: stages[s.ID], Needs: s.Needs, Handles: s.Handles,
		}
		n.many, n.max = manyOf(s)
		n.Nodes = nodes(n.Path+".", p, s.Steps)
		if s.Call != nil {
			n.Nodes = nodes(n.Path+".", s.Call.Plan, s.Call.Plan.Steps)
		}
		all[i] = n
	}
	return all
}

func manyOf(s *pipeline.Step) (parts, int) {
	switch {
	case s.Foreach != nil:
		return items, 0
	case s.Repeat != nil:
		return rounds, s.Repeat.Max
	case s.Contest != nil:
		return candidates, 0
	}
	return "", 0
}

// what names the kind of a step and who does it.
func what(p *pipeline.Plan, s *pipeline.Step) string {
	switch {
	case s.Call != nil:
		return "pipeline: " + clean(s.Call.File)
	case s.Merge != nil:
		return "merge: " + strings.Join(s.Merge.From, ", ")
	case s.Contest != nil:
		return string(s.Kind)
	case s.Agent != "":
		return string(s.Kind) + ": " + Agent(p, s.Agent)
	}
	return string(s.Kind)
}

// Agent names a profile and the agent that it uses where that has another name.
func Agent(p *pipeline.Plan, profile string) string {
	if use := p.Agents[profile].Use; use != profile {
		return profile + " (" + use + ")"
	}
	return profile
}

// Marks says what makes many of one step, and under which condition it runs.
func Marks(s *pipeline.Step) []string {
	var marks []string
	if s.If != nil {
		marks = append(marks, "if "+expression(*s.If))
	}
	if f := s.Foreach; f != nil {
		mark := "for each of " + list(f)
		if f.MaxParallel > 0 {
			mark += fmt.Sprintf(", at most %d at once", f.MaxParallel)
		}
		marks = append(marks, mark)
	}
	if r := s.Repeat; r != nil {
		mark := fmt.Sprintf("until %s, at most %d rounds", expression(r.Until), r.Max)
		if r.GoOn {
			mark += ", then goes on"
		}
		marks = append(marks, mark)
	}
	if s.Contest != nil {
		marks = append(marks, contest(s.Contest))
	}
	return marks
}

// list names what a step is done for: a long literal list by its length.
func list(f *pipeline.Foreach) string {
	if f.List != nil {
		return expression(*f.List)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(f.Items, &items); err == nil && len(f.Items) > maxShown {
		return fmt.Sprintf("%d items", len(items))
	}
	return clean(string(f.Items))
}

func contest(c *pipeline.Contest) string {
	names := strings.Join(c.Agents, ", ")
	switch {
	case c.Race:
		return "race of " + names
	case c.Judge != nil:
		return "vote of " + names + ", judged by " + c.Judge.Agent
	}
	return "vote of " + names + " on " + clean(c.By)
}

// expression is the source of a template, fit for a picture.
func expression(t pipeline.Text) string { return shorten(clean(t.Expression())) }

const maxShown = 60 // characters of an expression

func shorten(s string) string {
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown-1]) + "…"
	}
	return s
}

// clean replaces what a terminal would obey and XML does not allow.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xfffe || r == 0xffff {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// walk calls f for every node, a group before what is in it.
func walk(all []*Node, f func(*Node)) {
	for _, n := range all {
		f(n)
		walk(n.Nodes, f)
	}
}
