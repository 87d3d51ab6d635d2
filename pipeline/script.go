package pipeline

import (
	"fmt"
	"strconv"
	"strings"
	"text/template/parse"
)

// A Script is a shell script whose values stand apart from its text: Body refers to
// them as parameters, "${__f1}". Whoever runs it sets each as a shell variable that
// is not exported, before the body.
type Script struct {
	Body   string
	Values []ScriptValue
}

// A ScriptValue is the text of one parameter.
type ScriptValue struct{ Name, Value string }

// scriptValues collects what a script's actions would print. In the text that goes
// on to the shell's parser a marker stands for each.
type scriptValues struct {
	prefix string // of parameter names
	values []string
	places []int // of the actions, in the template
}

func newScriptValues(src string) *scriptValues { return &scriptValues{prefix: parameterPrefix(src)} }

// parameterPrefix is "__f", longer where the script itself has such names.
func parameterPrefix(src string) string {
	prefix := "__f"
	for strings.Contains(src, prefix) {
		prefix = "_" + prefix
	}
	return prefix
}

// add takes a value and returns its marker: a word that has no meaning in a shell.
func (s *scriptValues) add(value string, at int) (string, error) {
	if strings.ContainsRune(value, 0) {
		return "", errNUL
	}
	s.values = append(s.values, value)
	s.places = append(s.places, at)
	return s.marker(len(s.values) - 1), nil
}

func (s *scriptValues) name(i int) string { return s.prefix + strconv.Itoa(i+1) }

func (s *scriptValues) marker(i int) string { return s.name(i) + "_" }

// A marked is a marker found in a text: that of value index, from start to end.
type marked struct{ index, start, end int }

// find returns the markers of a text. No other text has the prefix.
func (s *scriptValues) find(text string) []marked {
	var found []marked
	for at := 0; ; {
		i := strings.Index(text[at:], s.prefix)
		if i < 0 {
			return found
		}
		m := marked{start: at + i, end: at + i + len(s.prefix)}
		for m.end < len(text) && text[m.end] >= '0' && text[m.end] <= '9' {
			m.end++
		}
		n, err := strconv.Atoi(text[m.start+len(s.prefix) : m.end])
		at = m.end
		if err == nil && n >= 1 && n <= len(s.values) && strings.HasPrefix(text[m.end:], "_") {
			m.index, m.end = n-1, m.end+1
			found = append(found, m)
		}
	}
}

// replace puts what with returns in the place of every marker.
func (s *scriptValues) replace(text string, with func(index int) string) string {
	var b strings.Builder
	at := 0
	for _, m := range s.find(text) {
		b.WriteString(text[at:m.start])
		b.WriteString(with(m.index))
		at = m.end
	}
	return b.String() + text[at:]
}

// Script renders a `run`. No value becomes text of the shell: each action is a
// parameter, quoted as its place needs it, and a place where a value could be read
// as more than one text is an error.
func (r *Renderer) Script(t Text, d Data) (Script, error) {
	if literal(t.Src) {
		return Script{Body: t.Src}, nil
	}
	e := execution{mode: modeScript, script: newScriptValues(t.Src)}
	if err := r.run(t, d, &e); err != nil {
		return Script{}, err
	}
	q, err := quoteScript(e.out.String(), e.script)
	if err != nil {
		return Script{}, r.scriptError(t, e.script, err)
	}
	out := Script{Body: q.body}
	for i, v := range e.script.values {
		if q.option[i] && looksLikeOption(v) {
			return Script{}, textError(r.file, t, e.script.places[i], "put `--` before it", fmt.Sprintf("the value %q would be read as an option", shorten(v)))
		}
		out.Values = append(out.Values, ScriptValue{e.script.name(i), v})
	}
	return out, nil
}

func (r *Renderer) scriptError(t Text, s *scriptValues, err *misplaced) error {
	at := lineOffset(t.Src, err.line)
	if err.marker >= 0 {
		at = s.places[err.marker]
	}
	return textError(r.file, t, at, err.hint, err.msg)
}

// looksLikeOption reports whether a command could take a value for an option. A
// dash and a space is how lists are written.
func looksLikeOption(v string) bool {
	return len(v) > 1 && v[0] == '-' && v[1] != ' ' && v[1] != '\n' && v[1] != '\t'
}

// script checks the places of the actions of a script, in every script that its
// `if`, `range` and `with` can leave, as far as those are few. Renderer.Script
// checks the script that is really run.
func (l *loader) script(shell string, p *parsed) {
	if shell != "" && shell != "bash" {
		l.failText(p.text, firstAction(p), `pass the value by env: {NAME: "{{ … }}"} and read the variable in the script`, "templates are not available in a script for %s", shell)
		return
	}
	branches := countBranches(p.tree.Root)
	for _, choose := range variants(min(branches, maxVariantBytes/len(p.wrote)), branches > 0) {
		v := &variant{p: p, values: newScriptValues(p.wrote), choose: choose}
		v.list(p.tree.Root)
		_, err := quoteScript(v.text.String(), v.values)
		switch {
		case err == nil:
		case err.marker >= 0:
			l.failText(p.text, v.values.places[err.marker], err.hint, "%s", err.msg)
		case branches == 0: // with branches, not every combination is meant to be a script
			l.failText(p.text, lineOffset(p.text.Src, err.line), err.hint, "%s", err.msg)
		}
	}
}

func firstAction(p *parsed) int { return max(0, strings.Index(p.text.Src, "{{")) }

func countBranches(list *parse.ListNode) int {
	n := 0
	if list == nil {
		return 0
	}
	for _, x := range list.Nodes {
		if b := branchOf(x); b != nil {
			n += 1 + countBranches(b.List) + countBranches(b.ElseList)
		}
	}
	return n
}

const (
	maxVariants     = 32
	maxVariantBytes = 1 << 20 // of all variants together
)

// variants are choices of branches: all of them taken, none, and each of the first
// few alone not taken.
func variants(few int, branched bool) []func(int) bool {
	all := []func(int) bool{func(int) bool { return true }}
	if !branched {
		return all
	}
	all = append(all, func(int) bool { return false })
	for i := range min(few, maxVariants) {
		all = append(all, func(b int) bool { return b != i })
	}
	return all
}

// A variant is the text of a script with one choice of its branches.
type variant struct {
	p      *parsed
	values *scriptValues
	choose func(int) bool
	branch int
	text   strings.Builder
}

func (v *variant) list(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch x := n.(type) {
		case *parse.TextNode:
			v.text.Write(x.Text)
		case *parse.ActionNode:
			if printsRaw(x) {
				v.text.WriteString("raw") // what it will be is not known; a word fits in most places
			} else if len(x.Pipe.Decl) == 0 {
				marker, _ := v.values.add("", v.p.at(x.Pos)) // the empty text has no NUL
				v.text.WriteString(marker)
			}
		}
		if b := branchOf(n); b != nil {
			v.branchOf(b)
		}
	}
}

func (v *variant) branchOf(b *parse.BranchNode) {
	yes := v.choose(v.branch)
	v.branch++
	if yes {
		v.list(b.List)
		v.branch += countBranches(b.ElseList)
		return
	}
	v.branch += countBranches(b.List)
	v.list(b.ElseList)
}
