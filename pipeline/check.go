package pipeline

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
)

// assigned finds `$x = …`. It is never written to.
var assigned = regexp.MustCompile(`(\$\w+)\s*=[^=]`)

// A checker checks templates against the names of the pipeline.
type checker struct {
	functions  map[string]any
	conditions map[string]any // those of `if`
	scripts    map[string]any // those of `run`, `check` and their like
	types      map[string]reflect.Type
}

func newChecker() *checker {
	c := &checker{functions: knownFunctions(), types: map[string]reflect.Type{}}
	c.scripts = maps.Clone(c.functions)
	for _, f := range scriptFunctions() {
		c.scripts[f.Name] = f.call
	}
	for name, f := range c.scripts {
		if t := reflect.TypeOf(f); t.Kind() == reflect.Func {
			c.types[name] = t
		}
	}
	c.conditions = maps.Clone(c.functions)
	for _, name := range stateFunctions() {
		c.conditions[name] = true
	}
	return c
}

// A site is where a template stands: which values it may name there, and where
// mistakes in it are reported.
type site struct {
	node    *node // nil outside of steps
	secrets bool  // .secrets may be named
	env     bool  // .env may be named
	stand   stand
	what    string
}

// checkText checks one template that is not a condition. It returns nil for a text
// without templates and for one that does not parse.
func (l *loader) checkText(t Text, s site) *reader {
	if literal(t.Src) {
		return nil
	}
	return l.checkTemplate(t, s, parseText, l.tmpl.functions)
}

// maxUnknown is how many unknown functions of one template are looked for: each
// takes another parse.
const maxUnknown = 20

func (l *loader) checkTemplate(t Text, s site, parse parser, functions map[string]any) *reader {
	p, err := parse(t, functions)
	for range maxUnknown {
		unknown, ok := errors.AsType[*unknownFunction](err)
		if !ok {
			break
		}
		l.failTemplate(unknown.mistake)
		functions = maps.Clone(functions)
		functions[unknown.name] = true // to find what else is wrong
		p, err = parse(t, functions)
	}
	if err != nil {
		l.failTemplate(err)
		return nil
	}
	l.arguments(p)
	r := readUses(p)
	for _, u := range r.uses {
		l.use(p.text, u, s)
	}
	for _, u := range r.transcripts {
		l.transcript(p.text, u, s)
	}
	for _, u := range r.files {
		l.freeze(p.text, u)
	}
	return r
}

// failTemplate adds the mistakes of a template that cannot be parsed.
func (l *loader) failTemplate(err error) {
	if len(l.errs) >= maxErrors {
		return
	}
	var e Error
	if !errors.As(err, &e) {
		e = Error{Msg: err.Error()}
	}
	if e.File == "" {
		e.File = l.file
	}
	l.errs = append(l.errs, e)
}

// arguments checks how many each function is given; text/template would notice
// only while it renders.
func (l *loader) arguments(p *parsed) {
	eachPipe(p.tree.Root, func(x *parse.PipeNode) {
		for i, c := range x.Cmds {
			id, ok := c.Args[0].(*parse.IdentifierNode)
			if !ok || l.tmpl.types[id.Ident] == nil {
				continue
			}
			given, t := len(c.Args)-1, l.tmpl.types[id.Ident]
			if i > 0 {
				given++
			}
			if want := t.NumIn(); !t.IsVariadic() && given != want || t.IsVariadic() && given < want-1 {
				l.failText(p.text, p.at(id.Pos), "usage: "+signature(id.Ident), "`%s` is given %d arguments", id.Ident, given)
			}
		}
	})
}

func signature(name string) string {
	for _, f := range Functions() {
		if f.Name == name {
			return f.Signature
		}
	}
	return name
}

