package steps

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"flow/agents"
	"flow/agents/policy"
	"flow/pipeline"
)

var errPolicy = errors.New("a tool call broke the rules")

// rules puts the rules that the plan has for a step into a request.
func rules(r *agents.Request, p *pipeline.Plan, s *pipeline.Step) {
	permissions := p.PermissionsOf(s)
	if permissions == nil {
		return
	}
	r.RuleDefault, r.Protected = permissions.Default, slices.Clone(permissions.Protect)
	for _, rule := range permissions.Rules {
		r.Rules = append(r.Rules, agents.Rule{
			Effect: rule.Effect, Tool: rule.Tool, Pattern: rule.Pattern,
			Where: fmt.Sprintf("%s:%d:%d", cmp.Or(rule.File, p.File), rule.Pos.Line, rule.Pos.Col),
		})
	}
}

// pipelineFiles are the paths of a plan's own file, in the workspace of the run and in
// that of a step: an agent that writes it writes what runs next.
func (x *Executor) pipelineFiles(p *pipeline.Plan, workspace string) []string {
	file := p.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(x.Workspace, file)
	}
	files := []string{file}
	if rel, err := filepath.Rel(x.Workspace, file); err == nil && filepath.IsLocal(rel) && workspace != x.Workspace {
		files = append(files, filepath.Join(workspace, rel))
	}
	return files
}

// A guard judges the tool calls of one process of an agent by the rules of its request,
// whatever the agent makes of these itself. What is to be asked is denied, unless a person
// has permitted it. It is for one goroutine.
type guard struct {
	request  agents.Request
	policy   *policy.Policy
	enforcer agents.Enforcer            // nil: the agent keeps no rules by itself
	held     bool                       // its commands are in a sandbox
	pending  map[string]policy.Decision // calls that the agent is to refuse, by tool id
	broken   *policy.Decision           // the first that broke the rules
	open     map[string]sighting        // calls that nobody has ruled on, by tool id
	permits  map[string]bool            // whether calls that were ruled on were permitted, by tool id
	waits    map[string]bool            // calls that wait for a ruling, by tool id
}

// A sighting is a call that an agent makes, and what the rules say of it.
type sighting struct {
	call     policy.Call
	decision policy.Decision
}

// newGuard returns the guard of a process that r started. home is what ~ stands for.
func newGuard(adapter agents.Adapter, r agents.Request, home string) *guard {
	own := make([]agents.Rule, len(r.Rules))
	for i, rule := range r.Rules {
		if rest, ok := strings.CutPrefix(rule.Pattern, "~/"); ok && home != "" && rule.Tool != "shell" {
			rule.Pattern = filepath.Join(home, rest)
		}
		own[i] = rule
	}
	g := &guard{
		request: r, policy: policy.New(own, r.RuleDefault, r.Dir, r.Protected...),
		pending: map[string]policy.Decision{}, open: map[string]sighting{}, permits: map[string]bool{}, waits: map[string]bool{},
	}
	g.enforcer, _ = adapter.(agents.Enforcer)
	g.held = r.Confined || adapter != nil && adapter.Info().Capabilities.NativeSandbox && r.Sandbox != agents.SandboxOff
	return g
}

// sees takes in an event. It returns the decision that ends the process, or nil.
func (g *guard) sees(e agents.Event) *policy.Decision {
	if g.policy.Empty() || g.broken != nil {
		if b, ok := e.Body.(agents.ToolStarted); ok {
			g.open[b.ToolID] = sighting{call: policy.CallOf(b)}
		}
		return nil
	}
	switch b := e.Body.(type) {
	case agents.PermissionRequested:
		g.waits[b.ToolID] = true
	case agents.ToolStarted:
		if g.permits[b.ToolID] {
			break
		}
		call := policy.CallOf(b)
		d := g.judge(call)
		call.Risk = d.Risk
		g.open[b.ToolID] = sighting{call, d}
		switch {
		case d.Effect != policy.Deny && d.Effect != policy.Ask:
		case g.enforcer != nil && g.enforcer.Enforces(g.request, d.Rule):
			g.pending[b.ToolID] = d
		default:
			g.broken = &d
		}
	case agents.ToolProgress:
		g.ran(b.ToolID)
	case agents.ToolCompleted:
		short := e.Native == nil // no result, for the agent ended before: what it was to refuse, it had not made
		if b.Declined || short {
			delete(g.pending, b.ToolID)
		}
		if short && g.waits[b.ToolID] {
			delete(g.open, b.ToolID)
		}
		g.ran(b.ToolID)
	}
	return g.broken
}

// ruled takes in a ruling on a call.
func (g *guard) ruled(r ruling) {
	delete(g.open, r.tool)
	delete(g.waits, r.tool)
	if r.tool != "" { // not every request says which call it is about
		g.permits[r.tool] = r.allow
	}
	if r.allow {
		delete(g.pending, r.tool)
	}
}

