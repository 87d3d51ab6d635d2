package pipeline

import (
	"maps"
	"slices"

	"gopkg.in/yaml.v3"
)

// What configurations say is brought into the plan while it is made, so that a run goes on
// with what held when it began. Agents come first, for steps name them. What warnings must
// not be about, because the pipeline does not say it, comes after them: see layRest.

// defaultAgent is the agent of steps that name none, "" where that is a mistake.
func (l *loader) defaultAgent() string {
	name, _ := l.o.DefaultAgent()
	return name
}

// layAgents gives the profiles of the pipeline what they leave open.
func (l *loader) layAgents() {
	for _, name := range slices.Sorted(maps.Keys(l.plan.Agents)) { // in order, for which circle is dropped
		p := l.plan.Agents[name]
		l.beneath(&p, l.says[name])
		l.plan.Agents[name] = p
		l.checkExec(p)
	}
}

// addConfigured makes a profile that a configuration declares, if there is one of that
// name. The nearest one counts as a whole.
func (l *loader) addConfigured(name string) bool {
	if l.builtin(name) {
		return false
	}
	for _, c := range l.o.Configs {
		keys, ok := c.agents[name]
		if !ok {
			continue
		}
		p := Profile{Name: name, Use: c.profiles[name].Use, Pos: c.profiles[name].Pos, File: c.file}
		says := map[string]bool{}
		p.from("use", c.origin("agents."+name+".use"))
		l.adopt(&p, c, name, keys, says)
		l.beneath(&p, says)
		if l.plan.Agents == nil {
			l.plan.Agents = map[string]Profile{}
		}
		l.plan.Agents[name] = p
		return true
	}
	return false
}

// beneath gives a profile what the configurations have for its agent. says are the keys
// that nearer places have set.
func (l *loader) beneath(p *Profile, says map[string]bool) {
	for _, c := range l.o.Configs {
		if l.builtin(p.Use) {
			l.adopt(p, c, p.Use, c.agents[p.Use], says)
		}
	}
}

// adopt decodes keys that a configuration has under name into a profile, those that are not
// said yet. Rules wait for layRest.
func (l *loader) adopt(p *Profile, c *Config, name string, keys []entry, says map[string]bool) {
	d := c.decoder(l.o)
	for _, k := range keys {
		switch {
		case k.key == "permissions" || k.key == "use":
		case k.key == "env":
			l.adoptEnv(p, c, name)
		case says[k.key]:
		case k.key == "fallback":
			says[k.key] = true
			p.Fallback = slices.Clone(c.profiles[name].Fallback)
			for _, to := range p.Fallback {
				l.fallbacks = append(l.fallbacks, fallbackTo{p.Name, named{name: to}, true})
			}
			p.from(k.key, c.at(k.at))
		default:
			says[k.key] = true
			d.profileKey(p, k)
			p.from(k.key, c.at(k.at))
		}
	}
}

// adoptEnv adds the variables that neither the profile nor the pipeline sets. Their text has
// no place, for it is not in the pipeline's file.
func (l *loader) adoptEnv(p *Profile, c *Config, name string) {
	known := func(v string) bool {
		is := func(one Var) bool { return one.Name == v }
		return slices.ContainsFunc(p.Env, is) || slices.ContainsFunc(l.plan.Env, is)
	}
	var more []Var
	for _, v := range c.profiles[name].Env {
		if !known(v.Name) {
			more = append(more, Var{Name: v.Name, Value: Text{Src: v.Value.Src}})
			p.from("env."+v.Name, c.origin("agents."+name+".env."+v.Name))
		}
	}
	p.Env = append(more, p.Env...)
}

// decoder is a loader for nodes of the configuration.
func (c *Config) decoder(o Options) *loader {
	d := newLoader(c.file, nil, o)
	d.src, d.lines = c.src, c.lines
	return d
}

// at is the place of a key as file:line:col.
func (c *Config) at(n *yaml.Node) string { return Error{File: c.file, Pos: place(n)}.where() }

// from notes where a key of the profile comes from.
func (p *Profile) from(key, origin string) {
	if p.Origin == nil {
		p.Origin = map[string]string{}
	}
	p.Origin[key] = origin
}

// notFrom takes that back.
func (p *Profile) notFrom(key string) {
	if delete(p.Origin, key); len(p.Origin) == 0 {
		p.Origin = nil
	}
}

