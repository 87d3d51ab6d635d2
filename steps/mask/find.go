package mask

import (
	"cmp"
	"slices"
)

// A Span is where a secret stands, in bytes.
type Span struct {
	Start, End int64
	Name       string // of the secret
}

// A finder finds secrets in a text that comes in pieces.
type finder struct {
	a     *automaton
	size  int64  // of the text so far
	raw   walk   // through the text as it is
	plain view   // of the text without escapes
	rest  []byte // what ends the text and cannot be read plainly yet
	found []Span // in no order
}

// A view is a walk through a text that is not the one whose bytes count.
type view struct {
	walk
	runs []run // the latest, as many as a match may reach back
}

// A run is a part of a view that stands in the text as it is, or an escape.
type run struct {
	from, at int64 // where it begins in the view, and in the text
	escape   bool
}

func newFinder(a *automaton) *finder { return &finder{a: a} }

// reset makes f one for another text.
func (f *finder) reset() {
	*f = finder{a: f.a, plain: view{runs: f.plain.runs[:0]}, rest: f.rest[:0], found: f.found[:0]}
}

// feed goes on with the next piece of the text.
func (f *finder) feed(piece []byte) {
	at := f.size - int64(len(f.rest))
	f.literal(piece)
	if len(f.rest) > 0 {
		piece = append(f.rest, piece...)
	}
	f.rest = append(f.rest[:0], f.undone(piece, at, false)...)
}

// literal goes on with the text as it is.
func (f *finder) literal(piece []byte) {
	f.raw.run(f.a, piece, func(end int64, p *pattern) {
		f.found = append(f.found, Span{end - int64(len(p.text)), end, p.name})
	})
	f.size += int64(len(piece))
}

// undone goes on with the text without its escapes; text begins at at. It returns what of it
// cannot be read yet.
func (f *finder) undone(text []byte, at int64, final bool) (rest []byte) {
	for i := 0; i < len(text); {
		from := i
		for i < len(text) && !special[text[i]] {
			i++
		}
		if i > from {
			f.visible(text[from:i], run{at: at + int64(from)}, 0)
		}
		if i == len(text) {
			return nil
		}
		b, n, size := undo(text[i:], final)
		if size == 0 {
			return text[i:]
		}
		i += size
		if n > 0 {
			f.visible(b[:n], run{at: at + int64(i-size), escape: true}, at+int64(i))
		}
	}
	return nil
}

// visible goes on with a run of the view; an escape ends at escaped in the text.
func (f *finder) visible(piece []byte, r run, escaped int64) {
	v := &f.plain
	r.from = v.size
	if len(v.runs) == cap(v.runs) { // before it grows
		v.forget(v.size - int64(f.a.longest))
	}
	v.runs = append(v.runs, r)
	v.run(f.a, piece, func(end int64, p *pattern) {
		s := Span{v.origin(end - int64(len(p.text))), r.at + end - r.from, p.name}
		if r.escape {
			s.End = escaped
		}
		f.found = append(f.found, s)
	})
}

// origin is where the text has what begins at a place of the view.
func (v *view) origin(at int64) int64 {
	i := len(v.runs) - 1
	for i > 0 && v.runs[i].from > at {
		i--
	}
	if v.runs[i].escape {
		return v.runs[i].at
	}
	return v.runs[i].at + at - v.runs[i].from
}

// forget gives up the runs that end before a place of the view.
func (v *view) forget(before int64) {
	done := 0
	for done+1 < len(v.runs) && v.runs[done+1].from <= before {
		done++
	}
	v.runs = append(v.runs[:0], v.runs[done:]...)
}

// special are the bytes of escapes.
var special = func() (t [256]bool) { //nolint:gochecknoglobals // a table
	for _, b := range []byte(escapes) {
		t[b] = true
	}
	return t
}()

// end tells that the text has ended.
func (f *finder) end() {
	f.undone(f.rest, f.size-int64(len(f.rest)), true)
	f.rest = f.rest[:0]
}

// open is the place in the text before which nothing more can be found.
func (f *finder) open() int64 {
	open := f.size - max(int64(f.a.depth[f.raw.state]), int64(len(f.rest)))
	if depth := int64(f.a.depth[f.plain.state]); depth > 0 {
		open = min(open, f.plain.origin(f.plain.size-depth))
	}
	return open
}

// take returns what was found since the last time, in order and without overlaps.
func (f *finder) take() []Span {
	found := union(f.found)
	f.found = f.found[:0]
	return found
}

// union sorts spans, in place, and joins those that overlap. The result is a copy.
func union(spans []Span) (all []Span) {
	slices.SortFunc(spans, func(x, y Span) int { return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End)) })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.Start < all[last].End {
			all[last].End = max(all[last].End, s.End)
			continue
		}
		all = append(all, s)
	}
	return all
}

// find returns where the secrets of a whole text stand.
func (a *automaton) find(text []byte) []Span {
	if len(text) < a.shortest {
		return a.cut(text)
	}
	f := a.finders.Get().(*finder)
	defer a.finders.Put(f)
	f.reset()
	f.literal(text)
	if hasEscapes(text) {
		f.undone(text, 0, true)
	}
	f.found = append(f.found, a.cut(text)...)
	return f.take()
}
