package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A Setting is one value that holds for a pipeline.
type Setting struct {
	Key   string `json:"key"` // as `agents.claude.model`
	Value any    `json:"value"`
	// Origin is the place that says so, as file:line:col; "": it is the default.
	Origin string `json:"origin,omitempty"`
	// Private says that the value is a variable's and may be a secret.
	Private bool `json:"-"`
}

// Settings lists what holds for a plan that was made with o, and for agents that it does
// without, of the keys that a configuration can have, in the order of their tables. src is
// the pipeline's text, nil for the plan of Configured.
func Settings(p *Plan, src []byte, o Options) []Setting {
	s := settings{plan: p, places: map[string]Pos{}}
	var root yaml.Node
	if len(src) > 0 && yaml.Unmarshal(src, &root) == nil && len(root.Content) == 1 {
		notePlaces(root.Content[0], "", s.places)
	}
	if name, origin := o.DefaultAgent(); name != "" {
		s.add("agents."+byDefault, name, origin)
	}
	agents := Configured(o).Agents // also those that the plan does without
	if agents == nil {
		agents = map[string]Profile{}
	}
	maps.Copy(agents, p.Agents)
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		s.agent(agents[name])
	}
	if p.Permissions != nil {
		s.permissions("", *p.Permissions, p.Origin)
	}
	s.limits()
	if d, origin := o.Timeout(); d > 0 {
		s.add("timeout", d, origin)
	}
	return s.all
}

type settings struct {
	plan   *Plan
	places map[string]Pos // of the pipeline's keys
	all    []Setting
}

// add lists a value. origin is its place in a configuration, or "": it is the pipeline's.
func (s *settings) add(key string, value any, origin string) {
	s.all = append(s.all, Setting{Key: key, Value: value, Origin: cmp.Or(origin, s.here(key))})
}

// here is where the pipeline says something of a key, or of all that it belongs to.
func (s *settings) here(key string) string {
	for ; key != "" && key != "agents"; key = key[:max(0, strings.LastIndexByte(key, '.'))] {
		if pos, ok := s.places[key]; ok {
			return Error{File: s.plan.File, Pos: pos}.where()
		}
	}
	return ""
}

// agent lists the keys of a profile that have a value.
func (s *settings) agent(p Profile) {
	values, _ := roundTrip(p).(map[string]any)
	if o, ok := values["sandboxOptions"].(map[string]any); ok {
		o["mode"] = p.Sandbox
		values["sandbox"] = o
	}
	prefix := "agents." + p.Name + "."
	for _, k := range profileTable() {
		switch k.name {
		case "env":
			for _, v := range p.Env {
				s.add(prefix+"env."+v.Name, v.Value.Src, p.Origin["env."+v.Name])
				s.all[len(s.all)-1].Private = true
			}
		case "permissions":
			s.agentPermissions(prefix, p)
		default:
			origin := cmp.Or(p.Origin[k.name], s.here(prefix+k.name))
			if v, ok := values[fieldOf(k.name)]; ok && origin != "" { // a built-in agent is its own `use`
				s.add(prefix+k.name, v, origin)
			}
		}
	}
}

// fieldOf is the name that a key has in the JSON of a plan.
func fieldOf(key string) string {
	words := strings.Split(key, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// agentPermissions lists the rules of a profile. Its default is none that the user's for all
// agents would be stronger than.
func (s *settings) agentPermissions(prefix string, p Profile) {
	if p.Permissions == nil {
		return
	}
	own, origin := *p.Permissions, p.Origin
	holds := strongest(own.Default, own.Least)
	if all := s.plan.Permissions; all != nil && holds != "" && strongest(holds, all.Least) != holds {
		own.Least, origin = all.Least, s.plan.Origin
	}
	s.permissions(prefix, own, origin)
}

func (s *settings) permissions(prefix string, p Permissions, origin map[string]string) {
	prefix += "permissions."
	if holds := strongest(p.Default, p.Least); holds != p.Default {
		s.add(prefix+"default", holds, origin["permissions.least"])
	} else if holds != "" {
		s.add(prefix+"default", holds, origin["permissions.default"])
	}
	for _, r := range p.Rules {
		at := Error{File: cmp.Or(r.File, s.plan.File), Pos: r.Pos}.where()
		s.add(prefix+"rules", r.String(), at)
	}
	if p.Strict {
		s.add(prefix+"strict", true, origin["permissions.strict"])
	}
	if p.AskTimeout > 0 {
		s.add(prefix+"ask-timeout", p.AskTimeout, origin["permissions.ask-timeout"])
	}
	if len(p.Protect) > 0 {
		s.add(prefix+"protect", p.Protect, origin["permissions.protect"])
	}
}

// limits lists what bounds the run.
func (s *settings) limits() {
	p := s.plan
	if p.Limit > 0 {
		s.add("concurrency.steps", p.Limit, p.Origin["concurrency.steps"])
	}
	for _, use := range slices.Sorted(maps.Keys(p.AgentLimits)) {
		s.add("concurrency.agents."+use, p.AgentLimits[use], p.Origin["concurrency.agents."+use])
	}
	if b := p.Budget; b != nil {
		if b.USD > 0 {
			s.add("budget.usd", b.USD, p.Origin["budget"])
		}
		if b.Tokens > 0 {
			s.add("budget.tokens", b.Tokens, p.Origin["budget"])
		}
		s.add("budget.on-exceed", b.OnExceed, p.Origin["budget"])
	}
	if l := p.OnLimit; l != nil {
		if l.Wait > 0 {
			s.add("on-limit.wait", l.Wait, p.Origin["on-limit"])
		}
		s.add("on-limit.then", map[bool]string{true: "fallback", false: "fail"}[l.Fallback], p.Origin["on-limit"])
	}
}
