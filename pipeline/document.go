package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// document reads the YAML under the limits. It returns the root mapping, or nil
// when there is nothing that could be decoded further.
func (l *loader) document() *yaml.Node {
	if limit := l.o.scale() * MaxFileBytes; len(l.src) > limit {
		l.errs = append(l.errs, tooLarge(l.what(), l.file, len(l.src), limit))
		return nil
	}
	if !l.encoding() {
		return nil
	}
	root := l.parse()
	if root == nil {
		return nil
	}
	c := treeCheck{l: l, sizes: map[*yaml.Node]int{}}
	if !c.tree(root) {
		return nil
	}
	if root = deref(root); root.Kind != yaml.MappingNode {
		l.failNode(root, l.begin(), "expected a mapping with `%s`, got %s", l.first(), describe(root))
		return nil
	}
	return root
}

// what a file of this kind is called.
func (l *loader) what() string {
	if l.alone {
		return "policy"
	}
	if l.config != nil {
		return "configuration"
	}
	return "pipeline"
}

// first is the key that a file of this kind surely has, or most likely.
func (l *loader) first() string {
	if l.alone {
		return "rules"
	}
	if l.config != nil {
		return "agents"
	}
	return "steps"
}

func (l *loader) begin() string { return "begin with `" + l.first() + ":`" }

func tooLarge(what, file string, size, limit int) Error {
	msg := fmt.Sprintf("the %s is %.1f MiB; the limit is %d MiB", what, float64(size)/(1<<20), limit>>20)
	return Error{File: file, Pos: Pos{1, 1}, Msg: msg, Hint: "split the " + what}
}

// encoding finds what is not plain UTF-8 text. yaml.v3 refuses the same without
// saying where.
func (l *loader) encoding() bool {
	src := l.src
	if isUTF16(src) {
		l.fail(Pos{1, 1}, "save the file as UTF-8", "the file is UTF-16")
		return false
	}
	for i := 0; i < len(src); {
		if c := src[i]; c >= 0x20 && c < 0x7f || c == '\n' || c == '\t' || c == '\r' && i+1 < len(src) && src[i+1] == '\n' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			l.fail(l.posAt(i), "save the file as UTF-8", "byte %d (0x%02x) is not UTF-8", i, src[i])
			return false
		}
		if r < 0x20 || r >= 0x7f && r <= 0x9f {
			l.fail(l.posAt(i), "remove it", "control character %U", r)
			return false
		}
		if r == 0x2028 || r == 0x2029 {
			l.fail(l.posAt(i), "end lines by a newline; in double quotes write \\u2028", "%U ends a line in YAML, and in no editor", r)
			return false
		}
		l.invisible(r, i)
		i += size
	}
	return true
}

// isUTF16 looks for the mark of UTF-16 or, where there is none, for the zeros that it
// puts beside each letter.
func isUTF16(src []byte) bool {
	if len(src) < 4 {
		return bytes.HasPrefix(src, []byte{0xff, 0xfe}) || bytes.HasPrefix(src, []byte{0xfe, 0xff})
	}
	even, odd := src[0] == 0 && src[2] == 0, src[1] == 0 && src[3] == 0
	return even != odd || isUTF16(src[:2])
}

// invisible warns of characters that make a file read otherwise than it looks.
func (l *loader) invisible(r rune, at int) {
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		l.warn(l.posAt(at), "remove it", "%U reorders the text that follows it", r)
	case r >= 0x200b && r <= 0x200d, r == 0xfeff && at > 0:
		l.warn(l.posAt(at), "remove it", "%U is invisible", r)
	}
}

// posAt returns the place of a byte of the file.
func (l *loader) posAt(at int) Pos {
	line := 0
	for lo, hi := 0, len(l.lines); lo < hi; {
		if mid := (lo + hi) / 2; l.lines[mid] <= at {
			line, lo = mid, mid+1
		} else {
			hi = mid
		}
	}
	return Pos{Line: line + 1, Col: utf8.RuneCount(l.src[l.lines[line]:at]) + 1}
}

func (l *loader) parse() *yaml.Node {
	d := yaml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(l.src, []byte("\uFEFF"))))
	var first, second yaml.Node
	err := d.Decode(&first)
	switch {
	case errors.Is(err, io.EOF) && l.config != nil:
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	case errors.Is(err, io.EOF):
		l.fail(Pos{1, 1}, "begin with `steps:`", "the file is empty; expected a mapping with `steps`")
		return nil
	case err != nil:
		l.syntaxError(err)
		return nil
	}
	switch err := d.Decode(&second); {
	case err == nil:
		l.failNode(&second, "put the second "+l.what()+" into a file of its own", "a second YAML document; one %s per file", l.what())
	case !errors.Is(err, io.EOF):
		l.syntaxError(err)
	}
	return first.Content[0]
}

