package simulate

import (
	"slices"
	"strings"
)

// arity is how many values an option takes.
type arity int

const (
	none arity = iota
	one
	maybe // one, unless an option follows
	many  // one or more, up to the next option
)

// An option is one flag of a CLI.
type option struct {
	names   string // "--model -m", the first is the key in parsed
	takes   arity
	choices string // "a b c"; "" is any value
	usage   string // as the CLI spells it in messages: "--model <model>"
}

func (o option) key() string { return strings.Fields(o.names)[0] }

// A grammar is the options of a CLI and its way to say what is wrong with them.
type grammar struct {
	options []option
	// dashes says that a required value may begin with a dash.
	dashes bool
	// command says that the first word ends the options: the rest is a command's.
	command bool

	unknown  func(arg string) error
	lacking  func(o option) error               // an option without its value
	invalid  func(o option, value string) error // a value that is no choice
	repeated func(o option) error               // an option given twice; nil allows it
}

// parsed is a command line: the values of each option, and the words that belong
// to none.
type parsed struct {
	values map[string][]string
	words  []string
}

func (p parsed) has(key string) bool { return len(p.values[key]) > 0 }

// last is the value that counts when an option is repeated, or "".
func (p parsed) last(key string) string {
	if v := p.values[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// list is all values, cut at commas.
func (p parsed) list(key string) []string {
	return strings.FieldsFunc(strings.Join(p.values[key], ","), func(r rune) bool { return r == ',' })
}

// parse reads arguments.
func (g grammar) parse(args []string) (parsed, error) {
	out := parsed{values: map[string][]string{}}
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			out.words = append(out.words, args[1:]...)
			return out, nil
		case !isOption(arg) && g.command:
			out.words = args
			return out, nil
		case !isOption(arg):
			out.words, args = append(out.words, arg), args[1:]
			continue
		}
		rest, err := g.take(out, args)
		if err != nil {
			return parsed{}, err
		}
		args = rest
	}
	return out, nil
}

func isOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// take reads the option at the head of args with its values.
func (g grammar) take(out parsed, args []string) ([]string, error) {
	name, inline, hasInline := cutOption(args[0])
	i := slices.IndexFunc(g.options, func(o option) bool { return slices.Contains(strings.Fields(o.names), name) })
	if i < 0 {
		return nil, g.unknown(args[0])
	}
	o := g.options[i]
	if g.repeated != nil && o.takes != many && out.has(o.key()) {
		if err := g.repeated(o); err != nil {
			return nil, err
		}
	}
	var values []string
	rest := args[1:]
	switch {
	case hasInline && o.takes != none:
		values = []string{inline}
	case hasInline:
		return nil, g.unknown(args[0])
	default:
		values, rest = g.operands(o, rest)
		if values == nil {
			return nil, g.lacking(o)
		}
	}
	for _, v := range values {
		if o.choices != "" && !slices.Contains(strings.Fields(o.choices), v) {
			return nil, g.invalid(o, v)
		}
	}
	out.values[o.key()] = append(out.values[o.key()], values...)
	return rest, nil
}

// operands takes the values of o from the head of args; nil says there are none
// where one is needed.
func (g grammar) operands(o option, args []string) (values, rest []string) {
	free := func() bool { return len(args) > 0 && !isOption(args[0]) }
	switch o.takes {
	case none:
		return []string{"true"}, args
	case one:
		if len(args) > 0 && (g.dashes || free()) {
			return args[:1], args[1:]
		}
		return nil, args
	case maybe:
		if free() {
			return args[:1], args[1:]
		}
		return []string{""}, args
	default:
		for free() {
			values, args = append(values, args[0]), args[1:]
		}
		return values, args
	}
}

// cutOption splits --name=value and -nVALUE.
func cutOption(arg string) (name, value string, ok bool) {
	if strings.HasPrefix(arg, "--") {
		return strings.Cut(arg, "=")
	}
	if len(arg) > 2 {
		return arg[:2], strings.TrimPrefix(arg[2:], "="), true
	}
	return arg, "", false
}
