package pipeline

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// pipeline decodes the top level into the plan. Templates and references are
// looked at when all names are known.
func (l *loader) pipeline(root *yaml.Node) {
	var steps *yaml.Node
	for _, e := range l.entries(root, "the pipeline", MaxKeys) {
		if e.key == "steps" {
			steps = e.val
		} else if !l.pipelineKey(e) {
			l.unknownKey(e.at, inPipeline, pipelineKeys())
		}
	}
	if l.plan.Name == "" {
		base := filepath.Base(l.plan.File)
		l.plan.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if steps != nil {
		l.root = &scope{names: map[string]*node{}}
		l.plan.Steps = l.stepList(steps, l.root, 1)
	} else if !has(root, "jobs", "tasks", "stages") {
		l.failNode(root, "add `steps: {id: {run: …}}`", "the pipeline has no `steps`")
	}
}

func (l *loader) pipelineKey(e entry) bool {
	p := l.plan
	switch e.key {
	case "name":
		p.Name = l.plain(e.val, "`name`")
	case "description":
		p.Description, _ = l.text(e.val, "`description`")
	case "inputs":
		p.Inputs = l.inputs(e.val)
	case "env":
		p.Env = l.vars(e.val, "`env`", true)
	case "secrets":
		p.Secrets = l.secrets(e.val)
	case "keep-raw":
		if len(l.chain) > 1 {
			l.warn(place(e.at), "set it in "+l.chain[0], "`keep-raw` of a called pipeline has no effect")
		}
		p.KeepRaw = l.boolean(e.val, "`keep-raw`")
	case "agents":
		p.Agents = l.profiles(e.val)
	case "concurrency":
		if len(l.chain) > 1 {
			l.warn(place(e.at), "set it in "+l.chain[0], "`concurrency` of a called pipeline has no effect")
		}
		l.concurrency(e.val)
	case "budget":
		p.Budget = l.budget(e.val)
	case "on-limit":
		p.OnLimit, l.onLimitAt = l.onLimit(e.val), place(e.val)
	case "permissions":
		p.Permissions = l.permissions(e.val)
	case "notify":
		p.Notify = l.notify(e.val)
	case "fail-fast":
		p.FailFast = l.boolean(e.val, "`fail-fast`")
	case "outputs":
		p.Outputs = l.vars(e.val, "`outputs`", false)
	default:
		return false
	}
	return true
}

// has reports whether a mapping has one of keys.
func has(n *yaml.Node, keys ...string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if slices.Contains(keys, deref(n.Content[i]).Value) {
			return true
		}
	}
	return false
}

// vars reads names with templates: environment variables, or outputs.
func (l *loader) vars(n *yaml.Node, what string, env bool) []Var {
	var out []Var
	for _, e := range l.entries(n, what, MaxKeys) {
		name := e.key
		if env && !envName(name) {
			l.failNode(e.at, "use letters, digits and _, a digit not first", "%q is an invalid environment variable name", shorten(name))
			continue
		}
		if !env {
			if _, ok := l.id(e.at, "output name"); !ok {
				continue
			}
		}
		if t := l.value(e.val, "`"+name+"`"); t != nil {
			out = append(out, Var{Name: name, Value: *t})
		}
	}
	return out
}

// value is a template that may be the empty text.
func (l *loader) value(n *yaml.Node, what string) *Text {
	if n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value == "" {
		l.failNode(n, `write "" for the empty text`, "%s has no value", what)
		return nil
	}
	return l.template(n, what)
}

func (l *loader) secrets(n *yaml.Node) []string {
	l.places["secrets"] = map[string]Pos{}
	var out []string
	for _, item := range l.items(n, "`secrets`") {
		name := l.plain(item, "a secret")
		switch _, twice := l.places["secrets"][name]; {
		case name == "":
		case !envName(name):
			l.failNode(item, "name an environment variable", "%q is an invalid environment variable name", shorten(name))
		case twice:
			l.failNode(item, "", "secret `%s` is given twice", name)
		default:
			l.places["secrets"][name] = place(item)
			out = append(out, name)
		}
	}
	return out
}

const maxConcurrency = 1000

func concurrencyTable() []key {
	return []key{
		{"steps", "Steps at once.", number(1, maxConcurrency)},
		{"agents", "Processes of an agent at once, by its name.", schema{"type": "object", "additionalProperties": number(1, maxConcurrency)}},
	}
}

func concurrencySchema() schema {
	return schema{"anyOf": []schema{number(1, maxConcurrency), closed(concurrencyTable())}}
}

// concurrency is a number of steps, or {steps, agents}.
func (l *loader) concurrency(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		l.plan.Limit = l.integer(n, "`concurrency`", 1, maxConcurrency)
		return
	}
	l.fields(n, "`concurrency`", concurrencyTable(), func(e entry) {
		switch e.key {
		case "steps":
			l.plan.Limit = l.integer(e.val, "`concurrency.steps`", 1, maxConcurrency)
		case "agents":
			l.agentLimits(e.val)
		}
	})
}

func (l *loader) agentLimits(n *yaml.Node) {
	known := slices.Sorted(maps.Keys(l.o.Agents))
	for _, e := range l.entries(n, "`concurrency.agents`", MaxKeys) {
		if !slices.Contains(known, e.key) {
			l.failNode(e.at, orList(suggest(e.key, known), "the agents are ", known), "unknown agent `%s`", e.key)
			continue
		}
		if l.plan.AgentLimits == nil {
			l.plan.AgentLimits = map[string]int{}
		}
		l.plan.AgentLimits[e.key] = l.integer(e.val, "`concurrency.agents."+e.key+"`", 1, maxConcurrency)
	}
}
