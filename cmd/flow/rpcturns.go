package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"

	"flow/cmd/flow/internal/rpc"
	"flow/pipeline"
)

// agent/run makes a pipeline of one step, a turn. A run that is continued gets another step,
// which goes on in the session of the one before. Prompts are inputs: what stands in them is
// never a template.

// turnsName is the name of such pipelines, and turnsFile what mistakes in them refer to.
const (
	turnsName = "agent-run"
	turnsFile = "agent-run.yaml"
)

// A turnProfile is an agent of such a pipeline.
type turnProfile struct {
	Use          string   `yaml:"use"`
	Model        string   `yaml:"model,omitempty"`
	Sandbox      string   `yaml:"sandbox,omitempty"`
	Approval     string   `yaml:"approval,omitempty"`
	AllowedTools []string `yaml:"allowed-tools,omitempty"`
	BlockedTools []string `yaml:"blocked-tools,omitempty"`
	Permissions  any      `yaml:"permissions,omitempty"`
	Effort       string   `yaml:"effort,omitempty"`
	SystemPrompt string   `yaml:"system-prompt,omitempty"`
	Transport    string   `yaml:"transport,omitempty"`
	MaxTurns     int      `yaml:"max-turns,omitempty"`
	MaxCostUSD   float64  `yaml:"max-cost-usd,omitempty"`
}

// A turnStep is a step of such a pipeline.
type turnStep struct {
	Agent       string            `yaml:"agent"`
	Prompt      string            `yaml:"prompt"`
	Session     map[string]string `yaml:"session,omitempty"`
	Timeout     string            `yaml:"timeout,omitempty"`
	IdleTimeout string            `yaml:"idle-timeout,omitempty"`
	Output      any               `yaml:"output,omitempty"`
	Env         map[string]string `yaml:"env,omitempty"`
	Sandbox     string            `yaml:"sandbox,omitempty"`
	Permissions any               `yaml:"permissions,omitempty"`
}

// A turn is what agent/run asks for.
type turn struct {
	agent   string // an agent, or one of a configuration
	builtin bool
	options rpc.RunOptions
}

// addTurn adds a turn to the text of such a pipeline, "" for none yet, and returns the new
// text and the step's name.
func addTurn(source []byte, t turn) (text []byte, step string, err error) {
	if len(source) == 0 {
		source = []byte("name: " + turnsName + "\nagents: {}\ninputs: {}\nsteps: {}\n")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, "", err
	}
	agentsNode, inputs, steps := valueOf(&doc, "agents"), valueOf(&doc, "inputs"), valueOf(&doc, "steps")
	if agentsNode == nil || inputs == nil || steps == nil {
		return nil, "", notTurns()
	}
	number := len(steps.Content)/2 + 1
	step = "turn" + strconv.Itoa(number)
	s, err := t.step(number)
	if err != nil {
		return nil, "", err
	}
	if t.builtin {
		if s.Agent, err = addProfile(agentsNode, t, number); err != nil {
			return nil, "", err
		}
	}
	if err := addMember(steps, step, s); err != nil {
		return nil, "", err
	}
	if err := addMember(inputs, promptInput(number), map[string]string{"type": "string"}); err != nil {
		return nil, "", err
	}
	text, err = encodeYAML(&doc)
	return text, step, err
}

func promptInput(number int) string { return "prompt" + strconv.Itoa(number) }

// notTurns says of a run that agent/run has not begun it.
func notTurns() error {
	return rpc.NewError(rpc.CodeFailed, "not_a_chat", "the run is not one of agent/run", "flow chat RUN STEP asks the agent of a pipeline's step something more")
}

// step is the step of a turn.
func (t turn) step(number int) (turnStep, error) {
	o := t.options
	s := turnStep{
		Agent: t.agent, Prompt: "{{ .inputs." + promptInput(number) + " }}", Timeout: o.Timeout, IdleTimeout: o.IdleTimeout, Env: o.Env,
	}
	if number > 1 {
		s.Session = map[string]string{"continue": "turn" + strconv.Itoa(number-1)}
	}
	var err error
	if s.Output, err = yamlOf("params.options.schema", o.Schema); err != nil || t.builtin {
		return s, err
	}
	s.Sandbox = o.Sandbox
	if s.Permissions, err = permissionsOf(o.AgentOptions); err != nil {
		return s, err
	}
	return s, t.stepsOnly()
}

