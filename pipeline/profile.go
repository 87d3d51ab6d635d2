package pipeline

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	maxTurns        = 100_000
	maxProfileBytes = 64
)

// Approvals are the values of `approval`.
func Approvals() []string {
	return []string{"plan", "deny", "ask", "ask-dangerous", "auto-edit", "auto-all"}
}

func (l *loader) profiles(n *yaml.Node) map[string]Profile {
	l.places["agents"] = map[string]Pos{}
	out := map[string]Profile{}
	for _, e := range l.entries(n, "`agents`", MaxKeys) {
		if !l.profileName(e.at) {
			continue
		}
		l.places["agents"][e.key] = place(e.at)
		out[e.key] = l.profile(e)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// profileName checks the name of a profile: unlike an id it may have hyphens.
func (l *loader) profileName(at *yaml.Node) bool {
	s := deref(at).Value
	if len(s) <= maxProfileBytes && envName(strings.ReplaceAll(s, "-", "_")) && s[0] != '-' {
		return true
	}
	l.failNode(at, "use letters, digits, _ and -, a letter first", "%q is not a valid name of an agent", shorten(s))
	return false
}

func (l *loader) profile(e entry) Profile {
	p := Profile{Name: e.key, Pos: place(e.at)}
	says := map[string]bool{}
	var transport *yaml.Node
	for _, k := range l.entries(e.val, "agent `"+e.key+"`", MaxKeys) {
		if says[k.key] = true; k.key == "transport" {
			transport = k.val
		}
		if !l.profileKey(&p, k) {
			l.unknownKey(k.at, inProfile, profileKeys())
		}
	}
	l.says[e.key] = says
	if !says["use"] && e.val.Kind == yaml.MappingNode {
		if l.builtin(e.key) {
			p.Use = e.key
		} else {
			l.failNode(e.at, l.agentNames("add `use: …`: "), "agent `%s` has no `use`", e.key)
		}
	}
	if transport != nil && p.Transport != "" && l.builtin(p.Use) {
		l.checkTransport(transport, p)
	}
	return p
}

// checkTransport refuses a protocol that the agent of a profile does not speak.
func (l *loader) checkTransport(at *yaml.Node, p Profile) {
	known := l.o.Agents[p.Use].Transports
	if slices.Contains(known, p.Transport) {
		return
	}
	hint := orList(suggest(p.Transport, known), "the transports of "+p.Use+" are ", known)
	if len(known) < 2 {
		hint = "leave it out: there is nothing to choose"
	}
	l.failNode(at, hint, "agent `%s` has no transport `%s`", p.Use, shorten(p.Transport))
}

func (l *loader) profileKey(p *Profile, k entry) bool {
	what := "`" + k.key + "`"
	switch k.key {
	case "use":
		p.Use = l.useName(k.val)
	case "command":
		p.Command = l.texts(k.val, what)
	case "args":
		p.Args = l.texts(k.val, what)
	case "transport":
		p.Transport = l.plain(k.val, what)
	case "model":
		p.Model = l.plain(k.val, what)
	case "approval":
		p.Approval = l.oneOf(k.val, what, Approvals())
	case "sandbox":
		p.Sandbox, p.SandboxOptions = l.sandbox(k.val)
	case "allowed-tools":
		p.AllowedTools = l.texts(k.val, what)
	case "blocked-tools":
		p.BlockedTools = l.texts(k.val, what)
	case "add-dirs":
		p.AddDirs = l.texts(k.val, what)
	default:
		return l.profileLimit(p, k, what)
	}
	return true
}

func (l *loader) profileLimit(p *Profile, k entry, what string) bool {
	switch k.key {
	case "system-prompt":
		p.SystemPrompt = l.plain(k.val, what)
	case "effort":
		p.Effort = l.plain(k.val, what)
	case "max-turns":
		p.MaxTurns = l.integer(k.val, what, 1, maxTurns)
	case "max-cost-usd":
		p.MaxCostUSD = l.money(k.val, what)
	case "inherit":
		p.Inherit = l.boolean(k.val, what)
	case "env":
		p.Env = l.vars(k.val, what, true)
	case "fallback":
		p.Fallback = l.fallback(p, k.val)
	case "permissions":
		p.Permissions = l.permissions(k.val)
	case "exec":
		p.Exec = l.exec(k.val)
	default:
		return false
	}
	return true
}

func (l *loader) useName(n *yaml.Node) string {
	name := l.plain(n, "`use`")
	if name != "" && !l.builtin(name) {
		known := slices.Sorted(maps.Keys(l.o.Agents))
		l.failNode(n, orList(suggest(name, known), "the agents are ", known), "unknown agent `%s`", name)
	}
	return name
}

func (l *loader) builtin(name string) bool {
	_, ok := l.o.Agents[name]
	return ok
}

// agentNames lists the built-in agents behind intro.
func (l *loader) agentNames(intro string) string {
	return intro + strings.Join(slices.Sorted(maps.Keys(l.o.Agents)), ", ")
}

// orList is hint, or the list of what there is.
func orList(hint, intro string, names []string) string {
	if hint != "" || len(names) == 0 {
		return hint
	}
	if len(names) > 20 {
		names = append(slices.Clone(names[:20]), "…")
	}
	return intro + strings.Join(names, ", ")
}

// chooseAgent sets the profile of an agent step: the one it names, or the only one.
func (l *loader) chooseAgent(nd *node) {
	name, pos := nd.agent.name, nd.agent.pos
	if name == "" {
		if _, given := nd.keys["agent"]; given {
			return // reported
		}
		switch byDefault := l.defaultAgent(); {
		case len(l.places["agents"]) == 1:
			for only := range l.places["agents"] {
				name = only
			}
		case byDefault != "":
			name, pos = byDefault, nd.step.Pos
		default:
			l.fail(nd.step.Pos, "add `agent: …`: "+strings.Join(l.agentChoices(), ", "), "step `%s` does not say which agent", nd.step.ID)
			return
		}
	}
	if l.knownAgent(named{name, pos}) {
		nd.step.Agent = name
		l.mark("agents", name)
	}
}

// knownAgent reports whether there is such a profile. A built-in agent that has none
// gets one, and any other name is a mistake.
func (l *loader) knownAgent(a named) bool {
	if _, ok := l.plan.Agents[a.name]; ok {
		return true
	}
	if l.addConfigured(a.name) {
		return true
	}
	if !l.builtin(a.name) {
		choices := l.agentChoices()
		l.fail(a.pos, orList(suggest(a.name, choices), "the agents are ", choices), "unknown agent `%s`", a.name)
		return false
	}
	l.addBuiltin(a.name, a.pos)
	return true
}

// addBuiltin makes a profile of a built-in agent that a step names directly.
func (l *loader) addBuiltin(name string, pos Pos) {
	if l.plan.Agents == nil {
		l.plan.Agents = map[string]Profile{}
	}
	p := Profile{Name: name, Use: name, Pos: pos}
	l.beneath(&p, map[string]bool{})
	l.plan.Agents[name] = p
	l.checkExec(p)
}

// agentChoices lists profiles, those of configurations too, and built-in agents.
func (l *loader) agentChoices() []string {
	names := slices.Collect(maps.Keys(l.plan.Agents))
	for _, c := range l.o.Configs {
		names = slices.AppendSeq(names, maps.Keys(c.agents))
	}
	names = slices.AppendSeq(names, maps.Keys(l.o.Agents))
	slices.Sort(names)
	return slices.Compact(names)
}
