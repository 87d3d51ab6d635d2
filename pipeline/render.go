package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// Data is what a template sees: inputs, secrets, env, run and steps by their names.
// Values are what DecodeJSON returns, texts, numbers and booleans. A Renderer does
// not change it.
type Data map[string]any

// Funcs are the template functions that only a run can provide.
type Funcs struct {
	// File returns the text of a file of the project, for a computed path.
	File func(path string) (string, error)
	// Transcript returns what the agent of a step said and did. What the data of a
	// rendering has under TranscriptKey goes before it.
	Transcript func(step string) (string, error)
}

// NeedState says how the steps that a step waited for have ended, for the functions
// of a condition.
type NeedState struct {
	Failed    bool // one of them failed and was not tolerated
	Cancelled bool // the run or one of them was cancelled
}

// A Renderer renders the templates of one plan. It may be used concurrently.
type Renderer struct {
	file    string
	parser  map[string]any // function names, for the parser
	base    *template.Template
	outputs []Var
	shown   map[string]bool // the steps that they name
	// ready holds the templates of the plan; others are parsed when they are asked for.
	ready map[mode]map[string]*executable
}

type mode byte

const (
	modeText mode = iota
	modeCondition
	modeScript
	modeValue // one value with its type
	modeList  // a `foreach`
)

// parser reads the templates of a mode.
func (m mode) parser() parser {
	switch m {
	case modeCondition:
		return parseCondition
	case modeList:
		return parseList
	default:
		return parseText
	}
}

// An executable is a template made ready for one mode.
type executable struct {
	p      *parsed
	t      *template.Template
	single bool // it is one action: its value has a type
}

// NewRenderer parses the templates of a plan, which may have been read back from
// its JSON, once. The error is an Errors when they do not parse.
func NewRenderer(p *Plan, f Funcs) (*Renderer, error) {
	functions := functionMap()
	maps.Copy(functions, map[string]any{"file": frozen(p.Files, f.File), hiddenOut: emit, hiddenTick: tick})
	functions["transcript"] = transcriptFunction(f.Transcript)
	for _, name := range stateFunctions() {
		functions[name] = stateFunction(name)
	}
	r := &Renderer{
		file: p.File, parser: knownFunctions(), outputs: p.Outputs, ready: map[mode]map[string]*executable{},
		base: template.New("").Option("missingkey=error").Funcs(functions),
	}
	for _, name := range append(stateFunctions(), rawFunction) {
		r.parser[name] = true // Load has refused it where it has no meaning
	}
	r.shown = stepsNamed(p.Outputs, r.parser)
	var errs Errors
	eachTemplate(p, func(t Text, m mode) {
		if e, ok := errors.AsType[Error](r.add(t, m)); ok {
			errs = append(errs, e)
		}
	})
	if errs = sorted(errs); len(errs) > 0 {
		return nil, errs
	}
	return r, nil
}

// frozen is `file`: what the plan has frozen comes first.
func frozen(files map[string]string, read func(string) (string, error)) func(string) (string, error) {
	return func(path string) (string, error) {
		if s, ok := files[path]; ok {
			return s, nil
		}
		if read == nil {
			return "", fmt.Errorf("file %q cannot be read here", shorten(path))
		}
		s, err := read(path)
		if err != nil {
			return "", err
		}
		return checkLen(s)
	}
}

// eachTemplate calls f for every template of the plan, as it will be rendered.
func eachTemplate(p *Plan, f func(Text, mode)) {
	vars := func(vs []Var, m mode) {
		for _, v := range vs {
			f(v.Value, m)
		}
	}
	vars(p.Env, modeText)
	vars(p.Outputs, modeValue)
	for _, a := range p.Agents {
		vars(a.Env, modeText)
	}
	for _, n := range p.Notify {
		f(n.Run, modeScript)
	}
	one := func(t *Text, m mode) {
		if t != nil {
			f(*t, m)
		}
	}
	p.Walk(func(_ string, s *Step) {
		controlTemplates(s, f)
		one(s.Prompt, modeText)
		one(s.Cwd, modeText)
		one(s.If, modeCondition)
		one(s.Run, modeScript)
		vars(s.Env, modeText)
		leafTemplates(s, f)
	})
}

