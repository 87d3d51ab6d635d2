package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A callee is a pipeline file that others call, read once however many do.
type callee struct {
	plan     *Plan // nil: it has mistakes
	mistakes Errors
	steps    int              // its own and those that it calls
	height   int              // how deep its calls go, 1 for none
	size     int              // bytes of its text and of what it froze, with those that it calls
	outputs  map[string]shape // what is known of them
	writes   bool             // its agents may write in the workspace that it is called in
}

// filesRead are the called files, each read once. What they hold is bounded even if
// they have mistakes and nothing is called in the end.
type filesRead struct {
	callees map[string]*callee // by path
	steps   int                // of all files
	size    int                // of all files, in bytes
}

// call decodes `pipeline` and reads the file that it names.
func (l *loader) call(nd *node, n *yaml.Node) {
	path := l.plain(n, "`pipeline`")
	if strings.TrimSpace(path) == "" {
		return
	}
	nd.step.Call = &Call{File: path}
	file := filepath.Join(l.dir, path)
	switch {
	case filepath.IsAbs(path) || !filepath.IsLocal(file):
		l.failNode(n, "the path is relative to this file; the file must be below the directory of "+l.chain[0], "`pipeline` %q %s", shorten(path), errOutside)
		return
	case slices.Contains(l.chain, file):
		l.failNode(n, "use `repeat` for rounds, `foreach` for a list", "pipelines call each other: %s", l.circle(file))
		return
	}
	c := l.files.callees[file]
	if c == nil && len(l.chain) <= MaxCalls {
		c = l.load(n, file, filepath.Join(filepath.Dir(l.file), path))
		l.files.callees[file] = c
	}
	if l.fitsIn(n, c) {
		nd.ctl.callee, nd.step.Call.Plan = c, c.plan
	}
}

// circle names the files that lead from one back to itself.
func (l *loader) circle(file string) string {
	way := l.chain[slices.Index(l.chain, file):]
	return strings.Join(append(slices.Clone(way), file), " → ")
}

// load reads a called pipeline. Its mistakes become those of the caller.
func (l *loader) load(n *yaml.Node, file, name string) *callee {
	if l.files.steps > l.o.maxSteps() || l.files.size > MaxCalledBytes {
		return &callee{height: 1} // reported
	}
	src, err := l.readAt(file)
	l.files.size += len(src)
	switch {
	case err != nil:
		l.failNode(n, "the path is relative to this file", "`pipeline` %q %s", shorten(name), reason(err))
		return &callee{height: 1}
	case len(src) > MaxFileBytes:
		l.failNode(n, "split it", "`pipeline` %q is larger than %d MiB", shorten(name), MaxFileBytes>>20)
		return &callee{height: 1}
	case l.files.size > MaxCalledBytes:
		l.failNode(n, "call fewer files", "the called pipelines are larger than %d MiB", MaxCalledBytes>>20)
		return &callee{height: 1}
	}
	inner := newLoader(name, src, l.o)
	inner.dir, inner.chain, inner.files = filepath.Dir(file), append(slices.Clone(l.chain), file), l.files
	errs := inner.read()
	for i := range errs {
		errs[i].Source = inner.sourceOf(errs[i])
	}
	l.errs = append(l.errs, errs[:min(len(errs), maxErrors-min(maxErrors, len(l.errs)))]...)
	if len(errs) > 0 {
		return &callee{mistakes: errs, height: 1}
	}
	return l.finish(inner)
}

// finish makes a callee of a pipeline without mistakes.
func (l *loader) finish(inner *loader) *callee {
	inner.lint()
	inner.layRest()
	for _, w := range inner.warns {
		w.Source = inner.sourceOf(Error(w))
		l.warns = append(l.warns, w)
	}
	c := &callee{
		plan: inner.plan, steps: inner.steps, height: inner.height + 1, size: inner.size + len(inner.src),
		outputs: map[string]shape{}, writes: inner.writer(inner.root) != nil,
	}
	for _, text := range inner.plan.Files {
		c.size += len(text)
	}
	for _, v := range inner.plan.Outputs {
		// Nothing but JSON leaves a pipeline: its steps are out of reach.
		c.outputs[v.Name] = shape{schema: inner.valueOf(v.Value, site{what: "`outputs`"}).schema}
	}
	return c
}

