package lsp

import (
	"gopkg.in/yaml.v3"

	"flow/pipeline"
)

// symbols is the outline of a document: inputs, agents and steps.
func (d *doc) symbols() []symbol {
	out := []symbol{}
	for _, e := range d.index.inputs {
		out = append(out, d.symbol(e, symbolVariable, "input"))
	}
	for _, e := range d.index.agents {
		out = append(out, d.symbol(e, symbolClass, "agent"))
	}
	return append(out, d.stepSymbols(d.index.steps)...)
}

func (d *doc) stepSymbols(all []*step) []symbol {
	var out []symbol
	for _, s := range all {
		kind := symbolFunction
		if len(s.inner) > 0 {
			kind = symbolModule
		}
		one := d.symbol(s.entry, kind, s.detail())
		one.Children = d.stepSymbols(s.inner)
		out = append(out, one)
	}
	return out
}

func (d *doc) symbol(e entry, kind symbolKind, detail string) symbol {
	name := d.nodeSpan(e.key)
	whole := span{name.Start, name.End}
	if end := d.nodeEnd(e.value); end.Line > whole.End.Line || end.Line == whole.End.Line && end.Character > whole.End.Character {
		whole.End = end
	}
	return symbol{Name: e.name, Detail: detail, Kind: kind, Range: whole, SelectionRange: name}
}

// nodeSpan is where a scalar of one line stands.
func (d *doc) nodeSpan(n *yaml.Node) span {
	from := d.byteAt(pipeline.Pos{Line: n.Line, Col: n.Column})
	to := min(len(d.line(n.Line-1)), from+len(n.Value))
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		to = min(len(d.line(n.Line-1)), to+2)
	}
	return d.span(n.Line-1, from, to)
}

// nodeEnd is the end of the last line that a value is known to reach.
func (d *doc) nodeEnd(n *yaml.Node) position {
	last := n.Line
	for n.Kind != yaml.AliasNode && len(n.Content) > 0 {
		n = n.Content[len(n.Content)-1]
		last = max(last, n.Line)
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		for last < len(d.lines) && (d.lines[last] == "" || d.lines[last][0] == ' ' && readRow(d.lines[last]).indent > readRow(d.lines[n.Line-1]).indent) {
			last++
		}
	}
	return d.at(last-1, len(d.line(last-1)))
}
