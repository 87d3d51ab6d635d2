package pipeline

// A stand is when a template is evaluated, seen from the loops of its own step.
type stand byte

const (
	inRound     stand = iota // in a round of an item: all that the step does
	perItem                  // for each item, before its first round
	asCondition              // `if`: before there are items, unless it names one
	beforeItems              // `foreach`
	afterRound               // `until`
)

// each returns the step whose `foreach` makes .item here: that of the step itself, or
// of the nearest group around it.
func (s site) each() *node {
	if s.node == nil {
		return nil
	}
	if s.node.step.Foreach != nil && s.stand != beforeItems {
		return s.node
	}
	return around(s.node, func(nd *node) bool { return nd.step.Foreach != nil })
}

// loop returns the step whose `repeat` makes .iteration and .previous here.
func (s site) loop() *node {
	if s.node == nil {
		return nil
	}
	if s.node.step.Repeat != nil && (s.stand == inRound || s.stand == afterRound) {
		return s.node
	}
	return around(s.node, func(nd *node) bool { return nd.step.Repeat != nil })
}

// beforeRounds says that a template of a step with loops is evaluated outside of them.
func (s site) beforeRounds() bool {
	return s.stand != inRound && (s.node.step.Foreach != nil || s.node.step.Repeat != nil)
}

// around returns the nearest group that holds nd and is what is asked for, or nil.
func around(nd *node, is func(*node) bool) *node {
	for o := nd.in.owner; o != nil; o = o.in.owner {
		if is(o) {
			return o
		}
	}
	return nil
}

// useItem checks `.item…` and `.index`.
func (l *loader) useItem(t Text, u use, s site) {
	nd := s.each()
	switch root := u.path[0]; {
	case s.node == nil:
		l.failText(t, u.offset, "", "`.%s` cannot be used in %s", root, s.what)
		return
	case nd == nil && s.node.step.Foreach != nil:
		l.failText(t, u.offset, "", "`.%s` cannot make the list that it comes from", root)
		return
	case nd == nil:
		l.failText(t, u.offset, "add `foreach: LIST` to the step or to a group around it", "`.%s` belongs to `foreach`, and step `%s` is in none", root, s.node.step.ID)
		return
	}
	if nd == s.node && s.stand == asCondition {
		nd.step.IfEach = true
	}
	l.follow(l.loopValue(u.path[0], s), u.path, 1, l.atText(t, u))
}

// useRound checks `.iteration` and `.previous…`.
func (l *loader) useRound(t Text, u use, s site) {
	nd := s.loop()
	switch root := u.path[0]; {
	case s.node == nil:
		l.failText(t, u.offset, "", "`.%s` cannot be used in %s", root, s.what)
		return
	case nd == nil && s.node.step.Repeat != nil:
		l.failText(t, u.offset, "", "`.%s` cannot be used in %s, which is evaluated before the first round", root, s.what)
		return
	case nd == nil:
		l.failText(t, u.offset, "add `repeat: {until: …}` to the step or to a group around it", "`.%s` belongs to `repeat`, and step `%s` is in none", root, s.node.step.ID)
		return
	case root == "previous":
		s.node.step.Previous = true
	}
	l.follow(l.loopValue(u.path[0], s), u.path, 1, l.atText(t, u))
}

// loopValue is what is known of .item, .index, .iteration or .previous.
func (l *loader) loopValue(name string, s site) shape {
	switch each, loop := s.each(), s.loop(); {
	case name == "item" && each != nil:
		return l.itemOf(each)
	case name != "previous":
		return jsonShape(`{"type":"integer"}`)
	case loop == nil:
		return shape{}
	case loop.inner != nil:
		return shape{scope: loop.inner}
	default:
		return shape{step: loop, layer: layerRound}
	}
}

func (l *loader) atText(t Text, u use) report {
	return func(hint, format string, args ...any) { l.failText(t, u.offset, hint, format, args...) }
}
