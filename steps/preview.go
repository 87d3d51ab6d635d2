package steps

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flow/agents"
	"flow/pipeline"
)

// A Preview says what a run of a plan would do, as far as that is known before it.
// Nothing in it holds a secret: of the environment there are only names.
type Preview struct {
	Name      string            `json:"name"`
	Workspace string            `json:"workspace"`
	Inputs    map[string]any    `json:"inputs"`
	Secrets   []string          `json:"secrets,omitempty"` // names that must be set
	Limit     int               `json:"concurrency,omitempty"`
	Budget    *pipeline.Budget  `json:"budget,omitempty"`
	OnLimit   *pipeline.OnLimit `json:"onLimit,omitempty"` // nil: a usage limit fails the step
	Origin    map[string]string `json:"origin,omitempty"`  // where the settings stand that are not the pipeline's, as file:line:col
	Steps     []*PreviewStep    `json:"steps"`
	Turns     Turns             `json:"agentTurns"`
}

// A PreviewStep is one step of a Preview. Texts are as pipeline.Renderer.Preview shows
// them: ‹.steps.x.text› stands for what only the run will know.
type PreviewStep struct {
	Path  string        `json:"path"`
	Kind  pipeline.Kind `json:"kind"`
	Stage int           `json:"stage"` // steps of one stage, of the same pipeline or group, may run at once
	Needs []string      `json:"needs,omitempty"`

	If      *PreviewCondition `json:"if,omitempty"`
	Foreach *PreviewForeach   `json:"foreach,omitempty"`
	Repeat  *PreviewRepeat    `json:"repeat,omitempty"`
	Choice  string            `json:"choice,omitempty"` // of several Agents: race, vote by FIELD, vote by judge

	Agents   []PreviewAgent `json:"agents,omitempty"` // several for a race or vote, its judge last
	Prompt   string         `json:"prompt,omitempty"`
	Session  string         `json:"session,omitempty"` // whose native session is used: "continue edit"
	Script   string         `json:"script,omitempty"`  // as it was written: its values reach the shell as variables
	Shell    string         `json:"shell,omitempty"`
	Sandbox  string         `json:"sandbox,omitempty"` // of the script, as `flow plan` writes it
	Values   map[string]any `json:"values,omitempty"`  // what the script's templates give, where known; by their source
	Question string         `json:"question,omitempty"`
	Set      []PreviewValue `json:"set,omitempty"`
	With     []PreviewValue `json:"with,omitempty"`
	Pipeline string         `json:"pipeline,omitempty"` // the file that is called
	Merge    []string       `json:"merge,omitempty"`    // steps whose branches are brought together

	Env         []string          `json:"env,omitempty"` // names of the variables that the pipeline and the agent set
	Cwd         string            `json:"cwd"`           // below the workspace
	Isolation   string            `json:"isolation,omitempty"`
	Timeout     pipeline.Duration `json:"timeout,omitempty"` // of one attempt
	IdleTimeout pipeline.Duration `json:"idleTimeout,omitempty"`
	Retry       pipeline.Retry    `json:"retry,omitzero"`
	Check       string            `json:"check,omitempty"`
	CheckMax    int               `json:"checkMax,omitempty"` // further turns that a failing check may take
	Budget      *pipeline.Budget  `json:"budget,omitempty"`
	Cache       bool              `json:"cache,omitempty"`
	Artifacts   []string          `json:"artifacts,omitempty"`
	Tolerated   bool              `json:"continueOnError,omitempty"`
	Turns       Turns             `json:"agentTurns"` // of all items and rounds, without retries and checks
	Steps       []*PreviewStep    `json:"steps,omitempty"`
	Problems    []string          `json:"problems,omitempty"` // why it would fail

	step *pipeline.Step
}

// PreviewCondition is an `if`.
type PreviewCondition struct {
	Expression string `json:"expression"`
	Value      *bool  `json:"value"` // null: not known before the run
}

// PreviewForeach is what a step is done for.
type PreviewForeach struct {
	List        string `json:"list"`
	Count       *int   `json:"count"` // null: not known before the run
	MaxParallel int    `json:"maxParallel,omitempty"`
}