// unasked rules on a call that has been made or refused without flow being asked. It is
// false for one that was ruled on; that may have been before the agent told that it begins.
func (g *guard) unasked(e agents.Event, b agents.ToolCompleted) (ruling, bool) {
	s, ok := g.open[b.ToolID]
	_, ruled := g.permits[b.ToolID]
	delete(g.permits, b.ToolID) // the ruling was on this call, and not on another of the same id
	if !ok || ruled && (b.Declined || e.Native == nil) {
		return ruling{}, false
	}
	delete(g.open, b.ToolID)
	if g.policy.Empty() {
		return ruling{}, false
	}
	out := ruling{call: s.call, tool: b.ToolID, by: decider(s.decision), rule: s.decision.Rule, message: oneLine(s.decision.Why)}
	switch forbidden := s.decision.Effect == policy.Deny || s.decision.Effect == policy.Ask; {
	case forbidden && g.broken == nil && e.Native == nil:
		out.message += ": the agent ended before it made the call"
	case b.Declined && !forbidden:
		out.by, out.rule, out.message = byAgent, nil, "the agent refused it by itself"
	case b.Declined:
		out.message += ": the agent refused it"
	case forbidden:
		out.message += ": the agent made the call all the same, and was ended"
	default:
		out.allow = true
	}
	return out, true
}

// announced notes the call of a request, unless the agent has told of the call itself.
func (g *guard) announced(r agents.PermissionRequested) {
	if _, known := g.open[r.ToolID]; !known {
		call := callOf(r)
		d := g.judge(call)
		call.Risk = d.Risk
		g.open[r.ToolID] = sighting{call, d}
	}
}

// reported rules on a call as the agent says that was decided, by itself or by its own
// means. It is false for a call that is not known or was ruled on.
func (g *guard) reported(b agents.PermissionDecided) (ruling, bool) {
	s, ok := g.open[b.ToolID]
	if !ok {
		return ruling{}, false
	}
	out := ruling{call: s.call, request: b.RequestID, tool: b.ToolID, allow: b.Decision == agents.EffectAllow, by: b.By, message: oneLine(b.Message)}
	if e := s.decision.Effect; !out.allow && s.decision.Rule != nil && (e == policy.Deny || e == policy.Ask) {
		out.by, out.rule = byPolicy, s.decision.Rule
	}
	g.ruled(out)
	return out, true
}

// ran takes in that a call was made, also if it should have been refused.
func (g *guard) ran(id string) {
	if d, ok := g.pending[id]; ok {
		g.broken = &d
	}
}

// judge judges a call by what it names and, where that is a file, by where symbolic
// links lead.
func (g *guard) judge(c policy.Call) policy.Decision { return g.linked(c, g.policy.Judge) }

// decide decides on a call that the agent asks about: as judge does, and where no rule
// speaks of it by the approval mode.
func (g *guard) decide(c policy.Call) policy.Decision {
	return g.linked(c, func(c policy.Call) policy.Decision { return g.policy.Decide(c, g.request.Approval, g.held) })
}

// linked judges a call by what it names and by where that leads.
func (g *guard) linked(c policy.Call, judge func(policy.Call) policy.Decision) policy.Decision {
	d := judge(c)
	switch c.Tool {
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile, agents.ToolSearchContent, agents.ToolFindFiles:
	default:
		return d
	}
	for _, file := range policy.Files(c) {
		led, ok := realPath(g.request.Dir, file)
		if !ok {
			continue
		}
		at := policy.Call{Tool: c.Tool, Target: led, Arguments: append(agents.AppendString([]byte(`{"path":`), led), '}')}
		if there := judge(at); there.Harder(d) {
			d = there
			d.Why += ", where " + file + " leads"
		}
	}
	return d
}

// realPath is where a path in dir leads, if that is elsewhere: the part of it that
// exists is followed, and made relative to dir where it stays inside.
func realPath(dir, path string) (string, bool) {
	if path == "" {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	rest := ""
	for exists := path; ; exists = filepath.Dir(exists) {
		if led, err := filepath.EvalSymlinks(exists); err == nil {
			path, rest = filepath.Join(led, rest), path
			break
		}
		if exists == filepath.Dir(exists) {
			return "", false
		}
		rest = filepath.Join(filepath.Base(exists), rest)
	}
	if top, err := filepath.EvalSymlinks(dir); err == nil {
		if rel, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(rel) {
			path = filepath.Join(dir, rel)
		}
	}
	return path, path != rest
}

// verdict is the outcome of the process in view of what it did: one that broke the rules
// has failed, whatever it says.
func (g *guard) verdict(out agents.Outcome, agent string) agents.Outcome {
	if g.broken == nil {
		return out
	}
	out.Reason, out.Problem = agents.Failed, &agents.Problem{
		Agent: agent, Cause: agents.CausePermission, Message: violation(*g.broken, g.request.RuleDefault),
		Hint: "allow it under `permissions`, or tell the agent in its prompt to do without",
	}
	return out
}

// brokeRules reports whether a verdict made the outcome.
func brokeRules(out agents.Outcome) bool {
	return out.Reason == agents.Failed && out.Problem != nil && out.Problem.Cause == agents.CausePermission
}

// violation says what broke which rule.
func violation(d policy.Decision, byDefault string) string {
	what := oneLine(d.Why)
	switch {
	case d.Rule != nil && d.Effect == policy.Ask:
		return fmt.Sprintf("%s: the rule %s wants a person to be asked, and nobody is there", what, policy.Text(*d.Rule))
	case d.Rule != nil:
		return fmt.Sprintf("%s: the rule %s forbids it", what, policy.Text(*d.Rule))
	case d.Effect == policy.Ask && byDefault != string(policy.Ask):
		return what + ": a person is to be asked, and nobody is there"
	}
	return fmt.Sprintf("%s: no rule allows it, and the default is %s", what, byDefault)
}

// oneLine is the beginning of a text that an agent wrote, on one line.
func oneLine(s string) string { return head(strings.Join(strings.Fields(s), " "), 300) }
