package pipeline

import "gopkg.in/yaml.v3"

// typedVars decodes names with values of any type.
func (l *loader) typedVars(n *yaml.Node, what string) []Var {
	entries := l.entries(n, what, MaxKeys)
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		l.failNode(n, "add one: name: value", "%s names no value", what)
	}
	var out []Var
	for _, e := range entries {
		if _, ok := l.id(e.at, "name"); !ok {
			continue
		}
		if t := l.typedText(e.val, "`"+e.key+"`", false); t != nil {
			out = append(out, Var{Name: e.key, Value: *t})
		}
	}
	return out
}

// typedText is a template, or a literal value of any type. asText keeps a number or
// truth as the text that it was written as.
func (l *loader) typedText(n *yaml.Node, what string, asText bool) *Text {
	if n = deref(n); l.opensTemplate(n) || n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!str" || n.Value == "" || asText && n.ShortTag() != "!!null") {
		return l.value(n, what)
	}
	raw := l.literalJSON(n, what, "give every template a name of its own, or build the value by list and dict")
	if raw == nil {
		return nil
	}
	return &Text{Src: string(raw), Pos: place(n), JSON: true}
}

// setOutput is what is known of the values of a `set`. Values that go in a circle are
// reported as needs that do.
func (l *loader) setOutput(nd *node) shape {
	if nd.ctl.values == nil {
		nd.ctl.values = &shape{}
		fields := make(map[string]shape, len(nd.step.Set))
		for _, v := range nd.step.Set {
			fields[v.Name] = l.valueOf(v.Value, site{node: nd})
		}
		nd.ctl.values.fields = fields
	}
	return *nd.ctl.values
}