// PreviewRepeat is how often a step is done.
type PreviewRepeat struct {
	Until string `json:"until"`
	Max   int    `json:"max"`
	GoOn  bool   `json:"goOn,omitempty"`
}

// PreviewValue is a name with the preview of its value.
type PreviewValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PreviewConfig is what a preview is made of.
type PreviewConfig struct {
	Plan      *pipeline.Plan
	Adapters  map[string]agents.Adapter // by `use` name
	Inputs    map[string]any            // bound
	Workspace string                    // absolute
}

// NewPreview says what a run would do. It touches nothing and needs no agent to be
// installed. The error says that a template cannot be parsed by this flow.
func NewPreview(c PreviewConfig) (*Preview, error) {
	v := previewer{PreviewConfig: c, plan: c.Plan, inputs: c.Inputs}
	steps, turns, err := v.pipeline("")
	if err != nil {
		return nil, err
	}
	return &Preview{
		Name: c.Plan.Name, Workspace: c.Workspace, Inputs: c.Inputs, Secrets: c.Plan.AllSecrets(),
		Limit: c.Plan.Limit, Budget: c.Plan.Budget, OnLimit: c.Plan.OnLimit, Origin: c.Plan.Origin, Steps: steps, Turns: turns,
	}, nil
}

// A previewer previews one pipeline: that of the run, or one that is called.
type previewer struct {
	PreviewConfig
	plan     *pipeline.Plan
	inputs   map[string]any // those that are known
	renderer *pipeline.Renderer
}

func (v previewer) pipeline(prefix string) ([]*PreviewStep, Turns, error) {
	var err error
	if v.renderer, err = pipeline.NewRenderer(v.plan, pipeline.Funcs{}); err != nil {
		return nil, Turns{}, err
	}
	return v.steps(prefix, v.plan.Steps)
}

func (v previewer) steps(prefix string, steps []pipeline.Step) ([]*PreviewStep, Turns, error) {
	stages := pipeline.Stages(steps)
	all := make([]*PreviewStep, len(steps))
	for i := range steps {
		p, err := v.step(prefix, &steps[i])
		if err != nil {
			return nil, Turns{}, err
		}
		p.Stage = stages[steps[i].ID]
		all[i] = p
	}
	slices.SortStableFunc(all, func(a, b *PreviewStep) int { return a.Stage - b.Stage })
	return all, sumTurns(all), nil
}

func (v previewer) step(prefix string, s *pipeline.Step) (*PreviewStep, error) {
	p := &PreviewStep{
		Path: prefix + s.ID, Kind: s.Kind, Needs: s.Needs, Timeout: s.Timeout, IdleTimeout: s.IdleTimeout, Retry: s.Retry,
		Shell: s.Shell, Budget: s.Budget, Cache: s.Cache != nil, Tolerated: s.ContinueOnError, step: s,
	}
	t := texts{v: v, p: p, data: v.data(s)}
	t.modifiers()
	t.work()
	p.Agents, p.Choice = v.agents(t), p.choice()
	err := v.inner(t)
	p.Turns = p.turns()
	return p, err
}

// inner previews the steps of a group or of a called pipeline.
func (v previewer) inner(t texts) (err error) {
	s, p := t.p.step, t.p
	if s.Call != nil {
		called := v
		called.plan, called.inputs = s.Call.Plan, t.callInputs()
		p.Steps, p.Turns, err = called.pipeline(p.Path + ".")
		return err
	}
	p.Steps, p.Turns, err = v.steps(p.Path+".", s.Steps)
	return err
}

// data is what templates of a step see before the run.
func (v previewer) data(s *pipeline.Step) pipeline.Data {
	d := pipeline.Data{"inputs": v.inputs, "run": map[string]any{"pipeline": v.plan.Name}}
	env := map[string]any{}
	d["env"] = env
	for _, one := range v.variables(s) {
		delete(env, one.Name)
		if value, known, err := v.renderer.Preview(one.Value, d); known && err == nil {
			env[one.Name] = value
		}
	}
	return d
}

// variables are those that the process of a step gets from the pipeline, as in
// Executor.environment.
func (v previewer) variables(s *pipeline.Step) []pipeline.Var {
	return slices.Concat(v.plan.Env, v.plan.Agents[s.Agent].Env, s.Env)
}