// sourceOf is the line of an error in a called file. It is never empty: that would mean
// the caller's.
func (l *loader) sourceOf(e Error) string {
	if e.File != l.file {
		return e.Source
	}
	return cmp.Or(e.Source, l.line(e.Pos.Line), " ")
}

// fitsIn counts a call, and reports when the called file is not usable or the limits
// are passed.
func (l *loader) fitsIn(n *yaml.Node, c *callee) bool {
	if c == nil || len(l.chain)+c.height > MaxCalls+1 {
		l.failNode(n, "call it from fewer levels", "pipelines call each other deeper than %d", MaxCalls)
		return false
	}
	if len(c.mistakes) > 0 {
		l.failNode(n, "", "the called pipeline cannot be used: %s at %s", mistakes(len(c.mistakes)), c.mistakes[0].where())
		return false
	}
	l.height = max(l.height, c.height)
	if l.steps += c.steps; l.steps > l.o.maxSteps() {
		l.failNode(n, "split the pipeline, or raise the limit", "more than %d steps, with those of called pipelines", l.o.maxSteps())
		return false
	}
	if l.size += c.size; l.size > MaxCalledBytes {
		l.failNode(n, "read large texts while the pipeline runs", "the called pipelines are larger than %d MiB, with the files that they include", MaxCalledBytes>>20)
		return false
	}
	return c.plan != nil
}

func mistakes(n int) string {
	if n == 1 {
		return "a mistake"
	}
	return fmt.Sprintf("%d mistakes, the first", n)
}

// checkCall gives the called pipeline its inputs.
func (l *loader) checkCall(nd *node) {
	c := nd.ctl.callee
	if c == nil || c.plan == nil {
		return
	}
	given := map[string]bool{}
	var names []string
	for _, in := range c.plan.Inputs {
		names = append(names, in.Name)
	}
	for _, e := range nd.ctl.with {
		i := slices.Index(names, e.key)
		if i < 0 {
			l.failNode(e.at, orList(suggest(e.key, names), "its inputs are ", names), "%s has no input `%s`", c.plan.File, shorten(e.key))
			continue
		}
		given[e.key] = true
		if t := l.argument(nd, e, c.plan.Inputs[i]); t != nil {
			nd.step.Call.With = append(nd.step.Call.With, Var{Name: e.key, Value: *t})
		}
	}
	for _, in := range c.plan.Inputs {
		if in.Required && !given[in.Name] {
			l.fail(nd.keys["pipeline"], "add with: {"+in.Name+": …}", "%s needs the input `%s`", c.plan.File, in.Name)
		}
	}
}

// argument is the value of an input: a template, or a literal that fits.
func (l *loader) argument(nd *node, e entry, in Input) *Text {
	t := l.typedText(e.val, "`"+e.key+"`", in.Type == "string")
	if t == nil {
		return nil
	}
	s := site{node: nd, env: true, what: "`with`"}
	if t.JSON || literal(t.Src) {
		l.fitsInput(e.val, *t, in)
		return t
	}
	before := len(l.errs)
	l.checkText(*t, s)
	if found := l.valueOf(*t, s).unless(in.Type); found != "" && len(l.errs) == before {
		hint := "write one template of the right type"
		switch {
		case in.Type == "string":
			hint = "convert it: toString …"
		case found == "text":
			hint = `write one template and nothing else, such as "{{ .inputs.max }}"; int and fromJson convert text`
		}
		l.fail(t.Pos, hint, "input `%s` is %s, got %s", in.Name, typeWord(in.Type), found)
	}
	return t
}

// fitsInput checks a literal against the input's schema.
func (l *loader) fitsInput(n *yaml.Node, t Text, in Input) {
	value := json.RawMessage(t.Src)
	if !t.JSON {
		value, _ = json.Marshal(t.Src) // text has no error
	}
	if err := in.Validate(value); err != nil {
		l.failNode(n, "", "the value of input `%s` does not fit: %s", in.Name, err)
	}
}