func (r *Renderer) add(t Text, m mode) error {
	if m != modeCondition && m != modeList && literal(t.Src) || r.ready[m][t.Src] != nil {
		return nil
	}
	x, err := r.prepare(t, m)
	if err != nil {
		return err
	}
	if r.ready[m] == nil {
		r.ready[m] = map[string]*executable{}
	}
	r.ready[m][t.Src] = x
	return nil
}

// prepare parses a template and puts the calls into it that bound and collect what
// it renders.
func (r *Renderer) prepare(t Text, m mode) (*executable, error) {
	p, err := m.parser()(t, r.parser)
	if err != nil {
		return nil, r.named(err)
	}
	x := &executable{p: p, single: onlyAction(p.tree) != nil && len(p.tree.Root.Nodes) == 1}
	instrument(p)
	x.t, err = r.base.New("").AddParseTree("t", p.tree)
	return x, err
}

// named gives an error about a template the pipeline's file.
func (r *Renderer) named(err error) error {
	if e, ok := errors.AsType[Error](err); ok && e.File == "" {
		e.File = r.file
		return e
	}
	return err
}

func (r *Renderer) find(t Text, m mode) (*executable, error) {
	if x := r.ready[m][t.Src]; x != nil {
		return x, nil
	}
	return r.prepare(t, m)
}

// Text renders a template. An error is an Error with the place inside the YAML.
func (r *Renderer) Text(t Text, d Data) (string, error) {
	if literal(t.Src) {
		return t.Src, nil
	}
	e := execution{mode: modeText}
	if err := r.run(t, d, &e); err != nil {
		return "", err
	}
	return e.out.String(), nil
}

// Condition evaluates an `if` or `until`. Anything but a boolean is an error.
func (r *Renderer) Condition(t Text, d Data, needs NeedState) (bool, error) {
	e := execution{mode: modeCondition, needs: needs}
	if err := r.run(t, d, &e); err != nil {
		return false, err
	}
	if v, ok := e.value.(bool); ok {
		return v, nil
	}
	what := kindName(e.value)
	if s, ok := e.value.(string); ok {
		what = fmt.Sprintf("the text %q", shorten(s))
	}
	return false, textError(r.file, t, 0, "compare it: eq … \"…\", gt … 0, not (empty …)", "the condition is "+what+", not true or false")
}

// stepsNamed are the steps that templates name, each by a literal.
func stepsNamed(vars []Var, functions map[string]any) map[string]bool {
	steps := map[string]bool{}
	for _, v := range vars {
		if v.Value.JSON || literal(v.Value.Src) {
			continue
		}
		p, err := parseText(v.Value, functions)
		if err != nil {
			continue // NewRenderer reports it
		}
		for _, u := range readUses(p).uses {
			if len(u.path) > 1 && u.path[0] == "steps" {
				steps[u.path[1]] = true
			}
		}
	}
	return steps
}

// OutputNames reports whether an output of the pipeline names the step: Outputs does
// without the others.
func (r *Renderer) OutputNames(step string) bool { return r.shown[step] }

// Outputs renders the outputs of the pipeline. A template that is one action keeps
// the type of its value; any other is text.
func (r *Renderer) Outputs(d Data) (map[string]any, error) {
	out := make(map[string]any, len(r.outputs))
	var errs Errors
	for _, v := range r.outputs {
		value, err := r.Value(v.Value, d)
		if err != nil {
			e, ok := errors.AsType[Error](err)
			if !ok {
				return nil, err
			}
			errs = append(errs, e)
		}
		out[v.Name] = value
	}
	if len(errs) > 0 {
		return nil, sorted(errs)
	}
	return out, nil
}