// texts previews the templates of one step.
type texts struct {
	v    previewer
	p    *PreviewStep
	data pipeline.Data
}

// text is the preview of a template, "" for none. What cannot be rendered is a problem
// of the step.
func (t texts) text(x *pipeline.Text) string {
	if x == nil {
		return ""
	}
	s, _, err := t.v.renderer.Preview(*x, t.data)
	t.problem(err)
	return s
}

func (t texts) problem(err error) {
	if err != nil {
		t.p.Problems = append(t.p.Problems, err.Error())
	}
}

// modifiers previews what stands around the work of a step.
func (t texts) modifiers() {
	s, p := t.p.step, t.p
	t.condition(s.If)
	if s.Foreach != nil {
		p.Foreach = t.foreach(s.Foreach)
	}
	if r := s.Repeat; r != nil {
		p.Repeat = &PreviewRepeat{Until: r.Until.Expression(), Max: r.Max, GoOn: r.GoOn}
	}
	if p.Cwd = t.text(s.Cwd); p.Cwd == "" {
		p.Cwd = "."
	}
	if s.Isolation != nil {
		p.Isolation = s.Isolation.Mode
	}
	if s.Check != nil {
		p.Check, p.CheckMax = s.Check.Run.Src, s.Check.Max
	}
	for _, a := range s.Artifacts {
		p.Artifacts = append(p.Artifacts, t.text(&a))
	}
	for _, one := range t.v.variables(s) {
		if process := s.Run != nil || len(s.Profiles()) > 0; process && !slices.Contains(p.Env, one.Name) {
			p.Env = append(p.Env, one.Name)
		}
	}
}

func (t texts) condition(x *pipeline.Text) {
	if x == nil {
		return
	}
	c := &PreviewCondition{Expression: x.Expression()}
	t.p.If = c
	value, known, err := t.v.renderer.PreviewValue(*x, t.data)
	t.problem(err)
	if hold, ok := value.(bool); known && ok {
		c.Value = &hold
	}
}

func (t texts) foreach(f *pipeline.Foreach) *PreviewForeach {
	out := &PreviewForeach{List: string(f.Items), MaxParallel: f.MaxParallel}
	if f.List != nil {
		out.List = f.List.Expression()
	}
	items, known, err := t.items(f)
	t.problem(err)
	if n := len(items); known {
		out.Count = &n
	}
	return out
}

// items is the list of a `foreach`, if it is known.
func (t texts) items(f *pipeline.Foreach) (items []any, known bool, err error) {
	if f.List == nil {
		return items, true, json.Unmarshal(f.Items, &items)
	}
	if _, known, err = t.v.renderer.PreviewValue(*f.List, t.data); !known || err != nil {
		return nil, false, err
	}
	items, err = t.v.renderer.List(*f.List, t.data)
	return items, err == nil, err
}

// work previews what the step itself does.
func (t texts) work() {
	s, p := t.p.step, t.p
	p.Prompt, p.Question = t.text(s.Prompt), t.text(s.Ask)
	if s.Run != nil {
		p.Sandbox = sandboxText(s.Sandbox, s.SandboxOptions.Network, s.SandboxOptions.Required)
		p.Script, p.Values = s.Run.Src, t.v.renderer.KnownValues(*s.Run, t.data)
	}
	p.Set = t.values(s.Set)
	if s.Merge != nil {
		p.Merge = s.Merge.From
	}
	if s.Call != nil {
		p.Pipeline, p.With = s.Call.File, t.values(s.Call.With)
	}
	if s.Session.Mode != pipeline.SessionNew {
		p.Session = string(s.Session.Mode) + " " + s.Session.Step
		if s.Session.Step == s.ID {
			p.Session = "continue the round before"
		}
	}
}

func (t texts) values(vars []pipeline.Var) []PreviewValue {
	var out []PreviewValue
	for _, one := range vars {
		out = append(out, PreviewValue{Name: one.Name, Value: t.text(&one.Value)})
	}
	return out
}