// eachPipe calls f for every pipeline of a tree, those in parentheses too.
func eachPipe(list *parse.ListNode, f func(*parse.PipeNode)) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok {
			eachSubPipe(a.Pipe, f)
		}
		if b := branchOf(n); b != nil {
			eachSubPipe(b.Pipe, f)
			eachPipe(b.List, f)
			eachPipe(b.ElseList, f)
		}
	}
}

func eachSubPipe(n parse.Node, f func(*parse.PipeNode)) {
	switch x := n.(type) {
	case *parse.PipeNode:
		f(x)
		for _, c := range x.Cmds {
			for _, a := range c.Args {
				eachSubPipe(a, f)
			}
		}
	case *parse.ChainNode:
		eachSubPipe(x.Node, f)
	}
}

// use checks one value that a template names.
func (l *loader) use(t Text, u use, s site) {
	if len(u.path) == 0 {
		l.failText(t, u.offset, "name the value: .inputs.x, .steps.x.text", "the whole data (`.` or `$`) cannot be used as a value")
		return
	}
	switch root := u.path[0]; root {
	case "inputs":
		l.useInput(t, u)
	case "secrets":
		l.useSecret(t, u, s)
	case "env":
		l.useEnv(t, u, s)
	case "run":
		l.member(t, u, 1, "`.run`", []string{"id", "dir", "started", "pipeline"})
	case "steps":
		l.useStep(t, u, s)
	case "item", "index":
		l.useItem(t, u, s)
	case "iteration", "previous":
		l.useRound(t, u, s)
	default:
		roots := []string{"inputs", "secrets", "env", "run", "steps", "item", "index", "iteration", "previous"}
		hint := cmp.Or(foreignValue(root), orList(suggest(root, roots), "a template sees .", []string{strings.Join(roots, " .")}))
		l.failText(t, u.offset, hint, "`.%s` is unknown", root)
	}
}

// member checks that a path has, at index i, one of names. It is false when not.
func (l *loader) member(t Text, u use, i int, of string, names []string) bool {
	if len(u.path) <= i || slices.Contains(names, u.path[i]) {
		return true
	}
	l.failText(t, u.offset, orList(suggest(u.path[i], names), "it has ", names), "%s has no `%s`", of, u.path[i])
	return false
}

func (l *loader) useInput(t Text, u use) {
	if len(u.path) == 1 {
		for _, in := range l.plan.Inputs {
			l.mark("inputs", in.Name)
		}
		return
	}
	i := slices.IndexFunc(l.plan.Inputs, func(in Input) bool { return in.Name == u.path[1] })
	if i < 0 {
		names := slices.Sorted(maps.Keys(l.places["inputs"]))
		hint := orList(suggest(u.path[1], names), "the inputs are ", names)
		if hint == "" {
			hint = "declare it: inputs: {" + u.path[1] + ": {type: string}}"
		}
		l.failText(t, u.offset, hint, "there is no input `%s`", u.path[1])
		return
	}
	l.mark("inputs", u.path[1])
	l.follow(shape{schema: l.plan.Inputs[i].Schema}, u.path, 2, l.atText(t, u))
}

func (l *loader) mark(kind, name string) {
	if l.used[kind] == nil {
		l.used[kind] = map[string]bool{}
	}
	l.used[kind][name] = true
}

func (l *loader) useSecret(t Text, u use, s site) {
	switch {
	case !s.secrets:
		l.failText(t, u.offset, `pass it by env: {TOKEN: "{{ .secrets.NAME }}"} and read "$TOKEN"`, "`.secrets` may be used in `env` only, not in %s", s.what)
	case len(u.path) == 1:
		l.failText(t, u.offset, "name one: .secrets.NAME", "`.secrets` cannot be used as a whole")
	case !slices.Contains(l.plan.Secrets, u.path[1]):
		hint := orList(suggest(u.path[1], l.plan.Secrets), "the secrets are ", l.plan.Secrets)
		if hint == "" {
			hint = "declare it: secrets: [" + u.path[1] + "]"
		}
		l.failText(t, u.offset, hint, "there is no secret `%s`", u.path[1])
	default:
		l.mark("secrets", u.path[1])
	}
}