// from notes where a key of the pipeline comes from.
func (p *Plan) from(key, origin string) {
	if p.Origin == nil {
		p.Origin = map[string]string{}
	}
	p.Origin[key] = origin
}

// defaultTimeouts bounds the agent steps of a scope that have no timeout.
func (l *loader) defaultTimeouts(sc *scope) {
	timeout, _ := l.o.Timeout()
	if sc == nil || timeout == 0 {
		return
	}
	for _, nd := range sc.steps {
		if nd.step.Kind == KindPrompt && !nd.timed {
			nd.step.Timeout, nd.timed = timeout, true
			if c := nd.step.Contest; c != nil && c.Judge != nil {
				c.Judge.Timeout = timeout
			}
		}
		l.defaultTimeouts(nd.inner)
	}
}

// layRest gives the plan what it leaves open beside its agents. It comes after lint: what
// a configuration says is no mistake of the pipeline.
func (l *loader) layRest() {
	for _, name := range slices.Sorted(maps.Keys(l.plan.Agents)) {
		p := l.plan.Agents[name]
		l.permitAgent(&p)
		l.plan.Agents[name] = p
	}
	for _, c := range l.o.Configs {
		l.permit(c)
		if len(l.chain) <= 1 { // of a called pipeline these have no effect
			l.limit(c)
		}
		if o := c.shared.OnLimit; o != nil && l.plan.OnLimit == nil {
			l.plan.OnLimit = o
			l.plan.from("on-limit", c.origin("on-limit"))
		}
	}
}

// limit takes over the bounds of a configuration.
func (l *loader) limit(c *Config) {
	p := l.plan
	if p.Limit == 0 && c.shared.Limit > 0 {
		p.Limit = c.shared.Limit
		p.from("concurrency.steps", c.origin("concurrency.steps"))
	}
	for use, n := range c.shared.AgentLimits {
		if _, said := p.AgentLimits[use]; said {
			continue
		}
		if p.AgentLimits == nil {
			p.AgentLimits = map[string]int{}
		}
		p.AgentLimits[use] = n
		p.from("concurrency.agents."+use, c.origin("concurrency.agents."+use))
	}
	if b := c.shared.Budget; b != nil && p.Budget == nil {
		p.Budget = &Budget{USD: b.USD, Tokens: b.Tokens, OnExceed: b.OnExceed}
		p.from("budget", c.origin("budget"))
	}
}

// permit adds the rules of a configuration for all agents.
func (l *loader) permit(c *Config) {
	near := l.plan.Permissions
	l.plan.Permissions = over(near, c.shared.Permissions, near, func(key string) {
		l.plan.from("permissions."+key, c.origin("permissions."+settingOf(key)))
	})
}

// permitAgent adds the rules that configurations have for an agent. Their default counts
// where no nearer place has one, the pipeline as a whole and nearer configurations included.
func (l *loader) permitAgent(p *Profile) {
	said := MergePermissions(l.plan.Permissions, p.Permissions)
	for _, c := range l.o.Configs {
		for _, name := range slices.Compact([]string{p.Name, p.Use}) {
			if name == p.Name && name != p.Use && p.File != c.file {
				continue // another profile of that name
			}
			far := c.profiles[name].Permissions
			p.Permissions = over(p.Permissions, far, said, func(key string) {
				p.from("permissions."+key, c.origin("agents."+name+".permissions."+settingOf(key)))
			})
			said = MergePermissions(far, said)
		}
		said = MergePermissions(c.shared.Permissions, said)
	}
}

// over puts near over what is farther. Of that the default and the time to wait count only
// where said, which is all that is nearer, has none. from is told the keys that changed.
func over(near, far, said *Permissions, from func(key string)) *Permissions {
	if far == nil {
		return near
	}
	before, beneath := Permissions{}, *far
	if near != nil {
		before = *near
	}
	if said != nil && said.Default != "" {
		beneath.Default = ""
	}
	if said != nil && said.AskTimeout > 0 {
		beneath.AskTimeout = 0
	}
	all := MergePermissions(&beneath, near)
	for key, changed := range map[string]bool{
		"default": all.Default != before.Default, "least": all.Least != before.Least,
		"strict": all.Strict != before.Strict, "ask-timeout": all.AskTimeout != before.AskTimeout,
		"protect": len(all.Protect) != len(before.Protect),
	} {
		if changed {
			from(key)
		}
	}
	return all
}

// settingOf is the key of `permissions` that a field comes from.
func settingOf(field string) string {
	if field == "least" {
		return "default"
	}
	return field
}