// callInputs binds those inputs of a called pipeline that are known already.
func (t texts) callInputs() map[string]any {
	call := t.p.step.Call
	bound := map[string]any{}
	for _, in := range call.Plan.Inputs {
		values := map[string]json.RawMessage{}
		if i := slices.IndexFunc(call.With, func(v pipeline.Var) bool { return v.Name == in.Name }); i >= 0 {
			value, ok := t.known(call.With[i].Value)
			if !ok {
				continue
			}
			values[in.Name] = value
		}
		one := &pipeline.Plan{File: call.Plan.File, Inputs: []pipeline.Input{in}}
		got, err := one.BindInputs(nil, values)
		t.problem(err)
		maps.Copy(bound, got)
	}
	return bound
}

// known is the value of a template as JSON, with its type where it is one action.
func (t texts) known(x pipeline.Text) (json.RawMessage, bool) {
	var value any
	value, known, err := t.v.renderer.Preview(x, t.data)
	if err != nil || !known {
		return nil, false // the preview of `with` has said why
	}
	if strings.Contains(x.Src, "{{") {
		if typed, ok, err := t.v.renderer.PreviewValue(x, t.data); ok && err == nil {
			value = typed
		}
	}
	data, err := json.Marshal(value)
	t.problem(err)
	return data, err == nil
}

// Turns counts turns of agents, those of retries and failing checks apart.
type Turns struct {
	Min int  `json:"min"` // when every condition is false that may be
	Max *int `json:"max"` // null: it depends on what only the run will know
}

// String is "3", "1 to 4" or "2 or more".
func (t Turns) String() string {
	switch {
	case t.Max == nil:
		return fmt.Sprintf("%d or more", t.Min)
	case *t.Max == t.Min:
		return fmt.Sprint(t.Min)
	}
	return fmt.Sprintf("%d to %d", t.Min, *t.Max)
}

func (t Turns) add(u Turns) Turns {
	sum := Turns{Min: t.Min + u.Min}
	if t.Max != nil && u.Max != nil {
		m := *t.Max + *u.Max
		sum.Max = &m
	}
	return sum
}

// times is t done from lo to hi times; no hi is any number of times.
func (t Turns) times(lo int, hi *int) Turns {
	out := Turns{Min: t.Min * lo}
	switch {
	case t.Max != nil && *t.Max == 0:
		out.Max = t.Max
	case t.Max != nil && hi != nil:
		m := *t.Max * *hi
		out.Max = &m
	}
	return out
}

// turns counts those of a step. p.Turns is what the steps in it take.
func (p *PreviewStep) turns() Turns {
	t := p.Turns
	if len(p.Steps) == 0 {
		t = p.ownTurns()
	}
	if p.Repeat != nil {
		t = t.times(1, &p.Repeat.Max)
	}
	if f := p.Foreach; f != nil && f.Count != nil {
		t = t.times(*f.Count, f.Count)
	} else if f != nil {
		t = t.times(0, nil)
	}
	if p.If != nil && (p.If.Value == nil || !*p.If.Value) {
		t.Min = 0
	}
	if p.never() {
		t = Turns{Max: new(int)}
	}
	return t
}

// never says that the condition is known to be false.
func (p *PreviewStep) never() bool { return p.If != nil && p.If.Value != nil && !*p.If.Value }

// ownTurns are those of one round of a step without steps in it.
func (p *PreviewStep) ownTurns() Turns {
	n := len(p.Agents)
	t := Turns{Min: n, Max: &n}
	switch {
	case p.Kind == pipeline.KindMerge && n > 0:
		t = Turns{} // one for each conflict
	case p.Choice == choiceRace:
		t.Min = min(n, 1)
	}
	return t
}

// sumTurns adds up the steps of one scope. One that needs a step that may be skipped
// may be skipped itself.
func sumTurns(all []*PreviewStep) Turns {
	sum := Turns{Max: new(int)}
	doubtful := map[string]bool{}
	for _, p := range all { // in the order of stages: needs come first
		t := p.Turns
		skipped := p.If != nil && (p.If.Value == nil || !*p.If.Value)
		if slices.ContainsFunc(p.Needs, func(id string) bool { return doubtful[id] }) {
			skipped, t.Min = true, 0
		}
		doubtful[p.step.ID] = skipped
		sum = sum.add(t)
	}
	return sum
}