// Value renders a template of `outputs`, `set` or `with`: one that is one action keeps
// the type of its value, any other is text. A literal is the value that it was written
// as. An error is an Error with the place inside the YAML.
func (r *Renderer) Value(t Text, d Data) (any, error) {
	if t.JSON {
		return DecodeJSON([]byte(t.Src))
	}
	if literal(t.Src) {
		return t.Src, nil
	}
	x, err := r.find(t, modeValue)
	if err != nil {
		return nil, err
	}
	e := execution{mode: modeText}
	if x.single {
		e.mode = modeValue
	}
	if err := r.execute(x, t, d, &e); err != nil {
		return nil, err
	}
	if !x.single {
		return e.out.String(), nil
	}
	if err := measure(e.value); err != nil {
		return nil, textError(r.file, t, 0, "", err.Error())
	}
	return e.value, nil
}

func (r *Renderer) run(t Text, d Data, e *execution) error {
	x, err := r.find(t, e.mode)
	if err != nil {
		return err
	}
	return r.execute(x, t, d, e)
}

func (r *Renderer) execute(x *executable, t Text, d Data, e *execution) error {
	// The state goes with the data: functions are shared by all renderings.
	data := make(Data, len(d)+1)
	maps.Copy(data, d)
	data[hiddenState] = e
	if err := x.t.Execute(&e.out, data); err != nil {
		return r.explain(x, t, err)
	}
	return nil
}

// explain turns an error of text/template into one with a place.
func (r *Renderer) explain(x *executable, t Text, err error) error {
	p := &parsed{text: t, wrote: x.p.wrote, shift: x.p.shift}
	m := failedAt.FindStringSubmatch(err.Error())
	if m == nil {
		return r.named(p.err(parse.Pos(p.shift), "", err.Error()))
	}
	line, _ := strconv.Atoi(m[1])
	col, _ := strconv.Atoi(m[2])
	msg := m[3]
	if exec, ok := errors.AsType[template.ExecError](err); ok {
		if cause := errors.Unwrap(exec.Err); cause != nil {
			msg = cause.Error() // what a function returned, without text/template's own words
		}
	}
	msg = goTypes().Replace(msg)
	hint := ""
	if k := missingKey.FindStringSubmatch(msg); k != nil {
		msg, hint = "there is no value `"+k[1]+"`", "when it may be missing: get DICT \""+k[1]+"\", hasKey, or dig"
	}
	return r.named(p.err(parse.Pos(lineOffset(p.wrote, line)+col), hint, msg))
}

// goTypes calls the values of templates what users call them.
func goTypes() *strings.Replacer {
	return strings.NewReplacer("map[string]interface {}", "object", "[]interface {}", "list", "float64", "number", "int64", "integer")
}

// What text/template writes when it fails. They are never written to.
var (
	failedAt   = regexp.MustCompile(`(?s)^template: t:(\d+):(\d+): executing "t" at <.*?>: (.*)$`)
	missingKey = regexp.MustCompile(`^map has no entry for key "(.*)"$`)
)

// An execution is the state of one rendering.
type execution struct {
	mode   mode
	needs  NeedState
	out    limited
	ticks  int
	value  any // of a condition or output
	script *scriptValues
}

var errOutput = fmt.Errorf("the result is longer than %d MiB", MaxRenderedBytes>>20)

// limited is a buffer that takes MaxRenderedBytes.
type limited struct{ strings.Builder }

func (w *limited) Write(p []byte) (int, error) {
	if w.Len()+len(p) > MaxRenderedBytes {
		return 0, errOutput
	}
	return w.Builder.Write(p)
}

// WriteString is Write without a copy on the way.
func (w *limited) WriteString(s string) (int, error) {
	if w.Len()+len(s) > MaxRenderedBytes {
		return 0, errOutput
	}
	return w.Builder.WriteString(s)
}
