package pipeline

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Difference is what became of a step from one plan to another.
type Difference string

// The differences. A step without one is the same, and sees the same.
const (
	Added   Difference = "added"
	Removed Difference = "removed"
	Changed Difference = "changed" // its own definition, its agent's, or a value that it names
	Follows Difference = "follows" // it is the same, but needs one that is not
)

// A Change is one difference between two plans.
type Change struct {
	Path string // of the step: ids joined by dots
	Kind Difference
	// What are the keys that differ, of a step that changed: those of the plan's JSON, and
	// agents, pipelineEnv, inputs and files for what it uses of the pipeline.
	What []string
	// Of is the sibling that a step follows.
	Of string
}

// Compare returns the differences between two plans in the order of the new one, those of
// steps that are gone behind their siblings. before and after are the values of the
// inputs. A change inside of a step that makes many of one, calls a pipeline or has a
// workspace of its own is a change of that step as a whole.
func Compare(old, updated *Plan, before, after map[string]any) []Change {
	c := comparison{old: side{old, before}, updated: side{updated, after}}
	c.scope("", old.Steps, updated.Steps)
	return c.changes
}

// A side is a plan with the values of its inputs.
type side struct {
	plan   *Plan
	inputs map[string]any
}

type comparison struct {
	old, updated side
	changes      []Change
}

// scope compares siblings and reports whether there is any difference.
func (c *comparison) scope(prefix string, old, updated []Step) bool {
	olds, changes := byID(old), make([][]Change, len(updated))
	differs := map[string]bool{}
	for _, i := range inOrder(updated) {
		s := &updated[i]
		changes[i] = c.step(prefix, olds[s.ID], s, differs)
		differs[s.ID] = len(changes[i]) > 0
	}
	before := len(c.changes)
	c.changes = append(c.changes, slices.Concat(changes...)...)
	news := byID(updated)
	for i := range old {
		if news[old[i].ID] == nil {
			c.changes = append(c.changes, Change{Path: prefix + old[i].ID, Kind: Removed})
		}
	}
	return len(c.changes) > before
}

func byID(steps []Step) map[string]*Step {
	m := make(map[string]*Step, len(steps))
	for i := range steps {
		m[steps[i].ID] = &steps[i]
	}
	return m
}

// inOrder lists the places of steps so that each comes after those that it needs.
func inOrder(steps []Step) []int {
	places := make(map[string]int, len(steps))
	for i := range steps {
		places[steps[i].ID] = i
	}
	order, done := make([]int, 0, len(steps)), make([]bool, len(steps))
	var visit func(i int)
	visit = func(i int) {
		if done[i] {
			return
		}
		done[i] = true
		for _, need := range steps[i].Needs {
			if j, ok := places[need]; ok {
				visit(j)
			}
		}
		order = append(order, i)
	}
	for i := range steps {
		visit(i)
	}
	return order
}

// step returns the differences of one step and all within it. differs says which
// siblings have any.
func (c *comparison) step(prefix string, old, s *Step, differs map[string]bool) []Change {
	path := prefix + s.ID
	if old == nil {
		return []Change{{Path: path, Kind: Added}}
	}
	if what := differences(c.old.print(old), c.updated.print(s)); len(what) > 0 {
		return []Change{{Path: path, Kind: Changed, What: what}}
	}
	for _, need := range s.Needs {
		if differs[need] {
			return []Change{{Path: path, Kind: Follows, Of: prefix + need}}
		}
	}
	if whole(s) {
		return nil
	}
	inner := comparison{old: c.old, updated: c.updated}
	inner.scope(path+".", old.Steps, s.Steps)
	return inner.changes
}

// whole says that the steps in s cannot be told apart from s: they are many of one, work in
// what s made for them, or s ends with what they changed.
func whole(s *Step) bool {
	return s.Kind != KindGroup || s.Foreach != nil || s.Repeat != nil || s.Isolation != nil || s.Changes
}

// print returns what decides what s does, by key.
func (d side) print(s *Step) map[string]string {
	keys, _ := roundTrip(s).(map[string]any)
	if !whole(s) {
		delete(keys, "steps")
	}
	decides := map[string]string{}
	for key, value := range withoutPlaces(keys).(map[string]any) {
		decides[key] = exact(value)
	}
	all := strings.Join(slices.Collect(maps.Values(decides)), "\n")
	decides["agents"] = d.agents(s)
	if len(d.plan.Env) > 0 {
		decides["pipelineEnv"] = exact(withoutPlaces(roundTrip(d.plan.Env)))
	}
	if strings.Contains(all+decides["agents"]+decides["pipelineEnv"], ".inputs") {
		decides["inputs"] = exact(roundTrip(d.inputs))
	}
	for name, text := range d.plan.Files {
		if strings.Contains(all, name) {
			decides["files"] += exact([]string{name, text})
		}
	}
	return decides
}

