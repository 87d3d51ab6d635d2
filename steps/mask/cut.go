package mask

import (
	"bytes"
	"strings"
)

// partMin is how much of a form of a secret counts as a part of it, in bytes, where the rest
// was cut off or is yet to come.
const partMin = MinLength

// cutMark is what flow and its adapters put where they cut a text.
const cutMark = "…"

// cut returns where secrets begin that a mark cut off, and where those end that one at the
// beginning of the text did.
func (a *automaton) cut(text []byte) (spans []Span) {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(cutMark))
		if i < 0 {
			return spans
		}
		at += i
		if s, ok := a.beginning(text[:at]); ok {
			spans = append(spans, s)
		}
		at += len(cutMark)
		if i == 0 && at == len(cutMark) {
			if s, ok := a.ending(text[at:]); ok {
				spans = append(spans, shifted(s, int64(at)))
			}
		}
	}
}

// beginning returns where the secret begins that a text ends within.
func (a *automaton) beginning(text []byte) (Span, bool) {
	from := max(0, len(text)-a.longest)
	state := int32(0)
	for _, b := range text[from:] {
		state = a.next[int(state)*a.classes+int(a.class[b])]
	}
	if a.depth[state] < partMin {
		return Span{}, false
	}
	begun := text[len(text)-int(a.depth[state]):]
	for _, p := range a.patterns {
		if strings.HasPrefix(p.text, string(begun)) {
			return Span{int64(len(text) - len(begun)), int64(len(text)), p.name}, true
		}
	}
	return Span{}, false
}

// ending returns where the secret ends that a text begins within.
func (a *automaton) ending(text []byte) (Span, bool) {
	longest := Span{}
	for _, p := range a.patterns {
		for n := min(len(text), len(p.text)-1); n >= partMin && int64(n) > longest.End; n-- {
			if strings.HasSuffix(p.text, string(text[:n])) {
				longest = Span{0, int64(n), p.name}
			}
		}
	}
	return longest, longest.End > 0
}

// Part is Text for what was cut out of a longer text: it may begin and end within a secret.
func (m *Masker) Part(text string) string {
	a := m.automaton()
	if a == nil {
		return text
	}
	spans := a.find([]byte(text))
	if s, ok := a.beginning([]byte(text)); ok {
		spans = append(spans, s)
	}
	if s, ok := a.ending([]byte(text)); ok {
		spans = append(spans, s)
	}
	return string(Replace([]byte(text), union(spans)))
}

// Lines masks lines of a text that come one at a time: a secret may be spread over them.
// Nothing is held back: what a line ends with is masked as soon as partMin bytes of a secret
// are known, whatever comes.
type Lines struct{ find *finder }

// Lines returns such lines, nil when there is nothing to mask.
func (m *Masker) Lines() *Lines {
	a := m.automaton()
	if a == nil {
		return nil
	}
	return &Lines{newFinder(a)}
}

// Next returns the next line, masked. Neither has its line break.
func (l *Lines) Next(line string) string {
	f := l.find
	base := f.size
	f.feed([]byte(line))
	end := f.size
	f.feed([]byte("\n"))
	spans := f.take()
	if f.depth() >= partMin {
		spans = append(spans, Span{Start: f.open(), End: end})
	}
	var own []Span
	for _, s := range union(spans) {
		if s.Start, s.End = max(s.Start, base)-base, min(s.End, end)-base; s.Start < s.End {
			own = append(own, s)
		}
	}
	return string(Replace([]byte(line), own))
}

// depth is how many bytes of a form of a secret the text ends with.
func (f *finder) depth() int32 { return max(f.a.depth[f.raw.state], f.a.depth[f.plain.state]) }
