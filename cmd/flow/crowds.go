package main

import (
	"fmt"
	"strings"

	"flow/pipeline/dag"
)

// withoutCrowds leaves out the items of a `foreach` with very many that ended well, with
// what is in them. How many there are is then a note of the step.
func (s stepReports) withoutCrowds() stepReports {
	items := map[string]*tally{} // by path of the `foreach`
	var each []string            // those that the step at hand is in, or beside
	for _, step := range s {
		each = enclosing(each, step.path)
		if n := len(each); n > 0 {
			items[each[n-1]].count(each[n-1], step)
		}
		if step.form == dag.Each {
			each = append(each, step.path)
			items[step.path] = &tally{}
		}
	}
	return s.filtered(items)
}

func (s stepReports) filtered(items map[string]*tally) (shown stepReports) {
	var crowd string // whose items are left out
	for _, step := range s {
		if crowd != "" && strings.HasPrefix(step.path, crowd+".") {
			if step.well() {
				continue
			}
		} else {
			crowd = ""
		}
		if t := items[step.path]; t != nil && t.all > crowded && crowd == "" {
			crowd = step.path
			note := fmt.Sprintf("%d of %d items ended well", t.well, t.all)
			step.Error = &note
		}
		shown = append(shown, step)
	}
	return shown
}

// A tally counts the items of a `foreach`.
type tally struct{ all, well int }

// count takes in a step, if it is one of the items.
func (t *tally) count(each string, step stepReport) {
	if strings.Contains(step.path[len(each)+1:], ".") {
		return
	}
	if t.all++; step.well() {
		t.well++
	}
}

// enclosing returns those of paths, each in the one before, that hold path.
func enclosing(paths []string, path string) []string {
	for n := len(paths); n > 0; n-- {
		if strings.HasPrefix(path, paths[n-1]+".") {
			return paths[:n]
		}
	}
	return nil
}

// well reports whether the step did what it was to do, or did not have to.
func (s stepReport) well() bool {
	return s.Status == string(dag.OK) || s.Status == string(dag.SkippedStep)
}