// agents are the profiles that the agent steps in s use, their fallbacks included.
func (d side) agents(s *Step) string {
	used := map[string]Profile{}
	var add func(name string)
	add = func(name string) {
		profile, ok := d.plan.Agents[name]
		if _, seen := used[name]; seen || !ok {
			return
		}
		used[name] = withoutOrigin(profile)
		for _, next := range profile.Fallback {
			add(next)
		}
	}
	eachStep(s, func(inner *Step) {
		add(inner.Agent)
		if inner.Contest != nil {
			for _, name := range inner.Contest.Agents {
				add(name)
			}
			if inner.Contest.Judge != nil {
				add(inner.Contest.Judge.Agent)
			}
		}
	})
	return exact(withoutPlaces(roundTrip(used)))
}

// withoutOrigin is a profile without the places in configurations.
func withoutOrigin(p Profile) Profile {
	p.File, p.Origin = "", nil
	if p.Permissions != nil {
		permissions := *p.Permissions
		permissions.Rules = slices.Clone(permissions.Rules)
		for i := range permissions.Rules {
			permissions.Rules[i].File = ""
		}
		p.Permissions = &permissions
	}
	return p
}

// eachStep calls f for s and, where they count as part of it, all steps within.
func eachStep(s *Step, f func(*Step)) {
	f(s)
	if !whole(s) {
		return
	}
	walk("", s.Steps, func(_ string, inner *Step) { f(inner) })
}

// differences lists the keys whose values are not the same, sorted.
func differences(a, b map[string]string) []string {
	var keys []string
	for key := range a {
		if a[key] != b[key] {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if _, both := a[key]; !both && b[key] != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// withoutPlaces takes the places in the file, and the ways to called files, out of a value
// that came from JSON.
func withoutPlaces(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if isPlace(x["pos"]) {
			delete(x, "pos")
		}
		if _, text := x["src"]; text {
			delete(x, "folded")
		}
		if call, ok := x["call"].(map[string]any); ok && x["kind"] == string(KindCall) {
			if plan, ok := call["plan"].(map[string]any); ok {
				delete(plan, "file") // named from where flow was started; call.file says which it is
			}
		}
		for key := range x {
			x[key] = withoutPlaces(x[key])
		}
	case []any:
		for i := range x {
			x[i] = withoutPlaces(x[i])
		}
	}
	return v
}

// isPlace reports whether a value is a Pos, and not what a user calls pos.
func isPlace(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for key, n := range m {
		if _, number := n.(json.Number); !number || key != "line" && key != "col" {
			return false
		}
	}
	return true
}

// roundTrip returns v as JSON reads it back.
func roundTrip(v any) any {
	var out any
	text, _ := json.Marshal(v) // all that comes here is from JSON or YAML
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&out)
	return out
}

func exact(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// Affected returns the path of the step that runs again when the one at path does (path
// itself, or the outermost step around it that is run as a whole), and those of all that
// need it, in the order of the plan. It is empty when there is no such step.
func (p *Plan) Affected(path string) []string {
	var affected []string
	prefix, steps := "", p.Steps
	for id := range strings.SplitSeq(path, ".") {
		s := find(steps, id)
		if s == nil {
			return nil
		}
		affected = append(affected, dependents(prefix, steps, id)...)
		if whole(s) || prefix+id == path {
			affected = append(affected, prefix+id)
			break
		}
		prefix, steps = prefix+id+".", s.Steps
	}
	order := map[string]int{}
	p.Walk(func(path string, _ *Step) { order[path] = len(order) })
	slices.SortFunc(affected, func(a, b string) int { return order[a] - order[b] })
	return affected
}

// dependents are the paths of the siblings that need the step id, directly or not.
func dependents(prefix string, steps []Step, id string) []string {
	need := map[string]bool{id: true}
	var paths []string
	for _, i := range inOrder(steps) {
		if s := &steps[i]; slices.ContainsFunc(s.Needs, func(n string) bool { return need[n] }) {
			need[s.ID] = true
			paths = append(paths, prefix+s.ID)
		}
	}
	return paths
}
