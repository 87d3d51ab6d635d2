package pipeline

import (
	"slices"
	"strings"
)

// stepFields are what templates can name of a step, whatever its kind.
func stepFields() []string {
	return []string{
		"status", "text", "output", "error", "session", "agent", "model", "usage", "cost", "duration", "exit", "stdout", "stderr", "steps",
		"diff", "files", "branch", "artifacts", "items", "iterations",
	}
}

// eachFields are those of a step with `foreach` as a whole.
func eachFields() []string { return []string{"status", "error", "duration", "items"} }

// useStep checks `.steps.x…` and makes x a need.
func (l *loader) useStep(t Text, u use, s site) {
	complain := l.atText(t, u)
	if s.node == nil && s.what != "`outputs`" {
		complain("name steps in steps, and in `outputs`", "`.steps` cannot be used in %s", s.what)
		return
	}
	if len(u.path) == 1 || u.path[1] == anElement || u.path[1] == aValue {
		l.anyStep(s, complain)
		return
	}
	if own, ok := l.roundStep(u.path[1], s); ok {
		l.follow(own, u.path, 2, complain)
		return
	}
	if target := l.target(u.path[1], s, complain); target != nil {
		l.follow(shape{step: target}, u.path, 2, complain)
	}
}

// target finds the step that a template names, and makes it a need of the template's own.
func (l *loader) target(id string, s site, complain report) *node {
	switch {
	case s.node == nil && l.root.names[id] == nil:
		l.unknownStep(nil, id, complain)
	case s.node == nil:
		return l.root.names[id]
	case s.stand == afterRound && s.node.inner != nil && l.visible(s.node, id) == nil:
		l.innerStep(s.node.inner, ref{"steps", id}, 1, complain)
	default:
		return l.reference(id, s, complain)
	}
	return nil
}

// roundStep is what an id means to `until` alone: a step of the round that ended, or,
// where the step is no group, that round itself.
func (l *loader) roundStep(id string, s site) (shape, bool) {
	switch {
	case s.stand != afterRound:
	case s.node.inner != nil:
		child := s.node.inner.names[id]
		return shape{step: child}, child != nil
	case s.node.step.ID == id:
		return shape{step: s.node, layer: layerRound}, true
	}
	return shape{}, false
}

// stepNamed is the step that an id means at a site.
func (l *loader) stepNamed(id string, s site) (shape, bool) {
	if own, ok := l.roundStep(id, s); ok {
		return own, true
	}
	target := l.root.names[id]
	if s.node != nil {
		target = l.visible(s.node, id)
	}
	return shape{step: target}, target != nil
}

// anyStep is a reference that cannot be followed: every explicit need may be meant.
func (l *loader) anyStep(s site, complain report) {
	if s.node == nil {
		complain("name each step: .steps.ID", "this reference to `.steps` cannot be followed")
		return
	}
	if len(s.node.needs) == 0 {
		complain("name the step as .steps.ID, or list every step it may be in `needs`", "this reference to `.steps` cannot be followed")
	}
	for _, n := range s.node.needs {
		if s.node.in.names[n.name] != nil {
			s.node.ref(n.name, s.stand != beforeItems)
		}
	}
}

// stepField is what is named of a step: path element i.
func (l *loader) stepField(sh shape, path ref, i int, complain report) (shape, bool) {
	nd, name := sh.step, path[i]
	if name == anElement || name == aValue {
		complain("name a field of it", "step `%s` is no list", nd.step.ID)
		return shape{}, false
	}
	if sh.layer == layerStep && nd.step.Foreach != nil {
		return l.eachField(nd, path, i, complain)
	}
	if sh.layer == layerItem && (name == "item" || name == "index") {
		return l.loopValue(name, site{node: nd}), true
	}
	if hint := foreignField(name); hint != "" {
		complain(hint, "step `%s` has no `%s`", nd.step.ID, name)
		return shape{}, false
	}
	if !among(path, i, "step `"+nd.step.ID+"`", stepFields(), complain) {
		return shape{}, false
	}
	if hint, why := l.lacks(nd, sh.layer, name); why != "" {
		complain(hint, "step `%s` %s", nd.step.ID, why)
		return shape{}, false
	}
	switch name {
	case "steps":
		return shape{scope: nd.inner}, true
	case "output":
		return l.outputOf(nd), true
	case "diff", "files":
		nd.step.Changes = true
	}
	return fieldShape(name), true
}

