package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"flow/agents"
	"flow/cmd/flow/internal/rpc"
	"flow/pipeline"
	"flow/state"
	"flow/steps"
)

// discoverAgents is agent/discover.
func (h *host) discoverAgents(*rpc.Call, rpc.None) (rpc.DiscoverResult, error) {
	all, _, err := h.discover()
	if err != nil {
		return rpc.DiscoverResult{}, err
	}
	active, err := h.activeAgent()
	if err != nil {
		return rpc.DiscoverResult{}, err
	}
	r := rpc.DiscoverResult{Available: []rpc.Agent{}, Active: active, Status: "idle"}
	if len(h.chats()) > 0 {
		r.Status = "running"
	}
	known := adapters()
	for _, i := range all {
		if i.Executable == "" { // it is what a profile's command says
			continue
		}
		r.Available = append(r.Available, rpcAgent(i, known[i.Name].Info()))
	}
	return r, nil
}

// rpcAgent is an agent of this machine as programs get it.
func rpcAgent(i installed, info agents.Info) rpc.Agent {
	a := rpc.Agent{
		Type: i.Name, Name: i.Title, Version: deref(i.Version), Installed: i.Path != nil && i.Version != nil, LoggedIn: i.LoggedIn,
		Tools: []string{}, Transports: info.Transports, Problem: i.Problem, Hint: i.Hint,
		Capabilities: rpc.AgentCapabilities{
			Streaming: true, SessionResume: i.Capabilities.Resume, SessionFork: i.Capabilities.Fork, Thinking: true, MCP: true,
			Sandbox: i.Capabilities.NativeSandbox, Schema: i.Capabilities.Schema, Cost: i.Capabilities.Cost,
			Permissions: slices.ContainsFunc(info.Transports, twoWay),
		},
	}
	for _, tool := range toolsOf(info) {
		a.Tools = append(a.Tools, string(tool))
	}
	return a
}

// twoWay reports whether an agent can ask over a transport.
func twoWay(transport string) bool {
	return slices.Contains([]string{"stream-json", "app-server", "acp"}, transport)
}

// toolsOf are the tools of an agent, in names that all share.
func toolsOf(info agents.Info) []agents.Tool {
	if info.Tools != nil {
		return info.Tools
	}
	return []agents.Tool{
		agents.ToolShell, agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile, agents.ToolSearchContent, agents.ToolFindFiles,
		agents.ToolWebFetch, agents.ToolWebSearch, agents.ToolMCP, agents.ToolSubagent, agents.ToolTodo,
	}
}

// activeAgent is the selected agent, else the default of the configurations, else Claude.
func (h *host) activeAgent() (string, error) {
	h.mu.Lock()
	active := h.active
	h.mu.Unlock()
	if active != "" {
		return active, nil
	}
	o, _, err := h.app.options(turnsPath(h.dir))
	if err != nil {
		return "", err
	}
	if name, _ := o.DefaultAgent(); name != "" {
		return name, nil
	}
	return "claude", nil
}

// agentNamed returns the title of an agent, or of one of a configuration, and whether it is
// built in.
func (h *host) agentNamed(name, dir string) (title string, builtin bool, err error) {
	if adapter := adapters()[name]; adapter != nil {
		return adapter.Info().Title, true, nil
	}
	o, _, err := h.app.options(turnsPath(dir))
	if err != nil {
		return "", false, err
	}
	if configured(o, name) {
		return name, false, nil
	}
	return "", false, rpc.InvalidParam("params.type", fmt.Sprintf("%q is no agent", name), "one of "+strings.Join(slices.Sorted(maps.Keys(adapters())), ", ")+", or an agent of .flow.yaml")
}

// configured reports whether a configuration has an agent of that name: a pipeline that uses
// it can be read.
func configured(o pipeline.Options, name string) bool {
	text, err := json.Marshal(map[string]any{"steps": map[string]any{"a": map[string]string{"agent": name, "prompt": "x"}}})
	if err != nil {
		return false
	}
	_, _, err = pipeline.Parse(turnsFile, text, o)
	return err == nil
}

