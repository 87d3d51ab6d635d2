package pipeline

import "gopkg.in/yaml.v3"

// fields decodes the mapping n, called what in messages. Each entry whose key table
// has goes to decode, any other is a mistake. It returns the places of the keys; nil
// when n is no mapping.
func (l *loader) fields(n *yaml.Node, what string, table []key, decode func(e entry)) map[string]Pos {
	n = deref(n)
	entries := l.entries(n, what, MaxKeys)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	found := make(map[string]Pos, len(entries))
	for _, e := range entries {
		if !inTable(table, e.key) {
			l.unknownKey(e.at, what, names(table))
			continue
		}
		found[e.key] = place(e.at)
		decode(e)
	}
	return found
}

func inTable(table []key, name string) bool {
	for _, k := range table {
		if k.name == name {
			return true
		}
	}
	return false
}

// isScalar reports whether n is one value, and not left out.
func isScalar(n *yaml.Node) bool {
	n = deref(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null"
}
