package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// foreach decodes a list, which is literal or one expression.
func (l *loader) foreach(nd *node, n *yaml.Node) {
	f := &Foreach{}
	nd.step.Foreach = f
	switch {
	case n.Kind == yaml.SequenceNode:
		f.Items = l.literalItems(nd, n)
	case n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "["):
		l.failNode(n, "remove the quotes: foreach: "+shorten(n.Value), "`foreach` is a list in quotes, which is text")
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str", l.opensTemplate(n):
		f.List = l.nonEmpty(n, "`foreach`")
	case n.ShortTag() == "!!int":
		l.failNode(n, "for a number of times write foreach: until "+n.Value, "`foreach` must be a list or a template, got %s", describe(n))
	default:
		l.failNode(n, "write a list of values, or name one: .steps.x.output.list", "`foreach` must be a list or a template, got %s", describe(n))
	}
}

// opensTemplate says that a mapping is a template whose quotes were forgotten.
func (l *loader) opensTemplate(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && strings.HasPrefix(l.rest(place(n)), "{{")
}

func (l *loader) literalItems(nd *node, n *yaml.Node) json.RawMessage {
	switch {
	case len(n.Content) > MaxItems:
		l.failNode(n, "split the list", "`foreach` has %d items; the limit is %d", len(n.Content), MaxItems)
		return nil
	case len(n.Content) == 0:
		l.warn(place(n), "add a value", "step `%s` never runs: its list is empty", nd.step.ID)
	}
	return l.literalJSON(n, "`foreach`", "build the list by a template: foreach: list .inputs.a .inputs.b")
}

// literalJSON is a value without templates.
func (l *loader) literalJSON(n *yaml.Node, what, hint string) json.RawMessage {
	if t := templateIn(n); t != nil {
		l.failNode(t, hint, "a template within a literal value of %s", what)
		return nil
	}
	return l.jsonValue(n, what)
}

// templateIn returns the first scalar of a value that holds a template, or nil.
func templateIn(n *yaml.Node) *yaml.Node {
	n = deref(n)
	if n.Kind == yaml.ScalarNode && !literal(n.Value) {
		return n
	}
	for _, child := range n.Content {
		if found := templateIn(child); found != nil {
			return found
		}
	}
	return nil
}

func (l *loader) settleForeach(nd *node) {
	f := nd.step.Foreach
	switch parallel, given := nd.keys["max-parallel"]; {
	case !given:
	case f == nil:
		l.fail(parallel, "it bounds the items of a `foreach`; steps of the pipeline are bounded by `concurrency`", "`max-parallel` without `foreach`")
	default:
		f.MaxParallel = nd.ctl.parallel
	}
}

// checkForeach checks the list of a step, which is made before there are items.
func (l *loader) checkForeach(nd *node) {
	f := nd.step.Foreach
	if f == nil || f.List == nil || strings.TrimSpace(f.List.Src) == "" {
		return
	}
	s := site{node: nd, env: true, stand: beforeItems, what: "`foreach`"}
	before := len(l.errs)
	if l.checkTemplate(*f.List, s, parseList, l.tmpl.functions); len(l.errs) > before {
		return
	}
	list := l.expression(*f.List, parseList, s)
	if found := list.unless("array"); found != "" {
		hint := "name a list"
		switch {
		case list.step != nil && list.step.step.Foreach != nil:
			hint = "name its items: .steps." + list.step.step.ID + ".items"
		case found == "text":
			hint = "for its lines write: lines " + strings.Trim(f.List.Src, "{} ")
		}
		l.fail(f.List.Pos, hint, "`foreach` over what is no list, but %s", found)
	}
}

// itemOf is what is known of the items of a step with `foreach`.
func (l *loader) itemOf(nd *node) shape {
	if nd.ctl.itemDone {
		return nd.ctl.item
	}
	nd.ctl.itemDone = true
	switch f := nd.step.Foreach; {
	case f.Items != nil:
		nd.ctl.item = shape{schema: literalSchema(f.Items)}.element()
	case f.List != nil && strings.TrimSpace(f.List.Src) != "":
		nd.ctl.item = l.expression(*f.List, parseList, site{node: nd, stand: beforeItems}).element()
	}
	return nd.ctl.item
}

// literalSchema describes a value as a JSON Schema, as far as templates can name its
// parts: types, properties and items.
func literalSchema(value json.RawMessage) json.RawMessage {
	v, err := DecodeJSON(value)
	if err != nil {
		return nil
	}
	described, _ := json.Marshal(describeValue(v)) // of maps and texts: it cannot fail
	return described
}

func describeValue(v any) schema {
	switch x := v.(type) {
	case map[string]any:
		properties := map[string]schema{}
		for k, inner := range x {
			properties[k] = describeValue(inner)
		}
		return schema{"type": "object", "properties": properties}
	case []any:
		var items schema
		for i, inner := range x {
			if one := describeValue(inner); i == 0 {
				items = one
			} else {
				items = common(items, one)
			}
		}
		return schema{"type": "array", "items": items}
	case string:
		return schema{"type": "string"}
	case bool:
		return schema{"type": "boolean"}
	case int64, float64:
		return schema{"type": "number"}
	}
	return schema{}
}

// common describes two values: by all properties that one of them has, or by nothing
// where their types differ.
func common(a, b schema) schema {
	if fmt.Sprint(a["type"]) != fmt.Sprint(b["type"]) {
		return schema{}
	}
	mine, _ := a["properties"].(map[string]schema)
	theirs, _ := b["properties"].(map[string]schema)
	for k, s := range theirs {
		if have, both := mine[k]; both {
			s = common(have, s)
		}
		mine[k] = s
	}
	return a
}
