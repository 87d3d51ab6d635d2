package pipeline

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Causes are the values of `retry.on`: why an attempt failed, in words that all
// agents share.
func Causes() []string {
	return []string{
		"auth", "billing", "rate_limit", "usage_limit", "overloaded", "network", "server", "context", "budget", "max_turns",
		"max_output", "refusal", "schema", "session_not_found", "session_in_use", "model_not_found", "invalid_request", "permission",
		"spawn", "config", "crash", "protocol", "timeout", "cancelled", "incomplete", "exit", "output_limit", "check", "denied",
		"conflict", "unknown",
	}
}

// A scope is the steps of a pipeline or of a group.
type scope struct {
	owner *node // the group, or nil
	steps []*node
	names map[string]*node
}

// A node is a step with what only the checks need to know.
type node struct {
	step   *Step
	path   string
	in     *scope
	inner  *scope // of a group
	index  int    // in its scope
	needs  []named
	links  map[int]bool    // siblings it needs, by index
	refs   map[string]bool // the steps that its templates name; true: not only its list
	target *node           // of its session
	sessAt Pos
	agent  named
	keys   map[string]Pos
	group  groupKeys
	timed  bool
	raws   int   // uses of raw in its scripts
	fixed  bool  // its `if` names no value: it can be evaluated before the run
	never  never // for lint
	ctl    control
}

// groupKeys are what a group hands to its steps.
type groupKeys struct {
	env []Var
	cwd *Text
}

type named struct {
	name string
	pos  Pos
}

// stepList decodes a mapping of steps into scope s.
func (l *loader) stepList(n *yaml.Node, s *scope, depth int) []Step {
	if n.Kind == yaml.SequenceNode {
		l.failNode(n, "write `steps:` with one `id:` per step, not `- `", "`steps` must be a mapping from id to step, got a list")
		return nil
	}
	entries := l.entries(n, "`steps`", l.o.maxSteps())
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		l.failNode(n, "add one: id: {run: …}", "`steps` holds no step")
	}
	l.steps += len(entries)
	if l.files.steps += len(entries); l.files.steps > l.o.maxSteps() {
		l.failNode(n, "split the pipeline, or raise the limit", "more than %d steps", l.o.maxSteps())
		return nil
	}
	steps := make([]Step, len(entries))
	folded := make(map[string]entry, len(entries))
	for i, e := range entries {
		if first, twice := folded[strings.ToLower(e.key)]; twice {
			l.failNode(e.at, "rename one", "step `%s` differs only by case from `%s` on line %d", e.key, first.key, first.at.Line)
		}
		folded[strings.ToLower(e.key)] = e
		l.step(&steps[i], e, s, depth)
	}
	return steps
}

func (l *loader) step(st *Step, e entry, s *scope, depth int) {
	l.id(e.at, "step id")
	nd := &node{step: st, in: s, index: len(s.steps), path: e.key}
	if s.owner != nil {
		nd.path = s.owner.path + "." + e.key
	}
	*st = Step{ID: e.key, Pos: place(e.at)}
	s.steps = append(s.steps, nd)
	s.names[e.key] = nd
	if e.val.Kind == yaml.ScalarNode && e.val.ShortTag() == "!!str" {
		l.failNode(e.val, "write {run: …} or {prompt: …}", "step `%s` must be a mapping, got %s", e.key, describe(e.val))
		return
	}
	entries := l.entries(e.val, "step `"+e.key+"`", MaxKeys)
	if entries == nil && e.val.Kind != yaml.MappingNode {
		return
	}
	l.kind(st, e, entries)
	nd.keys = make(map[string]Pos, len(entries))
	for _, k := range entries {
		nd.keys[k.key] = place(k.at)
		if !l.stepKey(nd, k, depth) {
			l.unknownKey(k.at, inStep, stepKeys())
		}
	}
	l.fits(nd, entries)
	l.settle(nd, entries)
}

// kind finds the one key that says what the step does.
func (l *loader) kind(st *Step, e entry, entries []entry) {
	var kinds []entry
	for _, k := range entries {
		if kindOf(k.key) != "" {
			kinds = append(kinds, k)
		}
	}
	switch {
	case len(kinds) == 1:
		st.Kind = kindOf(kinds[0].key)
	case len(kinds) > 1:
		l.failNode(kinds[1].at, "split it into two steps", "step `%s` has both `%s` and `%s`", e.key, kinds[0].key, kinds[1].key)
	case !slices.ContainsFunc(entries, meantKind):
		l.failNode(e.at, "add one of `"+strings.Join(kindKeys(), "`, `")+"`", "step `%s` does nothing", e.key)
	}
}