// useEnv checks `.env.NAME`: the variables of the pipeline and of the step itself.
func (l *loader) useEnv(t Text, u use, s site) {
	if !s.env {
		l.failText(t, u.offset, "use .inputs, or write the value again", "`.env` cannot be used in %s", s.what)
		return
	}
	names, secret := l.envNames(s)
	if len(u.path) > 1 && !l.member(t, u, 1, "`.env`", names) {
		return
	}
	for _, name := range names {
		if (len(u.path) == 1 || u.path[1] == name) && secret[name] && !s.secrets {
			l.failText(t, u.offset, `a process reads it as "$`+name+`"`, "`.env.%s` holds a secret and may be used in `env` only, not in %s", name, s.what)
			return
		}
	}
}

// envNames lists the variables that s sees, and which of them hold a secret or may:
// a step's variable that is made from another one counts as secret when any of the
// pipeline's is.
func (l *loader) envNames(s site) (names []string, secret map[string]bool) {
	secret = map[string]bool{}
	inherited := false
	for _, v := range l.plan.Env {
		names = append(names, v.Name)
		secret[v.Name] = mentions(v.Value, "secrets")
		inherited = inherited || secret[v.Name]
	}
	if s.node == nil || s.secrets {
		return names, secret
	}
	for _, v := range s.node.step.Env {
		if s.beforeRounds() && ofRound(v.Value) {
			continue // it has no value yet
		}
		names = append(names, v.Name)
		secret[v.Name] = mentions(v.Value, "secrets") || inherited && mentions(v.Value, "env")
	}
	return names, secret
}

// ofRound says that a text may name what only a round of an item has.
func ofRound(t Text) bool {
	return mentions(t, "item") || mentions(t, "index") || t.NamesRound()
}

// NamesRound says that a text may name what only a round of a `repeat` has.
func (t Text) NamesRound() bool { return mentions(t, "iteration") || mentions(t, "previous") }

func mentions(t Text, word string) bool { return !literal(t.Src) && strings.Contains(t.Src, word) }

// transcript makes the step that `transcript "x"` names a need.
func (l *loader) transcript(t Text, u use, s site) {
	switch {
	case s.node == nil:
		l.failText(t, u.offset, "", "`transcript` cannot be used in %s", s.what)
	case u.path == nil:
		l.failText(t, u.offset, `write transcript "STEP"`, "`transcript` wants the literal name of a step")
	default:
		complain := func(hint, format string, args ...any) { l.failText(t, u.offset, hint, format, args...) }
		switch target := l.reference(u.path[0], s, complain); {
		case target == nil:
		case target.step.Kind != KindPrompt:
			complain("name a step with `prompt`", "step `%s` has no transcript", target.step.ID)
		case target.step.Foreach != nil:
			complain("hand over the texts: {{ range .steps."+target.step.ID+".items }}{{ .text }}{{ end }}", "every item of `%s` has a transcript of its own", target.step.ID)
		}
	}
}

// freeze reads the file that `file "x"` names into the plan.
func (l *loader) freeze(t Text, u use) {
	name := u.path[0]
	if _, done := l.plan.Files[name]; done {
		return
	}
	data, err := l.readFile(name)
	switch {
	case err != nil:
		l.failText(t, u.offset, "for what a step writes use .steps.ID.stdout of `run: cat FILE`", "file %q %s", shorten(name), reason(err))
		return
	case len(data) > MaxFrozenBytes:
		l.failText(t, u.offset, "", "file %q is larger than %d KiB", shorten(name), MaxFrozenBytes>>10)
		return
	case !validText(data):
		l.failText(t, u.offset, "", "file %q is not UTF-8 text", shorten(name))
		return
	}
	if l.plan.Files == nil {
		l.plan.Files = map[string]string{}
	}
	l.plan.Files[name] = string(data)
}
