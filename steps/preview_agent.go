package steps

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"flow/agents"
	"flow/agents/policy"
	"flow/pipeline"
)

// A PreviewAgent is how an agent would be started for a step.
type PreviewAgent struct {
	Profile string `json:"profile"`
	Use     string `json:"use"`
	Judge   bool   `json:"judge,omitempty"` // it decides between the others
	Model   string `json:"model,omitempty"` // "": the agent's choice
	// Transport is the protocol that flow speaks with it; "" when it has one without a name.
	Transport string   `json:"transport,omitempty"`
	Command   []string `json:"command"`       // the prompt goes to its standard input
	Env       []string `json:"env,omitempty"` // names of the variables that the agent itself is given
	// Sandbox and Approval are what holds, given or by default.
	Sandbox  string        `json:"sandbox"`
	Network  string        `json:"network,omitempty"`  // on or off, where it is said
	Required bool          `json:"required,omitempty"` // nothing starts where the sandbox cannot be enforced
	Approval string        `json:"approval,omitempty"` // "": edits of files pass within the sandbox
	Fallback []string      `json:"fallback,omitempty"`
	Rules    []PreviewRule `json:"rules,omitempty"`
	MaxTurns int           `json:"maxTurns,omitempty"`
	MaxCost  float64       `json:"maxCostUsd,omitempty"`
	Problem  string        `json:"problem,omitempty"` // why the agent refuses
	// Origin says where the settings stand that are not the pipeline's, as file:line:col.
	Origin map[string]string `json:"origin,omitempty"`
}

// A PreviewRule is one rule on tools, and who keeps it.
type PreviewRule struct {
	Rule  string `json:"rule"`            // "deny shell(rm *)", "default deny" or "protected files"
	Where string `json:"where,omitempty"` // file:line:col
	// Kept is `enforced` where the agent itself refuses a call before it runs,
	// `sandboxed` where the call comes to nothing, and `detected` where flow sees the
	// call and ends the agent.
	Kept agents.Enforcement `json:"kept"`
	Why  string             `json:"why,omitempty"`
}

const choiceRace = "race"

// What stands in a command line for what only the run will know.
const (
	previewScratch = "/‹attempt›"
	previewHome    = "/‹run›/agents"
)

// agents previews every agent that a step may start.
func (v previewer) agents(t texts) []PreviewAgent {
	p := t.p
	var all []PreviewAgent
	for _, s := range agentSteps(p.step) {
		judge, prompt := p.step.Contest != nil && s == p.step.Contest.Judge, p.Prompt
		if judge {
			prompt = "‹the answers›"
		}
		a := v.agent(s, prompt, p.Cwd)
		a.Judge = judge
		all = append(all, a)
	}
	return all
}

// choice says how the result is chosen of those that several agents give, "" for one agent.
func (p *PreviewStep) choice() string {
	switch c := p.step.Contest; {
	case c == nil:
		return ""
	case c.Race:
		return choiceRace
	case c.Judge != nil:
		return "vote by judge"
	default:
		return "vote by " + c.By
	}
}

func (v previewer) agent(s *pipeline.Step, prompt, cwd string) PreviewAgent {
	profile := v.plan.Agents[s.Agent]
	adapter := v.Adapters[profile.Use]
	req := stepRequest(v.plan, s, v.Workspace, adapter)
	req.Prompt, req.Dir, req.Scratch, req.Schema = cmp.Or(prompt, "‹prompt›"), filepath.Join(v.Workspace, cwd), previewScratch, s.Output
	req.Session, req.Home = checkedSession(s.Session), filepath.Join(previewHome, profile.Use)
	a := PreviewAgent{
		Profile: profile.Name, Use: profile.Use, Model: profile.Model, Fallback: profile.Fallback,
		Sandbox: string(req.Sandbox), Approval: string(req.Approval),
		MaxTurns: profile.MaxTurns, MaxCost: profile.MaxCostUSD, Command: profile.Command, Origin: profile.Origin,
	}
	_, o := v.plan.SandboxOf(s)
	a.Network, a.Required = o.Network, o.Required
	if adapter == nil {
		a.Problem = "this flow does not have the agent " + profile.Use
		return a
	}
	a.Sandbox = string(effectiveSandbox(adapter.Info(), req))
	if len(a.Command) == 0 {
		a.Command = []string{adapter.Info().Executable}
	}
	req.Confined = confinable(adapter, req)
	a.Transport = transport(adapter, req)
	cmd, err := adapter.Command(req)
	a.Rules = previewRules(adapter, req, cmd.Talks)
	if err != nil {
		a.Problem = err.Error()
	}
	a.Command = slices.Concat(a.Command, sessionNames(s.Session).list(cmd.Args))
	for _, one := range cmd.Env {
		name, _, _ := strings.Cut(one, "=")
		a.Env = append(a.Env, name)
	}
	return a
}

// previewRules says of every rule of a request who keeps it, and of what is protected.
// talks says that the agent asks flow.
func previewRules(adapter agents.Adapter, req agents.Request, talks bool) []PreviewRule {
	var all []PreviewRule
	for _, e := range Enforcement(adapter, req) {
		r := PreviewRule{Rule: "default " + req.RuleDefault, Kept: e.How, Why: e.Why}
		if e.Rule != nil {
			rule := *e.Rule
			r.Where, rule.Where = rule.Where, ""
			r.Rule = policy.Text(rule)
		}
		all = append(all, r)
	}
	if req.Ruled() {
		all = append(all, previewProtected(adapter, req, talks))
	}
	return all
}

// previewProtected says who keeps protected files: whoever would keep a rule on them,
// but an agent that does not ask is told of none.
func previewProtected(adapter agents.Adapter, req agents.Request, talks bool) PreviewRule {
	req.Rules = []agents.Rule{{Effect: "ask", Tool: string(agents.ToolEditFile), Pattern: policy.Protected()[0] + "/**"}}
	req.RuleDefault = ""
	r := PreviewRule{Rule: "protected files", Kept: agents.Detected, Why: "the agent does not ask"}
	if e := Enforcement(adapter, req)[0]; talks || e.How == agents.Sandboxed {
		r.Kept, r.Why = e.How, e.Why
	}
	return r
}

// sessionNames puts words in the place of the sessions that checkedSession made up.
func sessionNames(s pipeline.Session) words {
	own := "‹session›"
	if s.Mode == pipeline.SessionContinue {
		own = "‹session of " + s.Step + "›"
	}
	return words{strings.NewReplacer(checkedID, own, checkedParent, "‹session of "+s.Step+"›")}
}

type words struct{ *strings.Replacer }

func (w words) list(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = w.Replace(arg)
	}
	return out
}

// SandboxText is the sandbox of the agent in words.
func (a PreviewAgent) SandboxText() string { return sandboxText(a.Sandbox, a.Network, a.Required) }

// sandboxText is a sandbox in words, "" for none.
func sandboxText(mode, network string, required bool) string {
	if network != "" {
		mode += " with network " + network
	}
	if required {
		mode += ", required"
	}
	return mode
}

// effectiveSandbox is the sandbox of a request, or what holds where it names none.
func effectiveSandbox(info agents.Info, r agents.Request) agents.SandboxMode {
	switch {
	case r.Sandbox != "":
		return r.Sandbox
	case info.Unbounded:
		return agents.SandboxOff
	}
	return agents.SandboxWorkspaceWrite
}