// stepsOnly refuses the options that an agent of a configuration has of its own.
func (t turn) stepsOnly() error {
	o := t.options.AgentOptions
	o.Sandbox, o.Permissions, o.AutoApprove = "", nil, nil
	if text, err := json.Marshal(o); err != nil || string(text) != "{}" {
		return rpc.InvalidParam("params.options", fmt.Sprintf("has what the agent %s has in its configuration", t.agent),
			"of such an agent sandbox, permissions and autoApprove may be set; or take the agent behind it")
	}
	return nil
}

// addProfile returns the name of a profile with the options of a turn: one that is there, or
// a new one.
func addProfile(all *yaml.Node, t turn, number int) (name string, err error) {
	o := t.options.AgentOptions
	p := turnProfile{
		Use: t.agent, Model: o.Model, Sandbox: o.Sandbox, Approval: o.Approval, AllowedTools: o.AllowedTools, BlockedTools: o.BlockedTools,
		Effort: o.Effort, SystemPrompt: o.SystemPrompt, Transport: o.Transport, MaxTurns: o.MaxTurns, MaxCostUSD: o.MaxCostUSD,
	}
	if p.Permissions, err = permissionsOf(o); err != nil {
		return "", err
	}
	text, err := encodeYAML(p)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(all.Content); i += 2 {
		if there, err := encodeYAML(all.Content[i+1]); err == nil && bytes.Equal(there, text) {
			return all.Content[i].Value, nil
		}
	}
	name = t.agent
	if valueOf(all, name) != nil {
		name += strconv.Itoa(number)
	}
	return name, addMember(all, name, p)
}

// permissionsOf are the permissions of options, with a rule for each tool that passes.
func permissionsOf(o rpc.AgentOptions) (any, error) {
	given, err := yamlOf("params.options.permissions", o.Permissions)
	if err != nil || given == nil && len(o.AutoApprove) == 0 {
		return nil, err
	}
	all, ok := given.(map[string]any)
	if given == nil {
		all, ok = map[string]any{}, true
	}
	rules, list := all["rules"].([]any)
	if !ok || all["rules"] != nil && !list {
		return nil, rpc.InvalidParam("params.options.permissions", "is not an object with a list of rules", `{"default": "ask", "rules": [{"allow": "read_file"}]}`)
	}
	for _, tool := range o.AutoApprove {
		rules = append(rules, map[string]any{"allow": tool})
	}
	if len(rules) > 0 {
		all["rules"] = rules
	}
	return all, nil
}

// yamlOf reads JSON as YAML does, which keeps whole numbers whole.
func yamlOf(param string, text json.RawMessage) (v any, err error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // absent
	}
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, rpc.InvalidParam(param, err.Error(), "")
	}
	return v, nil
}

// valueOf is the value of a key in a mapping, or in a document that is one; nil if there is
// none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.MappingNode {
			return n.Content[i+1]
		}
	}
	return nil
}

// addMember adds a key to a mapping.
func addMember(n *yaml.Node, key string, v any) error {
	var value yaml.Node
	if err := value.Encode(v); err != nil {
		return err
	}
	n.Style = 0 // no longer {}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &value)
	return nil
}

func encodeYAML(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(v)
	return b.Bytes(), err
}

var turnStepName = regexp.MustCompile(`^turn[0-9]+$`)

// lastTurn is the last step of a plan that agent/run has made, nil for others.
func lastTurn(p *pipeline.Plan) *pipeline.Step {
	var last *pipeline.Step
	ours := p.Name == turnsName
	p.Walk(func(path string, s *pipeline.Step) {
		ours = ours && turnStepName.MatchString(path)
		last = s
	})
	if !ours {
		return nil
	}
	return last
}

// turnsPath is the file that such a pipeline pretends to be: the configuration of the
// project around it holds.
func turnsPath(dir string) string { return filepath.Join(dir, turnsFile) }