// meantKind says that a key is unknown, which is reported, and was meant to say what
// the step does.
func meantKind(k entry) bool {
	switch k.key {
	case "uses", "command", "cmd", "script", "cmds":
		return true
	}
	return suggest(k.key, kindKeys()) != "" && !slices.Contains(stepKeys(), k.key)
}

// kindKeys are the keys that say what a step does.
func kindKeys() []string {
	return []string{"prompt", "prompt-file", "run", "steps", "pipeline", "ask", "merge", "set"}
}

func kindOf(key string) Kind {
	switch {
	case key == "prompt-file":
		return KindPrompt
	case slices.Contains(kindKeys(), key):
		return Kind(key)
	}
	return ""
}

func (l *loader) stepKey(nd *node, k entry, depth int) bool {
	st := nd.step
	switch k.key {
	case "prompt":
		st.Prompt = l.nonEmpty(k.val, "`prompt`")
	case "prompt-file":
		st.Prompt = l.promptFile(k.val)
	case "run":
		st.Run = l.nonEmpty(k.val, "`run`")
	case "shell":
		st.Shell = l.shell(k.val)
	case "steps":
		nd.inner = &scope{owner: nd, names: map[string]*node{}}
		st.Steps = l.stepList(k.val, nd.inner, depth+1)
	case "needs":
		nd.needs = l.needs(k.val)
	case "agent":
		nd.agent = named{l.plain(k.val, "`agent`"), place(k.val)}
	case "output":
		st.Output = l.schema(k.val, "`output`")
	case "session":
		l.session(nd, k.val)
	default:
		return l.controlKey(nd, k) || l.modifier(nd, k)
	}
	return true
}

func (l *loader) modifier(nd *node, k entry) bool {
	st, what := nd.step, "`"+k.key+"`"
	switch k.key {
	case "if":
		st.If = l.nonEmpty(k.val, what)
	case "retry":
		st.Retry = l.retry(k.val, st.Kind)
	case "timeout":
		st.Timeout = l.duration(k.val, what)
		nd.timed = true
	case "idle-timeout":
		st.IdleTimeout = l.duration(k.val, what)
		nd.timed = true
	case "continue-on-error":
		st.ContinueOnError = l.boolean(k.val, what)
	case "cwd":
		st.Cwd = l.cwd(k.val)
	case "env":
		st.Env = l.vars(k.val, what, true)
	case "fail-fast":
		st.FailFast = l.boolean(k.val, what)
	default:
		return l.leafKey(nd, k)
	}
	return true
}

// kindsWith are the kinds of steps that a key is for, nil for all.
func kindsWith(key string) []Kind {
	switch key {
	case "agent":
		return []Kind{KindPrompt, KindMerge}
	case "session", "check", "permissions", "cache":
		return []Kind{KindPrompt}
	case "sandbox":
		return []Kind{KindPrompt, KindRun}
	case "shell":
		return []Kind{KindRun}
	case "output":
		return []Kind{KindPrompt, KindRun, KindAsk}
	case "retry", "idle-timeout":
		return []Kind{KindPrompt, KindRun, KindMerge}
	case "timeout":
		return []Kind{KindPrompt, KindRun, KindAsk, KindMerge}
	case "artifacts":
		return []Kind{KindPrompt, KindRun}
	case "budget":
		return []Kind{KindPrompt, KindGroup, KindCall, KindMerge}
	case "allow-raw":
		return []Kind{KindRun, KindPrompt, KindGroup, KindCall}
	}
	return nil
}

// fits refuses keys that another kind of step has.
func (l *loader) fits(nd *node, entries []entry) {
	for _, k := range entries {
		want := kindsWith(k.key)
		if want == nil || nd.step.Kind == "" || slices.Contains(want, nd.step.Kind) {
			continue
		}
		hint := "it belongs to a `" + string(want[0]) + "` step"
		if nd.step.Kind == KindGroup {
			hint = "set it on the steps of the group"
		}
		if nd.step.Kind == KindCall {
			hint = "set it on the steps of the called pipeline"
		}
		l.failNode(k.at, hint, "`%s` has no meaning for a step with `%s`", k.key, nd.step.Kind)
	}
}

func (l *loader) nonEmpty(n *yaml.Node, what string) *Text {
	t := l.template(n, what)
	if t != nil && strings.TrimSpace(t.Src) == "" {
		l.fail(t.Pos, "", "%s is empty", what)
	}
	return t
}

