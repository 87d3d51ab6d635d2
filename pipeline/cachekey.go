package pipeline

import "gopkg.in/yaml.v3"

func cacheTable() []key {
	return []key{
		{"key", "What the result depends on besides prompt, agent and files. A template.", text()},
		{"ttl", "How long the result is good for; default: for ever.", def("duration")},
	}
}

func cacheSchema() schema {
	mapping := closed(cacheTable())
	mapping["minProperties"] = 1
	return schema{"anyOf": []schema{truth(), mapping}}
}

// cache decodes `cache: true` and {key, ttl}. It returns nil for false.
func (l *loader) cache(n *yaml.Node) *Cache {
	if isScalar(n) {
		if l.boolean(n, "`cache`") {
			return &Cache{}
		}
		return nil
	}
	var c Cache
	found := l.fields(n, "`cache`", cacheTable(), func(e entry) {
		switch e.key {
		case "key":
			c.Key = l.nonEmpty(e.val, "`cache.key`")
		case "ttl":
			c.TTL = l.duration(e.val, "`cache.ttl`")
		}
	})
	if found != nil && len(n.Content) == 0 {
		l.failNode(n, "write cache: true, or {ttl: 24h}", "`cache` is empty")
	}
	return &c
}

// cacheFits refuses a cache where a kept result would not do: the steps that follow
// in a session need one that really took place, and a contest is there to ask anew.
func (l *loader) cacheFits(nd *node) {
	if t := nd.target; t != nil && t.step.Cache != nil {
		l.fail(nd.sessAt, "remove `cache` from `"+t.step.ID+"`", "step `%s` has a `cache`: a result that is taken from it has no session to %s", t.step.ID, nd.step.Session.Mode)
	}
	if nd.step.Cache == nil {
		return
	}
	at := nd.keys["cache"]
	switch {
	case nd.step.Session.Mode != SessionNew:
		l.fail(at, "remove `cache`, or begin a new session", "`cache` cannot stand beside `session: %s`: what the agent answers depends on all that was said before", nd.step.Session.Mode)
	case nd.step.Contest != nil:
		l.fail(at, "remove `cache`", "`cache` cannot stand beside `race` or `vote`: which agent wins is decided anew each time")
	}
}