// eachField is what is named of a step with `foreach` from outside of it.
func (l *loader) eachField(nd *node, path ref, i int, complain report) (shape, bool) {
	switch name := path[i]; {
	case name == "items":
		return shape{list: &shape{step: nd, layer: layerItem}}, true
	case slices.Contains(stepFields(), name) && !slices.Contains(eachFields(), name):
		complain("name that of each item: {{ range .steps."+nd.step.ID+".items }}{{ ."+name+" }}{{ end }}", "step `%s` has `foreach`: there is a `.%s` of each item, and none of all", nd.step.ID, name)
		return shape{}, false
	default:
		return fieldShape(name), among(path, i, "step `"+nd.step.ID+"`", eachFields(), complain)
	}
}

// lacks says why a step does not have a field that others have, or "".
func (l *loader) lacks(nd *node, from layer, name string) (hint, why string) {
	st := nd.step
	switch name {
	case "steps":
		if nd.inner == nil {
			return "", "is not a group"
		}
	case "items":
		if st.Foreach == nil || from != layerStep {
			return "", "has no `foreach` and so no items"
		}
	case "iterations":
		if st.Repeat == nil || from == layerRound {
			return "add `repeat`, or leave it out", "has no `repeat`"
		}
	case "output":
		return l.lacksOutput(nd)
	case "artifacts":
		if _, declared := nd.keys["artifacts"]; !declared {
			return "add `artifacts: [PATH]` to it", "keeps no artifacts"
		}
	case "diff", "files":
		if slices.Contains([]Kind{KindAsk, KindSet}, st.Kind) {
			return "name a step that works on files", "changes no files"
		}
	case "branch":
		if owner := workspaceOf(nd); owner == nil || owner.ctl.mode != "worktree" {
			return "add `isolation: worktree` to it", "has no branch of its own"
		}
	}
	return "", ""
}

func (l *loader) lacksOutput(nd *node) (hint, why string) {
	st, id := nd.step, nd.step.ID
	switch {
	case nd.declared("output"), st.Kind == "", st.Kind == KindMerge, st.Kind == KindSet:
	case st.Kind == KindCall:
		if c := nd.ctl.callee; c != nil && c.plan != nil && len(c.plan.Outputs) == 0 {
			return "add `outputs` to " + c.plan.File, "calls a pipeline without `outputs`"
		}
	case st.Kind == KindGroup:
		return "name a step inside of it: .steps." + id + ".steps.ID.output", "is a group and declares no `output`"
	case st.Kind == KindAsk:
		return "add `output` to `" + id + "`, or use .text", "declares no `output`"
	default:
		return "add `output` to `" + id + "`, or use .text or .stdout", "declares no `output`"
	}
	return "", ""
}

// declared says that the step has the key, be its value right or reported.
func (nd *node) declared(key string) bool {
	_, found := nd.keys[key]
	return found
}

// outputOf is what is known of the output of a step.
func (l *loader) outputOf(nd *node) shape {
	switch nd.step.Kind {
	case KindMerge:
		return jsonShape(mergeOutput)
	case KindSet:
		return l.setOutput(nd)
	case KindCall:
		if nd.ctl.callee == nil || nd.ctl.callee.plan == nil {
			return shape{}
		}
		return shape{fields: nd.ctl.callee.outputs}
	default:
		return shape{schema: nd.step.Output}
	}
}

// fieldShape is what is known of a field that is the same for all steps.
func fieldShape(name string) shape {
	switch name {
	case "status", "text", "error", "session", "agent", "model", "duration", "stdout", "stderr", "diff", "branch":
		return jsonShape(`{"type":"string"}`)
	case "exit", "iterations":
		return jsonShape(`{"type":"integer"}`)
	case "cost":
		return jsonShape(`{"type":"number"}`)
	case "artifacts":
		return jsonShape(`{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"size":{"type":"integer"}}}}`)
	case "files":
		return jsonShape(`{"type":"array"}`)
	}
	return shape{}
}

func (l *loader) innerStep(sc *scope, path ref, i int, complain report) (shape, bool) {
	if child := sc.names[path[i]]; child != nil {
		return shape{step: child}, true
	}
	var ids []string
	for _, n := range sc.steps {
		ids = append(ids, n.step.ID)
	}
	complain(orList(suggest(path[i], ids), "its steps are ", ids), "group `%s` has no step `%s`", sc.owner.step.ID, path[i])
	return shape{}, false
}

// reach says how a template names a step inside of groups.
func reach(nd *node) string {
	for o := nd.in.owner; o != nil; o = o.in.owner {
		if o.step.Foreach != nil {
			return "each item of `" + o.path + "` has its own: {{ range .steps." + o.step.ID + ".items }}{{ .steps." + nd.step.ID + ".status }}{{ end }}"
		}
	}
	return "a template reaches it as .steps." + strings.ReplaceAll(nd.path, ".", ".steps.")
}