// cwd is a directory below the workspace, as far as its text tells before the run.
func (l *loader) cwd(n *yaml.Node) *Text {
	t := l.nonEmpty(n, "`cwd`")
	if t != nil && !strings.Contains(t.Src, "{{") && t.Src != "" && !filepath.IsLocal(t.Src) {
		l.fail(t.Pos, "give a path below it, such as `web`", "`cwd` %q is outside of the workspace", shorten(t.Src))
	}
	return t
}

func (l *loader) shell(n *yaml.Node) string {
	s := l.plain(n, "`shell`")
	for _, r := range s {
		if !strings.ContainsRune("/._+-", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			l.failNode(n, "name one program: sh, bash, python3 …", "`shell` %q is not the name of a program", shorten(s))
			return ""
		}
	}
	if s == "sh" {
		return ""
	}
	return s
}

func retryTable() []key {
	return []key{
		{"max", "Further attempts after the first.", number(0, maxAttempts)},
		{"backoff", "The wait before the second attempt; it doubles.", def("duration")},
		{"on", "Causes; default: those that may pass by themselves, a script's exit status, and timeouts.", oneOrMore(choice(Causes()...))},
		{"hint", "The failure goes into the next prompt.", truth()},
	}
}

func (l *loader) retry(n *yaml.Node, kind Kind) Retry {
	if n.Kind == yaml.ScalarNode {
		l.failNode(n, "write retry: {max: "+shorten(n.Value)+"}", "`retry` must be a mapping, got %s", describe(n))
		return Retry{}
	}
	var r Retry
	found := l.fields(n, "`retry`", retryTable(), func(e entry) {
		switch e.key {
		case "max":
			r.Max = l.integer(e.val, "`retry.max`", 0, maxAttempts)
		case "backoff":
			r.Backoff = l.duration(e.val, "`retry.backoff`")
		case "on":
			r.On = l.causes(e.val)
		case "hint":
			r.Hint = l.boolean(e.val, "`retry.hint`")
		}
	})
	if _, ok := found["max"]; !ok && found != nil {
		l.failNode(n, "add max: 2", "`retry` without `max` tries nothing again")
	}
	if at, ok := found["hint"]; ok && kind == KindRun {
		l.fail(at, "remove it", "`retry.hint` has no meaning for a step with `run`: there is no prompt to put the failure into")
	}
	return r
}

func (l *loader) causes(n *yaml.Node) []string {
	var out []string
	for _, item := range l.items(n, "`retry.on`") {
		if c := l.oneOf(item, "`retry.on`", Causes()); c != "" {
			out = append(out, c)
		}
	}
	return out
}

func (l *loader) needs(n *yaml.Node) []named {
	var out []named
	for _, item := range l.items(n, "`needs`") {
		name := l.plain(item, "`needs`")
		if name == "" {
			continue
		}
		if slices.ContainsFunc(out, func(o named) bool { return o.name == name }) {
			l.failNode(item, "", "`%s` stands twice in `needs`", name)
			continue
		}
		out = append(out, named{name, place(item)})
	}
	return out
}

// promptFile reads the template in a file of the pipeline's directory.
func (l *loader) promptFile(n *yaml.Node) *Text {
	path := l.plain(n, "`prompt-file`")
	if path == "" {
		return nil
	}
	data, err := l.readFile(path)
	if err != nil {
		l.failNode(n, "the path is relative to the directory of the pipeline", "`prompt-file` %q %s", shorten(path), reason(err))
		return nil
	}
	switch s := string(data); {
	case !utf8.Valid(data) || strings.ContainsRune(s, 0):
		l.failNode(n, "save it as UTF-8", "`prompt-file` %q is not text", shorten(path))
	case len(data) > MaxTemplateBytes:
		l.failNode(n, "read large texts by {{ file \"…\" }}", "`prompt-file` %q is %d KiB; the limit of a template is %d KiB", shorten(path), len(data)>>10, MaxTemplateBytes>>10)
	case strings.TrimSpace(s) == "":
		l.failNode(n, "", "`prompt-file` %q is empty", shorten(path))
	default:
		return &Text{Src: s, Pos: Pos{1, 1}, File: path}
	}
	return nil
}

var errOutside = errors.New("escapes the directory of the pipeline")

var errNoFiles = errors.New("cannot be read: this pipeline has no directory")

// readFile reads a file at a path relative to the pipeline's directory, which it does
// not leave.
func (l *loader) readFile(path string) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, errOutside
	}
	return l.readAt(filepath.Join(l.dir, path))
}

// readAt reads a file at a path relative to the directory of the first pipeline.
func (l *loader) readAt(path string) ([]byte, error) {
	if l.o.ReadFile == nil {
		return nil, errNoFiles
	}
	return l.o.ReadFile(path)
}
