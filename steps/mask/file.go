package mask

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// lineMax is how long a line of a file may be that is read as JSON, in bytes. What is longer
// is masked as text, piece by piece.
const lineMax = 64 << 20

// Find returns where secrets stand in a file, in order. A line that is a JSON object or list
// is read as one, and every other as text. A secret may be spread over lines: over those of
// text, and over the same member of several objects, as when a program writes it in pieces.
func (m *Masker) Find(r io.Reader) ([]Span, error) {
	a := m.automaton()
	if a == nil {
		return nil, nil
	}
	s := scan{a: a, text: channel{find: newFinder(a)}, members: map[string]*channel{}}
	if err := s.lines(r); err != nil {
		return nil, err
	}
	s.finish(&s.text)
	for _, c := range s.members {
		s.finish(c)
	}
	return union(s.found), nil
}

// Blot overwrites the part of the spans that is in p, which stands at the offset at of the
// file that they are of. Nothing changes its place: a JSON text stays one of the same length,
// and line breaks stay.
func Blot(p []byte, at int64, spans []Span) {
	first, _ := slices.BinarySearchFunc(spans, at, func(s Span, at int64) int { return cmp.Compare(s.End, at) })
	for _, s := range spans[first:] {
		if s.Start >= at+int64(len(p)) {
			return
		}
		for i := max(0, s.Start-at); i < min(int64(len(p)), s.End-at); i++ {
			if p[i] != '\n' && p[i] != '\r' {
				p[i] = '*'
			}
		}
	}
}

// Reader returns a reader of the same file with its secrets overwritten, as Blot does it. r
// begins at the beginning of the file.
func Reader(r io.Reader, spans []Span) io.Reader { return &blotter{r: r, spans: spans} }

type blotter struct {
	r     io.Reader
	spans []Span
	at    int64
}

func (b *blotter) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	Blot(p[:n], b.at, b.spans)
	b.at += int64(n)
	return n, err
}

// A scan reads a file.
type scan struct {
	a       *automaton
	at      int64 // offset of the line
	text    channel
	members map[string]*channel // by path and kind of the object
	recent  []string            // the keys of members, the oldest first
	found   []Span
}

// A channel is a text that is spread over the file.
type channel struct {
	find   *finder
	pieces []piece // those that something may still be found in
}

// A piece of a channel is a part of the file. It does not have the text, which is gone once
// its line was read.
type piece struct {
	from, size int64   // in the channel
	offset     int64   // in the file
	starts     []int32 // as of decoded
}

// lines reads the file.
func (s *scan) lines(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) && isJSON(line) {
			line, err = longLine(in, slices.Clone(line))
		}
		if isJSON(line) && json.Valid(line) {
			s.object(line)
		} else {
			s.feed(&s.text, decoded{plain: line}, s.at)
		}
		s.at += int64(len(line))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("cannot look for secrets: %w", err)
		}
	}
}

// longLine reads the rest of a line, or as much as lineMax of it.
func longLine(in *bufio.Reader, line []byte) ([]byte, error) {
	for len(line) < lineMax {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
	return line, bufio.ErrBufferFull
}

func isJSON(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && (line[0] == '{' || line[0] == '[')
}

// feed goes on with a channel. What stood in the file is kept in mind as long as a secret may
// have begun there.
func (s *scan) feed(c *channel, text decoded, offset int64) {
	c.pieces = append(c.pieces, piece{from: c.find.size, size: int64(len(text.plain)), offset: offset, starts: text.starts})
	c.find.feed(text.plain)
	s.collect(c)
	open := c.find.open()
	c.pieces = slices.DeleteFunc(c.pieces, func(p piece) bool { return p.from+p.size <= open })
}

// finish tells that a channel has ended.
func (s *scan) finish(c *channel) {
	c.find.end()
	s.collect(c)
}

// collect takes what was found in a channel to where it stands in the file.
func (s *scan) collect(c *channel) {
	for _, found := range c.find.take() {
		for _, p := range c.pieces {
			part := Span{max(0, found.Start-p.from), min(p.size, found.End-p.from), found.Name}
			if part.Start < part.End {
				s.found = append(s.found, decoded{starts: p.starts}.origin(part, p.offset))
			}
		}
	}
}

// A member is a text of a JSON object, with the keys that lead to it.
type member struct {
	path string
	token
}

// object reads a line of JSON. Its texts go on with those of the same path in lines of the
// same kind, and its keys stand for themselves.
func (s *scan) object(line []byte) {
	var path pathOf
	var members []member
	var kind strings.Builder
	tokens(line, func(t token) {
		if t.key {
			path.key(string(line[t.start:t.end]))
			s.alone(line, t)
			return
		}
		if path.tells() {
			kind.Write(line[t.start:t.end])
			kind.WriteByte(0)
		}
		members = append(members, member{path.String(), t})
	}, func(start, end int) {
		path.gap(line[start:end])
		for _, found := range s.a.findGap(line, start, end) {
			s.found = append(s.found, shifted(found, s.at))
		}
	})
	for _, m := range members {
		s.feed(s.channel(kind.String()+m.path), decode(line[m.start:m.end]), s.at+int64(m.start))
	}
}

func shifted(s Span, by int64) Span {
	s.Start, s.End = s.Start+by, s.End+by
	return s
}

// alone reads a token that goes on with no other.
func (s *scan) alone(line []byte, t token) {
	text := decode(line[t.start:t.end])
	for _, found := range s.a.find(text.plain) {
		s.found = append(s.found, text.origin(found, s.at+int64(t.start)))
	}
}

// channelsMax is how many members of objects are followed at a time.
const channelsMax = 128

// channel returns that of a member, a new one in place of the oldest if there are too many.
func (s *scan) channel(key string) *channel {
	if c := s.members[key]; c != nil {
		return c
	}
	c := &channel{}
	if len(s.recent) == channelsMax {
		oldest := s.recent[0]
		s.recent = s.recent[1:]
		c = s.members[oldest]
		s.finish(c)
		c.find.reset()
		c.pieces = nil
		delete(s.members, oldest)
	} else {
		c.find = newFinder(s.a)
	}
	s.members[key], s.recent = c, append(s.recent, key)
	return c
}

// A pathOf follows the keys that lead to a place in a JSON document.
type pathOf struct {
	around []string
	last   string
}

// gap takes in what stands between two texts.
func (p *pathOf) gap(text []byte) {
	for _, c := range text {
		switch c {
		case '{', '[':
			p.around = append(p.around, p.last)
			p.last = ""
		case '}', ']':
			if n := len(p.around); n > 0 {
				p.last, p.around = p.around[n-1], p.around[:n-1]
			}
		}
	}
}

func (p *pathOf) key(name string) { p.last = name }

func (p *pathOf) String() string { return strings.Join(p.around, "\x00") + "\x00" + p.last }

// tells reports whether the text at this place tells which of several texts an object has a
// part of: its own kind, or whose it is.
func (p *pathOf) tells() bool {
	switch p.last {
	case "type", "method", "sessionUpdate", "itemId", "toolCallId", "item_id", "messageId", "parent_tool_use_id":
		return true
	}
	return false
}
