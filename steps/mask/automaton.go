package mask

import (
	"slices"
	"sync"
)

// A pattern is a form of the value of a secret.
type pattern struct {
	text string
	name string // of the secret
}

// An automaton finds all patterns in one pass (Aho and Corasick, 1975). Its transitions are
// complete, a table of states by classes of bytes: one look for each byte, whatever that is.
type automaton struct {
	class    [256]uint8 // 0: the byte is in no pattern
	classes  int
	next     []int32 // state*classes + class
	depth    []int32 // by state: the length of the longest beginning of a pattern that the text ends with
	ends     []int32 // by state: 1 + the longest pattern that the text ends with, 0 for none
	patterns []pattern
	shortest int
	longest  int
	skips    *[1 << 16]uint8 // by two bytes: see skip
	finders  sync.Pool
}

// newAutomaton returns nil when there are no patterns. None of them may be empty.
func newAutomaton(patterns []pattern) *automaton {
	if len(patterns) == 0 {
		return nil
	}
	a := &automaton{patterns: patterns, shortest: len(patterns[0].text), classes: 1}
	for _, p := range patterns {
		a.shortest, a.longest = min(a.shortest, len(p.text)), max(a.longest, len(p.text))
		for _, b := range []byte(p.text) {
			if a.class[b] == 0 && a.classes < 256 { // a 256th class would be that of a byte beyond all
				a.class[b] = uint8(a.classes)
				a.classes++
			}
		}
	}
	a.skips = skips(patterns, a.shortest)
	a.finders.New = func() any { return newFinder(a) }
	a.state(0)
	for i, p := range patterns {
		a.insert(i, p.text)
	}
	a.complete()
	return a
}

// state adds a state that has no transitions yet.
func (a *automaton) state(depth int32) int32 {
	a.next = append(a.next, slices.Repeat([]int32{0}, a.classes)...)
	a.depth, a.ends = append(a.depth, depth), append(a.ends, 0)
	return int32(len(a.depth) - 1)
}

// insert adds a pattern to the tree.
func (a *automaton) insert(i int, text string) {
	s := int32(0)
	for _, b := range []byte(text) {
		at := int(s)*a.classes + int(a.class[b])
		if a.next[at] == 0 {
			t := a.state(a.depth[s] + 1)
			a.next[at] = t
		}
		s = a.next[at]
	}
	if a.ends[s] == 0 {
		a.ends[s] = int32(i) + 1
	}
}

// complete turns the tree into the automaton, level by level: where a state has no child it
// goes where its longest proper suffix goes.
func (a *automaton) complete() {
	suffix := make([]int32, len(a.depth))
	queue := []int32{0}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if a.ends[s] == 0 {
			a.ends[s] = a.ends[suffix[s]]
		}
		for c := range a.classes {
			at, back := int(s)*a.classes+c, a.next[int(suffix[s])*a.classes+c]
			t := a.next[at]
			if t == 0 { // no child
				a.next[at] = back
				continue
			}
			if s != 0 {
				suffix[t] = back
			}
			queue = append(queue, t)
		}
	}
}

// A walk goes through a text, piece by piece.
type walk struct {
	state int32
	size  int64 // of the text so far
}

// shallow is how deep a state may be for the walk to begin anew where its pattern would
// begin: to skip what cannot be one is worth reading so much twice.
const shallow = 2

// run goes on with the next piece. It calls found for every place where a pattern ends, with
// the longest that does.
func (w *walk) run(a *automaton, piece []byte, found func(end int64, p *pattern)) {
	s, tried := w.state, -1
	for i := 0; i < len(piece); i++ {
		if begun := i - int(a.depth[s]); begun >= i-shallow && begun > tried {
			i, s = a.skip(piece, begun), 0
			tried = i
		}
		s = a.next[int(s)*a.classes+int(a.class[piece[i]])]
		if p := a.ends[s]; p != 0 {
			found(w.size+int64(i)+1, &a.patterns[p-1])
		}
	}
	w.state, w.size = s, w.size+int64(len(piece))
}

// skips says for two bytes how far they are from the end of the first n bytes of any pattern,
// which is how far a text that has them there may be skipped (Wu and Manber, 1994).
func skips(patterns []pattern, n int) *[1 << 16]uint8 {
	table := new([1 << 16]uint8)
	for i := range table {
		table[i] = uint8(min(n-1, 255))
	}
	for _, p := range patterns {
		for i := range n - 1 {
			at := &table[int(p.text[i])<<8|int(p.text[i+1])]
			*at = min(*at, uint8(min(n-2-i, 255)))
		}
	}
	return table
}

// skip returns the next place at or behind i where a pattern may begin. The last ones of a
// piece always may.
func (a *automaton) skip(piece []byte, i int) int {
	for i+a.shortest <= len(piece) {
		far := a.skips[int(piece[i+a.shortest-2])<<8|int(piece[i+a.shortest-1])]
		if far == 0 {
			return i
		}
		i += int(far)
	}
	return i
}

// Names are those of the secrets in spans, sorted, each once.
func Names(spans []Span) []string {
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
