package policy

import "strings"

// onlyEdits reports whether all scripts of a sed change and print lines and no more: its
// other commands run programs and read and write files. The first argument that is no
// option is a script, unless -e gives one.
func (c command) onlyEdits() bool {
	given := false
	for i, w := range c.arguments() {
		text, long := strings.CutPrefix(w.text, "--expression=")
		script := long || c.words[i].text == "-e" || c.words[i].text == "--expression" || !given && !strings.HasPrefix(text, "-")
		switch {
		case script:
			if given = true; !w.static || !(&sedScript{text}).harmless() {
				return false
			}
		case text == "-e":
			given = true
		case strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") && strings.Contains(text, "e"):
			return false // with the script joined to it
		}
	}
	return true
}

// A sedScript is what remains to be read of one.
type sedScript struct{ rest string }

func (s *sedScript) harmless() bool {
	for {
		s.skip(" \t\n;")
		if s.rest == "" {
			return true
		}
		if !s.address() || s.rest == "" || !s.command() {
			return false
		}
	}
}

// skip passes over characters of set.
func (s *sedScript) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

// take takes the next character, 0 at the end.
func (s *sedScript) take() (c byte) {
	if s.rest != "" {
		c, s.rest = s.rest[0], s.rest[1:]
	}
	return c
}

// address passes over what says which lines a command is for.
func (s *sedScript) address() bool {
	s.skip("0123456789$,+~! \t")
	for strings.HasPrefix(s.rest, "/") {
		s.take()
		if !s.field('/') {
			return false
		}
		s.skip("0123456789$,+~!IM \t")
	}
	return true
}

// field passes over a text and the delimiter behind it.
func (s *sedScript) field(delimiter byte) bool {
	for i := 0; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case delimiter:
			s.rest = s.rest[i+1:]
			return true
		}
	}
	return false
}

// command passes over one command, and reports whether it is one that only edits.
func (s *sedScript) command() bool {
	switch c := s.take(); c {
	case 'p', 'P', 'd', 'D', 'q', 'Q', '=', 'n', 'N', 'g', 'G', 'h', 'H', 'x', 'l', 'z', '{', '}':
		return true
	case 's', 'y':
		delimiter := s.take()
		if delimiter == 0 || delimiter == '\\' || !s.field(delimiter) || !s.field(delimiter) {
			return false
		}
		if c == 's' {
			s.skip("gpiIM0123456789")
		}
		return s.rest == "" || strings.ContainsAny(s.rest[:1], " \t\n;}")
	case 'b', 't', ':':
		s.until("\n;}")
		return true
	case 'a', 'i', 'c':
		s.until("\n")
		return true
	}
	return false
}

func (s *sedScript) until(set string) {
	if i := strings.IndexAny(s.rest, set); i >= 0 {
		s.rest = s.rest[i:]
	} else {
		s.rest = ""
	}
}