// selectAgent is agent/select.
func (h *host) selectAgent(_ *rpc.Call, p rpc.SelectParams) (rpc.SelectResult, error) {
	title, _, err := h.agentNamed(p.Type, h.dir)
	if err != nil {
		return rpc.SelectResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = p.Type
	return rpc.SelectResult{Status: "selected", Type: p.Type, Name: title}, nil
}

// configureAgent is agent/configure.
func (h *host) configureAgent(_ *rpc.Call, p rpc.ConfigureParams) (rpc.ConfigureResult, error) {
	name, err := h.typeOr(p.Type)
	if err != nil {
		return rpc.ConfigureResult{}, err
	}
	_, builtin, err := h.agentNamed(name, h.dir)
	if err != nil {
		return rpc.ConfigureResult{}, err
	}
	h.mu.Lock()
	set := overlay(h.options[name], p.AgentOptions)
	h.mu.Unlock()
	if err := h.tryOptions(turn{agent: name, builtin: builtin, options: rpc.RunOptions{AgentOptions: set}}); err != nil {
		return rpc.ConfigureResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.options[name] = set
	return rpc.ConfigureResult{Status: "configured", Type: name, Options: set}, nil
}

// tryOptions refuses options with which no turn could begin.
func (h *host) tryOptions(t turn) error {
	source, _, err := addTurn(nil, t)
	if err != nil {
		return err
	}
	_, err = h.readPlan(turnsPath(h.dir), source)
	return err
}

func (h *host) typeOr(name string) (string, error) {
	if name != "" {
		return name, nil
	}
	return h.activeAgent()
}

// overlay is options with those of over in their place.
func overlay(under, over rpc.AgentOptions) rpc.AgentOptions {
	for _, pair := range [][2]*string{
		{&under.Model, &over.Model},
		{&under.Sandbox, &over.Sandbox},
		{&under.Approval, &over.Approval},
		{&under.Effort, &over.Effort},
		{&under.SystemPrompt, &over.SystemPrompt},
		{&under.Transport, &over.Transport},
	} {
		if *pair[1] != "" {
			*pair[0] = *pair[1]
		}
	}
	for _, pair := range [][2]*[]string{
		{&under.AutoApprove, &over.AutoApprove}, {&under.AllowedTools, &over.AllowedTools}, {&under.BlockedTools, &over.BlockedTools},
	} {
		if *pair[1] != nil {
			*pair[0] = *pair[1]
		}
	}
	if over.Permissions != nil {
		under.Permissions = over.Permissions
	}
	if over.MaxTurns != 0 {
		under.MaxTurns = over.MaxTurns
	}
	if over.MaxCostUSD != 0 {
		under.MaxCostUSD = over.MaxCostUSD
	}
	return under
}

// chats are the runs of agent/run that are under way, sorted.
func (h *host) chats() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for id, r := range h.runs {
		if r.chat {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// runAgent is agent/run.
func (h *host) runAgent(c *rpc.Call, p rpc.RunParams) (rpc.Started, error) {
	if strings.TrimSpace(p.Prompt) == "" {
		return rpc.Started{}, rpc.InvalidParam("params.prompt", "is empty", "what the agent is to do")
	}
	if p.Mode == "continue" {
		return h.continueAgent(c, p)
	}
	if p.SessionID != "" || p.Run != "" {
		return rpc.Started{}, rpc.InvalidParam("params.mode", "is not continue, but there is a session or a run", `"mode": "continue" goes on in it`)
	}
	return h.newAgent(c, p)
}

// newAgent begins a run with one turn.
func (h *host) newAgent(c *rpc.Call, p rpc.RunParams) (rpc.Started, error) {
	name, err := h.typeOr(p.Type)
	if err != nil {
		return rpc.Started{}, err
	}
	dir, err := h.directory("params.options.dir", p.Options.Dir)
	if err != nil {
		return rpc.Started{}, err
	}
	t, err := h.turn(name, dir, p.Options)
	if err != nil {
		return rpc.Started{}, err
	}
	source, step, err := addTurn(nil, t)
	if err != nil {
		return rpc.Started{}, err
	}
	plan, err := h.readPlan(turnsPath(dir), source)
	if err != nil {
		return rpc.Started{}, err
	}
	inputs, err := plan.BindInputs(map[string]string{promptInput(1): p.Prompt}, nil)
	if err != nil {
		return rpc.Started{}, err
	}
	e, err := h.record(beginning{plan: plan, source: source, inputs: inputs, workspace: dir, flags: runFlags{simulate: p.Options.Simulate, driveFlags: hostFlags()}})
	if err != nil {
		return rpc.Started{}, err
	}
	if err := h.launch(e, true, e.ready); err != nil {
		return rpc.Started{}, err
	}
	return h.started(c, e, step, 0, p.Following), nil
}

// turn is what agent/run asks for, with what agent/configure has set.
func (h *host) turn(name, dir string, o rpc.RunOptions) (turn, error) {
	_, builtin, err := h.agentNamed(name, dir)
	if err != nil {
		return turn{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o.AgentOptions = overlay(h.options[name], o.AgentOptions)
	return turn{agent: name, builtin: builtin, options: o}, nil
}

// hostFlags are those of a run that nobody sits before.
func hostFlags() driveFlags { return driveFlags{output: "json", quiet: true, noInput: true} }

// directory is the directory that a run works in.
func (h *host) directory(param, dir string) (string, error) {
	if dir == "" {
		return h.dir, nil
	}
	if !filepath.IsAbs(dir) {
		return "", rpc.InvalidParam(param, dir+" is relative", "an absolute path")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", rpc.InvalidParam(param, dir+" is no directory", "a directory on the machine of the server")
	}
	return filepath.Clean(dir), nil
}

// started is the answer about a run that has just begun, or gone on. The client is told of
// it, if it wants that. One that follows too many runs already is not.
func (h *host) started(c *rpc.Call, e *engine, step string, after int64, f rpc.Following) rpc.Started {
	s := rpc.Started{Run: e.run.Header().ID, Step: step, Status: state.StatusRunning, After: after}
	wanted := c.Session.CanNotify()
	if f.Subscribe != nil {
		wanted = wanted && *f.Subscribe
	}
	if wanted {
		s.Subscribed = h.subscribe(c, following{run: s.Run, after: after, runEvents: f.RunEvents}) == nil
	}
	return s
}

// continueAgent adds a turn to a run of agent/run.
func (h *host) continueAgent(c *rpc.Call, p rpc.RunParams) (rpc.Started, error) {
	v, err := h.chatOf(p)
	if err != nil {
		return rpc.Started{}, err
	}
	r, err := h.openRun(v.Header().ID)
	if err != nil {
		return rpc.Started{}, err
	}
	after, err := lastSeq(&r.View)
	if err != nil {
		return rpc.Started{}, errors.Join(err, r.Close())
	}
	e := &engine{app: h.app, run: r, driveFlags: hostFlags()}
	step := ""
	err = h.launch(e, true, func() error {
		return e.reopen(func(values map[string]json.RawMessage) (err error) {
			step, err = h.addTurnTo(e, p, values)
			return err
		})
	})
	if err != nil {
		return rpc.Started{}, err
	}
	s := h.started(c, e, step, after, p.Following)
	s.SessionID = p.SessionID
	return s, nil
}

// addTurnTo changes the plan of a run that goes on.
func (h *host) addTurnTo(e *engine, p rpc.RunParams, values map[string]json.RawMessage) (step string, err error) {
	last := lastTurn(e.plan)
	if last == nil {
		return "", notTurns()
	}
	dir := e.run.Header().Workspace
	profile := e.plan.Agents[last.Agent]
	name := profile.Use
	if p.Type != "" {
		name = p.Type
	}
	t, err := h.turn(name, dir, p.Options)
	if err != nil {
		return "", err
	}
	before, err := frozenSource(&e.run.View)
	if err != nil {
		return "", err
	}
	source, step, err := addTurn(before, t)
	if err != nil {
		return "", err
	}
	plan, err := h.readPlan(turnsPath(dir), source)
	if err != nil {
		return "", err
	}
	prompt := "prompt" + strings.TrimPrefix(step, "turn") + "=" + p.Prompt
	if e.inputs, err = h.rebind(plan, values, []string{prompt}); err != nil {
		return "", err
	}
	e.plan = plan
	// A comparison would find that the inputs have changed, which all turns read from.
	return step, e.recordUpdate(source, []pipeline.Change{{Path: step, Kind: pipeline.Added}})
}

// chatOf finds the run that agent/run is to go on with.
func (h *host) chatOf(p rpc.RunParams) (*state.View, error) {
	switch {
	case p.Run != "":
		return h.view(p.Run)
	case p.SessionID == "":
		return nil, rpc.InvalidParam("params.session_id", "is missing", "the session, or the run, to go on with")
	}
	l, err := h.latestSessions(func(s session) bool { return s.ID == p.SessionID }, 1)
	if err != nil {
		return nil, err
	}
	if len(l.all) == 0 {
		return nil, rpc.NewError(rpc.CodeNotFound, "no_session", fmt.Sprintf("flow knows no session %s", p.SessionID), "flow sessions lists them")
	}
	last := l.all[0].Steps[len(l.all[0].Steps)-1]
	return h.view(last.Run)
}

// lastSeq is the seq of the last event of a run, 0 if there is none.
func lastSeq(v *state.View) (int64, error) {
	line, err := v.LastEvent()
	if line == nil || err != nil {
		return 0, err
	}
	at, err := placeOf(line)
	return at.Seq, err
}

// stopAgent is agent/stop.
func (h *host) stopAgent(_ *rpc.Call, p rpc.StopParams) (rpc.Stopped, error) {
	if p.Run != "" {
		return h.stopRun(p.Run)
	}
	switch all := h.chats(); len(all) {
	case 0:
		return rpc.Stopped{}, rpc.NewError(rpc.CodeNotFound, "idle", "no run of agent/run is under way here", "run/list has the runs")
	case 1:
		return h.stopRun(all[0])
	default:
		return rpc.Stopped{}, rpc.InvalidParam("params.run", "is missing, and several runs are under way", "one of "+strings.Join(all, ", "))
	}
}

// respond is agent/respond.
func (h *host) respond(_ *rpc.Call, p rpc.RespondParams) (rpc.RespondResult, error) {
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.RespondResult{}, err
	}
	q, err := questionNamed(v, p.ID)
	if err != nil {
		return rpc.RespondResult{}, err
	}
	if err := h.putAnswer(v, q, p.Decision, p.Message, p.Answer); err != nil {
		return rpc.RespondResult{}, err
	}
	return rpc.RespondResult{Status: "answered", Run: v.Header().ID, Step: q.Path, Live: v.Summary().Status == state.StatusRunning}, nil
}

// questionNamed finds a question that stands, by the id of a permission or of a request, or
// by the step.
func questionNamed(v *state.View, id string) (steps.Question, error) {
	m, err := machine(v)
	if err != nil {
		return steps.Question{}, err
	}
	open, err := openQuestions(v, m)
	if err != nil {
		return steps.Question{}, err
	}
	var found []steps.Question
	for _, q := range open {
		if q.Permission == nil && q.Path == id || q.Permission != nil && (q.Permission.ID == id || q.Permission.Request == id) {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return steps.Question{}, rpc.NewError(rpc.CodeNotFound, "no_question", fmt.Sprintf("run %s waits for no answer to %q", v.Header().ID, id), "run/show has its questions; this one may have been answered, or taken back by the agent")
	default:
		return steps.Question{}, rpc.InvalidParam("params.id", fmt.Sprintf("%q is asked by several steps", id), "give the request_id")
	}
}

// putAnswer leaves an answer for the run, whoever has it under way.
func (h *host) putAnswer(v *state.View, q steps.Question, decision, message string, answer json.RawMessage) error {
	a := steps.Answer{Approved: decision != agents.EffectDeny, Answer: answer, Reason: message, By: h.user(), At: h.now().UTC().Truncate(time.Millisecond)}
	if !a.Approved && len(answer) > 0 {
		return rpc.InvalidParam("params.answer", "belongs to the decision allow", "leave it out, or allow")
	}
	if err := q.Check(a); err != nil {
		hint := "leave it out"
		if len(q.Form) > 0 {
			hint = "JSON that matches " + string(q.Form)
		}
		return rpc.InvalidParam("params.answer", err.Error(), hint)
	}
	a, err := h.maskedAnswer(v, q, a)
	if err != nil {
		return err
	}
	err = steps.PutAnswer(v, q.Key(), a)
	if errors.Is(err, steps.ErrAnswered) {
		return rpc.NewError(rpc.CodeFailed, "answered", fmt.Sprintf("step %s has an answer already that the run has not taken yet", q.Path), "pipeline/resume goes on with a run that is not under way")
	}
	return err
}