// treeCheck walks the nodes once, before anything is decoded or an alias followed.
type treeCheck struct {
	l     *loader
	nodes int
	alias int
	sizes map[*yaml.Node]int // of anchored nodes, all aliases expanded; 0: under way
	inKey int                // how many keys that are no words the walk is inside of
}

// tree reports what is wrong with any node, and is false when a limit is passed and
// nothing may be decoded.
func (c *treeCheck) tree(root *yaml.Node) bool {
	_, ok := c.node(root, 1)
	return ok
}

// node checks n and what it holds, and returns its size with all aliases expanded.
// It is false when a limit is passed and the walk ends.
func (c *treeCheck) node(n *yaml.Node, depth int) (int, bool) {
	c.nodes++
	if limit := c.l.o.scale() * MaxNodes; c.nodes > limit {
		c.l.failNode(n, "split the "+c.l.what(), "more than %d YAML nodes", limit)
		return 0, false
	}
	if depth > MaxDepth {
		c.l.failNode(n, "flatten it", "nested deeper than %d", MaxDepth)
		return 0, false
	}
	c.tag(n)
	if n.Kind == yaml.AliasNode {
		return c.expand(n)
	}
	return c.content(n, depth)
}

func (c *treeCheck) content(n *yaml.Node, depth int) (int, bool) {
	if n.Kind == yaml.MappingNode {
		c.keys(n)
	}
	if n.Kind == yaml.ScalarNode {
		c.scalar(n)
	}
	if n.Anchor != "" {
		c.sizes[n] = 0
	}
	size, ok := c.children(n, depth)
	if !ok {
		return 0, false
	}
	if n.Anchor != "" {
		c.sizes[n] = size
	}
	return size, true
}

// children checks what n holds and returns the size of n.
func (c *treeCheck) children(n *yaml.Node, depth int) (int, bool) {
	size := 1
	for i, child := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind != yaml.ScalarNode
		if key {
			c.inKey++
		}
		s, ok := c.node(child, depth+1)
		if !ok {
			return 0, false
		}
		if key {
			c.inKey--
		}
		size = min(size+s, 2*MaxAliasNodes)
	}
	return size, true
}

func (c *treeCheck) expand(n *yaml.Node) (int, bool) {
	size := c.sizes[n.Alias]
	if size == 0 {
		c.l.failNode(n, "write the value out", "alias *%s stands inside of what it names", n.Value)
		return 0, false
	}
	if c.alias += size; c.alias > MaxAliasNodes {
		c.l.failNode(n, "write the values out", "aliases expand to more than %d nodes", MaxAliasNodes)
		return 0, false
	}
	return size, true
}

func (c *treeCheck) tag(n *yaml.Node) {
	switch n.Tag {
	case "", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!!timestamp", "!!merge", "!":
	default:
		hint := "remove the tag"
		if strings.HasPrefix(n.Tag, "!!") {
			hint = "remove the tag; values are text, numbers, booleans, lists and mappings"
		}
		c.l.failNode(n, hint, "tag %s is not supported", n.Tag)
	}
}

func (c *treeCheck) scalar(n *yaml.Node) {
	if n.Style&yaml.DoubleQuotedStyle == 0 {
		return // only escapes bring what encoding has not seen
	}
	for _, r := range n.Value {
		if r < 0x20 && r != '\n' && r != '\t' && r != '\r' || r == 0x7f {
			c.l.failNode(n, "remove it", "control character %U in a string", r)
			return
		}
	}
}

func (c *treeCheck) keys(n *yaml.Node) {
	if c.inKey > 0 {
		return // of a key that is reported as a whole
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := deref(n.Content[i])
		if key.Kind == yaml.ScalarNode {
			continue
		}
		if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
			c.l.failNode(n, `quote templates: "{{ … }}"`, "`{{` begins a YAML mapping here")
			return
		}
		c.l.failNode(key, "keys are plain words", "%s as a key", describe(key))
	}
}

// deref follows aliases. Only trees that passed treeCheck have none that go round.
func deref(n *yaml.Node) *yaml.Node {
	for i := 0; n.Kind == yaml.AliasNode && i <= MaxDepth; i++ {
		n = n.Alias
	}
	return n
}

// describe names what n is, for "got …".
func describe(n *yaml.Node) string {
	switch n = deref(n); n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool", "!!int", "!!float":
		return fmt.Sprintf("`%s`", shorten(n.Value))
	}
	return fmt.Sprintf("the text %q", shorten(n.Value))
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}
