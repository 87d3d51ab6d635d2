package pipeline

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

const maxFallbacks = 10 // of one profile

func onLimitTable() []key {
	return []key{
		{"wait", "Wait until the limit's reset, at most this long.", def("duration")},
		{"then", "What to do when that is not long enough: fail (the default), or fallback.", choice("fail", "fallback")},
	}
}

func onLimitSchema() schema {
	return schema{"anyOf": []schema{choice("fail", "fallback"), closed(onLimitTable(), "wait")}}
}

// onLimit decodes `on-limit: fail`, `fallback` and {wait: D, then: …}.
func (l *loader) onLimit(n *yaml.Node) *OnLimit {
	if isScalar(n) {
		if n.Value == "wait" {
			l.failNode(n, "write on-limit: {wait: 6h}", "`on-limit: wait` does not say how long")
			return nil
		}
		return &OnLimit{Fallback: l.oneOf(n, "`on-limit`", []string{"fail", "fallback"}) == "fallback"}
	}
	var o OnLimit
	found := l.fields(n, "`on-limit`", onLimitTable(), func(e entry) {
		switch e.key {
		case "wait":
			o.Wait = l.duration(e.val, "`on-limit.wait`")
		case "then":
			o.Fallback = l.oneOf(e.val, "`on-limit.then`", []string{"fail", "fallback"}) == "fallback"
		}
	})
	l.wants(n, found, "`on-limit`", "wait", "write on-limit: {wait: 6h, then: fallback}")
	return &o
}

// fallback decodes the names in a profile's `fallback`.
func (l *loader) fallback(p *Profile, n *yaml.Node) []string {
	var out []string
	items := l.items(n, "`fallback`")
	if len(items) > maxFallbacks {
		l.failNode(n, "", "`fallback` names %d agents; the limit is %d", len(items), maxFallbacks)
		return nil
	}
	for _, item := range items {
		name := l.plain(item, "`fallback`")
		switch {
		case name == "":
			continue
		case name == p.Name:
			l.failNode(item, "", "agent `%s` falls back on itself", name)
		case slices.Contains(out, name):
			l.failNode(item, "", "`%s` stands twice in `fallback`", name)
		default:
			out = append(out, name)
			l.fallbacks = append(l.fallbacks, fallbackTo{p.Name, named{name, place(item)}, false})
		}
	}
	return out
}

// A fallbackTo is a name in the `fallback` of a profile.
type fallbackTo struct {
	from    string
	to      named
	beneath bool // it is a configuration's
}

// bindFallbacks checks the names of all `fallback` once every profile is known, and
// refuses circles.
func (l *loader) bindFallbacks() {
	for i := 0; i < len(l.fallbacks); i++ { // a configured agent brings its own
		if to := l.fallbacks[i].to; l.knownAgent(to) {
			l.mark("agents", to.name)
		}
	}
	l.dropCircles()
	l.fallbackCircles()
	if o := l.plan.OnLimit; o != nil && o.Fallback && len(l.fallbacks) == 0 {
		l.warn(l.onLimitAt, "add `fallback: [NAME]` to a profile under `agents`", "`on-limit` names `fallback`, and no agent has one")
	}
}

// dropCircles takes back what configurations have as fallbacks where that would lead back
// to the agent itself: what holds beneath a pipeline is no mistake in it.
func (l *loader) dropCircles() {
	for _, f := range l.fallbacks {
		p := l.plan.Agents[f.from]
		if !f.beneath || f.to.name != f.from && l.fallsBackOn(f.from, f.to.name, map[string]bool{}) == nil {
			continue
		}
		p.Fallback = slices.DeleteFunc(slices.Clone(p.Fallback), func(name string) bool { return name == f.to.name })
		if len(p.Fallback) == 0 {
			p.Fallback = nil
			p.notFrom("fallback")
		}
		l.plan.Agents[f.from] = p
	}
}

// fallbackCircles refuses agents that fall back on each other.
func (l *loader) fallbackCircles() {
	told := map[string]bool{} // profiles whose circle is reported
	for _, f := range l.fallbacks {
		if told[f.from] || f.beneath {
			continue
		}
		circle := l.fallsBackOn(f.from, f.from, map[string]bool{})
		for _, name := range circle {
			told[name] = true
		}
		if circle != nil {
			l.fail(f.to.pos, "remove one", "agents fall back on each other: %s", strings.Join(circle, " → "))
		}
	}
}

// fallsBackOn returns the names that lead from a profile by its fallbacks to start, or
// nil. seen are the profiles that were looked at.
func (l *loader) fallsBackOn(start, from string, seen map[string]bool) []string {
	for _, next := range l.plan.Agents[from].Fallback {
		if next == start {
			return []string{from, start}
		}
		if seen[next] {
			continue
		}
		seen[next] = true
		if way := l.fallsBackOn(start, next, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}
